"""HTTP/2 to servers: real ones (node, HAProxy), and one that is scripted, whose frames may be malformed."""
import socket
import ssl
import threading

from lib.http2 import Http2
from lib.http2_server import Http2Server
from lib.peers import Node, curl, find
from lib.process import Port, Process, run, until
from lib.sluice import check, to
from lib.tap import equal, group, main, test, true
from lib.tls import make_certificate

H2 = "protocol = h2\n"
BOTH = "protocols = h2, http/1.1"

NODE = """
import http2 from 'node:http2';
import fs from 'node:fs';
const [port, pem] = process.argv.slice(2);
const server = pem ? http2.createSecureServer({key: fs.readFileSync(pem), cert: fs.readFileSync(pem)})
  : http2.createServer();
server.on('stream', (stream, head) => {
  stream.on('error', () => {});
  if (head[':path'] === '/trailers') {
    stream.respond({':status': 200}, {waitForTrailers: true});
    stream.on('wantTrailers', () => stream.sendTrailers({'x-sum': '7'}));
    stream.end('body');
  } else if (head[':path'] === '/hints') {
    stream.additionalHeaders({':status': 103, link: '</a>'});
    stream.respond({':status': 200});
    stream.end('hinted');
  } else if (head[':path'] === '/none') {
    stream.respond({':status': 204}, {endStream: true});
  } else {
    stream.respond({':status': 200, 'x-authority': head[':authority'], 'x-scheme': head[':scheme']});
    stream.pipe(stream);
  }
});
server.listen(port, '127.0.0.1');
"""


def scene(t, serve=None, upstream="", listener="", route="", settings="", **options):
    server = Http2Server(t, serve, **options)
    sluice = t.sluice(to(server.address, upstream=H2 + upstream, route=route), listener=BOTH + "\n" + listener,
                      settings=settings)
    return server, sluice


def ask(t, sluice, path="/", method="GET", body=b"", fields=""):
    client = t.client(sluice)
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    client.send(f"{method} {path} HTTP/1.1\r\nHost: api.test\r\n{length}{fields}\r\n".encode() + body)
    return client.response()


@group("a real server: node")
def node(t):
    certificate = make_certificate(t, "server.pem", ["localhost"])
    server = Node(t, t.file("server.mjs", NODE))
    sluice = t.sluice(to(server.address, upstream=H2), listener=BOTH)
    url = f"http://{sluice.address}"
    with t.point("requests and responses, by either version"):
        equal(ask(t, sluice, "/echo", "POST", b"text").body, b"text", "HTTP/1.1")
        equal(curl("--http2-prior-knowledge", "-d", "text", url + "/echo")[1], "text", "HTTP/2")
        got = curl("-si", url + "/echo")[1]
        true("x-authority: " + sluice.address in got, got)
        true("x-scheme: http\n" in got.replace("\r", ""), got)
    with t.point("interim responses, trailers, and a response without a body"):
        true("103 Early Hints" in curl("-si", url + "/hints")[1], "103")
        equal(curl("-s", url + "/hints")[1], "hinted", "what follows")
        true("x-sum: 7" in curl("-si", "--raw", url + "/trailers")[1], "trailers")
        true("204 No Content" in curl("-si", url + "/none")[1], "204")
    with t.point("a long body both ways"):
        path = t.file("body", "abcdefgh" * 500_000)
        for version in ("--http1.1", "--http2-prior-knowledge"):
            got = run([find("curl"), "-s", version, "-H", "Expect:", "--data-binary", "@" + path, url + "/echo"])[1]
            equal(len(got), 4_000_000, "bytes")
            true(got == "abcdefgh" * 500_000, "the same")
    with t.point("h2load, 2,000 requests"):
        if not find("h2load"):
            t.skip("h2load is not installed")
        got = run([find("h2load"), "-n", "2000", "-c", "4", "-m", "50", url + "/none"])[1]
        true("2000 succeeded, 0 failed, 0 errored" in got, got)


