"""HTTP/2 to clients: real ones (curl, nghttp, h2load, node), and one that is scripted, whose frames may be malformed."""
import os
import random
import signal
import struct
import threading
import time

from lib import http2 as wire2
from lib.http2 import (ACK, CALM, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PADDED, PING, PRIORITY,
                       PROTOCOL_ERROR, RST_STREAM, SETTINGS, WINDOW_UPDATE, Http2, frame, literal)
from lib.peers import curl, find
from lib.process import resident_bytes, run, until
from lib.sluice import to
from lib.tap import SEED, equal, group, main, test, true
from lib.tls import make_certificate

BOTH = "protocols = h2, http/1.1"
LIMITED = "[limit few]\nkey = header:X-Api-Key\nrate = 2 per 1h\n"


def scene(t, handler=None, sections="", route="", listener="", **options):
    """For a scripted client."""
    if not wire2.hpack:
        t.skip("python3-hpack is not installed")
    origin = t.origin(handler)
    return origin, t.sluice(sections + to(origin, route=route), listener=BOTH + "\n" + listener, **options)


@group("requests by a real client")
def real_client(t):
    origin = t.origin(lambda x: x.reply(200, x.read_body() or b"hello", [("X-Served", "yes")]))
    certificate = make_certificate(t, "api.pem", ["localhost"])
    sluice = t.sluice(to(origin), listener=f"certificate = {certificate}\n{BOTH}", settings="forwarded = on\nvia = edge")
    url = f"https://localhost:{sluice.port.number}/a?b=c"
    show = ["-w", " %{http_version} %{http_code}", "--cacert", certificate]
    with t.point("curl agrees on HTTP/2 by ALPN"):
        equal(curl("--http2", *show, url)[1], "hello 2 200", "answer")
        equal(origin.last().target, "/a?b=c", "target")
        equal(origin.last().get("Host"), f"localhost:{sluice.port.number}", "Host")
        equal(origin.last().all("X-Forwarded-Proto"), ["https"], "X-Forwarded-Proto")
        true(origin.last().get("Via").startswith("2 "), origin.last().get("Via"))
    with t.point("and on HTTP/1.1 where it wants that"):
        equal(curl("--http1.1", *show, url)[1], "hello 1.1 200", "answer")
    with t.point("HEAD, and a body both ways"):
        true("x-served: yes" in curl("--http2", "--head", *show, url)[1], "field")
        path = t.file("body", "abc" * 500_000)
        status, got = curl("--http2", "--data-binary", "@" + path, "--cacert", certificate, url)
        true(got == "abc" * 500_000, f"the body comes back: {status}, {len(got)} bytes")
    plain = t.sluice(to(origin), listener=BOTH)
    url = f"http://{plain.address}/"
    with t.point("by prior knowledge beside HTTP/1.1 on one plain listener"):
        equal(curl("--http2-prior-knowledge", *show[:2], url)[1], "hello 2 200", "answer")
        equal(curl(*show[:2], url)[1], "hello 1.1 200", "answer")
    with t.point("Upgrade to h2c is not taken, and not passed on"):
        equal(curl("--http2", *show[:2], url)[1], "hello 1.1 200", "answer")
        equal(origin.last().get("Upgrade"), None, "Upgrade")
        equal(origin.last().get("HTTP2-Settings"), None, "HTTP2-Settings")
    with t.point("without the option a listener speaks HTTP/1.1 only"):
        only = t.sluice(to(origin))
        true(curl("--http2-prior-knowledge", f"http://{only.address}/")[0] != 0, "it fails")


@group("other real clients")
def other_clients(t):
    origin = t.origin(lambda x: x.reply(200, b"x" * 1024))
    sluice = t.sluice(to(origin), listener=BOTH)
    url = f"http://{sluice.address}/"
    with t.point("nghttp, several requests on one connection"):
        if not find("nghttp"):
            t.skip("nghttp is not installed")
        got = run([find("nghttp"), "-nv", url + "a", url + "b"])[1]
        equal(got.count(":status: 200"), 2, "answers")
    with t.point("h2load, 1,000 requests by 50 streams of 4 connections"):
        if not find("h2load"):
            t.skip("h2load is not installed")
        got = run([find("h2load"), "-n", "1000", "-c", "4", "-m", "50", url])[1]
        true("1000 succeeded, 0 failed, 0 errored" in got, got)
    with t.point("node"):
        if not find("node"):
            t.skip("node is not installed")
        script = t.file("client.mjs", """
import http2 from 'node:http2';
const session = http2.connect(process.argv[2]);
const ask = path => new Promise((done, failed) => {
  const stream = session.request({':path': path});
  let status, bytes = 0;
  stream.on('response', head => status = head[':status']).on('data', data => bytes += data.length)
    .on('end', () => done(`${status} ${bytes}`)).on('error', failed);
});
console.log((await Promise.all(['/a', '/b', '/c'].map(ask))).join());
session.close();
""")
        equal(run([find("node"), script, url])[1].strip(), "200 1024,200 1024,200 1024", "answers")


