"""Framing: whatever two parties could read differently (RFC 9112 section 6, and what smuggling is
made of) is answered with 400 and a close, and no origin ever sees it. Of origins: 502.

Each request here is followed by one for /smuggled in the same write: it must never be served.
"""
from lib import wire
from lib.client import request_bytes
from lib.hostile import (AMBIGUOUS, BAD_BODIES, BAD_CHUNKS, BAD_RESPONSES, CHUNKED_HELLO, CL, OK, TE, last_words, post,
                         rows, served_after)
from lib.sluice import to
from lib.tap import equal, group, main, member, test, true
from lib.wire import Ended, chunked


@test("a Connection field with more options than makes sense is refused, and soon")
def connection_options(t):
    origin = t.origin(lambda x: x.reply(200, b"x", fields=[("Connection", ", ".join(f"a{n}" for n in range(x.number and 33 or 32)))]))
    sluice = t.sluice(to(origin, upstream="retries = 0"))
    for count, status in ((32, 200), (33, 400), (2000, 400)):
        fields = [("Connection", ", ".join(f"x{n}" for n in range(count))), ("X1", "1"), ("X31", "1")]
        client = t.client(sluice)
        answer = client.ask("/", fields=fields)
        equal(answer.status, status, f"status with {count} options")
    equal((origin.last().get("X1"), origin.last().get("X31")), (None, None), "fields that it names")
    equal(t.client(sluice).ask("/").status, 502, "status when the origin sends such a field")


@group("ambiguous requests")
def ambiguous(t):
    origin = t.origin()
    sluice = t.sluice(to(origin))
    for what, data, statuses in rows(AMBIGUOUS):
        with t.point(f"{what}: {' or '.join(map(str, statuses))}, close"):
            found = served_after(t.client(sluice), data)
            equal(len(found), 1, f"number of answers {found}")
            member(found[0], statuses, "status")
    with t.point("none of them reached the origin, nor did what stood behind them"):
        t.client(sluice).ask("/sentinel")
        equal(origin.targets(), ["/sentinel"], "targets at the origin")


@group("bad chunks")
def bad_chunks(t):
    origin = t.origin()
    sluice = t.sluice(to(origin), listener="max_header_size = 16k")
    for what, data, statuses in rows(BAD_CHUNKS, (400, 431)):
        with t.point(f"{what}: 400, close"):
            found = served_after(t.client(sluice), data)
            equal(len(found), 1, f"number of answers {found}")
            member(found[0], statuses, "status")
    with t.point("none of them was complete at the origin, what stood behind was never seen"):
        t.client(sluice).ask("/sentinel")
        member(set(origin.targets()), ({"/sentinel"}, {"/sentinel", "/victim"}), "targets")
        for x in origin.requests:
            true(x.request.target == "/sentinel" or not x.complete, "a bad body was complete")