@test("a real server by TLS: ALPN, and one that speaks HTTP/1.1 only")
def node_tls(t):
    certificate = make_certificate(t, "server.pem", ["localhost"])
    program = t.file("server.mjs", NODE.replace("process.argv.slice(2)", f"[process.argv[2], '{certificate}']"))
    server = Node(t, program)
    other = t.origin(tls=_tls(certificate, "http/1.1"))
    tls = f"tls = on\ntls_ca = {certificate}\ntls_name = localhost\nmax_fails = 0\n"
    sluice = t.sluice(to(server.address, upstream=H2 + tls, route="path = /a\n", name="a"),
                      to(other.address, upstream=H2 + tls, name="b"))
    got = ask(t, sluice, "/a", "POST", b"text")
    equal((got.status, got.body), (200, b"text"), "answer")
    equal(got.get("x-scheme"), "https", "scheme")
    equal(ask(t, sluice, "/b").status, 502, "status")
    until(lambda: "does not speak HTTP/2" in sluice.log(), "the log says why")


def _tls(certificate, *protocols):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate)
    made.set_alpn_protocols(list(protocols))
    return made


@test("a real server: HAProxy")
def haproxy(t):
    if not find("haproxy"):
        t.skip("haproxy is not installed")
    origin, port = t.origin(), Port()
    t.defer(port.release)
    path = t.file("haproxy.cfg", f"""
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend in
  bind 127.0.0.1:{port.number} proto h2
  default_backend out
backend out
  server a {origin.address}
""")
    process = Process([find("haproxy"), "-db", "-f", path], "haproxy")
    t.defer(process.kill)
    sluice = t.sluice(to(f"127.0.0.1:{port.number}", upstream=H2 + "max_fails = 0"), listener=BOTH)
    until(lambda: ask(t, sluice).status == 200, "HAProxy answers")
    for size in (0, 5, 300_000):
        equal(ask(t, sluice, "/x", "POST", b"y" * size).body, b"y" * size, "echo")
    equal(origin.last().target, "/x", "target")


@group("what a request becomes")
def requests(t):
    server, sluice = scene(t, route="request_trailers = x-sum", settings="forwarded = on")
    with t.point("pseudo fields, and none of a connection's"):
        ask(t, sluice, "/a?b=c", "DELETE", fields="Connection: x-hop, te\r\nX-Hop: 1\r\nX-Name: Value\r\n"
            "TE: trailers, deflate\r\nUpgrade: h2c\r\nKeep-Alive: 5\r\nCookie: a=1\r\n")
        got = server.requests[-1].fields
        equal([got[name] for name in (":method", ":scheme", ":authority", ":path")],
              ["DELETE", "http", "api.test", "/a?b=c"], "pseudo fields")
        equal(got["x-name"], "Value", "field")
        equal(got.get("te"), "trailers", "te")
        equal([name for name in got if name in ("connection", "host", "x-hop", "upgrade", "keep-alive",
                                                "transfer-encoding")], [], "others")
        true(got["forwarded"].startswith("for=127.0.0.1"), got["forwarded"])
    with t.point("a body with a length, chunked, and with trailers"):
        ask(t, sluice, method="POST", body=b"text")
        equal((server.requests[-1].body, server.requests[-1].fields["content-length"]), (b"text", "4"), "length")
        client = t.client(sluice)
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n"
                    b"2\r\nab\r\n0\r\nX-Sum: 3\r\n\r\n")
        equal(client.response().body, b"ab", "echo")
        equal(server.requests[-1].got_trailers, {"x-sum": "3"}, "trailers")
        equal(server.requests[-1].fields.get("content-length"), None, "length")
    with t.point("all of a worker on one connection"):
        true(1 <= len(server.open) <= t.workers, f"{len(server.open)} connections")