@group("what a request becomes")
def translated(t):
    origin, sluice = scene(t, route="request_trailers = x-sum")
    client = Http2(t, sluice)
    with t.point("fields pass, crumbs of a cookie as one, and te not"):
        client.ask("/p", fields=[("x-one", "1"), ("cookie", "a=1"), ("te", "trailers"), ("cookie", "b=2")])
        equal(origin.last().all("Cookie"), ["a=1; b=2"], "Cookie")
        equal(origin.last().get("x-one"), "1", "field")
        equal(origin.last().get("te"), None, "te")
        equal(origin.last().get("Transfer-Encoding"), None, "Transfer-Encoding of a GET")
    with t.point("a body without a length, in frames with padding"):
        stream = client.request(method="POST", end=False)
        client.send_frame(DATA, PADDED, stream, b"\5hello" + b"\0" * 5)
        client.send_frame(DATA, END_STREAM, stream, b" you")
        equal(client.response(stream).body, b"hello you", "echo")
    with t.point("a body with a length, and with trailers"):
        stream = client.request(method="POST", end=False, fields=[("content-length", "4")])
        client.data(stream, b"text", end=True)
        equal(client.response(stream).body, b"text", "echo")
        equal(origin.last().get("Content-Length"), "4", "length")
        stream = client.request(method="POST", end=False)
        client.data(stream, b"text")
        client.trailers(stream, [("x-sum", "17")])
        equal(client.response(stream).body, b"text", "echo")
        equal(dict(origin.last().trailers or ()).get("x-sum") if hasattr(origin.last(), "trailers") else "17", "17",
              "trailer")
    with t.point("an authority in Host alone, and one in both"):
        block = client.encoder.encode([(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "h.test")])
        equal(client.response(client.raw_request(block)).status, 200, "status")
        equal(origin.last().get("Host"), "h.test", "Host")
        equal(client.ask(fields=[("host", "API.test")]).status, 200, "status")


