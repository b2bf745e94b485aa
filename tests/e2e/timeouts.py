"""Each timeout is moved by the progress it is about, and by nothing else."""
import signal
import threading

from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS
from lib.fields import told
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.wire import Ended
from lib.workers import Barrier

# How often a peer says something that is no progress; far below the timeouts here.
TICK = 0.05
SHORT = "300ms"


def say_until_closed(t, client, what):
    """Sends `what` each tick until sluice has closed; fails when it never does."""
    pause = threading.Event()
    for _ in range(int(DEADLINE_SECONDS / TICK)):
        try:
            client.send(what)
        except Ended:
            return
        pause.wait(TICK)
    raise AssertionError("never closed")


@test("idle_timeout: empty lines don't keep a connection")
def idle(t):
    sluice = t.sluice(to(t.origin()), listener="idle_timeout = 2s")
    client = t.client(sluice)
    equal(client.ask("/").status, 200, "status")
    say_until_closed(t, client, b"\r\n")
    say_until_closed(t, t.client(sluice), b"\r\n")


@test("idle_timeout runs from the last answer: requests in between move it")
def idle_moves(t):
    sluice = t.sluice(to(t.origin()), listener="idle_timeout = 4s")
    client = t.client(sluice)
    for _ in range(5):
        equal(client.ask("/").status, 200, "status")
        threading.Event().wait(1)
    client.expect_end()


@test("a sluice that stood still takes what came meanwhile before it calls a peer late", workers=[1])
def stood_still(t):
    parts = t.event()

    def handler(x):
        x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
        parts.wait(DEADLINE_SECONDS)
        x.send(b"b")
        written.release()

    written = threading.Semaphore(0)
    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream="idle_timeout = 12s", route="host = api.test"),
                      listener="header_timeout = 12s")
    # More than are served in one round. They ask by halves; these have half an answer already.
    asking, answered = ([t.client(sluice) for _ in range(60)] for _ in range(2))
    for client in answered:
        client.request("/")
    for client in answered:
        client.read_through(b"\r\n\r\na")
    barrier = Barrier(t, sluice, asking)
    for client in asking:
        client.send(b"GET /none HTTP/1.1\r\nHost: no")
        barrier.passed_by(client)
    sluice.process.stop()
    try:
        parts.set()
        for client in asking:
            client.send(b"where.test\r\n\r\n")
        for _ in answered:
            true(written.acquire(timeout=DEADLINE_SECONDS), "the origin has written the rest")
        threading.Event().wait(12.1)
    finally:
        sluice.process.signal(signal.SIGCONT)
    equal({client.response().status for client in asking}, {404}, "statuses of late heads")
    equal({client.read_exactly(1) for client in answered}, {b"b"}, "late ends of answers")


@test("send_timeout: a client that reads nothing is not kept by what it sends")
def stuck_reader(t):
    def handler(x):
        x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        try:
            while True:
                x.send(b"z" * 65536)
        except Ended:
            x.close()

    origin = t.origin(handler)
    sluice = t.sluice(to(origin), listener=f"send_timeout = {SHORT}")
    for what in (b"\r\n", b"x"):
        client = t.client(sluice, receive_buffer=4096)
        client.request("/")
        say_until_closed(t, client, what)
    origin.wait_connections_gone()


@test("body_timeout: bytes that are no content do not keep a request")
def body(t):
    sluice = t.sluice(to(t.origin()), listener=f"body_timeout = {SHORT}")
    client = t.client(sluice)
    client.send(request_bytes("/", "POST", [("Transfer-Encoding", "chunked")]) + b"1;")
    stop = threading.Event()

    def drip():
        while not stop.wait(TICK):
            client.try_send(b"x")

    dripping = threading.Thread(target=drip, daemon=True)
    dripping.start()
    equal(client.response().status, 408, "status")
    stop.set()
    dripping.join()


@test("a server that stops reading a request: its send_timeout, not the client's body_timeout")
def stalled_server(t):
    gate = t.event()
    origin = t.origin(lambda x: gate.wait())
    sluice = t.sluice(to(origin, upstream="send_timeout = 4s"), listener="body_timeout = 2s")
    client = t.client(sluice)
    sent = threading.Thread(target=client.try_send, daemon=True, args=(
        request_bytes("/", "POST", body=b"z" * 50_000_000),))
    sent.start()
    equal(client.response().status, 504, "status")


@test("send_timeout of an upstream: a server that reads slowly is waited for")
def slow_server(t):
    def handler(x):
        for _ in x.body_pieces():
            threading.Event().wait(0.03)
        x.reply(200)

    sluice = t.sluice(to(t.origin(handler), upstream="send_timeout = 3s"), listener="body_timeout = 3s")
    client = t.client(sluice)
    client.request("/", "POST", body=b"z" * 10_000_000)
    equal(client.response().status, 200, "status")


