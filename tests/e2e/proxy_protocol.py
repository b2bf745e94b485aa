"""The PROXY protocol: from trusted proxies (HAProxy, nginx, curl, raw bytes) and to servers (HAProxy, nginx, raw)."""
import socket
import ssl
import struct
import subprocess
import threading
import time

from lib.admin import value as sample, with_admin
from lib.client import Client
from lib.peers import Nginx, curl, find, listens
from lib.process import Port, Process, until
from lib.raw_server import SIGNATURE, RawServer
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.tls import context, make_certificate
from lib.wire import Stream

TRUST = "trusted_proxies = 127.0.0.1\nproxy_protocol = {}\n"


def v2(source="203.0.113.7", port=1234, values=b"", command=0x21):
    rest = socket.inet_aton(source) + socket.inet_aton("198.51.100.1") + struct.pack(">HH", port, 80) + values
    return SIGNATURE + bytes([command, 0x11]) + struct.pack(">H", len(rest)) + rest


def v1(source="203.0.113.7"):
    return f"PROXY TCP4 {source} 198.51.100.1 1234 80\r\n".encode()


def value(kind, content):
    return bytes([kind]) + struct.pack(">H", len(content)) + content


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def speak(t, sluice, first, source="127.0.0.1"):
    """A connection from that address on which these bytes were sent."""
    connection = socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30, source_address=(source, 0))
    t.defer(connection.close)
    connection.sendall(first)
    return connection


GET = b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"


def status_of(connection):
    return Stream(connection).read_head().status