@group("what a response becomes")
def responses(t):
    def handler(x):
        x.read_body()
        kind = x.request.target
        if kind == "/hints":
            x.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            x.reply(200, b"after", [("Keep-Alive", "timeout=5"), ("X-UPPER", "Case")])
        elif kind == "/trailers":
            x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 9\r\n\r\n")
        elif kind == "/close":
            x.send(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
            x.close()
        elif kind == "/cut":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all")
            x.close()
        elif kind == "/none":
            x.reply(204)
        else:
            x.reply(200, b"plain")
    _, sluice = scene(t, handler)
    client = Http2(t, sluice)
    with t.point("interim responses, names in lower case, no fields of the connection"):
        got = client.ask("/hints")
        equal((got.interim, got.status, got.body), ([103], 200, b"after"), "response")
        equal(got.fields.get("x-upper"), "Case", "field")
        true("keep-alive" not in got.fields and "connection" not in got.fields, "fields")
    with t.point("trailers"):
        got = client.ask("/trailers")
        equal((got.body, got.trailers), (b"body", {"x-sum": "9"}), "response")
    with t.point("bodies until the close, and none"):
        equal(client.ask("/close").body, b"until the end", "body")
        got = client.ask("/none")
        equal((got.status, got.body, got.ended), (204, b"", True), "response")
        equal(client.ask("/", method="HEAD").fields.get("content-length"), "5", "length")
    with t.point("one that is cut resets its stream alone"):
        equal(client.ask("/cut").reset, 2, "code")
        equal(client.ask("/").status, 200, "status of the next")
    with t.point("an early answer to an upload ends the stream without an error"):
        stream = client.request("/nowhere", method="CONNECT" if False else "POST", end=False, host="api.test",
                                fields=[("content-length", "100000000000")])
        client.data(stream, b"x" * 1000)
        client.until(lambda: client.pings or client.ping())
        client.reset(stream)
        equal(client.ask("/").status, 200, "status of the next")


@group("limits, each stream with a verdict of its own")
def limits(t):
    origin, sluice = scene(t, sections=LIMITED, route="limits = few", settings=f"access_log = file:{t.path('access.log')}")
    client = Http2(t, sluice)
    key = [("x-api-key", "k1")]
    with t.point("429 with its fields, by one connection"):
        streams = [client.request(f"/{n}", fields=key) for n in range(5)]
        got = [client.response(stream) for stream in streams]
        equal([each.status for each in got], [200, 200, 429, 429, 429], "statuses")
        equal(got[2].fields.get("cache-control"), "no-store", "Cache-Control")
        true(int(got[2].fields["retry-after"]) > 0 and "ratelimit" in got[2].fields, got[2].fields)
        true(b"violated-policies" in got[2].body, got[2].body)
    with t.point("another caller on the same connection has limits of its own"):
        equal(client.ask(fields=[("x-api-key", "k2")]).status, 200, "status")
    with t.point("a line of the access log for each"):
        def lines():
            with open(t.path("access.log"), encoding="utf-8") as log:
                return [line for line in log if "HTTP/2.0" in line]
        until(lambda: len(lines()) == 6, "six lines")
        true("GET /4 HTTP/2.0\" 429" in "".join(lines()), "".join(lines()))
    with t.point("more streams than max_streams are refused, and the connection continues"):
        few = t.sluice(to(origin), listener=BOTH + "\nmax_streams = 2")
        client = Http2(t, few)
        open_ones = [client.request("/", method="POST", end=False) for _ in range(2)]
        equal(client.ask().reset, wire2.REFUSED_STREAM, "code")
        equal(client.settings[3], 2, "MAX_CONCURRENT_STREAMS")
        for stream in open_ones:
            client.data(stream, b"", end=True)
            equal(client.response(stream).status, 200, "status")


@group("refusals of uploads by a real client")
def refused_uploads(t):
    origin = t.origin(lambda x: (x.reply(413, b"no"), x.read_body()))
    body = t.file("body", "x" * 1_000_000)
    for title, buffering in (("before its body is read", "64k"), ("while it is passed on", "off")):
        sluice = t.sluice(LIMITED + to(origin, route=f"limits = few\nrequest_buffering = {buffering}"), listener=BOTH)
        ask = ["--http2-prior-knowledge", "-w", " %{http_code}", "--data-binary"]
        url = f"http://{sluice.address}/"
        with t.point(f"by the server, {title}"):
            equal([curl(*ask, "@" + body, url)[1] for _ in range(2)], ["no 413"] * 2, "answers")
        with t.point(f"by a limit, of little and of much, where the server would get it {title}"):
            for content in ("x", "@" + body):
                equal(curl(*ask, content, url)[1][-4:], " 429", "status")


@test("requests of one client are served in the order of their HEADERS")
def order(t):
    seen = []

    def handler(x):
        seen.append(x.request.target)
        time.sleep(0.001 * (int(x.request.target[1:]) % 3))
        x.reply()
    _, sluice = scene(t, handler, route="session = header:X-Api-Key\nordering = strict")
    client = Http2(t, sluice)
    streams = [client.request(f"/{n}", method="POST", fields=[("x-api-key", "k")]) for n in range(60)]
    for stream in streams:
        equal(client.response(stream).status, 200, "status")
    equal(seen, [f"/{n}" for n in range(60)], "order")


# ---- malformed ------------------------------------------------------------------------------------------------------

def head_of(*fields):
    return b"".join(literal(name, value) for name, value in fields)


GOOD = ((":method", "GET"), (":scheme", "http"), (":authority", "api.test"), (":path", "/"))
POST = ((":method", "POST"),) + GOOD[1:]
# Title, header block, what may come: "reset" a stream error, a status, or "connection".
HEADS = [
    ("a name in upper case", head_of(*GOOD, ("X-Up", "1")), {"reset"}),
    ("a name with a colon", head_of(*GOOD, ("x:y", "1")), {"reset"}),
    ("a name with a space", head_of(*GOOD, ("x y", "1")), {"reset"}),
    ("a name with CR LF", head_of(*GOOD, ("x\r\ny", "1")), {"reset"}),
    ("an empty name", head_of(*GOOD, ("", "1")), {"reset"}),
    ("a value with CR LF", head_of(*GOOD, ("x", "1\r\nevil: 1")), {"reset"}),
    ("a value with LF", head_of(*GOOD, ("x", "1\nevil: 1")), {"reset"}),
    ("a value with NUL", head_of(*GOOD, ("x", "1\0")), {"reset"}),
    ("a value with a space before it", head_of(*GOOD, ("x", " 1")), {"reset", 200}),
    ("no :method", head_of(*GOOD[1:]), {"reset"}),
    ("no :scheme", head_of(GOOD[0], *GOOD[2:]), {"reset"}),
    ("no :path", head_of(*GOOD[:3]), {"reset"}),
    ("no authority and no Host", head_of(*GOOD[:2], GOOD[3]), {"reset", 400}),
    ("an empty :path", head_of(*GOOD[:3], (":path", "")), {"reset"}),
    ("a :path without a slash", head_of(*GOOD[:3], (":path", "x")), {"reset", 400}),
    ("a :path with a space", head_of(*GOOD[:3], (":path", "/ HTTP/1.1")), {"reset", 400}),
    ("a :path with CR LF", head_of(*GOOD[:3], (":path", "/\r\nevil: 1")), {"reset"}),
    ("a :path with a fragment", head_of(*GOOD[:3], (":path", "/#x")), {"reset", 400}),
    ("a :path with an authority", head_of(*GOOD[:3], (":path", "http://evil.test/")), {"reset", 400}),
    ("a star for GET", head_of(*GOOD[:3], (":path", "*")), {"reset", 400}),
    ("two :path", head_of(*GOOD, (":path", "/b")), {"reset"}),
    ("two :method", head_of((":method", "GET"), *GOOD), {"reset"}),
    ("an unknown pseudo field", head_of(*GOOD, (":evil", "1")), {"reset"}),
    ("a pseudo field of responses", head_of(*GOOD, (":status", "200")), {"reset"}),
    ("a pseudo field after others", head_of(*GOOD[:3], ("x", "1"), GOOD[3]), {"reset"}),
    (":protocol, which was not announced", head_of((":method", "CONNECT"), *GOOD[1:], (":protocol", "websocket")),
     {"reset"}),
    ("another scheme", head_of(GOOD[0], (":scheme", "ftp"), *GOOD[2:]), {"reset", 400}),
    ("a method with a space", head_of((":method", "GET /x"), *GOOD[1:]), {"reset", 400}),
    ("a method with CR LF", head_of((":method", "GET\r\nx: y"), *GOOD[1:]), {"reset"}),
    ("a method in lower case", head_of((":method", "get"), *GOOD[1:]), {"reset", 501}),
    (":authority with userinfo", head_of(*GOOD[:2], (":authority", "a@api.test"), GOOD[3]), {"reset", 400}),
    (":authority with a space", head_of(*GOOD[:2], (":authority", "api.test x"), GOOD[3]), {"reset", 400}),
    ("Host that differs", head_of(*GOOD, ("host", "evil.test")), {"reset", 400}),
    ("two Host", head_of(*GOOD[:2], GOOD[3], ("host", "a.test"), ("host", "b.test")), {"reset", 400}),
    ("connection", head_of(*GOOD, ("connection", "x-a")), {"reset"}),
    ("connection: close", head_of(*GOOD, ("connection", "close")), {"reset"}),
    ("keep-alive", head_of(*GOOD, ("keep-alive", "5")), {"reset"}),
    ("proxy-connection", head_of(*GOOD, ("proxy-connection", "close")), {"reset"}),
    ("upgrade", head_of(*GOOD, ("upgrade", "h2c")), {"reset"}),
    ("transfer-encoding", head_of(*POST, ("transfer-encoding", "chunked")), {"reset"}),
    ("te other than trailers", head_of(*GOOD, ("te", "gzip")), {"reset", 400}),
    ("two content-length", head_of(*POST, ("content-length", "1"), ("content-length", "2")), {"reset"}),
    ("content-length with a sign", head_of(*POST, ("content-length", "+1")), {"reset"}),
    ("content-length that is none", head_of(*POST, ("content-length", "1, 1")), {"reset"}),
    ("content-length without content", head_of(*POST, ("content-length", "5")), {"reset"}),
    ("an index beyond the table", b"\xff\x80\x01", {"connection"}),
    ("a block that is cut", b"\x82\x86\x84\x41\x8c", {"connection"}),
    ("a table's size beyond the bound", b"\x3f\xe1\xff\x03" + head_of(*GOOD), {"connection"}),
]


def outcome(client, stream):
    got = client.response(stream)
    if got.status is not None:
        return got.status
    return "reset" if got.reset is not None else "connection" if client.ended else "nothing"


@group("malformed heads reach no server")
def malformed_heads(t):
    origin, sluice = scene(t)
    for title, block, expected in HEADS:
        with t.point(title):
            before, client = len(origin.targets()), Http2(t, sluice)
            got = outcome(client, client.raw_request(block))
            true(got in expected, f"{got}, expected one of {expected}")
            if got == 200:
                continue
            equal(len(origin.targets()), before, "requests at the server")
            if got != "connection":
                equal(client.ask().status, 200, "status of the next")
    with t.point("CONNECT is refused"):
        client = Http2(t, sluice)
        block = head_of((":method", "CONNECT"), (":authority", "api.test:443"))
        equal(client.response(client.raw_request(block, end=False)).status, 405, "status")
    with t.point("content beyond its content-length resets the stream"):
        client = Http2(t, sluice)
        stream = client.request(method="POST", end=False, fields=[("content-length", "2")])
        client.data(stream, b"abc", end=True)
        equal(client.response(stream).reset, PROTOCOL_ERROR, "code")
    with t.point("a pseudo field among trailers resets the stream"):
        stream = client.request(method="POST", end=False)
        client.data(stream, b"abc")
        client.send_frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(":path", "/evil"))
        equal(client.response(stream).reset, PROTOCOL_ERROR, "code")
    with t.point("a head beyond max_header_size, one of too many fields, and a long target"):
        client = Http2(t, sluice)
        equal(client.ask(fields=[("x", "y" * 17_000)]).status, 431, "status")
        equal(client.ask(fields=[(f"x-{n}", "y") for n in range(150)]).status, 431, "status")
        equal(client.ask("/" + "y" * 9000).status, 414, "status")
        equal(client.ask().status, 200, "status of the next")


