"""websocket = gateway: a plain HTTP backend serves WebSockets by the WebSocket-over-HTTP protocol."""
import random
import re
import threading
import time

from lib import websocket as ws
from lib.client import request_bytes
from lib.gateway import TYPE, Backend, decode, encode
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.websocket import handshake_fields, open_socket
from lib.workers import Barrier

GATEWAY = "websocket = gateway\n"
OPENED = ("OPEN", None)
GONE = ("DISCONNECT", None)


def begun(t, backend, more="", **options):
    """(origin, sluice, an open socket)"""
    origin = t.origin(backend)
    sluice = t.sluice(to(origin, route=GATEWAY + more))
    return origin, sluice, open_socket(t, sluice, **options)


@group("messages go to an HTTP backend, and its answers come back")
def both_ways(t):
    backend = Backend()
    origin, sluice, socket = begun(t, backend, target="/chat/room?x=1", fields=[
        ("Cookie", "login=1"), ("Authorization", "Bearer abc"), ("Origin", "http://a.test")])
    opening = origin.requests[0].request

    with t.point("the handshake becomes a POST to its target, with its fields and none of its hop"):
        equal((opening.method, opening.target, opening.body), ("POST", "/chat/room?x=1", b"OPEN\r\n"))
        equal([opening.get(name) for name in ("Content-Type", "Accept", "Cookie", "Authorization",
                                              "Origin", "Sec-WebSocket-Extensions")],
              [TYPE, TYPE, "login=1", "Bearer abc", "http://a.test", "grip"])
        equal([opening.get(name) for name in ("Upgrade", "Connection", "Sec-WebSocket-Key",
                                              "Sec-WebSocket-Version")], [None] * 4)
        true(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", opening.get("Connection-Id")),
             opening.get("Connection-Id"))
        equal(opening.get("X-Forwarded-For"), "127.0.0.1")
    with t.point("texts and binaries of all lengths"):
        for size in (0, 1, 15, 16, 125, 126, 4096, 65536, 300000):
            socket.send("å" * (size // 2))
            equal(socket.message(), "å" * (size // 2), f"text of {size}")
            socket.send(b"\r\n" * size)
            equal(socket.message(), b"\r\n" * size, f"binary of {size}")
    with t.point("all requests have the same id and go to the same target"):
        ids = {x.request.get("Connection-Id") for x in origin.requests}
        equal((len(ids), {x.request.target for x in origin.requests}), (1, {"/chat/room?x=1"}))
    with t.point("pings are answered by sluice"):
        before = len(origin.requests)
        socket.send_frame(ws.PING, b"hello?")
        pong = socket.read_frame()
        equal((pong.opcode, pong.payload), (ws.PONG, b"hello?"))
        equal(len(origin.requests), before)
    with t.point("the client's close frame is an event, its answer the close frame back"):
        equal(socket.close(4001, "bye"), (4001, "bye"))
        equal(backend.log.all()[-1], ("CLOSE", b"\x0f\xa1bye"))
    with t.point("another socket has another id"):
        open_socket(t, sluice)
        true(origin.requests[0].request.get("Connection-Id") != origin.last().get("Connection-Id"), "")
    equal(backend.faults, [])


@test("a handshake must be one: a GET with a key; the backend sees no other")
def no_handshake(t):
    backend = Backend()
    sluice = t.sluice(to(t.origin(backend), route=GATEWAY))
    rest = [(name, value) for name, value in handshake_fields() if name != "Sec-WebSocket-Key"]
    key = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    for method, fields in (("POST", [*rest, key]), ("GET", rest), ("GET", [*rest, key, key]),
                           ("GET", [*rest, ("Sec-WebSocket-Key", "c2hvcnQ=")])):
        client = t.client(sluice)
        client.send(request_bytes("/", method=method, fields=fields))
        equal(client.response_head().status, 400, f"{method} {fields}")
    equal(backend.log.all(), [])
    open_socket(t, sluice)


@test("events of one answer come in order, those of the answer to OPEN included")
def in_order(t):
    def answers(call, kind, content):
        if kind != "TEXT":
            return
        for n in range(100):
            call.send(f"{content.decode()} {n}")
        call.event("PING", b"p")
        call.event("PONG")
        call.event("FUTURE", b"unknown")
        call.send(b"last")
    backend = Backend(on_event=answers, on_open=lambda call: call.send("welcome"))
    _, _, socket = begun(t, backend)
    equal(socket.message(), "welcome")
    socket.send("x")
    equal([socket.message() for _ in range(100)], [f"x {n}" for n in range(100)])
    equal([(f.opcode, f.payload) for f in (socket.read_frame(), socket.read_frame())],
          [(ws.PING, b"p"), (ws.PONG, b"")])
    equal(socket.message(), b"last")


class Held(Backend):
    """Answers messages when they are released."""

    def __init__(self, **more):
        super().__init__(before=self.hold, **more)
        self.release = threading.Event()

    def hold(self, call):
        if call.events and call.events[0][0] in ("TEXT", "BINARY"):
            self.release.wait(120)


def messages_of(log):
    return [what for what in log.all() if isinstance(what, str)]


@test("the events of a long answer come in order, before those of the next and before CLOSE, also behind OPEN")
def long_answers(t):
    many = 5000

    def numbers(call, name):
        for n in range(many):
            call.send(f"{name} {n}")

    def on_event(call, kind, content):
        if kind == "TEXT":
            numbers(call, content.decode())
        elif kind == "CLOSE":
            numbers(call, "bye")
            call.close(4000, "done")

    sluice = t.sluice(to(t.origin(Backend(on_event, on_open=lambda call: numbers(call, "open"))), route=GATEWAY))
    socket = open_socket(t, sluice)
    for name in ("one", "two"):
        socket.send(name)
    for name in ("open", "one", "two"):
        for n in range(many):
            equal(socket.message(), f"{name} {n}")
    socket.send_close(1000, "")
    for n in range(many):
        equal(socket.message(), f"bye {n}")
    equal(socket.closed_with(), (4000, "done"))


@test("messages that come while a request is under way leave together behind it, in order")
def batched(t):
    backend = Held()
    origin, _, socket = begun(t, backend)
    texts = [f"message {n}" for n in range(40)]
    socket.send(texts[0])
    origin.wait_requests(2)
    socket.stream.send(b"".join(socket.bytes_of(ws.TEXT, text.encode()) for text in texts[1:]))
    socket.send_frame(ws.PING, b"")  # it is behind them, and the client is not read that far
    backend.release.set()
    read = []
    while len(read) < len(texts):
        frame = socket.read_frame()
        if frame.opcode == ws.TEXT:
            read.append(frame.payload.decode())
    equal(read, texts)
    equal(messages_of(backend.log), texts)
    sizes = [len(batch) for batch in backend.batches.all()[1:]]
    equal(sizes[0], 1)
    true(len(sizes) <= 20, f"batches of {sizes}")
    equal(backend.faults, [])


@test("gateway_batch = 1 sends each message alone, gateway_tries = 1 tries once, gateway_answer_size bounds answers")
def bounds(t):
    def before(call):
        if call.events[0][0] == "TEXT":
            release.wait(120)

    def on_event(call, kind, content):
        call.event(kind, content * 3)

    release = threading.Event()
    backend = Backend(before=before, on_event=on_event)
    origin, sluice, socket = begun(
        t, backend, "gateway_batch = 1\ngateway_waiting = 50\ngateway_tries = 1\ngateway_answer_size = 1k\n")
    texts = [str(n) for n in range(30)]
    socket.send(texts[0])
    origin.wait_requests(2)
    for text in texts[1:]:
        socket.send(text)
    socket.send_frame(ws.PING, b"")
    equal(socket.read_frame().opcode, ws.PONG)  # all are read
    release.set()
    equal([socket.message() for _ in texts], [text * 3 for text in texts])
    equal([len(batch) for batch in backend.batches.all()[1:]], [1] * len(texts))
    socket.send("x" * 400)  # three times that is too much
    equal(socket.closed_with()[0], 1011)
    socket = open_socket(t, sluice)
    origin.refuse()
    began = time.monotonic()
    socket.send("lost")
    equal(socket.closed_with()[0], 1011)
    true(time.monotonic() - began < 20, "it was not tried again and again")


@test("a request of the same session that came between two messages keeps them apart")
def between(t):
    backend = Held()
    key = [("X-Api-Key", "caller")]
    origin, sluice, socket = begun(t, backend, "host = api.test\nsession = header:X-Api-Key\nordering = strict\n",
                                   fields=key)
    socket.send("one")
    origin.wait_requests(2)
    # Each has arrived when what came behind it on its connection was answered.
    def arrives(message):
        socket.send(message)
        socket.send_frame(ws.PING, b"")
        equal(socket.read_frame().opcode, ws.PONG)
    arrives("two")
    arrives("three")
    client = t.client(sluice)
    barrier = Barrier(t, sluice, [client])
    client.request("/other", method="PUT", fields=key, body=b"")
    barrier.passed_by(client)
    arrives("four")
    backend.release.set()
    equal([socket.message() for _ in range(4)], ["one", "two", "three", "four"])
    equal(client.response().status, 200)
    equal(backend.log.all()[1:], ["one", "two", "three", "PUT /other", "four"])
    equal(backend.batches.all()[2], ["two", "three"])


# ---- the end ------------------------------------------------------------------------------------

@test("a client that is gone without a close frame: DISCONNECT within a second")
def gone(t):
    backend = Backend()
    _, _, socket = begun(t, backend)
    socket.send("hello")
    equal(socket.message(), "hello")
    began = time.monotonic()
    socket.stream.reset()
    equal(backend.log.wait_for(3), [OPENED, "hello", GONE])
    true(backend.log.times()[2] - began < 1 + 15, "in time, and what a slow machine takes")


@test("upstream_affinity: a session keeps one connection, however many of its sockets have ended")
def affinity(t):
    backend = Backend()
    origin = t.origin(backend)
    sluice = t.sluice(to(origin, route=GATEWAY + "session = header:X-Api-Key\nupstream_affinity = session"))
    for n in range(6):
        socket = open_socket(t, sluice, fields=[("X-Api-Key", "k")])
        socket.send(f"message {n}")
        equal(socket.message(), f"message {n}")
        equal(socket.close(1000), (1000, ""))
    until(lambda: origin.open_connections == 1, "the connections of the ends are closed")
    used = {x.connection for x in origin.requests if x.request.body.startswith((b"OPEN", b"TEXT"))}
    equal(len(used), 1)


@test("a client that is gone while its message is under way: DISCONNECT behind the answer")
def gone_under_way(t):
    backend = Held()
    origin, _, socket = begun(t, backend)
    socket.send("one")
    origin.wait_requests(2)
    socket.send("two")
    socket.send_frame(ws.PING, b"")
    equal(socket.read_frame().opcode, ws.PONG)
    socket.stream.reset()
    until(lambda: origin.open_connections >= 1, "")
    backend.release.set()
    equal(backend.log.wait_for(3), [OPENED, "one", GONE])
    equal(backend.faults, [])


@test("a backend without a free place hears of an end nevertheless")
def gone_from_busy(t):
    backend = Held()
    origin = t.origin(backend)
    sluice = t.sluice(to(origin, upstream="max_in_flight = 1", route=GATEWAY))
    sockets = [open_socket(t, sluice) for _ in range(40)]
    sockets[0].send("holds the place")
    origin.wait_requests(41)
    for socket in sockets[1:]:
        socket.stream.reset()
    backend.log.wait_for(40 + 39)
    equal(backend.log.all().count(GONE), 39)
    backend.release.set()
    equal(sockets[0].message(), "holds the place")


@test("clients that are cut at once: each DISCONNECT arrives, at the upstream's pace")
def gone_at_pace(t):
    backend = Backend()
    sluice = t.sluice(to(t.origin(backend), upstream="pace = 10 per 1s", route=GATEWAY))
    sockets = [open_socket(t, sluice) for _ in range(25)]
    for socket in sockets:
        socket.stream.reset()
    backend.log.wait_for(25 + 25)
    equal(backend.log.all().count(GONE), 25)
    times = sorted(backend.log.times())
    most = max(sum(first <= at < first + 1 for at in times) for first in times)
    true(most <= 14, f"{most} within a second, with what a slow machine may bring together")


@test("clients that are cut at once: each DISCONNECT arrives, and no more at once than its server allows")
def gone_from_bounded_server(t):
    lock, now, most = threading.Lock(), [0], [0]

    def before(call):
        if call.events != [GONE]:
            return
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.1)  # it takes that long
        with lock:
            now[0] -= 1

    backend = Backend(before=before)
    sluice = t.sluice(to(f"{t.origin(backend)} max_in_flight=2", route=GATEWAY))
    sockets = [open_socket(t, sluice) for _ in range(24)]
    for socket in sockets:
        socket.stream.reset()
    backend.log.wait_for(24 + 24)
    equal((backend.log.all().count(GONE), most[0]), (24, 2))
    equal(backend.faults, [])


@test("clients that leave while a slow OPEN is under way: DISCONNECT behind its answer, and only if it opened")
def gone_before_open(t):
    opened, gone, lock = {}, {}, threading.Lock()

    def before(call):
        kind = call.events[0][0] if call.events else None
        if kind == "OPEN":
            time.sleep(int(call.x.request.target[1:]) / 1000)
        elif kind == "DISCONNECT":
            with lock:
                gone[call.id] = time.monotonic()

    def on_open(call):
        with lock:
            opened[call.id] = time.monotonic()

    backend = Backend(before=before, on_open=on_open)
    sluice = t.sluice(to(t.origin(backend), route=GATEWAY), settings="shutdown_timeout = 1m")

    def leaves(seed):
        draw = random.Random(seed)
        for turn in range(100):
            if turn >= 5 and len(opened) > 75:
                break
            client = t.client(sluice)
            client.request(f"/{draw.randrange(300)}", fields=handshake_fields())
            time.sleep(draw.uniform(0, 0.3))
            draw.choice((client.reset, client.close))()

    clients = [threading.Thread(target=leaves, args=(t.random.random(),)) for _ in range(30)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    # One that left before its request was read, or before it had a server, never opened: of a slow
    # machine there are many.
    sluice.terminate()
    equal(sluice.wait(), 0)
    true(len(opened) > 75, f"{len(opened)} were opened")
    equal((set(gone), backend.faults), (set(opened), []))
    equal([id for id in gone if gone[id] < opened[id]], [])


@test("a client that closes and leaves at once: what it sent and CLOSE arrive, and no DISCONNECT")
def closes_and_leaves(t):
    backend = Held()
    origin, sluice, socket = begun(t, backend)
    socket.send("one")
    origin.wait_requests(2)
    socket.send("two")
    socket.send_close(1000, "done")
    socket.stream.close()
    time.sleep(0.05)
    backend.release.set()
    equal(backend.log.wait_for(4), [OPENED, "one", "two", ("CLOSE", b"\x03\xe8done")])
    sluice.terminate()
    equal(sluice.wait(), 0)
    equal(len(backend.log.all()), 4)


@group("CLOSE of the backend closes the client with its code")
def server_closes(t):
    def on_event(call, kind, content):
        if kind == "TEXT" and content == b"plain":
            call.event("CLOSE")
        elif kind == "TEXT" and content == b"zero":
            call.event("CLOSE", b"\0\0")
        elif kind == "TEXT":
            call.send("last words")
            call.close(4005, "enough")
            call.send("behind it")
    backend = Backend(on_event=on_event)
    origin = t.origin(backend)
    sluice = t.sluice(to(origin, route=GATEWAY))
    with t.point("with code and reason, behind the events before it"):
        socket = open_socket(t, sluice)
        socket.send("x")
        equal(socket.message(), "last words")
        equal(socket.closed_with(), (4005, "enough"))
    for text in ("plain", "zero"):
        with t.point(f"without a code ({text})"):
            socket = open_socket(t, sluice)
            socket.send(text)
            equal(socket.closed_with(), (None, ""))
    with t.point("the backend gets nothing more of these"):
        equal([what for what in backend.log.all() if what != OPENED], ["x", "plain", "zero"])


# ---- the handshake ------------------------------------------------------------------------------

def refused(t, sluice, fields=(), target="/"):
    client = t.client(sluice)
    client.request(target, fields=handshake_fields(fields))
    return client.response()


@group("what the backend answers to OPEN")
def openings(t):
    answers = {}

    def on_open(call):
        answers[call.x.request.target](call)

    def plain(call):
        call.status, call.type, call.body = 403, "text/plain", b"not you"
        call.fields = [("X-Why", "because")]

    def page(call):
        call.type, call.body = "text/html", b"<p>a page"

    def protocol(call):
        call.fields = [("Sec-WebSocket-Protocol", "v2"), ("Set-Cookie", "a=b"),
                       ("Set-Meta-User", "alice"), ("Keep-Alive-Interval", "3600")]

    def other_protocol(call):
        call.fields = [("Sec-WebSocket-Protocol", "v3")]

    def message_first(call):
        call.body = b"TEXT 1\r\nx\r\n" + call.body

    def malformed(call):
        call.body = b"OPEN\r\nTEXT 5\r\nabc\r\n"

    def huge(call):
        call.send("x" * (1024 * 1024))

    def meta(call):
        call.fields = [("Set-Meta-User", "alice"), ("Set-Meta-More", "x" * 5000)]

    def empty(call):
        call.body, call.fields = b"", [("Keep-Alive-Interval", "20")]

    answers.update({"/empty": empty, "/plain": plain, "/page": page, "/protocol": protocol, "/huge": huge,
                    "/other": other_protocol, "/first": message_first, "/malformed": malformed,
                    "/meta": meta})
    origin = t.origin(Backend(on_open=on_open))
    sluice = t.sluice(to(origin, route=GATEWAY))

    with t.point("another status is the client's answer, with its fields and body"):
        answer = refused(t, sluice, target="/plain")
        equal((answer.status, answer.get("X-Why"), answer.body), (403, "because", b"not you"))
    with t.point("so is a body of another type"):
        answer = refused(t, sluice, target="/page")
        equal((answer.status, answer.body), (200, b"<p>a page"))
    with t.point("fields of the 101: subprotocol and cookies, and none that are the gateway's"):
        socket = open_socket(t, sluice, "/protocol", [("Sec-WebSocket-Protocol", "v1, v2")])
        equal([socket.answer.get(name) for name in (
            "Sec-WebSocket-Protocol", "Set-Cookie", "Set-Meta-User", "Keep-Alive-Interval",
            "Content-Type", "Content-Length", "Sec-WebSocket-Extensions")],
              ["v2", "a=b", None, None, None, None, None])
        equal(origin.last().get("Sec-WebSocket-Protocol"), "v1,v2")
    for target in ("/other", "/first", "/malformed", "/huge", "/meta", "/empty"):
        with t.point(f"502 for {target}"):
            answer = refused(t, sluice, target=target, fields=[("Sec-WebSocket-Protocol", "v1")])
            equal((answer.status, answer.get("Set-Meta-User")), (502, None))
    with t.point("502 when the backend is away"):
        origin.refuse()
        equal(refused(t, sluice, target="/protocol").status, 502)


@test("an answer without a length ends with its connection")
def until_close(t):
    def handler(x):
        events = decode(x.read_body())
        x.reply(200, b"".join(encode(kind, content) for kind, content in events),
                fields=[("Content-Type", TYPE), ("Connection", "close")], length=False)
        x.close()
    origin = t.origin(handler)
    socket = open_socket(t, t.sluice(to(origin, route=GATEWAY)))
    for text in ("", "one", "x" * 100000):
        socket.send(text)
        equal(socket.message(), text)


@group("targets and heads of all kinds")
def heads(t):
    origin = t.origin(Backend())
    sluice = t.sluice(to(origin, route=GATEWAY + "path = /api\nstrip_prefix = /api\n"),
                      "[route other]\nupstream = origin\n" + GATEWAY + "add_prefix = /v1\n"
                      "request_header_set = X-Set: yes\nrequest_header_remove = X-Removed\n")

    def echoes(target, fields=()):
        socket = open_socket(t, sluice, target, fields)
        socket.send("hello")
        equal(socket.message(), "hello")
        asked = [x.request for x in origin.requests[-2:]]
        equal({(request.method, request.body[:4]) for request in asked}, {("POST", b"OPEN"), ("POST", b"TEXT")})
        equal(asked[0].target, asked[1].target)
        return asked[1]
    with t.point("a prefix that is stripped, one that is added"):
        equal(echoes("/api/chat?a=b").target, "/chat?a=b")
        equal(echoes("/chat?a=b").target, "/v1/chat?a=b")
    with t.point("an absolute target"):
        equal(echoes("http://api.test/chat").target, "/v1/chat")
    with t.point("a long target"):
        target = "/chat?" + "x" * 7000
        equal(echoes(target).target, "/v1" + target)
    with t.point("many fields, and what the route does to them"):
        fields = [(f"X-Field-{n}", "v" * 50) for n in range(80)]
        request = echoes("/chat", [*fields, ("X-Removed", "x")])
        equal([request.get(name) for name, _ in fields], [value for _, value in fields])
        equal((request.get("X-Set"), request.get("X-Removed")), ("yes", None))
    with t.point("what asks for another content is taken off"):
        request = echoes("/chat", [("Accept-Encoding", "gzip"), ("If-None-Match", "*"), ("Range", "bytes=0-1"),
                                   ("Content-Encoding", "gzip"), ("Accept", "text/html")])
        equal([request.get(name) for name in ("Accept-Encoding", "If-None-Match", "Range", "Content-Encoding")],
              [None] * 4)
        equal(request.all("Accept"), [TYPE])


@test("origins and subprotocols are restricted as with websocket = messages")
def restricted(t):
    backend = Backend()
    origin = t.origin(backend)
    sluice = t.sluice(to(origin, route=GATEWAY + "websocket_origin = https://a.test\n"
                                                 "websocket_protocols = v1\n"))
    equal(refused(t, sluice, [("Origin", "https://b.test")]).status, 403)
    equal(refused(t, sluice, [("Sec-WebSocket-Protocol", "v2")]).status, 403)
    open_socket(t, sluice, fields=[("Origin", "https://a.test"), ("Sec-WebSocket-Protocol", "v2, v1")])
    equal(origin.last().get("Sec-WebSocket-Protocol"), "v1")


# ---- forged requests ----------------------------------------------------------------------------

@group("a client cannot pass for the gateway")
def forged(t):
    backend = Backend()
    origin = t.origin(backend)
    sluice = t.sluice(to(origin, route=GATEWAY))
    body = b"OPEN\r\n"
    for fields in ([("Content-Type", TYPE)], [("content-type", TYPE.upper() + "; x=y")],
                   [("Content-Type", "text/plain"), ("Content-Type", TYPE)],
                   [("Content_Type", TYPE)], [("Accept", "*/*, " + TYPE)]):
        with t.point(f"403 for {fields}"):
            answer = t.client(sluice).ask("/", "POST", fields=fields, body=body)
            equal((answer.status, len(origin.requests)), (403, 0))
    false_fields = [("Connection-Id", "mine"), ("Meta-User", "admin"), ("meta_user", "admin"),
                    ("Grip-Sig", "x.y.z"), ("Connection_Id", "mine")]
    with t.point("its fields are taken off requests"):
        equal(t.client(sluice).ask("/", "POST", fields=false_fields, body=b"x").status, 200)
        names = [name.lower() for name, _ in origin.last().fields]
        equal([name for name, _ in false_fields if name.lower() in names], [])
    with t.point("and off handshakes"):
        socket = open_socket(t, sluice, fields=false_fields)
        socket.send("x")
        equal(socket.message(), "x")
        for x in origin.requests[-2:]:
            names = [name.lower() for name, _ in x.request.fields]
            equal([name for name in names if "meta" in name or "_" in name or "grip" in name], [])
            equal(len(x.request.all("Connection-Id")), 1)
            true(x.request.get("Connection-Id") != "mine", "its own id")
    with t.point("also where lookalikes of fields pass: with those of the content's length"):
        lax = t.sluice(to(origin, route=GATEWAY), listener="lookalike_fields = pass")
        open_socket(t, lax, fields=[*false_fields, ("Transfer_Encoding", "chunked"), ("Content_Length", "9")])
        equal([name for name, _ in origin.last().fields if "_" in name], [])
    with t.point("also on other routes to its servers, whatever their upstream is called"):
        text = to(origin, route=GATEWAY + "path = /live\nmethod = GET") + (
            "[route rest]\nupstream = origin\n[upstream twin]\nserver = {0}\nserver = 127.0.0.1:9\n"
            "[route twin]\npath = /twin\nupstream = twin\n").format(origin.address)
        both = t.sluice(text)
        before = len(origin.requests)
        for target in ("/live", "//live", "/other", "/twin"):
            answer = t.client(both).ask(target, "POST", fields=[("Content-Type", TYPE)], body=body)
            equal((answer.status, len(origin.requests)), (403, before), target)
        equal(t.client(both).ask("/other", "POST", fields=false_fields, body=b"x").status, 200)
        equal([name for name, _ in origin.last().fields if name.lower().startswith(("meta", "grip"))], [])
    with t.point("a route of another mode, whose servers serve no gateway, passes them"):
        other = t.sluice(to(origin))
        equal(t.client(other).ask("/", "POST", fields=[("Meta-User", "x")], body=b"").status, 200)
        equal(origin.last().get("Meta-User"), "x")


@group("the body of a handshake is no request")
def bodies(t):
    origin = t.origin(lambda x: x.reply(403, b"no"))
    sluice = t.sluice(to(origin, route=GATEWAY))
    inner = b"GET /inner HTTP/1.1\r\nHost: api.test\r\n\r\n"
    with t.point("400, and it is read away"):
        client = t.client(sluice)
        client.request("/", fields=handshake_fields(), body=inner)
        equal(client.response().status, 400)
        equal(client.ask("/next").status, 403)
        equal(origin.targets(), ["/next"])
    with t.point("in chunks: 400, and it is read away"):
        client = t.client(sluice)
        client.send(request_bytes("/", fields=handshake_fields([("Transfer-Encoding", "chunked")]))
                    + b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner))
        equal(client.response().status, 400)
        equal(client.ask("/next").status, 403)
        equal(origin.targets(), ["/next", "/next"])
    with t.point("a length of 0 is none"):
        answer = t.client(sluice).ask("/", fields=handshake_fields([("Content-Length", "0")]))
        equal((answer.status, origin.targets()), (403, ["/next", "/next", "/"]))


# ---- what the backend has remembered ------------------------------------------------------------

@test("Content-Bytes-Accepted: what a backend does not take comes again before the next message")
def accepted_in_part(t):
    def on_event(call, kind, content):
        if kind != "TEXT" or content != call.events[0][1]:
            return  # of each request it takes the first message, and one byte of the next one
        offered = sum(len(content) for _, content in call.events)
        call.fields.append(("Content-Bytes-Accepted", str(min(len(content) + 1, offered))))
        call.send(f"{content.decode()} {call.x.request.get('Content-Bytes-Replayed')}")
    backend = Held(on_event=on_event)
    origin, _, socket = begun(t, backend)
    socket.send("held")
    origin.wait_requests(2)
    for text in ("ab", "cde", "fghi", "j"):
        socket.send(text)
    socket.send_frame(ws.PING, b"")
    equal(socket.read_frame().opcode, ws.PONG)
    backend.release.set()
    equal([socket.message() for _ in range(2)], ["held None", "ab None"])
    socket.send("k")
    equal(socket.message(), "de 7")
    socket.send("l")
    equal(socket.message(), "ghi 5")
    socket.send("m")
    equal(socket.message(), "k 2")


@test("Set-Meta-* comes back as Meta-* in later requests, and an empty one ends that")
def meta(t):
    def on_event(call, kind, content):
        if kind != "TEXT":
            return
        if content.startswith(b"set "):
            name, _, value = content[4:].decode().partition("=")
            call.fields.append(("Set-Meta-" + name, value))
        else:
            call.send(repr(call.meta(content.decode())))
    backend = Backend(on_event=on_event, on_open=lambda call: call.fields.append(("Set-Meta-User", "alice")))
    _, _, socket = begun(t, backend)

    def find(name):
        socket.send(name)
        return socket.message()
    equal(find("User"), "'alice'")
    socket.send("set user=bob")
    equal(find("User"), "'bob'")
    socket.send("set Room=a b")
    equal([find("Room"), find("User")], ["'a b'", "'bob'"])
    socket.send("set USER=")
    equal([find("User"), find("room")], ["None", "'a b'"])
    socket.send("set big=" + "x" * 5000)
    equal(socket.closed_with()[0], 1011)


@test("Keep-Alive-Interval: an empty request after so much silence, whose answer is passed on")
def keep_alive(t):
    def before(call):
        if not call.events:
            call.send("news")
    backend = Backend(before=before, on_open=lambda call: call.fields.append(("Keep-Alive-Interval", "1")))
    _, _, socket = begun(t, backend)
    equal([socket.message(), socket.message()], ["news", "news"])
    batches, times = backend.batches.all(), backend.batches.times()
    equal(batches[:3], [[OPENED], [], []])
    true(0.9 < times[1] - times[0] < 10, f"after {times[1] - times[0]} s")


# ---- failures -----------------------------------------------------------------------------------

@test("a backend that is away for a moment: tried again, nothing lost and nothing twice")
def away(t):
    backend = Backend()
    origin, _, socket = begun(t, backend)
    origin.refuse()
    socket.send("one")
    socket.send("two")
    time.sleep(0.3)
    origin.reopen()
    equal([socket.message(), socket.message()], ["one", "two"])
    equal(messages_of(backend.log), ["one", "two"])


@test("a backend that stays away: 1011 after three tries over about three seconds")
def stays_away(t):
    backend = Backend()
    origin, _, socket = begun(t, backend)
    origin.refuse()
    began = time.monotonic()
    socket.send("lost")
    equal(socket.closed_with()[0], 1011)
    true(2.9 < time.monotonic() - began, "not at once")
    equal(messages_of(backend.log), [])


@test("a message that is refused behind its client's close frame: the answer to that says so")
def refused_behind_close(t):
    backend = Held()
    origin = t.origin(backend)
    sluice = t.sluice(to(origin, upstream="max_in_flight = 1", route=GATEWAY + "queue_timeout = 3s\n"))
    holds, late = open_socket(t, sluice), open_socket(t, sluice)
    holds.send("held")
    origin.wait_requests(3)
    late.send("lost")
    late.send_close(1000)
    equal(late.read().closes_with, (1013, "retry-after-ms=1000"))
    late.stream.expect_end()
    backend.release.set()
    equal(holds.message(), "held")
    equal(messages_of(backend.log), ["held"])
    holds.close()


@test("a handshake whose answer has too many meta values: 502, and the backend hears of the end")
def too_many_metas(t):
    def opens(call):
        call.fields += [(f"Set-Meta-N{n}", "x") for n in range(33)]
    backend = Backend(on_open=opens)
    client = t.client(t.sluice(to(t.origin(backend), route=GATEWAY)))
    client.send(request_bytes("/", fields=handshake_fields()))
    answer = client.response()
    equal((answer.status, [name for name, _ in answer.fields if name.lower().startswith("set-meta")]), (502, []))
    backend.log.wait_for(2)
    equal(backend.log.all(), [OPENED, GONE])


@group("1011 for an answer that is none, and the request is not sent again")
def bad_answers(t):
    def before(call):
        if not call.events or call.events[0][0] != "TEXT":
            return
        what = call.events[0][1]
        call.status = int(what) if what.isdigit() else 200
        if what == b"type":
            call.type, call.body = "text/plain", b"x"
        elif what == b"malformed":
            call.body = b"TEXT zz\r\n"
        elif what == b"utf-8":
            call.event("TEXT", b"caf\xe9")
        elif what == b"short":
            call.body = b"TEXT 500\r\nx\r\n"
        elif what == b"open":
            call.body = b"OPEN\r\n"
        elif what == b"huge":
            call.send("x" * 1100000)
        elif what == b"many":
            call.body = b"PING\r\n" * 10001
        elif what == b"disconnect":
            call.event("DISCONNECT")
        elif what == b"cut":
            call.x.reset()
        elif what == b"half":
            call.x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: "
                        + TYPE.encode() + b"\r\n\r\nTEXT 1")
            call.x.close()
    backend = Backend(on_event=lambda call, kind, content: None, before=before)
    origin = t.origin(backend)
    sluice = t.sluice(to(origin, route=GATEWAY))
    for what in ("500", "404", "503", "302", "type", "malformed", "utf-8", "short", "open", "huge", "many",
                 "disconnect", "cut", "half"):
        with t.point(what):
            socket = open_socket(t, sluice)
            before_it = len(origin.requests)
            socket.send(what)
            equal(socket.closed_with()[0], 1011)
            sent = [x for x in origin.requests[before_it:] if x.request.body.startswith(b"TEXT")]
            equal(len(sent), 1)
    with t.point("the backend hears that those sockets are gone"):
        until(lambda: backend.log.all().count(GONE) == 13, "a DISCONNECT of each but one")
    with t.point("a status in the 200s without content is no failure"):
        socket = open_socket(t, sluice)
        socket.send("204")
        socket.send("200")
        equal(socket.close(1000), (1000, ""))


@test("a response that does not come in time: 1011, and nothing is sent again")
def response_timeout(t):
    backend = Held()
    origin = t.origin(backend)
    sluice = t.sluice(to(origin, upstream="first_byte_timeout = 3s", route=GATEWAY))
    socket = open_socket(t, sluice)
    socket.send("slow")
    equal(socket.closed_with()[0], 1011)
    backend.release.set()
    backend.log.wait_for(3)  # OPEN, DISCONNECT and the message
    equal(messages_of(backend.log), ["slow"])


@test("a message beyond max_message_size: 1009, and nothing of it at the backend")
def too_big(t):
    backend = Backend()
    _, _, socket = begun(t, backend, "max_message_size = 1k")
    socket.send("x" * 1024)
    equal(socket.message(), "x" * 1024)
    socket.send("x" * 1025)
    equal(socket.closed_with()[0], 1009)
    equal(len(messages_of(backend.log)), 1)


@test("a client that goes on to send behind its close frame can send all of it, and gets 1009")
def too_big_and_more(t):
    for route in (GATEWAY, "websocket = messages\n"):
        origin = t.origin(Backend() if route == GATEWAY else ws.server())
        sluice = t.sluice(to(origin, route=route + "max_message_size = 1k"))
        socket = open_socket(t, sluice)
        data = ws.frame(ws.BINARY, b"x" * 8_000_000, mask=b"abcd")
        socket.stream.send(data[:1_000_000])
        equal(socket.read().closes_with[0], 1009)
        socket.stream.send(data[1_000_000:])
        socket.stream.finish_sending()
        equal(socket.stream.read_to_end(), b"")


# ---- GRIP's prefixes ----------------------------------------------------------------------------

@test("with the grip extension messages have a prefix, and others are not the client's")
def prefixes(t):
    def on_open(call):
        call.fields.append(("Sec-WebSocket-Extensions", call.x.request.target[1:].replace("_", " ")))
        for text in ("m:one", "c:{}", "two", "x:three"):
            call.send(text)
        call.close(1000)
    origin = t.origin(Backend(on_open=on_open))
    sluice = t.sluice(to(origin, route=GATEWAY))
    for extension, expected in (("grip", ["one"]), ('grip;_message-prefix=""', ["m:one", "two", "x:three"]),
                                ("grip;_message-prefix=x:", ["three"]),
                                ("none", ["m:one", "c:{}", "two", "x:three"])):
        socket = open_socket(t, sluice, "/" + extension)
        equal([socket.message() for _ in expected], expected, extension)
        equal(socket.closed_with()[0], 1000)


if __name__ == "__main__":
    main()