def is_refused(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@group("from a trusted proxy")
def headers(t):
    origin = t.origin()
    sluice = t.sluice(to(origin), listener=TRUST.format("on"))

    def seen(first):
        equal(status_of(speak(t, sluice, first + GET)), 200, "status")
        return origin.last().all("X-Forwarded-For")
    with t.point("version 1 and version 2 name the client"):
        equal(seen(v1()), ["203.0.113.7"], "version 1")
        equal(seen(v2()), ["203.0.113.7"], "version 2")
        equal(seen(b"PROXY TCP6 2001:db8::7 2001:db8::1 1 2\r\n"), ["2001:db8::7"], "IPv6")
    with t.point("LOCAL and UNKNOWN leave the proxy's address, and only the former is believed more"):
        claim = b"GET / HTTP/1.1\r\nHost: api.test\r\nX-Forwarded-For: 192.0.2.66\r\n\r\n"
        for first, believed in ((v2(command=0x20), True), (b"PROXY UNKNOWN\r\n", False)):
            equal(status_of(speak(t, sluice, first + claim)), 200, "status")
            equal(origin.last().all("X-Forwarded-For"),
                  ["192.0.2.66, 127.0.0.1"] if believed else ["127.0.0.1"], "X-Forwarded-For")
    with t.point("fields of a client behind the proxy are not believed, of a proxy behind it they are"):
        claim = b"GET / HTTP/1.1\r\nHost: api.test\r\nX-Forwarded-For: 192.0.2.66\r\n\r\n"
        status_of(speak(t, sluice, v1() + claim))
        equal(origin.last().all("X-Forwarded-For"), ["203.0.113.7"], "of a client")
        status_of(speak(t, sluice, v1("127.0.0.1") + claim))
        equal(origin.last().all("X-Forwarded-For"), ["192.0.2.66, 127.0.0.1"], "of a proxy")
    with t.point("at every cut, and byte by byte"):
        for header in (v1(), v2(values=value(2, b"api.test"))):
            for cut in range(1, len(header) + 1):
                connection = speak(t, sluice, header[:cut])
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(header[cut:] + GET)
                equal(status_of(connection), 200, f"cut at {cut}")
            connection = speak(t, sluice, b"")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in header + GET:
                connection.sendall(bytes([byte]))
            equal(status_of(connection), 200, "byte by byte")
    with t.point("CRC32C is verified"):
        header = v2(values=value(3, b"\0\0\0\0"))
        good = header[:-4] + struct.pack(">I", crc32c(header))
        equal(status_of(speak(t, sluice, good + GET)), 200, "right")
        true(is_refused(speak(t, sluice, good[:-1] + bytes([good[-1] ^ 1]) + GET)), "wrong")
        until(lambda: "malformed PROXY header: a wrong checksum (CRC32C)" in sluice.log(), "its line")
    with t.point("without a header, too"):
        equal(status_of(speak(t, sluice, GET)), 200, "status")


@group("from others")
def others(t):
    origin = t.origin()
    with t.point("a header ends the connection with one line a minute, other bytes are served"):
        sluice = t.sluice(to(origin), listener=TRUST.format("on"))
        for first in (v1(), v2(), v1()):
            true(is_refused(speak(t, sluice, first + GET, "127.0.0.2")), "refused")
        equal(status_of(speak(t, sluice, GET, "127.0.0.2")), 200, "status")
        lines = [line for line in sluice.log().splitlines() if "PROXY header" in line]
        equal(len(lines), 1, "lines")
        true("listener main: connection from 127.0.0.2 refused: it begins with a PROXY header and is not among "
             "trusted_proxies" in lines[0], lines)
    with t.point("required: nobody is served without one"):
        sluice = t.sluice(to(origin), listener=TRUST.format("required"))
        for source in ("127.0.0.1", "127.0.0.2"):
            true(is_refused(speak(t, sluice, GET, source)), source)
        equal(status_of(speak(t, sluice, v1() + GET)), 200, "status")
        until(lambda: "without a PROXY header (proxy_protocol = required)" in sluice.log(), "its line")
    with t.point("one that does not come is late"):
        sluice, admin = with_admin(t, to(origin), listener=TRUST.format("required") + "handshake_timeout = 200ms")
        true(is_refused(speak(t, sluice, v2()[:20])), "closed")
        true(is_refused(speak(t, sluice, b"")), "closed")
        equal(sample(admin.metrics()[1], "sluice_proxy_headers_total", result="late"), 2, "counted")


@test("a handshake behind a header, with younger connections that wait, ends with them", workers=[1])
def among_others(t):
    certificate = make_certificate(t, "api.pem", ["api.test"])
    sluice = t.sluice(to(t.origin()), listener=TRUST.format("required") + f"certificate = {certificate}\n"
                      "handshake_timeout = 1s")
    old = speak(t, sluice, b"")
    young = speak(t, sluice, v1()[:9])
    old.sendall(v1())
    for connection in (old, young):
        true(is_refused(connection), "late")
    plain = speak(t, sluice, v1())
    stream = context(certificate).wrap_socket(plain, server_hostname="api.test")
    stream.sendall(GET)
    equal(status_of(stream), 200, "status")


@test("limits, keys, logs and the fleet's fields are by the header's address")
def keys(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, route="limits = one") + "[limit one]\nkey = ip\nrate = 1 per 1h\n",
                      listener=TRUST.format("on"), settings="access_log = stdout\nforwarded = on")
    for source, status in (("203.0.113.7", 200), ("203.0.113.8", 200), ("203.0.113.7", 429)):
        equal(status_of(speak(t, sluice, v1(source) + GET)), status, source)
    until(lambda: "\n203.0.113.8 - " in "\n" + sluice.log(), "the access log's line")
    true("for=203.0.113.8" in origin.last().get("Forwarded"), "Forwarded")