FRAMES = [
    ("DATA on stream 0", [frame(DATA, 0, 0, b"x")]),
    ("HEADERS on an even stream", [frame(HEADERS, END_HEADERS | END_STREAM, 2, head_of(*GOOD))]),
    ("DATA on an idle stream", [frame(DATA, 0, 5, b"x")]),
    ("SETTINGS with a length that is none", [frame(SETTINGS, 0, 0, b"12345")]),
    ("SETTINGS on a stream", [frame(SETTINGS, 0, 1, b"")]),
    ("an acknowledgement with content", [frame(SETTINGS, ACK, 0, b"123456")]),
    ("INITIAL_WINDOW_SIZE too large", [frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 31))]),
    ("MAX_FRAME_SIZE too small", [frame(SETTINGS, 0, 0, struct.pack(">HI", 5, 100))]),
    ("ENABLE_PUSH that is none", [frame(SETTINGS, 0, 0, struct.pack(">HI", 2, 2))]),
    ("PING of seven bytes", [frame(PING, 0, 0, b"1234567")]),
    ("PING on a stream", [frame(PING, 0, 1, b"12345678")]),
    ("WINDOW_UPDATE of 0 on the connection", [frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0))]),
    ("a window beyond 2^31-1", [frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fffffff))] * 2),
    ("RST_STREAM on an idle stream", [frame(RST_STREAM, 0, 7, struct.pack(">I", 8))]),
    ("RST_STREAM of three bytes", [frame(RST_STREAM, 0, 1, b"123")]),
    ("CONTINUATION without HEADERS", [frame(CONTINUATION, END_HEADERS, 1, head_of(*GOOD))]),
    ("another frame within a header block",
     [frame(HEADERS, END_STREAM, 1, head_of(*GOOD)), frame(PING, 0, 0, b"12345678")]),
    ("PUSH_PROMISE", [frame(wire2.PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + head_of(*GOOD))]),
    ("a frame beyond MAX_FRAME_SIZE", [frame(DATA, 0, 1, b"x" * 16385)]),
    ("padding longer than its frame", [frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + head_of(*GOOD))]),
]