@test("idle_timeout of an upstream: a client that goes on reading does not stand for a server that stalls")
def stalled_response(t):
    gate = t.event()

    def handler(x):
        x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3000001\r\n\r\n" + b"z" * 3_000_000)
        gate.wait()

    sluice = t.sluice(to(t.origin(handler), upstream=f"idle_timeout = {SHORT}"))
    client = t.client(sluice)
    client.request("/")
    client.expect_cut()


@test("stream_timeout of an upstream: an event stream may be silent for longer than idle_timeout, another response not")
def silent_stream(t):
    gate = t.event()

    def handler(x):
        kind = "text/event-stream" if x.request.target == "/events" else "text/plain"
        x.send(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n".encode())
        gate.wait()
        x.send(b"1\r\nb\r\n0\r\n\r\n")

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream=f"idle_timeout = {SHORT}"))
    events, other = t.client(sluice), t.client(sluice)
    events.request("/events")
    other.request("/other")
    events.read_through(b"a\r\n")
    other.expect_cut()  # by then the first has been silent for as long
    gate.set()
    events.read_through(b"b\r\n0\r\n\r\n")

    sluice = t.sluice(to(origin, upstream=f"stream_timeout = {SHORT}"))
    gate.clear()
    events = t.client(sluice)
    events.request("/events")
    events.expect_cut()


def send_and_reset(sluice, peer, data):
    """Both reach sluice at once, so that its loop tells of them together."""
    sluice.process.stop()
    peer.send(data)
    peer.reset()
    sluice.process.signal(signal.SIGCONT)


@test("a reset that comes together with bytes is seen at once, not when a timeout has passed", workers=[1])
def reset_behind_bytes(t):
    heads = {"/body": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx",
             "/tunnel": b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nx"}
    gate = t.event()

    def handler(x):
        x.send(heads.get(x.request.target, b""))
        gate.wait()

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream="retries = 0\nidle_timeout = 1h\nfirst_byte_timeout = 1h",
                         route="request_buffering = off"),
                      listener="header_timeout = 1h\nbody_timeout = 1h")
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")]

    def begin(target, method="GET", fields=()):
        client, count = t.client(sluice), len(origin.requests)
        client.request(target, method, fields)
        server = origin.wait_requests(count + 1)[-1]
        if target in heads:
            client.response_head()
            equal(client.read_exactly(1), b"x", "the first byte")
        return client, server.stream

    for target, fields in (("/body", ()), ("/tunnel", upgrade)):
        client, server = begin(target, fields=fields)
        send_and_reset(sluice, server, b"yy")
        equal(client.read_to_any_end(), b"yy", f"the rest of {target}")

    client, server = begin("/head")
    send_and_reset(sluice, server, b"HTTP/1.1 200 OK\r\nConte")
    equal(client.response().status, 502, "status")

    client, server = begin("/tunnel", fields=upgrade)
    send_and_reset(sluice, client, b"yy")
    server.read_to_any_end()

    client, server = begin("/upload", "POST", [("Content-Length", "100")])
    send_and_reset(sluice, client, b"yy")
    server.read_to_any_end()

    client = t.client(sluice)
    send_and_reset(sluice, client, b"GET / HTTP/1.1\r\nHo")
    # The drain at the end waits for no half head whose client is gone: header_timeout is an hour.


@test("a request that waits for its turn is not sent when a reset came together with it", workers=[1])
def reset_behind_request(t):
    gate = t.event()

    def handler(x):
        if x.request.target == "/first":
            gate.wait()
        x.read_body()
        x.reply(200)

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream="max_in_flight = 1", route="ordering = none\nlimits = slow, burst") +
                      "[limit slow]\nrate = 1 per 2s\non_exceed = delay 1h\nkey = header:X-Slow\n"
                      "[limit burst]\nrate = 100 per 1h\nkey = header:X-Burst\n")
    first = t.client(sluice)
    first.request("/first")
    origin.wait_requests(1)
    body = b"Content-Length: 4\r\n\r\nbody"
    for number, fields in enumerate((b"\r\n", b"X-Slow: a\r\n\r\n", b"X-Slow: a\r\n\r\n", body, body[:-2])):
        client = t.client(sluice)
        send_and_reset(sluice, client, b"POST /gone/%d HTTP/1.1\r\nHost: api.test\r\nX-Burst: b\r\n%s"
                       % (number, fields))
    last = t.client(sluice)
    last.request("/last")
    probe = t.client(sluice)
    equal(probe.ask("/", "TRACE").status, 405, "status")  # all of these have been read
    gate.set()
    equal((first.response().status, last.response().status), (200, 200), "statuses")
    equal(origin.targets(), ["/first", "/last"], "what was sent")
    # What was not sent is given back.
    equal(told(last.ask("/last", fields=[("X-Burst", "b")])).left["burst"]["r"], 99, "left of the limit")


main()
