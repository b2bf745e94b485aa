"""TLS towards servers: certificates that are not to be accepted, sessions, client certificates, health checks, reloads."""
import datetime
import shutil
import socket
import ssl
import threading

from lib.admin import Admin
from lib.authority import Authority, serving
from lib.process import BINARY, run, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true

TWO_VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def over_tls(authority, name="api.test", more=""):
    return f"tls = on\ntls_ca = {authority.certificate}\ntls_name = {name}\n{more}"


def with_admin(t, *sections, **options):
    """A sluice and a client of its admin interface."""
    address = f"unix:{t.path('admin.sock')}"
    return t.sluice(f"[admin]\nbind = {address}\n", *sections, **options), Admin(address)


def server_of(admin, number=0):
    return admin.json("/api/v1/upstreams")[1]["upstreams"][0]["servers"][number]


@group("requests over TLS to a server")
def requests(t):
    authority = Authority(t)
    certificate = authority.issue("api", ["api.test"])
    for version in TWO_VERSIONS:
        origin = t.origin(tls=serving(certificate, version=version))
        sluice = t.sluice(to(origin, upstream=over_tls(authority)))
        with t.point(f"{version.name}: several on one connection, which tickets do not end"):
            client = t.client(sluice)
            for number in range(5):
                response = client.ask(method="POST", body=b"body")
                equal((response.status, response.body), (200, b"body"), f"response {number}")
            equal(origin.connections, 1, "connections")
        with t.point(f"{version.name}: a large body up and down"):
            blob = t.random.randbytes(3_000_000)
            response = t.client(sluice).ask(method="POST", body=blob)
            equal((response.status, response.body == blob), (200, True), "the echo")
    with t.point("https://HOST:PORT as the address, verified by that host"):
        origin = t.origin(tls=serving(authority.issue("local", ["IP:127.0.0.1"])))
        sluice = t.sluice(to(f"https://127.0.0.1:{origin.port}/", upstream=f"tls_ca = {authority.certificate}"))
        equal(t.client(sluice).ask().status, 200, "status")
    with t.point("one server with TLS beside one without"):
        plain, encrypted = t.origin(), t.origin(tls=serving(certificate))
        sluice = t.sluice(to(f"{plain}", f"{encrypted} tls=on tls_name=api.test",
                             upstream=f"tls_ca = {authority.certificate}"), workers=1)
        for _ in range(4):
            equal(t.client(sluice).ask().status, 200, "status")
        equal((len(plain.targets()), len(encrypted.targets())), (2, 2), "requests")


