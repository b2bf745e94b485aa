"""Bodies: whatever way they are framed, cut, delayed or abandoned, each byte arrives once and in
order, or the other side sees that the message did not end well."""
import threading

from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS
from lib.sluice import to
from lib.tap import equal, group, main, member, test, true
from lib.wire import Ended, chunked
from lib.workers import leave

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def post_head(fields, target="/", host="api.test"):
    return f"POST {target} HTTP/1.1\r\nHost: {host}\r\n".encode() + fields + b"\r\n"


# ---- framing regenerated -----------------------------------------------------------------------

@group("request bodies")
def request_bodies(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, route="request_trailers = X-Sum, X-Removed\nrequest_header_remove = X-Removed\n"
                         "request_header_set = X-Set: ours"))
    client = t.client(sluice)

    with t.point("by length"):
        client.request("/", "POST", body=b"x" * 100_000)
        equal(client.response().body, b"x" * 100_000, "body")
        equal(origin.last().framing, "length", "framing at the origin")

    with t.point("by chunks"):
        client.send(post_head(CHUNKED) + chunked(b"one", b"two" * 10_000, b"three"))
        equal(client.response().body, b"one" + b"two" * 10_000 + b"three", "body")
        equal(origin.last().body, b"one" + b"two" * 10_000 + b"three", "body at the origin")

    with t.point("an empty chunked body"):
        client.send(post_head(CHUNKED) + chunked())
        equal((client.response().status, origin.last().body), (200, b""))

    with t.point("trailers: passed on behind chunks, or dropped; never among the header fields"):
        client.send(post_head(CHUNKED + b"Trailer: X-Sum\r\n")
                    + chunked(b"body", trailers=[
                        ("X-Sum", "7"), ("Content-Length", "99"), ("Host", "evil"), ("Content-Digest", "sha-256=:YQ==:"),
                        ("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Proto", "https"), ("Forwarded", "for=6.6.6.6"),
                        ("Via", "1.1 evil"), ("X-Request-Id", "forged"), ("X-Api-Key", "gold"), ("X-Removed", "1"),
                        ("X-Set", "theirs"), ("X-Anything", "1")]))
        equal(client.response().body, b"body", "body")
        seen = origin.last()
        equal((seen.get("X-Sum"), seen.all("Host"), seen.body), (None, ["api.test"], b"body"))
        names = [name.lower() for name, _ in seen.trailers]
        true(set(names) <= {"x-sum", "content-digest"}, f"trailers {seen.trailers}")

    with t.point("trailers reach the origin"):
        equal(seen.trailers, [("X-Sum", "7"), ("Content-Digest", "sha-256=:YQ==:")], "trailers")

    with t.point("the connection goes on behind all that"):
        equal(client.ask("/").status, 200, "status")