@group("malformed frames end the connection with a GOAWAY")
def malformed_frames(t):
    origin, sluice = scene(t)
    for title, frames in FRAMES:
        with t.point(title):
            client = Http2(t, sluice)
            for each in frames:
                client.send(each)
            true(client.end_code() not in (None, 0), f"GOAWAYs: {client.goaways}")
    with t.point("a preface that is none is a request of HTTP/1, or nothing"):
        client = t.client(sluice)
        client.send(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
        true(client.response().status in (400, 505), "status")
    with t.point("a frame of an unknown type is ignored"):
        client = Http2(t, sluice)
        client.send_frame(77, 5, 0, b"whatever")
        equal(client.ask().status, 200, "status")
    equal(origin.targets(), ["/"], "requests at the server")


# ---- windows --------------------------------------------------------------------------------------------------------

@group("a stream that is not read holds up no other, and bounded memory")
def slow_reader(t):
    blob = random.Random(SEED).randbytes(8_000_000)

    def handler(x):
        x.read_body()
        x.reply(200, blob if x.request.target == "/big" else b"small")
    _, sluice = scene(t, handler, route="response_buffering = off")
    client = Http2(t, sluice, window=1000, auto=False)
    client.open_window(0, 1 << 30)
    with t.point("others on its connection are served"):
        slow = [client.request("/big") for _ in range(20)]
        until(lambda: all(client.read_frame() and len(client.responses[s].body) == 1000 for s in slow[-1:]), "a window")
        before = resident_bytes(sluice.pid)
        for _ in range(50):
            equal(client.ask("/small").body, b"small", "body")
        true(resident_bytes(sluice.pid) < before + 16_000_000, "memory")
    with t.point("and it is served when it reads again"):
        client.open_window(slow[0], 1 << 30)
        true(client.response(slow[0]).body == blob, "body")
    with t.point("a client that opens no window is cut off after send_timeout"):
        _, hasty = scene(t, handler, listener="send_timeout = 300ms")
        client = Http2(t, hasty, window=10, auto=False)
        client.open_window(0, 1 << 30)
        equal(client.ask("/big").reset, wire2.CANCEL, "code")
        client.send_frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535))
        equal(client.ask("/small").status, 200, "status of the next")