@group("the ends of connections")
def ends(t):
    def until_end(x):
        if x.request.target == "/idle":
            x.reply()
            x.close()
            return
        x.send(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        if x.request.target == "/cut":
            socket.socket.shutdown(x.stream.socket, socket.SHUT_RDWR)
            x.closed = True
        else:
            x.close()

    authority = Authority(t)
    origin = t.origin(until_end, tls=serving(authority.issue("api", ["api.test"])))
    sluice = t.sluice(to(origin, upstream=over_tls(authority)))
    with t.point("a close_notify ends a response that has no length"):
        response = t.client(sluice).ask()
        equal((response.status, response.body), (200, b"all of it"), "response")
    with t.point("an end without it cuts such a response"):
        client = t.client(sluice)
        client.request("/cut")
        client.expect_cut()
    with t.point("a connection that ended while idle is not used again"):
        for _ in range(5):
            equal(t.client(sluice).ask("/idle").status, 200, "status")


@group("certificates that are not accepted")
def refusals(t):
    authority, other = Authority(t), Authority(t, "other")
    good, revoked = authority.issue("good", ["api.test"]), authority.issue("revoked", ["api.test"])
    crl = authority.revoke(revoked)
    with open(other.path("ca.key"), encoding="ascii") as key, open(other.path("own.pem"), "w", encoding="ascii") as out:
        with open(other.certificate, encoding="ascii") as certificate:
            out.write(certificate.read() + key.read())
    expired = authority.issue("expired", ["api.test"], end="20210101000000Z")
    for what, certificate, more, expected in (
            ("expired", expired, "", "certificate has expired"),
            ("not yet valid", authority.issue("young", ["api.test"], start="20370101000000Z"), "",
             "certificate is not yet valid"),
            ("of another name", authority.issue("wrong", ["api.internal"]), "", "name does not match api.test"),
            ("of an unknown authority", other.issue("unknown", ["api.test"]), "",
             "unable to get local issuer certificate"),
            ("self-signed", other.path("own.pem"), "", "self-signed certificate"),
            ("revoked", revoked, f"tls_crl = {crl}", "certificate revoked")):
        with t.point(what):
            origin = t.origin(tls=serving(certificate))
            sluice, admin = with_admin(t, to(origin, upstream=over_tls(authority, more=more)))
            response = t.client(sluice).ask()
            equal(response.status, 502, "status")
            true(b"certificate" not in response.body, response.body)
            until(lambda: expected in sluice.log(), f"{expected!r} in the log")
            equal(server_of(admin)["last_failure"]["why"], expected, "sluice upstreams")
            equal(origin.targets(), [], "requests that the server got")
            sluice.end()
    with t.point("a good one with a revocation list that does not have it"):
        origin = t.origin(tls=serving(good))
        sluice = t.sluice(to(origin, upstream=over_tls(authority, more=f"tls_crl = {crl}")))
        equal(t.client(sluice).ask().status, 200, "status")
    with t.point("tls_verify = off accepts all, and the log warns of it"):
        origin = t.origin(tls=serving(expired))
        sluice = t.sluice(to(origin, upstream="tls = on\ntls_verify = off"))
        equal(t.client(sluice).ask().status, 200, "status")
        until(lambda: "tls_verify = off: anybody on the way" in sluice.log(), "a warning in the log")
    with t.point("a server whose certificate expires soon"):
        soon = authority.issue("soon", ["api.test"], end=in_days(5))
        origin = t.origin(tls=serving(soon))
        sluice, admin = with_admin(t, to(origin, upstream=over_tls(authority)))
        equal(t.client(sluice).ask().status, 200, "status")
        until(lambda: "its certificate expires in" in sluice.log(), "a warning")
        true(server_of(admin)["tls"]["certificate_expires"] > 0, "the time in sluice upstreams")
        sluice.end()


def in_days(days):
    return (datetime.datetime.utcnow() + datetime.timedelta(days=days)).strftime("%Y%m%d%H%M%SZ")


@group("servers that answer no handshake")
def silent(t):
    authority = Authority(t)
    listener = socket.create_server(("127.0.0.1", 0))
    t.defer(listener.close)
    quiet = f"127.0.0.1:{listener.getsockname()[1]}"
    with t.point("connect_timeout bounds the handshake, too"):
        sluice = t.sluice(to(quiet, upstream=over_tls(authority, more="connect_timeout = 300ms\nretries = 0")))
        response = t.client(sluice).ask()
        equal(response.status, 504, "status")
        until(lambda: "connect timeout" in sluice.log(), "the reason")
    with t.point("another server is asked, and such a one is ejected"):
        good = t.origin(tls=serving(authority.issue("api", ["api.test"])))
        sluice = t.sluice(to(quiet, good, upstream=over_tls(authority, more="connect_timeout = 100ms\nmax_fails = 2")))
        for _ in range(6):
            equal(t.client(sluice).ask(method="POST", body=b"x").status, 200, "status")
        until(lambda: f"server {quiet} ejected" in sluice.log(), "the ejection")
    with t.point("a server that speaks no TLS"):
        plain = socket.create_server(("127.0.0.1", 0))
        t.defer(plain.close)

        def answer():
            while True:
                try:
                    taken = plain.accept()[0]
                except OSError:
                    return
                taken.recv(100)
                taken.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                taken.close()
        threading.Thread(target=answer, daemon=True).start()
        sluice = t.sluice(to(f"127.0.0.1:{plain.getsockname()[1]}", upstream=over_tls(authority)))
        equal(t.client(sluice).ask().status, 502, "status")
        until(lambda: "it speaks no TLS" in sluice.log(), "the reason")


@group("sessions are resumed")
def sessions(t):
    authority = Authority(t)
    certificate = authority.issue("api", ["api.test"])
    for version in TWO_VERSIONS:
        with t.point(f"{version.name}: by each new connection but the first"):
            origin = t.origin(tls=serving(certificate, version=version))
            sluice = t.sluice(to(origin, upstream=over_tls(authority, more="keepalive = 0")), workers=1)
            for _ in range(4):
                equal(t.client(sluice).ask().status, 200, "status")
            equal(origin.handshakes, [False, True, True, True], "resumed")
    with t.point("not where the name or the authorities have changed"):
        sluice.reload(to(origin, upstream=over_tls(authority, more="keepalive = 0\ntls_versions = 1.3")))
        until(lambda: "reloaded" in sluice.log(), "the reload")
        equal(t.client(sluice).ask().status, 200, "status")
        equal(origin.handshakes[4:], [False], "resumed")


@group("client certificates")
def client_certificates(t):
    authority = Authority(t)
    clients = Authority(t, "clients")
    mine, foreign = clients.issue("mine", ["sluice.test"]), authority.issue("foreign", ["sluice.test"])
    certificate = authority.issue("api", ["api.test"])
    for version in TWO_VERSIONS:
        origin = t.origin(tls=serving(certificate, client_ca=clients.certificate, version=version))
        for what, more, status in (("presented", f"tls_certificate = {mine}", 200), ("none", "", 502),
                                   ("of another authority", f"tls_certificate = {foreign}", 502)):
            with t.point(f"{version.name}: {what}"):
                sluice = t.sluice(to(origin, upstream=over_tls(authority, more=more)))
                equal(t.client(sluice).ask().status, status, "status")
                # With TLS 1.3 the alert comes behind the handshake, and may be lost by the reset behind it.
                expected = "alert" if version == ssl.TLSVersion.TLSv1_2 else f"server {origin}: "
                if status != 200:
                    until(lambda: expected in sluice.log(), "the failure in the log")


@group("health checks over TLS")
def health(t):
    authority = Authority(t)
    good = t.origin(tls=serving(authority.issue("api", ["api.test"])))
    bad = t.origin(tls=serving(authority.issue("expired", ["api.test"], end="20210101000000Z")))
    health_lines = "health_path = /health\nhealth_interval = 100ms"
    sluice, admin = with_admin(t, to(good, bad, upstream=over_tls(authority, more=health_lines)))
    with t.point("a certificate that has expired makes a server unhealthy"):
        until(lambda: f"server {bad} is unhealthy: certificate has expired" in sluice.log(), "the finding")
        equal(server_of(admin, 1)["check"]["saw"], "certificate has expired", "sluice upstreams")
    with t.point("the other one is checked by requests"):
        good.wait(lambda: good.targets().count("/health") >= 3, "three checks")
        until(lambda: (server_of(admin)["check"] or {}).get("saw") == "status 200", "the finding")
    with t.point("a reload that accepts the certificate is seen by the next check"):
        sluice.reload(f"[admin]\nbind = unix:{t.path('admin.sock')}\n"
                      + to(good, bad, upstream=f"tls = on\ntls_verify = off\n{health_lines}"))
        until(lambda: f"server {bad} is healthy again" in sluice.log(), "the finding")


@group("upgraded connections and streams over TLS")
def long_ones(t):
    def serve(x):
        if x.request.target == "/events":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            for number in range(3):
                x.send(b"data: %d\n\n" % number)
            x.close()
            return
        x.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
        while data := x.stream.read_some():
            x.send(data)
        x.close()

    authority = Authority(t)
    origin = t.origin(serve, tls=serving(authority.issue("api", ["api.test"])))
    sluice = t.sluice(to(origin, upstream=over_tls(authority)))
    with t.point("a tunnel"):
        client = t.client(sluice)
        client.request("/socket", fields=[("Upgrade", "websocket"), ("Connection", "Upgrade"),
                                          ("Sec-WebSocket-Version", "13"),
                                          ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")])
        equal(client.response_head().status, 101, "status")
        for size in (1, 20000, 100000):
            sent = t.random.randbytes(size)
            client.send(sent)
            equal(client.read_exactly(size) == sent, True, "the echo")
        client.finish_sending()
        client.expect_end()
    with t.point("an event stream"):
        equal(t.client(sluice).ask("/events").body, b"data: 0\n\ndata: 1\n\ndata: 2\n\n", "events")


@group("reloads")
def reloads(t):
    authority, other = Authority(t), Authority(t, "other")
    used = t.path("ca.pem")
    shutil.copy(authority.certificate, used)
    first = authority.issue("api", ["api.test", "b.test"])
    origin = t.origin(tls=serving(first))

    def sections(name="api.test", more=""):
        return to(origin, upstream=f"tls = on\ntls_ca = {used}\ntls_name = {name}\n{more}")

    def reload(made, expected="reloaded"):
        count = sluice.log().count(expected)
        sluice.reload(made)
        until(lambda: sluice.log().count(expected) > count, expected)

    sluice = t.sluice(sections(), workers=1)
    equal(t.client(sluice).ask().status, 200, "status")
    with t.point("one that changes nothing keeps the connections"):
        reload(sections())
        equal(t.client(sluice).ask().status, 200, "status")
        equal(origin.connections, 1, "connections")
    with t.point("another name is for new connections only, and those from before are not used"):
        reload(sections("b.test"))
        equal(t.client(sluice).ask().status, 200, "status")
        equal((origin.connections, origin.handshakes), (2, [False, False]), "connections")
    with t.point("changed contents of the authorities' file count as well"):
        shutil.copy(other.certificate, used)
        reload(sections("b.test"))
        equal(t.client(sluice).ask().status, 502, "status")
        shutil.copy(authority.certificate, used)
        reload(sections("b.test"))
        equal(t.client(sluice).ask().status, 200, "status")
    with t.point("after a file that can't be read the earlier ones stay in use, and the log names it"):
        t.file("ca.pem", "nonsense")
        reload(sections("b.test"), "it keeps the authorities and certificates that it had before")
        true(f"{used}: can't read the certificates" in sluice.log(), sluice.log())
        equal(t.client(sluice).ask().status, 200, "status")
    with t.point("one that is new and can't be read stops the reload"):
        reload(sections("b.test", "[upstream more]\nserver = 127.0.0.1:9 tls=on\ntls_ca = /nowhere"), "/nowhere")
        equal(t.client(sluice).ask().status, 200, "status")


@test("a session's own connection is not used with other credentials")
def pinned(t):
    authority = Authority(t)
    origin = t.origin(tls=serving(authority.issue("api", ["api.test", "b.test"])))

    def sections(name):
        return to(origin, upstream=over_tls(authority, name), route="session = ip\nupstream_affinity = session")

    sluice = t.sluice(sections("api.test"))
    for name, connections in (("api.test", 1), ("api.test", 1), ("b.test", 2)):
        count = sluice.log().count("reloaded")
        sluice.reload(sections(name))
        until(lambda: sluice.log().count("reloaded") > count, "a reload")
        for _ in range(3):
            equal(t.client(sluice).ask().status, 200, "status")
        equal(origin.connections, connections, f"connections as {name}")


@group("what `sluice check` says")
def checks(t):
    def said(upstream, server="127.0.0.1:9"):
        path = t.file("check.ini", "[listener l]\nbind = 127.0.0.1:1\n" + to(server, upstream=upstream))
        return run([BINARY, "check", "-c", path])

    for upstream, server, status, expected in (
            ("tls = on\ntls_ca = /nowhere", "127.0.0.1:9", 1, "check.ini:3: upstream origin: /nowhere: can't read"),
            ("tls = on", "unix:/a", 1, "has no name to verify; expected tls_name = NAME, or tls_verify = off"),
            ("tls = on\ntls_certificate_key = k", "127.0.0.1:9", 1, "tls_certificate_key: has no effect without tls_certificate"),
            ("tls_ca = a", "127.0.0.1:9", 0, "tls_ca has no effect without tls = on"),
            ("", "127.0.0.1:9 tls_name=a", 0, "tls_name of 127.0.0.1:9 has no effect without tls=on"),
            ("", "127.0.0.1:443", 0, "is spoken to without TLS"),
            ("", "https://a/b", 1, '"https://a/b" has a path'),
            ("tls_name = a:80", "https://a", 1, "a host name or an address, without a port"),
            ("tls_verify = off", "https://a", 0, "anybody on the way"),
            ("", "https://a tls=off", 0, "ok")):
        with t.point(f"{server} {upstream}".strip().replace("\n", ", ")):
            code, output = said(upstream, server)
            true(expected in output, output)
            equal(code, status, "exit status")


main()