@test("facts about TLS: https, version, name and the certificate's common name")
def facts(t):
    origin = t.origin()
    limits = "".join(f"[limit {name}]\nkey = tls:{name} | method\nrate = 1 per 1h\n" for name in
                     ("sni", "subject", "version"))
    sluice = t.sluice(to(origin, route="limits = sni, subject, version") + limits, listener=TRUST.format("on"))

    def ask(name, common_name, version):
        inner = bytes([3, 0, 0, 0, 0]) + value(0x21, version) + value(0x22, common_name)
        header = v2(values=value(2, name) + value(0x20, inner))
        return status_of(speak(t, sluice, header + GET))
    equal(ask(b"a.test", b"alice", b"TLSv1.3"), 200, "the first")
    equal(origin.last().all("X-Forwarded-Proto"), ["https"], "X-Forwarded-Proto")
    for facts_, status in (((b"A.test", b"bob", b"TLSv1.2"), 429), ((b"b.test", b"alice", b"TLSv1.2"), 429),
                           ((b"b.test", b"bob", b"TLSv1.3"), 429), ((b"b.test", b"bob", b"TLSv1.2"), 200)):
        equal(ask(*facts_), status, facts_)


@group("before TLS")
def before_tls(t):
    origin = t.origin()
    certificate = make_certificate(t, "api.pem", ["api.test"])
    sluice = t.sluice(to(origin), listener=TRUST.format("on") + f"certificate = {certificate}\nprotocols = h2, http/1.1")
    with t.point("the handshake follows it"):
        for header in (v1(), v2(), b""):
            stream = context(certificate).wrap_socket(speak(t, sluice, header), server_hostname="api.test")
            stream.sendall(GET)
            equal(Stream(stream).read_head().status, 200, "status")
            equal(origin.last().all("X-Forwarded-For"), ["203.0.113.7" if header else "127.0.0.1"], "the client")
            equal(origin.last().all("X-Forwarded-Proto"), ["https"], "the scheme")
    with t.point("in one piece with it"):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context(certificate).wrap_bio(incoming, outgoing, server_hostname="api.test")
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        connection = speak(t, sluice, v2() + outgoing.read())
        true(connection.recv(1) == b"\x16", "a ServerHello")
    with t.point("curl, with TLS and HTTP/2"):
        for more in ([], ["--http1.1"]):
            status, output = curl("--haproxy-protocol", "--cacert", certificate, "--resolve",
                                  f"api.test:{sluice.port.number}:127.0.0.1", *more, "--write-out", "%{http_code}",
                                  f"https://api.test:{sluice.port.number}/")
            true(status == 0 and output.endswith("200"), output)


def haproxy(t, conf, name="haproxy"):
    """One with these sections; its ports listen already when it returns."""
    if not find("haproxy"):
        t.skip("haproxy is not installed")
    path = t.file(name + ".cfg", "global\n  maxconn 100\ndefaults\n  mode http\n  timeout connect 5s\n"
                  "  timeout client 30s\n  timeout server 30s\n" + conf)
    peer = Process([find("haproxy"), "-f", path, "-db"], name)
    t.defer(peer.kill)
    return peer


def a_port(t):
    port = Port()
    t.defer(port.release)
    return port.number


@group("HAProxy before sluice")
def haproxy_before(t):
    origin = t.origin()
    sluice, admin = with_admin(t, to(origin), listener=TRUST.format("required"))
    certificate = make_certificate(t, "api.pem", ["api.test"])
    kinds = {"send-proxy": "127.0.0.1", "send-proxy-v2": "127.0.0.1",
             "send-proxy-v2 proxy-v2-options ssl,cert-cn,crc32c,authority check-send-proxy check inter 100ms": "127.0.0.1"}
    for words in kinds:
        with t.point(words):
            port, tls_port = a_port(t), a_port(t)
            haproxy(t, f"""frontend f
  bind 127.0.0.1:{port}
  bind 127.0.0.1:{tls_port} ssl crt {certificate}
  default_backend b
backend b
  server s {sluice.address} {words}
""", name="haproxy" + str(port))
            until(lambda: listens(f"127.0.0.1:{port}"), "haproxy listens")
            client = Client(f"127.0.0.1:{port}")
            t.defer(client.close)
            equal(client.ask().status, 200, "status")
            equal(origin.last().all("X-Forwarded-For"), ["127.0.0.1"], "the client")
            if "ssl" in words:
                stream = context(certificate).wrap_socket(
                    socket.create_connection(("127.0.0.1", tls_port), timeout=30), server_hostname="api.test")
                t.defer(stream.close)
                stream.sendall(GET)
                equal(Stream(stream).read_head().status, 200, "status")
                equal(origin.last().all("X-Forwarded-Proto"), ["https"], "the scheme")
    equal(sample(admin.metrics()[1], "sluice_proxy_headers_total", result="malformed"), None, "malformed headers")


