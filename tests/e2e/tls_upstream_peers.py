"""TLS towards servers of packages: nginx, HAProxy and node, with client certificates, TLS 1.2 and 1.3, resumed sessions."""
from lib.authority import Authority
from lib.peers import Nginx, Node, find, listens
from lib.process import Port, Process, until
from lib.sluice import to
from lib.tap import equal, group, main, true


def over_tls(authority, more=""):
    return f"tls = on\ntls_ca = {authority.certificate}\ntls_name = api.test\n{more}"


def ask_some(t, sluice, target="/", count=3):
    """The bodies of several requests, each on a connection of its own to sluice."""
    found = []
    for _ in range(count):
        response = t.client(sluice).ask(target)
        equal(response.status, 200, "status")
        found.append(response.body.decode())
    return found


@group("nginx")
def nginx(t):
    authority = Authority(t)
    server, client = authority.issue("api", ["api.test"]), authority.issue("client", ["sluice.test"])
    peer = Nginx(t, f"""listen 127.0.0.1:{{tls}} ssl;
      ssl_certificate {server}; ssl_certificate_key {server}; ssl_client_certificate {authority.certificate};
      ssl_verify_client optional; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:a:1m; keepalive_timeout 60s;
      location /session {{{{ return 200 "$ssl_session_reused $ssl_protocol $ssl_server_name $connection"; }}}}
      location /client {{{{ return 200 "$ssl_client_verify $ssl_client_s_dn"; }}}}
      location /large {{{{ alias {authority.path("large")}; }}}}
      location / {{{{ return 200 "ok"; }}}}""", name="nginx", tls=True)
    with open(authority.path("large"), "wb") as out:
        out.write(t.random.randbytes(5_000_000))
    for version in ("1.2", "1.3"):
        with t.point(f"TLS {version}: SNI, and sessions that are resumed"):
            sluice = t.sluice(to(peer.tls_address, upstream=over_tls(authority, f"tls_versions = {version}\nkeepalive = 0")),
                              workers=1)
            said = ask_some(t, sluice, "/session")
            true(all(f"TLSv{version} api.test" in each for each in said), said)
            equal([each.split()[0] for each in said], [".", "r", "r"], "reused")
        with t.point(f"TLS {version}: one connection for many requests, over the time that tickets take"):
            sluice = t.sluice(to(peer.tls_address, upstream=over_tls(authority, f"tls_versions = {version}")), workers=1)
            equal(len(set(ask_some(t, sluice, "/session", 20))), 1, "different connections")
        with t.point(f"TLS {version}: a client certificate"):
            sluice = t.sluice(to(peer.tls_address, upstream=over_tls(
                authority, f"tls_versions = {version}\ntls_certificate = {client}")))
            equal(set(ask_some(t, sluice, "/client")), {"SUCCESS CN=client"}, "the client's name")
        with t.point(f"TLS {version}: five megabytes"):
            with open(authority.path("large"), "rb") as file:
                equal(t.client(sluice).ask("/large").body == file.read(), True, "the body")
    with t.point("plain HTTP to the port of TLS, and TLS to that of plain HTTP"):
        sluice = t.sluice(to(peer.address, upstream=over_tls(authority, "retries = 0")))
        equal(t.client(sluice).ask().status, 502, "status")
        until(lambda: "it speaks no TLS" in sluice.log(), "the reason")
        sluice = t.sluice(to(peer.tls_address))
        equal(t.client(sluice).ask().status, 400, "status")


@group("HAProxy")
def haproxy(t):
    if not find("haproxy"):
        t.skip("haproxy is not installed")
    authority = Authority(t)
    server, client = authority.issue("api", ["api.test"]), authority.issue("client", ["sluice.test"])
    port = Port()
    t.defer(port.release)
    conf = t.file("haproxy.cfg", f"""global
  maxconn 100
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend f
  bind 127.0.0.1:{port.number} ssl crt {server} ca-file {authority.certificate} verify required
  http-request return status 200 content-type text/plain lf-string "%[ssl_c_s_dn] %[ssl_fc_sni] %[ssl_fc_is_resumed]"
""")
    peer = Process([find("haproxy"), "-f", conf, "-db"], "haproxy")
    t.defer(peer.kill)
    address = f"127.0.0.1:{port.number}"
    until(lambda: listens(address), "haproxy listens")
    with t.point("a client certificate, and sessions that are resumed"):
        sluice = t.sluice(to(address, upstream=over_tls(authority, f"tls_certificate = {client}\nkeepalive = 0")),
                          workers=1)
        equal(ask_some(t, sluice), ["/CN=client api.test 0", "/CN=client api.test 1", "/CN=client api.test 1"], "answers")
    with t.point("none, which it refuses"):
        sluice = t.sluice(to(address, upstream=over_tls(authority)))
        equal(t.client(sluice).ask().status, 502, "status")


@group("node")
def node(t):
    authority = Authority(t)
    server = authority.issue("api", ["api.test"])
    program = t.file("server.js", f"""
const fs = require('fs'), https = require('https'), pem = fs.readFileSync('{server}');
https.createServer({{key: pem, cert: pem}}, (request, response) => {{
  let size = 0;
  request.on('data', piece => size += piece.length);
  request.on('end', () => response.end(`${{size}} ${{request.socket.isSessionReused()}} ${{request.headers.host}}`));
}}).listen(process.argv[2], '127.0.0.1');
""")
    peer = Node(t, program)
    with t.point("bodies up, and sessions that are resumed"):
        sluice = t.sluice(to(peer.address, upstream=over_tls(authority, "keepalive = 0")), workers=1)
        for reused in ("false", "true"):
            response = t.client(sluice).ask(method="POST", body=b"x" * 1_000_000)
            equal(response.body.decode(), f"1000000 {reused} api.test", "answer")


main()