@group("malformed responses are answered 502, and reset their stream alone")
def malformed(t):
    held = []

    def serve(request):
        kind = request.path
        if kind == "/held":
            held.append(request)
        elif kind == "/none":
            request.peer.send_frame(1, 5, request.stream, request.peer.encoder.encode([("x-a", "1")]))
        elif kind == "/status":
            request.head("2x0", end=True)
        elif kind == "/upper":
            request.head(200, raw=[b"\0\3X-A\1b"], end=True)
        elif kind == "/connection":
            request.head(200, [("connection", "close")], end=True)
        elif kind == "/coding":
            request.head(200, [("transfer-encoding", "chunked")], end=True)
        elif kind == "/feed":
            request.head(200, raw=[b"\0\3x-a\3b\nc"], end=True)
        elif kind == "/101":
            request.head(101, end=False)
        elif kind == "/lengths":
            request.head(200, [("content-length", "3"), ("content-length", "4")])
        elif kind == "/pseudo":
            request.head(200, [("x-a", "1")], raw=[b"\0\5:path\1/"], end=True)
        else:
            request.reply(200, b"fine")

    server = Http2Server(t, serve)
    sluice = t.sluice(to(server.address, upstream=H2 + "retries = 0\nmax_fails = 0"), listener=BOTH, workers=1)
    waiting = t.client(sluice)
    waiting.send(b"GET /held HTTP/1.1\r\nHost: h\r\n\r\n")
    until(lambda: held, "one waits beside the others")
    for kind in ("none", "status", "upper", "connection", "coding", "feed", "101", "lengths", "pseudo"):
        with t.point(kind):
            equal(ask(t, sluice, "/" + kind).status, 502, "status")
            equal(ask(t, sluice, "/good").body, b"fine", "another stream")
    with t.point("the connection is the same, and the one beside them is answered"):
        equal(len(server.peers), 1, "connections")
        held[0].reply(200, b"late")
        equal(waiting.response().body, b"late", "answer")


@group("bodies that end early")
def cut(t):
    def serve(request):
        request.head(200, [("content-length", "10")] if request.path == "/short" else ())
        request.data(b"12345", end=request.path == "/short")
        if request.path == "/reset":
            request.reset(2)
        elif request.path == "/close":
            request.peer.close()
        elif request.path == "/goaway":
            request.peer.goaway(request.stream, 0)
            request.data(b"67890", end=True)

    server, sluice = scene(t, serve, upstream="max_fails = 0")
    for kind in ("short", "reset", "close"):
        with t.point(f"{kind}: the client sees a cut"):
            client = Http2(t, sluice)
            equal(client.ask("/" + kind).reset, 2, "INTERNAL_ERROR")
    with t.point("a GOAWAY lets what is under way end"):
        equal(Http2(t, sluice).ask("/goaway").body, b"1234567890", "body")
        until(lambda: not server.open, "and the connection ends")


@group("what the server has not processed is sent once more")
def refused(t):
    seen = []

    def serve(request):
        seen.append((request.path, request.fields[":method"], request.body))
        first = sum(each[0] == request.path for each in seen) == 1
        if request.path.startswith("/refused") and (first or "always" in request.path):
            request.reset(7)
        elif request.path.startswith("/goaway") and first:
            request.peer.goaway(max(request.stream - 2, 0), 0)
        elif request.path == "/error":
            request.reset(2)
        elif request.path == "/processed" and first:
            request.peer.goaway(request.stream, 0)
            request.peer.close()
        else:
            request.reply(200, b"served")

    server, sluice = scene(t, serve, upstream="max_fails = 0")
    for path in ("/refused", "/goaway"):
        for method, body in (("GET", b""), ("POST", b"text")):
            with t.point(f"{path} {method}"):
                equal(ask(t, sluice, path + method, method, body).body, b"served", "answer")
                equal([each[2] for each in seen if each[0] == path + method], [body] * 2, "twice")
    with t.point("but one that is refused each time is answered 503"):
        equal(ask(t, sluice, "/refused-always").status, 503, "status")
        equal(sum(each[0] == "/refused-always" for each in seen), 3, "one try and two more")
    with t.point("not one that it has processed, where that could do harm"):
        equal(ask(t, sluice, "/error", "POST", b"text").status, 502, "status")
        equal(ask(t, sluice, "/error").status, 502, "status")
        equal(ask(t, sluice, "/processed", "POST", b"text").status, 502, "status")
        equal([sum(each[0] == path for each in seen) for path in ("/error", "/processed")], [2, 1], "tries")