@test("nginx before sluice, as a stream with proxy_protocol")
def nginx_before(t):
    modules = "/usr/lib/nginx/modules/ngx_stream_module.so"
    origin = t.origin()
    sluice = t.sluice(to(origin), listener=TRUST.format("required"))
    port = a_port(t)
    if not find("nginx"):
        t.skip("nginx is not installed")
    help_ = subprocess.run([find("nginx"), "-V"], capture_output=True, text=True, check=False).stderr
    load = "" if "--with-stream " in help_ else f"load_module {modules};"
    folder = t.path("nginx-stream")
    subprocess.run(["mkdir", "-p", folder], check=True)
    conf = t.file("stream.conf", f"""{load} daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
stream {{ server {{ listen 127.0.0.1:{port}; proxy_pass {sluice.address}; proxy_protocol on; }} }}
""")
    peer = Process([find("nginx"), "-p", folder, "-c", conf, "-e", f"{folder}/error.log"], "nginx-stream")
    t.defer(peer.kill)
    deadline = time.monotonic() + 20
    while not listens(f"127.0.0.1:{port}"):
        if not peer.running():
            t.skip("nginx has no stream module: " + peer.output()[-200:])
        true(time.monotonic() < deadline, "nginx listens")
        time.sleep(0.02)
    client = Client(f"127.0.0.1:{port}")
    t.defer(client.close)
    equal(client.ask().status, 200, "status")
    equal(origin.last().all("X-Forwarded-For"), ["127.0.0.1"], "the client")


@group("to servers")
def to_servers(t):
    for version in ("v1", "v2"):
        server = RawServer(t)
        with t.point(f"{version}: each connection is one client's, for one request"):
            sluice = t.sluice(to(server.address, upstream=f"send_proxy = {version}"), listener=TRUST.format("on"))
            for source in ("203.0.113.7", "203.0.113.8", "203.0.113.7"):
                connection = speak(t, sluice, v2(source, 4711) + GET)
                equal(status_of(connection), 200, "status")
            equal([served for _, _, served in server.seen], [1, 1, 1], "requests on a connection")
            here = sluice.port.number
            if version == "v1":
                equal([header for header, _, _ in server.seen],
                      [f"PROXY TCP4 {source} 127.0.0.1 4711 {here}\r\n".encode() for source in
                       ("203.0.113.7", "203.0.113.8", "203.0.113.7")], "headers")
            else:
                equal(server.seen[1][0], SIGNATURE + b"\x21\x11\0\x0c" + socket.inet_aton("203.0.113.8")
                      + socket.inet_aton("127.0.0.1") + struct.pack(">HH", 4711, here), "header")
        with t.point(f"{version}: two requests of one client on its connection"):
            server.seen.clear()
            client = t.client(sluice)
            for _ in range(2):
                equal(client.ask().status, 200, "status")
            equal([served for _, _, served in server.seen], [1, 1], "requests on a connection")
        for before, after in ((f"send_proxy = {version}\n", ""), ("", f"send_proxy = {version}\n")):
            with t.point(f"{version}: a reload turns it {'on' if after else 'off'}: a kept connection serves no other"):
                server = RawServer(t)
                sections = to(server.address, upstream=before)
                sluice = t.sluice(sections, workers=1)
                equal(t.client(sluice).ask().status, 200, "status")
                sluice.reload(to(server.address, upstream=after))
                sluice.process.wait_output("reloaded")
                equal(t.client(sluice).ask().status, 200, "status")
                equal([served for _, _, served in server.seen], [1, 1], "requests on a connection")
                equal([header.startswith(b"GET ") for header, _, _ in server.seen], [not before, not after], "no header")
        with t.point(f"{version}: before TLS"):
            certificate = make_certificate(t, f"{version}.pem", ["api.test"])
            made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            made.load_cert_chain(certificate)
            secure = RawServer(t, made)
            sluice = t.sluice(to(secure.address, upstream=f"send_proxy = {version}\ntls = on\ntls_ca = {certificate}\n"
                                                          "tls_name = api.test"), listener=TRUST.format("on"))
            equal(status_of(speak(t, sluice, v1() + GET)), 200, "status")
            true(socket.inet_aton("203.0.113.7") in secure.seen[0][0] or b"203.0.113.7" in secure.seen[0][0], secure.seen)
        with t.point(f"{version}: health checks name no client"):
            probed = RawServer(t)
            t.sluice(to(probed.address, upstream=f"send_proxy = {version}\nhealth_path = /up\nhealth_interval = 100ms"))
            until(lambda probed=probed: probed.seen, "a probe")
            equal(probed.seen[0][0], b"PROXY UNKNOWN\r\n" if version == "v1" else SIGNATURE + b"\x20\0\0\0", "header")


