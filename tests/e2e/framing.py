"""Framing: whatever two parties could read differently (RFC 9112 section 6, and what smuggling is
made of) is answered with 400 and a close, and no origin ever sees it. Of origins: 502.

Each request here is followed by one for /smuggled in the same write: it must never be served.
"""
from lib import wire
from lib.client import request_bytes
from lib.sluice import to
from lib.tap import equal, group, main, member, test, true
from lib.wire import Ended, chunked

HOST = b"Host: api.test\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"


def post(fields, body=b"", version=b"1.1", target=b"/victim"):
    return (b"POST " + target + b" HTTP/" + version + b"\r\n" + HOST + fields + b"\r\n" + body)


CL, TE = b"Content-Length: ", b"Transfer-Encoding: "
CHUNKED_HELLO = b"5\r\nhello\r\n0\r\n\r\n"

# What must be refused: (what, bytes, statuses). 400 unless said.
AMBIGUOUS = [
    # two ways of framing
    ("Content-Length and Transfer-Encoding", post(CL + b"5\r\n" + TE + b"chunked\r\n", CHUNKED_HELLO)),
    ("Transfer-Encoding and Content-Length", post(TE + b"chunked\r\n" + CL + b"5\r\n", CHUNKED_HELLO)),
    ("the same with Content-Length 0", post(CL + b"0\r\n" + TE + b"chunked\r\n", CHUNKED_HELLO)),
    ("two Content-Lengths that differ", post(CL + b"5\r\n" + CL + b"6\r\n", b"hello")),
    ("Content-Length as a list that differs", post(CL + b"5, 6\r\n", b"hello")),
    ("both in different letter case", post(b"content-length: 5\r\nTRANSFER-ENCODING: chunked\r\n", CHUNKED_HELLO)),
    # Content-Length
    *[(f"Content-Length {value!r}", post(CL + value + b"\r\n", b"hello")) for value in (
        b"+5", b"-5", b"5 5", b"0x5", b"5;", b"5.0", b"five", b"", b" ", b"5,", b",5", b"\x0b5",
        b"5_0", b"1e1", b"99999999999999999999999", b"18446744073709551616", b"18446744073709551621")],
    # Transfer-Encoding
    *[(f"Transfer-Encoding {value!r}", post(TE + value + b"\r\n", CHUNKED_HELLO), (400, 501)) for value in (
        b"chunked, gzip", b"gzip", b"identity", b"xchunked", b"chunkedx", b"chunked, identity",
        b"identity, chunked, x", b"", b"\"chunked\"", b"chunked;x=1", b"chunked,chunked",
        b"\x0bchunked", b"chunked\x0b", b"chun ked", b"x chunked", b"chunked\x00")],
    ("two Transfer-Encodings, the last not chunked",
     post(TE + b"chunked\r\n" + TE + b"x\r\n", CHUNKED_HELLO), (400, 501)),
    ("chunked twice in two fields", post(TE + b"chunked\r\n" + TE + b"chunked\r\n", CHUNKED_HELLO)),
    ("Transfer-Encoding in HTTP/1.0", post(TE + b"chunked\r\n", CHUNKED_HELLO, version=b"1.0")),
    # field lines
    ("a field line folded over two (obs-fold)", post(b"X-A: b\r\n c\r\n")),
    ("obs-fold in Transfer-Encoding", post(TE + b"\r\n chunked\r\n", CHUNKED_HELLO)),
    ("obs-fold of the first field line", b"GET /victim HTTP/1.1\r\n X: y\r\n" + HOST + b"\r\n"),
    ("space before the colon", post(b"Content-Length : 5\r\n", b"hello")),
    ("tab before the colon", post(b"Transfer-Encoding\t: chunked\r\n", CHUNKED_HELLO)),
    ("space before the name", post(b" Transfer-Encoding: chunked\r\n", CHUNKED_HELLO)),
    ("no colon", post(b"Nonsense\r\n")),
    ("an empty name", post(b": value\r\n")),
    ("a name with a control byte", post(b"X\x01A: b\r\n")),
    ("a name with a byte over 127", post(b"X\xe9A: b\r\n")),
    ("a name with parentheses", post(b"X(A): b\r\n")),
    ("NUL in a value", post(b"X-A: b\0c\r\n")),
    ("a control byte in a value", post(b"X-A: b\x07c\r\n")),
    ("DEL in a value", post(b"X-A: b\x7fc\r\n")),
    # line ends
    ("bare LF after a field", post(b"X-A: b\nTransfer-Encoding: chunked\r\n", CHUNKED_HELLO)),
    ("bare LF after the request line", b"GET /victim HTTP/1.1\n" + HOST + b"\r\n"),
    ("bare LF for the empty line", b"GET /victim HTTP/1.1\r\n" + HOST + b"\n"),
    ("all lines ended by LF", b"GET /victim HTTP/1.1\nHost: api.test\n\n"),
    ("bare CR in a value", post(b"X-A: b\rc\r\n")),
    ("bare CR as a line end", post(b"X-A: b\rTransfer-Encoding: chunked\r\n", CHUNKED_HELLO)),
    ("CR CR LF", post(b"X-A: b\r\r\n")),
    # request line
    ("no version", b"GET /victim\r\n" + HOST + b"\r\n", (400, 505)),
    ("a version in lower case", b"GET /victim http/1.1\r\n" + HOST + b"\r\n"),
    ("two spaces after the method", b"GET  /victim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("two spaces before the version", b"GET /victim  HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a space after the version", b"GET /victim HTTP/1.1 \r\n" + HOST + b"\r\n", (400, 505)),
    ("tabs for spaces", b"GET\t/victim\tHTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a lone CR before the request line", b"\rGET /victim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a lone LF before the request line", b"\nGET /victim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("CR CR LF before the request line", b"\r\r\nGET /victim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a space before the method", b" GET /victim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a method in lower case", b"get /victim HTTP/1.1\r\n" + HOST + b"\r\n", (400, 501)),
    ("NUL in the target", b"GET /vic\0tim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a control byte in the target", b"GET /vic\x01tim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    # versions
    *[(f"version {v.decode()}", b"GET /victim HTTP/" + v + b"\r\n" + HOST + b"\r\n", (505, 400))
      for v in (b"2.0", b"0.9", b"1.2", b"3.0")],
    *[(f"version {v.decode()}", b"GET /victim HTTP/" + v + b"\r\n" + HOST + b"\r\n", (400, 505))
      for v in (b"1", b"1.10", b"11.1", b"1.x", b"-1.1")],
    ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 501, 505)),
    # Host
    ("no Host", b"GET /victim HTTP/1.1\r\n\r\n"),
    ("two Hosts", b"GET /victim HTTP/1.1\r\n" + HOST + b"Host: other.test\r\n\r\n"),
    ("two Hosts alike", b"GET /victim HTTP/1.1\r\n" + HOST + HOST + b"\r\n"),
    ("no Host with an absolute target", b"GET http://api.test/victim HTTP/1.1\r\n\r\n"),
    ("two Hosts in HTTP/1.0", b"GET /victim HTTP/1.0\r\n" + HOST + b"Host: other.test\r\n\r\n"),
]

# The head is fine and may be forwarded before the fault comes; the request must not end well.
BAD_CHUNKS = [(what, post(TE + b"chunked\r\n", body)) for what, body in (
    ("chunk size xyz", b"xyz\r\nhello\r\n0\r\n\r\n"),
    ("chunk size 0x5", b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("chunk size +5", b"+5\r\nhello\r\n0\r\n\r\n"),
    ("chunk size -5", b"-5\r\nhello\r\n0\r\n\r\n"),
    ("a space before the chunk size", b" 5\r\nhello\r\n0\r\n\r\n"),
    ("a space after the chunk size", b"5 \r\nhello\r\n0\r\n\r\n"),
    ("an empty chunk size", b"\r\nhello\r\n0\r\n\r\n"),
    ("only an extension", b";x=1\r\nhello\r\n0\r\n\r\n"),
    ("a chunk size that wraps 64 bits", b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("a chunk shorter than its size", b"4\r\nhello\r\n0\r\n\r\n"),
    ("bare LF after the chunk size", b"5\nhello\r\n0\r\n\r\n"),
    ("bare CR after the chunk size", b"5\rhello\r\n0\r\n\r\n"),
    ("bare LF after the chunk", b"5\r\nhello\n0\r\n\r\n"),
    ("nothing after the chunk", b"5\r\nhello0\r\n\r\n"),
    ("bare LF after the last chunk", b"5\r\nhello\r\n0\n\n"),
    ("bare LF for the last empty line", b"5\r\nhello\r\n0\r\n\n"),
    ("a folded trailer", b"5\r\nhello\r\n0\r\nX-A: b\r\n c\r\n\r\n"),
    ("a trailer with a line of blanks behind it", b"5\r\nhello\r\n0\r\nX-A: b\r\n \t\r\n\r\n"),
    ("an extension without a name", b"5;\r\nhello\r\n0\r\n\r\n"),
    ("an empty extension before another", b"5;;a\r\nhello\r\n0\r\n\r\n"),
    ("an extension without its value", b"5;a=\r\nhello\r\n0\r\n\r\n"),
    ("an open quote in an extension", b"5;a=\"b\r\nhello\r\n0\r\n\r\n"),
    ("a quoted line end in an extension", b"5;a=\"b\\\r\n\"\r\nhello\r\n0\r\n\r\n"),
    ("a blank behind the size", b"5 \r\nhello\r\n0\r\n\r\n"),
    ("bare LF in an extension", b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
    ("NUL in an extension", b"5;a\0b\r\nhello\r\n0\r\n\r\n"),
    ("an endless extension", b"5;" + b"a" * 100_000 + b"\r\nhello\r\n0\r\n\r\n"),
    ("a trailer without a colon", b"5\r\nhello\r\n0\r\nnonsense\r\n\r\n"),
    ("a trailer with a space before the colon", b"5\r\nhello\r\n0\r\nX : y\r\n\r\n"),
    ("endless trailers", b"5\r\nhello\r\n0\r\n" + b"X-A: b\r\n" * 20_000 + b"\r\n"),
)]


def rows(table, default=(400,)):
    for what, data, *statuses in table:
        yield what, data, (statuses[0] if statuses else default)


def served_after(client, data):
    """Sends it with the smuggled request behind; returns the statuses that came until the end."""
    client.try_send(data + SMUGGLED)
    statuses = []
    try:
        while client.buffer or client._more():
            answer = client.response()
            statuses.append(answer.status)
    except Ended:
        pass  # a reset behind the answer is a close too
    return statuses


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
        ("a tab behind a value (refused by some parsers)", post(b"Content-Length: 5\t\r\n", b"hello"), (200, 400)),
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

OK = b"HTTP/1.1 200 OK\r\n"

BAD_RESPONSES = [
    ("Content-Length and Transfer-Encoding", OK + CL + b"5\r\n" + TE + b"chunked\r\n\r\n" + CHUNKED_HELLO),
    ("two Content-Lengths that differ", OK + CL + b"5\r\n" + CL + b"6\r\n\r\nhello!"),
    ("a Content-Length list that differs", OK + CL + b"5, 6\r\n\r\nhello!"),
    *[(f"Content-Length {value!r}", OK + CL + value + b"\r\n\r\nhello") for value in (
        b"+5", b"-5", b"0x5", b"five", b"", b"5 5", b"99999999999999999999999")],
    ("chunked not last", OK + TE + b"chunked, gzip\r\n\r\n" + CHUNKED_HELLO),
    ("Transfer-Encoding gzip", OK + TE + b"gzip\r\n\r\nhello"),
    ("Transfer-Encoding xchunked", OK + TE + b"xchunked\r\n\r\n" + CHUNKED_HELLO),
    ("Transfer-Encoding in HTTP/1.0", b"HTTP/1.0 200 OK\r\n" + TE + b"chunked\r\n\r\n" + CHUNKED_HELLO),
    ("a folded field line", OK + b"X-A: b\r\n c\r\n" + CL + b"5\r\n\r\nhello"),
    ("space before the colon", OK + b"X-A : b\r\n" + CL + b"5\r\n\r\nhello"),
    ("no colon", OK + b"nonsense\r\n" + CL + b"5\r\n\r\nhello"),
    ("NUL in a value", OK + b"X-A: b\0c\r\n" + CL + b"5\r\n\r\nhello"),
    ("bare CR in a value", OK + b"X-A: b\rc\r\n" + CL + b"5\r\n\r\nhello"),
    ("bare LF line ends", b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"),
    ("bare LF after a field", OK + b"X-A: b\n" + CL + b"5\r\n\r\nhello"),
    ("no HTTP at all", b"hello there\r\n\r\n"),
    ("an SSH banner", b"SSH-2.0-OpenSSH_9.2p1\r\n"),
    ("HTTP/2.0", b"HTTP/2.0 200 OK\r\n" + CL + b"5\r\n\r\nhello"),
    ("a status of two digits", b"HTTP/1.1 20 OK\r\n" + CL + b"5\r\n\r\nhello"),
    ("a status of four digits that begin with 0", b"HTTP/1.1 0200 OK\r\n" + CL + b"5\r\n\r\nhello"),
    ("a bare CR in the reason", b"HTTP/1.1 200 O\rSet-Cookie: a\r\n" + CL + b"5\r\n\r\nhello"),
    ("a NUL in the reason", b"HTTP/1.1 200 O\0K\r\n" + CL + b"5\r\n\r\nhello"),
    ("a status of four digits", b"HTTP/1.1 2000 OK\r\n" + CL + b"5\r\n\r\nhello"),
    ("a status that is none", b"HTTP/1.1 abc OK\r\n" + CL + b"5\r\n\r\nhello"),
    ("a status under 100", b"HTTP/1.1 099 No\r\n" + CL + b"5\r\n\r\nhello"),
    ("101 that nobody asked for", b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
    ("a head that is too long", OK + b"X-A: " + b"a" * 1_000_000 + b"\r\n\r\n"),
    ("an endless head", OK + b"X-A: b\r\n" * 100_000),
    ("a close within the head", OK + b"X-A: b\r\n"),
    ("a close within the status line", b"HTTP/1.1 2"),
    ("a close without a byte", b""),
]


def last_words(data):
    """A handler that says this and closes."""
    def handler(x):
        x.read_body()
        x.stream.try_send(data)
        x.close()
    return handler


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


BAD_BODIES = [(what, OK + fields + b"\r\n" + body) for what, fields, body in (
    ("a bad chunk size", TE + b"chunked\r\n", b"5\r\nhello\r\nxyz\r\nhello\r\n0\r\n\r\n"),
    ("a chunk longer than its size", TE + b"chunked\r\n", b"5\r\nhello\r\n4\r\nhello\r\n0\r\n\r\n"),
    ("bare LF in chunks", TE + b"chunked\r\n", b"5\r\nhello\r\n5\nhello\r\n0\r\n\r\n"),
    ("a close within a chunk", TE + b"chunked\r\n", b"5\r\nhello\r\n5\r\nhel"),
    ("a close between chunks", TE + b"chunked\r\n", b"5\r\nhello\r\n"),
    ("a close before the last empty line", TE + b"chunked\r\n", b"5\r\nhello\r\n0\r\n"),
    ("a close within the length", CL + b"10\r\n", b"hello"),
)]


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