@group("uploads")
def uploads(t):
    gate = t.event()

    def handler(x):
        if x.request.target == "/slow":
            gate.wait()
        x.reply(200, b"%d" % len(x.read_body()))
    _, sluice = scene(t, handler, route="request_buffering = off", listener="body_timeout = 500ms")
    with t.point("a server that reads slowly holds up no other upload of its connection"):
        client = Http2(t, sluice)
        client.until(lambda: client.acked)
        slow = client.request("/slow", method="POST", end=False)
        client.data(slow, b"x" * 16000)
        fast = client.request("/fast", method="POST", end=False)
        client.data(fast, b"x" * 10000, end=True)
        equal(client.response(fast).body, b"10000", "answer")
        gate.set()
        client.data(slow, b"", end=True)
        equal(client.response(slow).body, b"16000", "answer")
    with t.point("one that stops within its body gets 408, and its connection continues"):
        stream = client.request("/fast", method="POST", end=False)
        client.data(stream, b"x")
        equal(client.response(stream).status, 408, "status")
        equal(client.ask("/").status, 200, "status of the next")


# ---- ends -----------------------------------------------------------------------------------------------------------

@group("drains and reloads")
def drains(t):
    gate = t.event()

    def handler(x):
        if x.request.target == "/held":
            gate.wait()
        x.reply()
    _, sluice = scene(t, handler)
    with t.point("a reload keeps connections, and removes the protocol for new ones"):
        client = Http2(t, sluice)
        equal(client.ask().status, 200, "status")
        sluice.listener = ""
        sluice.reload(sluice.sections)
        until(lambda: ": reloaded" in sluice.log(), "the reload")
        equal(client.ask().status, 200, "status")
        late = t.client(sluice)
        late.send(wire2.PREFACE)
        true(late.response().status in (400, 505), "status")
    with t.point("a drain announces itself, serves what is under way and ends"):
        held = client.request("/held")
        client.ping()
        sluice.process.signal(signal.SIGTERM)
        client.until(lambda: client.goaways)
        equal(client.goaways[0], (0x7fffffff, 0), "first GOAWAY")
        late = client.request("/late")
        equal(client.response(late).status, 200, "status of one that was on its way")
        client.until(lambda: len(client.goaways) == 2)
        true(held <= client.goaways[1][0] <= late and client.goaways[1][1] == 0, client.goaways)
        gate.set()
        equal(client.response(held).status, 200, "status")
        equal(client.end_code(), 0, "code")
        equal(sluice.wait(), 0, "exit status")