@group("places are streams")
def places(t):
    held, lock = [], threading.Lock()

    def serve(request):
        with lock:
            held.append(request)

    with t.point("more connections are opened when streams run short"):
        server = Http2Server(t, serve, settings=[(3, 4)])
        sluice = t.sluice(to(server.address, upstream=H2), listener=BOTH, workers=1)
        client = Http2(t, sluice)
        client.request()
        until(lambda: len(held) == 1, "the server's SETTINGS are known")
        streams = [client.request() for _ in range(11)]
        until(lambda: len(held) == 12, "all are at the server")
        true(max(sum(each.peer is peer for each in held) for peer in server.peers) <= 4, "four of a connection at most")
        true(3 <= len(server.peers) <= 5, f"connections: {len(server.peers)}")
        for request in held:
            request.reply(200, b"x")
        equal({client.response(stream).status for stream in streams}, {200}, "answers")
    held.clear()
    with t.point("max_in_flight counts them"):
        server = Http2Server(t, serve)
        sluice = t.sluice(to(server.address, upstream=H2 + "max_in_flight = 3"), listener=BOTH, workers=1)
        client = Http2(t, sluice)
        streams = [client.request() for _ in range(6)]
        until(lambda: len(held) == 3, "three are at the server")
        client.ping()
        equal(len(held), 3, "and no more")
        held[0].reply()
        until(lambda: len(held) == 4, "the next goes")
        for request in held[1:]:
            request.reply()
        until(lambda: len(held) == 6, "and the last")
        for request in held[4:]:
            request.reply()
        equal({client.response(stream).status for stream in streams}, {200}, "answers")
    held.clear()
    with t.point("a bound that shrinks holds for what comes"):
        server = Http2Server(t, serve, settings=[(3, 8)])
        sluice = t.sluice(to(server.address, upstream=H2), listener=BOTH, workers=1)
        client = Http2(t, sluice)
        streams = [client.request() for _ in range(4)]
        until(lambda: len(held) == 4, "four are at the server")
        server.peers[0].send_frame(4, 0, 0, b"\0\3\0\0\0\2")
        server.peers[0].send_frame(6, 0, 0, b"sequence")
        held[0].reply()
        equal(client.response(streams[0]).status, 200, "answer")
        streams.append(client.request())
        until(lambda: len(held) == 5, "one more is at the server")
        true(held[4].peer is not held[0].peer, "by another connection")
        for request in held[1:]:
            request.reply()
        equal({client.response(stream).status for stream in streams}, {200}, "answers")
    held.clear()
    with t.point("with max_connections they wait for a stream"):
        server = Http2Server(t, serve, settings=[(3, 2)])
        sluice = t.sluice(f"[upstream origin]\nserver = {server.address} max_connections=1\n{H2}"
                          "[route origin]\nupstream = origin\n", listener=BOTH, workers=1)
        client = Http2(t, sluice)
        streams = [client.request()]
        until(lambda: len(held) == 1, "the server's SETTINGS are known")
        streams += [client.request() for _ in range(4)]
        answered = 0
        while answered < 5:
            until(lambda: len(held) > answered, "the next is at the server")
            held[answered].reply()
            answered += 1
        equal({client.response(stream).status for stream in streams}, {200}, "answers")
        equal(len(server.peers), 1, "connections")


@test("max_connections bounds connections, not the requests on them; more streams wake who waits", workers=[1])
def one_connection(t):
    held = []
    server = Http2Server(t, held.append, settings=[(3, 5)])
    sluice = t.sluice(f"[upstream origin]\nserver = {server.address} max_connections=1\n{H2}"
                      "[route origin]\nupstream = origin\n", listener=BOTH)
    client = Http2(t, sluice)
    streams = [client.request()]
    until(lambda: len(held) == 1, "the server's SETTINGS are known")
    streams += [client.request() for _ in range(20)]
    until(lambda: len(held) == 5, "as many as it has streams")
    server.peers[0].send_frame(4, 0, 0, b"\0\3\0\0\0\x0a")
    until(lambda: len(held) == 10, "ten streams")
    held[0].reply()
    until(lambda: len(held) == 11, "the next")
    server.peers[0].send_frame(4, 0, 0, b"\0\3\0\0\0\x64")
    until(lambda: len(held) == 21, "all")
    for request in held[1:]:
        request.reply()
    equal({client.response(stream).status for stream in streams}, {200}, "answers")
    equal(len(server.peers), 1, "connections")


