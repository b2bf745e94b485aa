"""Interim responses and Expect: each reaches its client in its turn, and memory stays bounded."""
import signal
import time

from lib.client import request_bytes
from lib.process import SANITIZER, peak_resident_bytes, resident_bytes, until
from lib.sluice import to
from lib.tap import equal, group, main, member, test, true


def post_head(fields, target="/", host="api.test"):
    return f"POST {target} HTTP/1.1\r\nHost: {host}\r\n".encode() + fields + b"\r\n"


@group("interim responses")
def interim(t):
    def handler(x):
        if x.request.target == "/hints":
            x.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
                   b"HTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\n")
        x.read_body()
        x.reply(200, x.request.body or b"x")

    sluice = t.sluice(to(t.origin(handler)))

    with t.point("103 is passed on, each of them, before the response"):
        answer = t.client(sluice).ask("/hints")
        equal([(i.status, i.get("Link")) for i in answer.interim],
              [(103, "</a.css>"), (103, "</b.css>")], "interim responses")
        equal(answer.body, b"x", "body")

    with t.point("an HTTP/1.0 client is never sent a 1xx"):
        answer = t.client(sluice).ask("/hints", version="1.0")
        equal((answer.interim, answer.body), ([], b"x"))


@group("a 100 of a request behind another one's is passed on in its turn")
def early_continue(t):
    gates = {}

    def handler(x):
        kind, _, name = x.request.target[1:].partition("/")
        if kind == "slow":
            gates[name].wait()
        elif kind == "body":
            x.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            x.read_body()
        x.reply(200, x.request.body or kind.encode())

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, route="ordering = none") + "[route unbuffered]\npath = ~/unbuffered$\n"
                      "upstream = origin\nordering = none\n" + UNBUFFERED)
    for name in ("buffered", "unbuffered"):
        gates[name] = t.event()
        with t.point(name):
            client, other = t.client(sluice), t.client(sluice)
            client.send(request_bytes(f"/slow/{name}")
                        + post_head(b"Content-Length: 4\r\nExpect: 100-continue\r\n", f"/body/{name}"))
            # Were the second sent ahead, its server's 100 would be here by now.
            for _ in range(5):
                other.ask("/ping")
            gates[name].set()
            equal(client.response().body, b"slow", "the first response")
            equal(client.read_head().status, 100, "what comes next")
            client.send(b"body")
            equal(client.response("POST").body, b"body", "the second response")


@test("a 103 of a request behind another one's is passed on in its turn")
def early_hints(t):
    def handler(x):
        # In one piece, so that all of it is here when the client takes no more.
        x.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
               b"HTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\n"
               b"HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n" + b"y" * 30_000)

    count, origin, path = 40, t.origin(handler), t.path("front.sock")
    sluice = t.sluice(to(origin), listener=f"bind = unix:{path}\npipeline_depth = 100")
    sluice.process.wait_output("ready")
    client = t.client(f"unix:{path}")
    client.send(request_bytes("/") * count)
    # The system takes some; one is all here and waits for the client, and the next has been sent.
    seen = [0, 0]

    def stands_still():
        seen[:] = len(origin.requests), seen[1] + 1 if len(origin.requests) == seen[0] else 0
        return seen[1] > 5
    origin.wait_requests(3)
    until(stands_still, "no more requests at the origin", pause=0.02)
    true(seen[0] < count, "the system takes it all")
    for _ in range(count):
        answer = client.response()
        equal(([i.get("Link") for i in answer.interim], len(answer.body)), (["</a.css>", "</b.css>"], 30_000), "answer")