RESPONSES = [
    ("by length", OK + b"Content-Length: 5\r\n\r\nhello", b"hello", False),
    ("by chunks", OK + CHUNKED + b"\r\n" + chunked(b"he", b"llo"), b"hello", False),
    ("by chunks with extensions", OK + CHUNKED + b"\r\n2;a=b\r\nhe\r\n3;c\r\nllo\r\n0;d\r\n\r\n", b"hello", False),
    ("by the close", OK + b"\r\nhello", b"hello", True),
    ("by the close, HTTP/1.0", b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello", True),
    ("by length, HTTP/1.0 kept alive",
     b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    ("an empty one by length", OK + b"Content-Length: 0\r\n\r\n", b"", False),
    ("an empty one by chunks", OK + CHUNKED + b"\r\n" + chunked(), b"", False),
    ("an empty one by the close", OK + b"\r\n", b"", True),
    ("no reason phrase", b"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    ("no reason phrase and no blank", b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    ("no blank and no field", b"HTTP/1.1 200\r\n\r\nhello", b"hello", True),
    ("no blank, HTTP/1.0", b"HTTP/1.0 200\r\n\r\nhello", b"hello", True),
    ("no blank in an interim response",
     b"HTTP/1.1 103\r\nLink: </a>\r\n\r\nHTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    ("with Connection: close", OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
]


def speaking(current):
    """A handler that says current["data"], then closes if current["close"]."""
    def handler(x):
        x.read_body()
        x.send(current["data"])
        if current["close"]:
            x.close()
    return handler


@group("response bodies")
def response_bodies(t):
    current = {}
    origin = t.origin(speaking(current))
    sluice = t.sluice(to(origin, route="response_header_remove = X-Removed\nresponse_header_set = X-Set: ours"))
    client = t.client(sluice)
    for what, data, body, close in RESPONSES:
        with t.point(f"{what}: arrives whole, and the client's connection goes on"):
            current.update(data=data, close=close)
            answer = client.ask("/")
            equal((answer.status, answer.body), (200, body))
            true(answer.framing in ("length", "chunked"), f"framing {answer.framing}")

    with t.point("trailers reach the client that said TE: trailers"):
        current.update(data=OK + CHUNKED + b"Trailer: X-Sum\r\n\r\n"
                       + chunked(b"hello", trailers=[("X-Sum", "7"), ("X-Removed", "1"), ("X-Set", "theirs")]), close=False)
        answer = client.ask("/", fields=[("TE", "trailers"), ("Connection", "TE")])
        equal((answer.body, answer.trailers), (b"hello", [("X-Sum", "7")]))
        equal(answer.all("Trailer"), ["X-Sum"], "Trailer")

    with t.point("a client of HTTP/1.0 gets no trailers, and none are announced to it"):
        answer = t.client(sluice).ask("/", version="1.0")
        equal((answer.framing, answer.body, answer.all("Trailer")), ("close", b"hello", []))


# ---- at every split ----------------------------------------------------------------------------

SPLIT_REQUESTS = (
    request_bytes("/a?b", "POST", [("X-A", "b")], b"0123456789")
    + post_head(b"Transfer-Encoding: chunked\r\n") + b"5;x=y\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nX-T: 1\r\n\r\n"
    + request_bytes("/get")
    + request_bytes("/last", fields=[("Connection", "close")]))
SPLIT_BODIES = [b"0123456789", b"hello0123456789abcdef", b"", b""]

SPLIT_RESPONSES = [
    OK + b"X-A: b\r\nContent-Length: 10\r\n\r\n0123456789",
    OK + CHUNKED + b"X-A: b\r\n\r\n5;x=y\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nX-T: 1\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK + b"X-A: b\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n",
]
SPLIT_RESPONSE_BODIES = [b"0123456789", b"hello0123456789abcdef", b"abc", b""]


def check_split_requests(t, sluice, cuts):
    client = t.client(sluice)
    client.send_bytewise(SPLIT_REQUESTS, cuts)
    equal([client.response().body for _ in SPLIT_BODIES], SPLIT_BODIES, "bodies")
    client.expect_end()
    client.close()


@group("requests cut anywhere")
def split_requests(t):
    origin = t.origin()
    sluice = t.sluice(to(origin))
    with t.point("one byte at a time"):
        check_split_requests(t, sluice, None)
    with t.point("cut in two at every byte"):
        for at in range(1, len(SPLIT_REQUESTS)):
            check_split_requests(t, sluice, [at])
    with t.point("cut at random places, 30 times"):
        for _ in range(30):
            check_split_requests(t, sluice, t.random.sample(range(1, len(SPLIT_REQUESTS)), t.random.randint(2, 40)))
    with t.point("the origin never saw anything else"):
        member(set(origin.targets()), ({"/a?b", "/", "/get", "/last"},), "targets")


@group("responses cut anywhere")
def split_responses(t):
    current = {}

    def handler(x):
        x.read_body()
        x.stream.send_bytewise(current["data"], current["cuts"])

    sluice = t.sluice(to(t.origin(handler)))
    client = t.client(sluice)

    def check(number, cuts):
        current.update(data=SPLIT_RESPONSES[number], cuts=cuts)
        answer = client.ask("/")
        equal((answer.body, answer.get("X-A")), (SPLIT_RESPONSE_BODIES[number], "b"))

    with t.point("one byte at a time"):
        for number in range(len(SPLIT_RESPONSES)):
            check(number, None)
    with t.point("cut in two at every byte"):
        for number, data in enumerate(SPLIT_RESPONSES):
            for at in range(1, len(data)):
                check(number, [at])
    with t.point("cut at random places, 30 times"):
        for _ in range(30):
            number = t.random.randrange(len(SPLIT_RESPONSES))
            check(number, t.random.sample(range(1, len(SPLIT_RESPONSES[number])), t.random.randint(2, 10)))


@test("random bodies in random chunks both ways arrive as they were sent")
def random_bodies(t):
    def handler(x):
        x.read_body()
        body, pieces = x.request.body, []
        while body:
            size = t.random.randint(1, 70_000)
            pieces.append(body[:size])
            body = body[size:]
        x.send(OK + CHUNKED + b"\r\n" + chunked(*pieces))

    sluice = t.sluice(to(t.origin(handler)))
    client = t.client(sluice)
    for _ in range(10):
        pieces = [t.random.randbytes(t.random.choice((1, 15, 16, 4095, 4096, 32768, 65536, 100_001)))
                  for _ in range(t.random.randint(1, 8))]
        sender = threading.Thread(target=client.send, args=(post_head(CHUNKED) + chunked(*pieces),))
        sender.start()
        equal(client.response().body, b"".join(pieces), "body")
        sender.join()


# With the default request_buffering sluice says 100 itself: slow_clients.py.
UNBUFFERED = "request_buffering = off\n"


# ---- early answers, half-closed clients, clients that leave ------------------------------------

@group("early answers")
def early(t):
    def handler(x):
        x.reply(413, b"too much", fields=[("Connection", "close")])
        x.close()

    def handler_that_reads(x):
        if x.request.target == "/early":
            x.reply(200, b"early")
            answered.set()
        for _ in x.body_pieces():
            pass
        if x.request.target != "/early":
            x.reply(200, b"later")

    answered = t.event()
    closing = t.sluice(to(t.origin(handler), upstream="retries = 0\nmax_fails = 0", route=UNBUFFERED))
    origin = t.origin(handler_that_reads)
    reading = t.sluice(to(origin, route=UNBUFFERED))

    with t.point("an origin that answers and closes while the body is coming: the client gets it"):
        client = t.client(closing)
        client.send(post_head(b"Content-Length: 100000000\r\n") + b"x" * 1000)
        answer = client.response()
        equal((answer.status, answer.body), (413, b"too much"))

    with t.point("the same to a client that sends on and on before it reads"):
        client = t.client(closing)
        client.send(post_head(b"Content-Length: 3000000\r\n"))
        for _ in range(30):
            client.try_send(b"x" * 100_000)
        try:
            equal(client.response().status, 413, "status")
        except Ended as ended:
            raise AssertionError(f"the answer was lost: {ended}") from None

    with t.point("an origin that answers first and reads the body after: both complete"):
        client = t.client(reading)
        client.send(post_head(b"Content-Length: 10\r\n", "/early") + b"01234")
        answer = client.response()
        equal((answer.status, answer.body), (200, b"early"))
        if "close" not in answer.tokens("Connection"):
            client.send(b"56789")
            equal(client.ask("/next").body, b"later", "body of the next answer")


@group("half-closed clients")
def half_closed(t):
    gate = t.event()

    def handler(x):
        x.read_body()
        gate.wait(DEADLINE_SECONDS)
        x.reply(200, x.request.body or b"x")

    origin = t.origin(handler)
    sluice = t.sluice(to(origin))

    with t.point("get the answer to what they sent"):
        client = t.client(sluice)
        client.request("/", "POST", body=b"hello")
        client.finish_sending()
        origin.wait_requests(1)
        gate.set()
        equal(client.response().body, b"hello", "body")
        client.expect_end()

    with t.point("get the answers to all they pipelined"):
        client = t.client(sluice)
        client.send(b"".join(request_bytes(f"/{n}") for n in range(5)))
        client.finish_sending()
        equal([client.response().status for _ in range(5)], [200] * 5, "statuses")
        client.expect_end()

    with t.point("in the middle of a head: closed, nothing forwarded"):
        count = len(origin.requests)
        client = t.client(sluice)
        client.send(b"GET /half HTTP/1.1\r\nHost: a")
        client.finish_sending()
        member(client.read_to_any_end()[:12], (b"", b"HTTP/1.1 400"), "the answer")
        t.client(sluice).ask("/sentinel")
        equal(origin.targets()[count:], ["/sentinel"], "targets")

    with t.point("in the middle of a body: the request never ends well at the origin"):
        client = t.client(sluice)
        client.send(post_head(b"Content-Length: 10\r\n", "/half-body") + b"01234")
        client.finish_sending()
        client.read_to_any_end()
        t.client(sluice).ask("/sentinel")
        true(not any(x.complete for x in origin.requests if x.request.target == "/half-body"),
             "a cut body was complete at the origin")


@test("a client that leaves a write: an answer that never ends holds the only place no longer than it may")
def endless_answer(t):
    for what, upstream in (("bytes", "idle_timeout = 1h"), ("time", "idle_timeout = 300ms")):
        begun, stop = t.event(), t.event()

        def handler(x):
            x.read_body()
            if x.request.method == "GET":
                x.reply(200)
                return
            x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
            begun.set()
            try:
                while not stop.is_set():
                    if what == "bytes":
                        x.send(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                    else:
                        x.send(b"1\r\nx\r\n")
                        stop.wait(0.05)
            except Ended:
                x.close()

        origin = t.origin(handler)
        sluice = t.sluice(to(origin, upstream=f"max_in_flight = 1\n{upstream}"))
        client = t.client(sluice)
        client.request("/", "POST", body=b"x")
        begun.wait()
        client.reset()
        equal(t.client(sluice).ask("/").status, 200, f"status behind one that is bounded by {what}")
        stop.set()


@group("clients that leave")
def leaving(t):
    gate = t.event()

    def handler(x):
        if x.request.target == "/hold":
            gate.wait(DEADLINE_SECONDS)
        if x.request.target == "/download":
            x.send(OK + b"Content-Length: 1000000000\r\n\r\n")
            while True:
                x.send(b"x" * 100_000)
        x.read_body()
        x.reply(200, b"x")

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, route="ordering = strict\n" + UNBUFFERED))

    def exchange_of(target):
        origin.wait(lambda: target in origin.targets(), target)
        return next(x for x in origin.requests if x.request.target == target)

    for how in ("close", "reset"):
        with t.point(f"in the middle of an upload ({how}): the origin sees it cut"):
            client = t.client(sluice)
            client.send(post_head(b"Content-Length: 1000000\r\n", f"/upload-{how}") + b"x" * 1000)
            x = exchange_of(f"/upload-{how}")
            getattr(client, how)()
            origin.wait(lambda: x.cut, "the cut upload")

        with t.point(f"in the middle of a chunked upload ({how}): the same"):
            client = t.client(sluice)
            client.send(post_head(CHUNKED, f"/chunked-{how}") + b"5\r\nhello\r\n")
            x = exchange_of(f"/chunked-{how}")
            getattr(client, how)()
            origin.wait(lambda: x.cut, "the cut upload")

    with t.point("in the middle of a download: the origin is let go"):
        client = t.client(sluice)
        client.request("/download")
        client.response_head()
        client.read_exactly(1000)
        client.reset()
        # The handler sends for ever; only a closed connection ends it.
        origin.wait_connections_gone()

    with t.point("while queued: never reaches the origin"):
        holder = t.client(sluice)
        holder.request("/hold")
        exchange_of("/hold")
        for how in ("close", "reset"):
            queued = t.client(sluice)
            queued.request(f"/queued-{how}", "POST", body=b"x")
            leave(sluice, queued, how)
        behind = t.client(sluice)
        behind.request("/behind")
        gate.set()
        equal(holder.response().status, 200, "status")
        equal(behind.response().status, 200, "status")
        t.client(sluice).ask("/sentinel")
        left = [target for target in origin.targets() if target.startswith("/queued")]
        equal(left, [], "requests of those who left")


main()
