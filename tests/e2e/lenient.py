"""Responses of servers that break RFC 9112: 502, and where the upstream is lenient, rewritten clean."""
import threading

from lib.client import Client
from lib.hostile import (AMBIGUOUS, BAD_BODIES, BAD_CHUNKS, BAD_RESPONSES, CHUNKS, CL, OK, TE, last_words, rows,
                         served_after)
from lib.peers import Nginx, curl, find
from lib.sluice import to
from lib.tap import equal, group, main, member, true
from lib.wire import Ended

WORDS = ("bare_lf", "equal_lengths", "http_1_2", "folded_lines", "space_before_colon", "chunked_twice", "length_and_chunked",
         "chunked_http_1_0", "chunk_blanks", "chunk_lf")
ALL = ", ".join(WORDS)

# What it is called, what the server says, the body that is meant, a field that is, does nginx pass it?
FORGIVEN = [
    ("bare_lf", b"HTTP/1.1 200 OK\nX-A: b\nContent-Length: 5\n\nhello", b"hello", ("X-A", "b"), True),
    ("bare_lf", b"HTTP/1.1 200 OK\r\nX-A: b\nTransfer-Encoding: chunked\r\n\n5\r\nhello\r\n0\r\n\r\n", b"hello", ("X-A", "b"), True),
    ("bare_lf", b"HTTP/1.0 200 OK\nX-A: b\n\nhello", b"hello", ("X-A", "b"), True),
    ("equal_lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello", b"hello", ("X-A", "b"), False),
    ("equal_lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", b"hello", None, False),
    ("http_1_2", b"HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", None, True),
    ("http_1_2", b"HTTP/1.5 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello", None, True),
    ("folded_lines", b"HTTP/1.1 200 OK\r\nX-A: b\r\n  c\r\nContent-Length: 5\r\n\r\nhello", b"hello", ("X-A", "b c"), False),
    ("space_before_colon", b"HTTP/1.1 200 OK\r\nX-A : b\r\nContent-Length : 5\r\n\r\nhello", b"hello", ("X-A", "b"), False),
    ("chunked_twice", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello", None, False),
    ("chunked_twice", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n"
     b"5\r\nhello\r\n0\r\n\r\n", b"hello", ("X-A", "b"), False),
    ("length_and_chunked", b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
     b"hello", ("Content-Length", None), False),
    ("length_and_chunked", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
     b"hello", ("X-A", "b"), False),
    ("chunked_http_1_0", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello", None, True),
    ("chunk_blanks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5  \r\nhello\r\n0 \t\r\n\r\n", b"hello", None, True),
    ("chunk_lf", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n", b"hello", None, True),
]

# What no leniency forgives.
REFUSED = [
    ("lengths that differ", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    ("a list of lengths that differ", b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello!"),
    ("lengths of another form", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 05\r\n\r\nhello"),
    ("a folded length", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 0\r\n\r\nhello"),
    ("a folded coding", b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    ("a length that is none and a coding", b"HTTP/1.1 200 OK\nContent-Length: x\nTransfer-Encoding: chunked\n\n5\r\nhello\r\n0\r\n\r\n"),
    ("a length and another coding", b"HTTP/1.1 200 OK\nContent-Length: 5\nTransfer-Encoding: gzip, chunked\n\n5\r\nhello\r\n0\r\n\r\n"),
    ("a bare CR", b"HTTP/1.1 200 OK\rX-A: b\nContent-Length: 5\n\nhello"),
    ("a bare CR in a value", b"HTTP/1.1 200 OK\nX-A: b\rc\nContent-Length: 5\n\nhello"),
    ("NUL in a value", b"HTTP/1.1 200 OK\nX-A: b\0c\nContent-Length: 5\n\nhello"),
    ("HTTP/2.0", b"HTTP/2.0 200 OK\nContent-Length: 5\n\nhello"),
    ("HTTP/1.10", b"HTTP/1.10 200 OK\nContent-Length: 5\n\nhello"),
    ("a line without a colon", b"HTTP/1.1 200 OK\nno colon\nContent-Length: 5\n\nhello"),
    ("a fold behind the status line", b"HTTP/1.1 200 OK\n X-A: b\nContent-Length: 5\n\nhello"),
    ("bare LF in an extension in chunks", b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5;a\nhello\n0\n\n"),
]


def serving(t, answers):
    """An origin that answers /N with answers[N], sent as `cut` pieces of them."""
    def handler(x):
        x.read_body()
        path, _, way = x.request.target[1:].partition("-")
        data = answers[int(path)]
        for piece in ([data] if not way else [data[i:i + 1] for i in range(len(data))]):
            x.send(piece)
        x.close()
    return t.origin(handler)


@group("what is forgiven", workers=[1])
def forgiven(t):
    answers = [row[1] for row in FORGIVEN]
    origin = serving(t, answers)
    strict = t.sluice(to(origin))
    all_forgiven = t.sluice(to(origin, upstream="lenient = " + ALL))
    nginx = None
    if find("nginx"):
        nginx = Nginx(t, f"location / {{ proxy_pass http://{origin.address}; proxy_http_version 1.1; }}")
    for number, (word, data, body, field, passes_nginx) in enumerate(FORGIVEN):
        with t.point(f"{word}: {data[:60]!r}"):
            equal(t.client(strict).ask(f"/{number}").status, 502, "without leniency")
            others = ", ".join(set(WORDS) - {word})
            other = t.sluice(to(origin, upstream="lenient = " + others))
            equal(t.client(other).ask(f"/{number}").status, 502, f"with {others}")
            only = t.sluice(to(origin, upstream="lenient = " + word))
            for sluice in (only, all_forgiven):
                for way in ("", "-bytewise"):
                    # The client reads strictly: nothing of what was forgiven reaches it.
                    answer = t.client(sluice).ask(f"/{number}{way}")
                    equal((answer.status, answer.body, answer.version), (200, body, "HTTP/1.1"))
                    if field:
                        equal(answer.get(field[0]), field[1], field[0])
            if nginx:
                status, output = curl("-w", "%{http_code}", f"http://{nginx.address}/{number}")
                equal((status == 0 and output == "hello200") >= passes_nginx, True, f"nginx passes it: {output!r}")


@group("violations that no leniency covers")
def not_forgiven(t):
    origin = serving(t, [data for _, data in REFUSED])
    sluice = t.sluice(to(origin, upstream="lenient = " + ALL))
    for number, (what, _) in enumerate(REFUSED):
        for way in ("", "-bytewise"):
            with t.point(f"{what}{way}"):
                client = t.client(sluice)
                client.request(f"/{number}{way}", fields=[("Connection", "close")])
                if "chunks" in what:  # its head may have left already
                    said = client.read_to_any_end()
                    true(b" 502 " in said or not said.endswith(b"0\r\n\r\n"), f"it ended well: {said}")
                else:
                    equal(client.response().status, 502, "status")


# The words that each row of the tables of hostile responses needs. No words forgive the others.
NEEDED = {
    "Content-Length and Transfer-Encoding": {"length_and_chunked"},
    **{f"{length!r} beside chunked": {"length_and_chunked"} for length in (b"3", b"0", b"500")},
    f"{b'5, 5'!r} beside chunked": {"length_and_chunked", "equal_lengths"},
    "chunked and Content-Length": {"length_and_chunked"},
    "chunked twice": {"chunked_twice"},
    "chunked in two fields": {"chunked_twice"},
    "Transfer-Encoding in HTTP/1.0": {"chunked_http_1_0"},
    "a folded field line": {"folded_lines"},
    "space before the colon": {"space_before_colon"},
    "bare LF line ends": {"bare_lf"},
    "bare LF after a field": {"bare_lf"},
    "a space after the chunk size": {"chunk_blanks"},
    "a blank behind the size": {"chunk_blanks"},
    "blanks and LF behind the size": {"chunk_blanks", "chunk_lf"},
    "bare LF after the chunk size": {"chunk_lf"},
    "bare LF after the chunk": {"chunk_lf"},
    "bare LF after the last chunk": {"chunk_lf"},
    "bare LF for the last empty line": {"chunk_lf"},
    "LF behind a trailer": {"chunk_lf"},
    "bare LF in chunks": {"chunk_lf"},
}
HOSTILE = [*BAD_RESPONSES, *BAD_BODIES, *((what, OK + TE + b"chunked\r\n\r\n" + body) for what, body in CHUNKS)]
STOLEN = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"


def whole_answer(client):
    """The body of an answer of status 200 that ended well; None: there was no such answer."""
    client.request("/hostile")
    try:
        answer = client.response()
    except Ended:
        return None
    return answer.body if answer.status == 200 else None


@group("the tables of hostile responses, with each word and with all", workers=[1])  # its connections are counted
def hostile_responses(t):
    current = {}

    def handler(x):
        if x.request.target == "/hostile":
            last_words(current["data"])(x)
        else:
            x.read_body()
            x.reply(200, b"right")

    def stays(x):
        x.read_body()
        x.send(current["data"] if x.request.target == "/hostile" else OK + CL + b"5\r\n\r\nright")

    closing, staying = t.origin(handler), t.origin(stays)
    true(set(NEEDED) <= {what for what, _ in HOSTILE}, "rows that are no more")
    for words in [{word} for word in WORDS] + [set(WORDS)]:
        lenient = f"lenient = {', '.join(words)}\nmax_fails = 0\nretries = 0"
        sluice = t.sluice(to(closing, upstream=lenient))
        patient = t.sluice(to(staying, upstream=lenient))
        with t.point(", ".join(sorted(words)) if len(words) == 1 else "all words"):
            for what, data in HOSTILE:
                forgiven = what in NEEDED and NEEDED[what] <= words
                current["data"] = data
                body = whole_answer(t.client(sluice))
                equal(body in (b"hello", b"hellohello"), forgiven, f"{what}: {body!r}")
                true(forgiven or body is None, f"{what}: {body!r}")
                if forgiven:
                    # Its connection serves no other request, and no byte behind it is another client's answer.
                    before = staying.connections
                    true(whole_answer(t.client(patient)) is not None, what)
                    equal(t.client(patient).ask("/next").body, b"right", what)
                    true(staying.connections > before, f"{what}: the connection was used again")
                    current["data"] = data + STOLEN
                    true(whole_answer(t.client(patient)) is not None, what)
                    equal([t.client(patient).ask("/next").body for _ in range(2)], [b"right"] * 2, what)


@group("the tables of hostile requests, with all words: none is forgiven")
def hostile_requests(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, upstream="lenient = " + ALL))
    for what, data, statuses in [*rows(AMBIGUOUS), *rows(BAD_CHUNKS, (400, 431))]:
        with t.point(what):
            found = served_after(t.client(sluice), data)
            equal(len(found), 1, f"number of answers {found}")
            member(found[0], statuses, "status")
    with t.point("what stood behind them was never seen, nor any of them whole"):
        t.client(sluice).ask("/sentinel")
        for x in origin.requests:
            true(x.request.target == "/sentinel" or (x.request.target == "/victim" and not x.complete), x.request.target)


@group("a server that answers more than it was asked")
def smuggled(t):
    """What a caller may write into a bare-LF head (or behind it) is never another caller's response."""
    injected = b"HTTP/1.1 200 OK\nX-Echo: a\nContent-Length: 2\n\nok" \
               b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled"
    late = threading.Event()

    def handler(x):
        x.read_body()
        if x.request.target == "/evil":
            x.send(injected[:-60])
            late.wait(0.05)
            x.send(injected[-60:])
        elif x.request.target == "/lf":
            x.send(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok")
        elif x.request.target == "/lengths":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok")
        else:
            x.reply(200, x.request.target.encode())

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream="lenient = " + ALL))
    with t.point("the connection of a head with bare LF serves no other request"):
        for i in range(10):
            client = t.client(sluice)
            equal(client.ask("/evil").body, b"ok")
            equal(client.ask(f"/after-{i}").body, b"/after-%d" % i)
    with t.point("one of equal lengths goes on serving"):
        connections = origin.connections
        client = t.client(sluice)
        for _ in range(5):
            equal(client.ask("/lengths").body, b"ok")
        true(origin.connections - connections <= 1, "connections")


@group("interim responses, HEAD and large heads")
def more(t):
    large = b"HTTP/1.1 200 OK\n" + b"".join(b"X-%d: %s\n" % (i, b"v" * 500) for i in range(120)) + b"Content-Length: 5\n\nhello"

    def handler(x):
        x.read_body()
        if x.request.target == "/interim":
            x.send(b"HTTP/1.1 103 Early Hints\nLink: </a>\n\nHTTP/1.2 200 OK\nContent-Length: 5\n\nhello")
        elif x.request.target == "/large":
            x.send(large)
        else:
            x.send(b"HTTP/1.1 200 OK\nContent-Length: 5\n\n")

    sluice = t.sluice(to(t.origin(handler), upstream="lenient = " + ALL))
    with t.point("an interim response is cleaned, too"):
        answer = t.client(sluice).ask("/interim")
        equal(([x.status for x in answer.interim], answer.interim[0].get("Link"), answer.body), ([103], "</a>", b"hello"))
    with t.point("HEAD"):
        answer = Client(sluice.address).ask("/head", "HEAD")
        equal((answer.status, answer.get("Content-Length")), (200, "5"))
    with t.point("a head of 60 kB"):
        answer = t.client(sluice).ask("/large")
        equal((answer.status, answer.body, len(answer.get("X-119"))), (200, b"hello", 500))


main()