@test("interim responses without end: memory stays bounded while the client reads none, and none is lost")
def many_interim(t):
    count = 30_000
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: <" + b"x" * 1000 + b">\r\n\r\n"

    def handler(x):
        for _ in range(count // 100):
            x.send(hints * 100)
        x.reply(200, b"at last")

    sluice = t.sluice(to(t.origin(handler)))
    before = resident_bytes(sluice.pid)
    client = t.client(sluice, receive_buffer=65536)
    client.request("/")
    client.read_head()
    for _ in range(20):
        equal(t.client(sluice).ask("/", "TRACE").status, 405, "status of another client")
    answer = client.response()
    equal((len(answer.interim), answer.body), (count - 1, b"at last"))
    grown = peak_resident_bytes(sluice.pid) - before
    true(SANITIZER or grown < 6 << 20, f"grown by {grown >> 10} KiB")


# With the default request_buffering sluice says 100 itself: slow_clients.py.
UNBUFFERED = "request_buffering = off\n"


@group("Expect: 100-continue")
def expect(t):
    def handler(x):
        if x.request.target == "/refuse":
            x.reply(403, b"no", fields=[("Connection", "close")])
            x.close()
            return
        if x.request.get("Expect"):
            x.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        x.read_body()
        x.reply(200, x.request.body)

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, route="max_body_size = 1000\n" + UNBUFFERED))
    head = post_head(b"Expect: 100-continue\r\nContent-Length: 5\r\n")

    with t.point("the client gets its 100, sends, and is answered"):
        client = t.client(sluice)
        client.send(head)
        equal(client.read_head().status, 100, "status")
        client.send(b"hello")
        answer = client.response()
        equal((answer.status, answer.body, answer.interim), (200, b"hello", []))
        equal(client.ask("/").status, 200, "status of the next request")

    with t.point("a client that does not wait for it is answered too"):
        client = t.client(sluice)
        client.send(head + b"hello")
        equal(client.response().body, b"hello", "body")

    with t.point("a final answer instead of 100 reaches the client, which need not send the body"):
        client = t.client(sluice)
        client.send(post_head(b"Expect: 100-continue\r\nContent-Length: 5\r\n", "/refuse"))
        answer = client.response()
        equal((answer.status, answer.interim), (403, []))

    with t.point("what sluice itself refuses is refused before the body"):
        client = t.client(sluice)
        client.send(post_head(b"Expect: 100-continue\r\nContent-Length: 5000\r\n"))
        answer = client.response()
        equal((answer.status, answer.interim), (413, []))

    with t.point("an expectation nobody knows: 417, or passed on"):
        client = t.client(sluice)
        client.send(post_head(b"Expect: wonders\r\nContent-Length: 5\r\n") + b"hello")
        member(client.response().status, (200, 417), "status")

    with t.point("HTTP/1.0 clients get no 100"):
        client = t.client(sluice)
        client.send(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello")
        answer = client.response()
        equal((answer.body, answer.interim), (b"hello", []))


@test("an origin that never says 100 gets the body all the same, as one that speaks HTTP/1.0 would")
def expect_ignored(t):
    sluice = t.sluice(to(t.origin(), route=UNBUFFERED))
    client = t.client(sluice)
    client.send(post_head(b"Expect: 100-continue\r\nContent-Length: 5\r\n"))
    # A client that was told nothing sends its body after a while of its own choosing.
    client.send(b"hello")
    equal(client.response().body, b"hello", "body")


INTERIM = {100: b"HTTP/1.1 100 Continue\r\n\r\n", 103: b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"}


@group("an interim response and the end of its connection that come together")
def interim_and_end(t):
    def handler(x):
        x.read_body()
        status, how = x.request.target[1:].split("/")
        # Both are there before sluice looks again.
        sluice.process.stop()
        try:
            x.send(INTERIM[int(status)])
            x.reset() if how == "reset" else x.close()
        finally:
            sluice.process.signal(signal.SIGCONT)

    sluice = t.sluice(to(t.origin(handler)))
    for status in INTERIM:
        for how in ("reset", "close"):
            for method, body in (("GET", b""), ("POST", b"hello")):
                with t.point(f"{method}, {status}, {how}"):
                    began = time.monotonic()
                    answer = t.client(sluice).ask(f"/{status}/{how}", method, body=body)
                    equal(answer.status, 502, "status")
                    equal([i.status for i in answer.interim], [status], "interim responses")
                    true(time.monotonic() - began < 30, "not after first_byte_timeout, 60 s")


main()