@group("requests that are odd but right")
def odd_but_right(t):
    origin = t.origin()
    sluice = t.sluice(to(origin))
    table = [
        ("two Content-Lengths alike are refused or made one", post(CL + b"5\r\n" + CL + b"5\r\n", b"hello"), (200, 400)),
        ("a Content-Length list alike: the same", post(CL + b"5, 5\r\n", b"hello"), (200, 400)),
        ("leading zeros in Content-Length", post(CL + b"005\r\n", b"hello"), (200,)),
        ("white space around a value", post(b"Content-Length: \t 5  \r\n", b"hello"), (200,)),
        ("a tab behind a length", post(b"Content-Length: 5\t\r\n", b"hello"), (200,)),
        ("tabs and spaces around a length", post(b"Content-Length:\t 5 \t \r\nX-A:\tb\tc\t\r\n", b"hello"), (200,)),
        ("no space after the colon", post(b"Content-Length:5\r\n", b"hello"), (200,)),
        ("CHUNKED", post(TE + b"CHUNKED\r\n", CHUNKED_HELLO), (200,)),
        ("chunk sizes in capitals", post(TE + b"chunked\r\n", b"A\r\nhellohello\r\n0\r\n\r\n"), (200,)),
        ("leading zeros in a chunk size", post(TE + b"chunked\r\n", b"0005\r\nhello\r\n000\r\n\r\n"), (200,)),
        ("a hundred leading zeros in a chunk size: read or refused",
         post(TE + b"chunked\r\n", b"0" * 99 + b"5\r\nhello\r\n0\r\n\r\n"), (200, 400)),
        ("a chunk extension", post(TE + b"chunked\r\n", b"5;a=b\r\nhello\r\n0;f\r\n\r\n"), (200,)),
        ("a quoted chunk extension", post(TE + b"chunked\r\n", b"5;a=\"b;c\"\r\nhello\r\n0\r\n\r\n"), (200,)),
        ("several chunk extensions, one quoted",
         post(TE + b"chunked\r\n", b"5;a=b;c=\"d;e\"\r\nhello\r\n0\r\n\r\n"), (200,)),
        ("a quote in a quoted chunk extension",
         post(TE + b"chunked\r\n", b"5;a=\"q\\\"x\"\r\nhello\r\n0\r\n\r\n"), (200,)),
        ("blanks in a chunk extension, where the grammar has them",
         post(TE + b"chunked\r\n", b"5 ; a = b\t;c\r\nhello\r\n0\r\n\r\n"), (200,)),
        ("bytes over 127 in a value", post(b"X-A: \xe9\xff\r\nContent-Length: 0\r\n"), (200,)),
        ("an empty list element in Transfer-Encoding is refused or ignored",
         post(TE + b", chunked\r\n", CHUNKED_HELLO), (200, 400, 501)),
    ]
    for what, data, statuses in table:
        with t.point(what):
            client = t.client(sluice)
            client.send(data)
            answer = client.response()
            member(answer.status, statuses, "status")
            if answer.status == 200:
                true(origin.last().body in (b"hello", b"hellohello", b""), f"{origin.last()}")
                equal(client.ask("/after").status, 200, "status of the next request")
            else:
                client.expect_end()


@group("sizes")
def sizes(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, route="max_body_size = 1000"),
                      listener="max_header_size = 4k\nmax_uri_size = 1k\nmax_headers = 50")

    with t.point("a head as large as it may be"):
        client = t.client(sluice)
        equal(client.ask("/", fields=[("X-A", "a" * 3900)]).status, 200, "status")

    for what, data, status in (
            ("an overlong field: 431", request_bytes("/", fields=[("X-A", "a" * 5000)]), 431),
            ("many fields, overlong together: 431",
             request_bytes("/", fields=[(f"X-{n}", "a" * 150) for n in range(40)]), 431),
            ("too many fields: 431", request_bytes("/", fields=[(f"X-{n}", "a") for n in range(60)]), 431),
            ("an overlong target: 414", request_bytes("/" + "a" * 1500), 414),
            ("a target longer than the head may be: 414", request_bytes("/" + "a" * 6000), 414),
            ("a body too long by its length: 413", request_bytes("/", "POST", body=b"a" * 1001), 413)):
        with t.point(what):
            client = t.client(sluice)
            client.try_send(data)
            equal(client.response().status, status, "status")

    with t.point("an endless target gets 414 and a close without being read to its end"):
        client = t.client(sluice)
        for _ in range(1000):
            client.try_send(b"GET /" + b"a" * 10_000)
        equal(client.response().status, 414, "status")

    with t.point("an endless field gets 431 and a close without being read to its end"):
        client = t.client(sluice)
        client.try_send(b"GET / HTTP/1.1\r\nHost: a\r\nX-A: ")
        for _ in range(1000):
            client.try_send(b"a" * 10_000)
        equal(client.response().status, 431, "status")

    with t.point("a body as long as it may be, by length and by chunks"):
        client = t.client(sluice)
        equal(client.ask("/", "POST", body=b"a" * 1000).status, 200, "status")
        client.send(post(TE + b"chunked\r\n", chunked(b"a" * 500, b"b" * 500)))
        equal(client.response().status, 200, "status")

    with t.point("a chunked body too long, counted as it comes: 413, and it never ends well at the origin"):
        count = len(origin.requests)
        client = t.client(t.sluice(to(origin, route="max_body_size = 1000\nrequest_buffering = off")))
        client.send(post(TE + b"chunked\r\n", chunked(b"a" * 600)[:-5], target=b"/long"))
        origin.wait_requests(count + 1)
        client.send(chunked(b"b" * 600))
        equal(client.response().status, 413, "status")
        x = origin.requests[count]
        origin.wait(lambda: x.cut or x.complete, "the end of the overlong body")
        true(not x.complete, "the overlong body was complete at the origin")


# ---- of origins --------------------------------------------------------------------------------