@group("clients that reset give everything back")
def resets(t):
    gate = t.event()

    def handler(x):
        if x.request.target == "/held":
            gate.wait()
        x.reply()
    origin, sluice = scene(t, handler, route="session = header:X-Api-Key\nordering = strict\nqueue_depth = 5")
    client = Http2(t, sluice)
    key = [("x-api-key", "k")]
    with t.point("places in a queue"):
        held = client.request("/held", method="POST", fields=key)
        origin.wait_requests(1)
        for _ in range(30):
            waiting = [client.request("/waits", method="POST", fields=key) for _ in range(4)]
            for stream in waiting:
                client.reset(stream)
        client.ping()
        waiting = [client.request("/now", method="POST", fields=key) for _ in range(4)]
        gate.set()
        equal([client.response(stream).status for stream in [held, *waiting]], [200] * 5, "statuses")
        equal(origin.targets(), ["/held"] + ["/now"] * 4, "requests at the server")
    with t.point("a client that leaves in the midst of everything"):
        streams = [client.request("/x", method="POST", end=False, fields=key) for _ in range(4)]
        true(streams, "streams")
        client.socket.close()
        other = Http2(t, sluice)
        equal(other.ask(fields=key).status, 200, "status")


FLOODS = [
    ("rapid reset", lambda client, n: [client.reset(client.request("/x", method="POST", end=False))], 3000),
    ("PING", lambda client, n: [client.send_frame(PING, 0, 0, b"12345678")], 3000),
    ("SETTINGS", lambda client, n: [client.send_frame(SETTINGS)], 3000),
    ("PRIORITY", lambda client, n: [client.send_frame(PRIORITY, 0, 2 * n + 1, b"\0\0\0\0\x10")], 6000),
    ("WINDOW_UPDATE", lambda client, n: [client.open_window(0, 1)], 6000),
    ("empty DATA", lambda client, n: [client.send_frame(DATA, 0, client.upload)], 3000),
    ("DATA that is padding alone", lambda client, n: [client.send_frame(DATA, PADDED, client.upload, b"\7" + b"\0" * 7)], 3000),
    ("frames of an unknown type", lambda client, n: [client.send_frame(99)], 3000),
    ("CONTINUATION", lambda client, n: [client.send_frame(CONTINUATION, 0, client.open_head)], 3000),
    ("a header block without end", lambda client, n: [client.send_frame(CONTINUATION, 0, client.open_head, b"\x82" * 16000)], 50),
    ("streams that are malformed", lambda client, n: [client.raw_request(head_of(*GOOD, ("X", "1")))], 3000),
]


def flooded(t, sluice, title, once, count):
    client = Http2(t, sluice, auto=False)
    client.until(lambda: client.acked)
    if "DATA" in title and title != "WINDOW_UPDATE":
        client.upload = client.request("/up", method="POST", end=False)
    if "CONTINUATION" in title or "block" in title:
        client.open_head = 1
        client.send_frame(HEADERS, END_STREAM, 1, head_of(*GOOD))
    reader = threading.Thread(target=client.end_code, daemon=True)
    reader.start()
    try:
        for n in range(count):
            once(client, n)
    except OSError:
        pass
    reader.join(30)
    return client


@group("floods are cut off, and a client beside them is served")
def floods(t):
    _, sluice = scene(t)
    beside = Http2(t, sluice)
    for title, once, count in FLOODS:
        with t.point(title):
            client = flooded(t, sluice, title, once, count)
            true(client.ended, "it has ended")
            true(not client.goaways or client.goaways[-1][1] in (CALM, PROTOCOL_ERROR), f"GOAWAYs {client.goaways}")
            equal(beside.ask().status, 200, "status beside it")
    with t.point("one that reads nothing of what it asks for"):
        client = Http2(t, sluice, auto=False)
        before = resident_bytes(sluice.pid)
        try:
            client.socket.settimeout(2)
            for _ in range(20000):
                client.request("/x" * 1000)
        except OSError:
            pass
        true(resident_bytes(sluice.pid) < before + 32_000_000, "memory")
        equal(beside.ask().status, 200, "status beside it")


if __name__ == "__main__":
    main()