@test("a server that is not there is told as one, with send_proxy and TLS")
def no_server(t):
    port = a_port(t)
    certificate = make_certificate(t, "api.pem", ["api.test"])
    for more in ("", f"tls = on\ntls_ca = {certificate}\ntls_name = api.test"):
        sluice = t.sluice(to(f"127.0.0.1:{port}", upstream=f"send_proxy = v2\nretries = 0\n{more}"))
        equal(t.client(sluice).ask().status, 502, "status")
        until(lambda sluice=sluice: "Connection refused" in sluice.log(), "the reason")


@group("servers of packages")
def package_servers(t):
    with t.point("HAProxy with accept-proxy"):
        port = a_port(t)
        haproxy(t, f"""frontend f
  bind 127.0.0.1:{port} accept-proxy
  http-request return status 200 content-type text/plain lf-string "%[src] %[src_port]"
""")
        until(lambda: listens(f"127.0.0.1:{port}"), "haproxy listens")
        for version in ("v1", "v2"):
            sluice = t.sluice(to(f"127.0.0.1:{port}", upstream=f"send_proxy = {version}"), listener=TRUST.format("on"))
            connection = speak(t, sluice, v2("203.0.113.9", 4711) + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            got = b""
            while piece := connection.recv(4096):
                got += piece
            true(got.endswith(b"203.0.113.9 4711"), got)
    with t.point("nginx with proxy_protocol"):
        port = a_port(t)
        Nginx(t, f"""listen 127.0.0.1:{port} proxy_protocol;
          location / {{ return 200 "$proxy_protocol_addr $proxy_protocol_port"; }}""", name="accepting")
        for version in ("v1", "v2"):
            sluice = t.sluice(to(f"127.0.0.1:{port}", upstream=f"send_proxy = {version}"), listener=TRUST.format("on"))
            connection = speak(t, sluice, v1("203.0.113.9") + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            got = b""
            while piece := connection.recv(4096):
                got += piece
            true(got.endswith(b"203.0.113.9 1234"), got)


@test("curl names the client of a plain listener")
def curl_plain(t):
    sluice = t.sluice(to(t.origin()), listener=TRUST.format("required"))
    status, output = curl("--haproxy-protocol", "--write-out", "%{http_code}", f"http://{sluice.address}/")
    true(status == 0 and output.endswith("200"), output)
    status, output = curl(f"http://{sluice.address}/")
    true(status != 0, output)


main()