@group("ambiguous responses")
def ambiguous_responses(t):
    current = {}
    origin = t.origin(lambda x: last_words(current["data"])(x))
    sluice = t.sluice(to(origin, upstream="max_fails = 0\nretries = 0"))
    for what, data in BAD_RESPONSES:
        with t.point(f"{what}: 502 with problem details"):
            current["data"] = data
            client = t.client(sluice)
            answer = client.ask("/", "POST", body=b"x")
            equal(answer.status, 502, "status")
            equal(answer.get("Content-Type"), "application/problem+json", "Content-Type")


@group("response bodies that end badly never seem to end well")
def bad_response_bodies(t):
    current = {}
    origin = t.origin(lambda x: last_words(current["data"])(x))
    sluice = t.sluice(to(origin, upstream="max_fails = 0\nretries = 0"))
    for what, data in BAD_BODIES:
        with t.point(what):
            current["data"] = data
            client = t.client(sluice)
            client.request("/", "POST", body=b"x")
            try:
                answer = client.response()
            except Ended:
                continue  # cut, as the origin's was
            equal(answer.status, 502, "status of an answer that ended well")


@test("a first chunk that is malformed, with the head: the head has not left, so it is a 502")
def bad_first_chunk(t):
    def handler(x):
        x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nxx\r\n0\r\n\r\n")
        x.close()

    client = t.client(t.sluice(to(t.origin(handler), upstream="max_fails = 0")))
    client.send(request_bytes("/", "TRACE") + request_bytes("/") + request_bytes("/", "TRACE"))
    equal([client.response().status for _ in range(3)], [405, 502, 405], "statuses")


@test("a tab behind the length of a response is read like a space, whole and byte by byte")
def tab_behind_length(t):
    def handler(x):
        x.read_body()
        for byte in OK + CL + b"5\t \t\r\nX-A:\tb\tc\t\r\n\r\nhello":
            x.send(bytes([byte]))

    def at_once(x):
        x.read_body()
        x.send(OK + CL + b"5\t\r\nX-A:\tb\tc\t\r\n\r\nhello")

    for way in (handler, at_once):
        client = t.client(t.sluice(to(t.origin(way))))
        for _ in range(2):
            answer = client.ask("/")
            equal((answer.status, answer.body, answer.get("X-A")), (200, b"hello", "b\tc"))


@group("what an origin says beyond its response")
def beyond_the_response(t):
    current = {}

    def handler(x):
        x.read_body()
        if x.request.target == "/more":
            x.send(current["data"])
        else:
            x.reply(200, b"right")

    origin = t.origin(handler)
    sluice = t.sluice(to(origin))
    stolen = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"
    for what, data in (("after a length", OK + CL + b"5\r\n\r\nhello" + stolen),
                       ("after the last chunk", OK + TE + b"chunked\r\n\r\n" + CHUNKED_HELLO + stolen),
                       ("after 204", b"HTTP/1.1 204 No Content\r\n\r\n" + stolen),
                       ("after 304", b"HTTP/1.1 304 Not Modified\r\n\r\n" + stolen)):
        with t.point(f"{what}: never becomes the answer to another request"):
            current["data"] = data
            first, second = t.client(sluice), t.client(sluice)
            member(first.ask("/more").status, (200, 204, 304, 502), "status")
            for client in (second, t.client(sluice)):
                equal(client.ask("/next").body, b"right", "body")

    with t.point("after HEAD: a body that should not be there is never the next answer"):
        current["data"] = OK + CL + b"5\r\n\r\nhello"
        client = t.client(sluice)
        member(client.ask("/more", "HEAD").status, (200, 502), "status")
        equal(t.client(sluice).ask("/next").body, b"right", "body")


@test("what an idle origin connection says unasked is thrown away with the connection")
def unasked(t):
    go = t.event()

    def handler(x):
        x.read_body()
        x.reply(200, b"right")
        if x.number == 0:
            go.wait(wire.DEADLINE_SECONDS)
            x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen")
            # Only now is it certain that no request crossed these bytes on their way.
            x.stream.read_to_any_end()
            x.close()

    origin = t.origin(handler)
    sluice = t.sluice(to(origin))
    client = t.client(sluice)
    equal(client.ask("/a").body, b"right", "body")
    go.set()
    origin.wait_connections_gone()
    for _ in range(5):
        equal(client.ask("/b").body, b"right", "body")


main()