@test("with fewer connections than workers, none waits for ever", workers=[4])
def shared(t):
    server = Http2Server(t)
    sluice = t.sluice(f"[upstream origin]\nserver = {server.address} max_connections=1\n{H2}"
                      "[route origin]\nupstream = origin\n", listener=BOTH)
    wrong = []

    def drive():
        for _ in range(40):
            if ask(t, sluice).status != 200:
                wrong.append(1)

    threads = [threading.Thread(target=drive) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(wrong, [], "failures")


@group("a client that leaves")
def leaving(t):
    held = []
    with t.point("resets its stream"):
        server = Http2Server(t, held.append)
        sluice = t.sluice(to(server.address, upstream=H2), listener=BOTH, workers=1)
        client = Http2(t, sluice)
        stream = client.request()
        until(lambda: held, "it is at the server")
        client.reset(stream)
        until(lambda: held[0].reset_by is not None, "the server learns of it")
        equal(held[0].reset_by, 8, "CANCEL")
        equal(len(server.open), 1, "the connection stays")
    held.clear()
    with t.point("but keeps its place until its server has ended"):
        server = Http2Server(t, held.append)
        sluice = t.sluice(to(server.address, upstream=H2 + "max_in_flight = 1"), listener=BOTH, workers=1)
        client = Http2(t, sluice)
        first = client.request()
        until(lambda: held, "it is at the server")
        client.reset(first)
        second = client.request("/second")
        client.ping()
        equal([len(held), held[0].reset_by], [1, None], "the second waits, and the first is followed")
        held[0].reply(200, b"unread")
        until(lambda: len(held) == 2, "then it goes")
        held[1].reply()
        equal(client.response(second).status, 200, "answer")
    held.clear()
    with t.point("within its request, too: until the server has read the reset"):
        server = Http2Server(t, held.append, early=True)
        sluice = t.sluice(to(server.address, upstream=H2 + "max_in_flight = 1", route="request_buffering = off"), listener=BOTH, workers=1)
        client = Http2(t, sluice)
        stream = client.request(method="POST", end=False)
        client.data(stream, b"some")
        until(lambda: held and held[0].body == b"some", "it is at the server")
        second = client.request("/second")
        client.reset(stream)
        until(lambda: len(held) == 2, "the second goes")
        equal([held[0].reset_by, held[0].peer.pings], [8, 1], "after a reset and a PING")
        held[1].reply()
        equal(client.response(second).status, 200, "answer")


@group("windows")
def windows(t):
    with t.point("a slow client of one stream bounds memory, and holds up no other"):
        sent = threading.Event()

        def serve(request):
            if request.path == "/long":
                request.head(200)
                request.data(b"z" * 200_000)
                sent.set()
            else:
                request.reply(200, b"quick")

        server = Http2Server(t, serve)
        sluice = t.sluice(to(server.address, upstream=H2), listener=BOTH, workers=1)
        slow, other = Http2(t, sluice, window=1, auto=False), Http2(t, sluice)
        stream = slow.request("/long")
        true(sent.wait(30), "it is sent")
        equal(other.ask("/short").body, b"quick", "answer of another")
        equal(len(server.peers), 1, "on one connection")
        given = server.peers[0].window.get(server.requests[0].stream, 0)
        true(given <= 65535 + 262144, f"no window is given back for what is not taken: {given}")
        slow.reset(stream)
    with t.point("a server that gives no window is waited for, then 504"):
        server = Http2Server(t, auto=False, settings=[(4, 10)])
        sluice = t.sluice(to(server.address, upstream=H2 + "send_timeout = 300ms\nmax_fails = 0"), listener=BOTH)
        equal(ask(t, sluice, method="POST", body=b"x" * 100).status, 504, "status")
        equal(server.requests[-1].body, b"x" * 10, "what it got")


@group("the life of a connection")
def life(t):
    with t.point("idle, it ends with a GOAWAY"):
        server, sluice = scene(t, upstream="keepalive_timeout = 200ms")
        equal(ask(t, sluice).status, 200, "status")
        until(lambda: server.peers[0].ended, "it ends")
        equal(server.peers[0].goaways[-1][1], 0, "NO_ERROR")
    with t.point("so it does after keepalive_requests"):
        server = Http2Server(t)
        sluice = t.sluice(to(server.address, upstream=H2 + "keepalive_requests = 3"), workers=1)
        client = t.client(sluice)
        for _ in range(7):
            client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            equal(client.response().status, 200, "status")
        equal([len(peer.requests) for peer in server.peers], [3, 3, 1], "requests of each")
    with t.point("a connection that ends is replaced, and a request on it is sent once more"):
        served = []

        def serve(request):
            served.append(request)
            if len(served) == 2:
                request.peer.close()
            else:
                request.reply(200, b"served")

        server = Http2Server(t, serve)
        sluice = t.sluice(to(server.address, upstream=H2), workers=1)
        equal([ask(t, sluice).body for _ in range(2)], [b"served"] * 2, "answers")
        equal([len(served), len(server.peers)], [3, 2], "requests and connections")
    with t.point("one that answers no greeting in time is 504"):
        silent = socket.create_server(("127.0.0.1", 0))
        t.defer(silent.close)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        sluice = t.sluice(to(address, upstream=H2 + "connect_timeout = 300ms\nmax_fails = 0\nretries = 0"))
        equal(ask(t, sluice).status, 504, "status")
    with t.point("one that speaks HTTP/1 is 502"):
        other = Http2Server(t, speaks=b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        sluice = t.sluice(to(other.address, upstream=H2 + "max_fails = 0"))
        equal(ask(t, sluice).status, 502, "status")
    with t.point("a reload to h2 and back takes new connections"):
        server, origin = Http2Server(t), t.origin()
        sluice = t.sluice(to(origin), workers=1)
        equal(ask(t, sluice).status, 200, "HTTP/1")
        sluice.reload(to(server.address, upstream=H2))
        until(lambda: "reloaded" in sluice.log() or len(server.requests) > 0, "it is reloaded")
        until(lambda: ask(t, sluice).status == 200 and server.requests, "HTTP/2")
        sluice.reload(to(origin))
        count = len(server.requests)
        until(lambda: ask(t, sluice).status == 200 and len(origin.requests) > 1, "HTTP/1 again")
        until(lambda: not server.open, "the connection that no site has any more ends")
    with t.point("a drain lets a response end"):
        held = []
        server = Http2Server(t, held.append)
        sluice = t.sluice(to(server.address, upstream=H2), listener=BOTH)
        client = Http2(t, sluice)
        stream = client.request()
        until(lambda: held, "it is at the server")
        sluice.terminate()
        until(lambda: client.read_frame() is None or client.goaways, "a GOAWAY")
        held[0].reply(200, b"late")
        equal(client.response(stream).body, b"late", "answer")
        equal(sluice.wait(), 0, "exit status")
        until(lambda: server.peers[0].goaways, "the server is told")


@group("what can't be had with shared connections is refused")
def refused_settings(t):
    for line in ("upstream_affinity = session", "session_scope = fleet"):
        with t.point(line):
            text = "[listener main]\nbind = 127.0.0.1:1\n" + to("127.0.0.1:2", upstream=H2, route=line)
            status, output = check(t.file("wrong.ini", text))
            equal(status, 1, "status")
            true("those of protocol = h2 are shared" in output, output)


@test("nor can send_proxy")
def refused_proxy(t):
    text = "[listener main]\nbind = 127.0.0.1:1\n" + to("127.0.0.1:2", upstream=H2 + "send_proxy = v2")
    status, output = check(t.file("wrong.ini", text))
    equal(status, 1, "status")
    true("those of protocol = h2 are shared" in output, output)


@test("health checks")
def health(t):
    status = [500]
    server = Http2Server(t, lambda request: request.reply(status[0]))
    sluice = t.sluice(to(server.address, upstream=H2 + "health_path = /health\nhealth_interval = 100ms"))
    until(lambda: "is unhealthy: its answer was not 2xx or 3xx" in sluice.log(), "it is out")
    equal({(each.path, each.fields["user-agent"]) for each in server.requests}, {("/health", "sluice-health")}, "probes")
    status[0] = 204
    until(lambda: "is healthy again" in sluice.log(), "it is in")


if __name__ == "__main__":
    main()
