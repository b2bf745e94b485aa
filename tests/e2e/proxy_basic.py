"""What any reverse proxy does: requests reach the right origin, responses come back, connections
are kept, fields that belong to one hop stay there."""
import fcntl
import re
import select
import termios

from lib import wire
from lib.client import request_bytes
from lib.process import SANITIZER, resident_bytes
from lib.sluice import to
from lib.tap import equal, group, main, member, test, true
from lib.wire import chunked, fields_bytes


def plain(t, handler=None, route="", settings="", listener=""):
    origin = t.origin(handler)
    return origin, t.sluice(to(origin, route=route), settings=settings, listener=listener)


# ---- messages and connections ------------------------------------------------------------------

@group("messages")
def messages(t):
    def handler(x):
        x.read_body()
        kind = x.request.target
        if kind == "/204":
            x.reply(204)
        elif kind == "/304":
            x.reply(304, fields=[("ETag", '"e"'), ("Content-Length", "5")])
        elif kind == "/head":
            x.reply(200, b"12345")
        else:
            x.reply(200, x.request.body or b"hello", fields=[("X-Origin", "yes"), ("ETag", '"e"')])

    origin, sluice = plain(t, handler)
    client = t.client(sluice)

    with t.point("GET: status, reason, fields and body come back, one HTTP/1.1 message"):
        answer = client.ask("/a?b=c")
        equal((answer.version, answer.status, answer.reason), ("HTTP/1.1", 200, "OK"), "status line")
        equal((answer.body, answer.get("X-Origin"), answer.get("ETag")), (b"hello", "yes", '"e"'))
        equal(origin.last().target, "/a?b=c", "target")
        equal(origin.last().get("Host"), "api.test", "Host")

    with t.point("the same connection again: it is kept"):
        equal(client.ask("/again").status, 200, "status")

    with t.point("HEAD: the fields of GET and no body, and the connection goes on"):
        answer = client.ask("/head", "HEAD")
        equal((answer.status, answer.get("Content-Length"), answer.body), (200, "5", b""))
        equal(client.ask("/after").status, 200, "status")

    with t.point("204 and 304 have no body, and the connection goes on"):
        answer = client.ask("/204")
        equal((answer.status, answer.body, answer.get("Content-Length")), (204, b"", None))
        answer = client.ask("/304")
        equal((answer.status, answer.body, answer.get("ETag")), (304, b"", '"e"'))
        equal(client.ask("/after").status, 200, "status")

    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "QUERY", "FOO", "m.s_1"):
        with t.point(f"{method} with a body"):
            answer = client.ask("/x", method, body=b"some body")
            equal((answer.status, answer.body), (200, b"some body"))
            equal((origin.last().method, origin.last().body), (method, b"some body"))

    with t.point("POST with an empty body"):
        equal(client.ask("/x", "POST", body=b"").status, 200, "status")
        equal((origin.last().method, origin.last().get("Content-Length")), ("POST", "0"))

    with t.point("a method of another case, which servers may take for POST, is refused"):
        other = t.client(sluice)
        equal(other.ask("/x", "post").status, 501, "status")
        true("post" not in [x.request.method for x in origin.requests], "post reached the origin")

    with t.point("raw UTF-8 in a target is forwarded as it came"):
        for target in (b"/\xc3\xa4/\xe2\x82\xac?q=\xc3\xa4&\xff=1", b"/%c3%A4\xc3\xa4"):
            client.send(b"GET " + target + b" HTTP/1.1\r\nHost: api.test\r\n\r\n")
            equal(client.response().status, 200, "status")
            equal(origin.last().target.encode("latin-1"), target, "target")

    with t.point("empty lines before a request are ignored"):
        client.send(b"\r\n\r\n" + request_bytes("/empty-lines"))
        equal(client.response().status, 200, "status")


@group("connections")
def connections(t):
    origin, sluice = plain(t)

    with t.point("Connection: close is obeyed and said"):
        client = t.client(sluice)
        answer = client.ask("/", fields=[("Connection", "close")])
        equal((answer.status, answer.tokens("Connection")), (200, ["close"]))
        client.expect_end()

    with t.point("HTTP/1.0: answered, then closed"):
        client = t.client(sluice)
        answer = client.ask("/", version="1.0")
        equal(answer.status, 200, "status")
        true("keep-alive" not in answer.tokens("Connection"), "offers to keep the connection")
        client.expect_end()

    with t.point("HTTP/1.0 with keep-alive: kept, and said so"):
        client = t.client(sluice)
        for _ in range(3):
            answer = client.ask("/", fields=[("Connection", "keep-alive")], version="1.0")
            equal((answer.status, answer.tokens("Connection")), (200, ["keep-alive"]))
        client.request("/", version="1.0")
        equal(client.response().status, 200, "status")
        client.expect_end()

    with t.point("HTTP/1.0 without Host is served"):
        client = t.client(sluice)
        client.send(b"GET /old HTTP/1.0\r\n\r\n")
        equal(client.response().status, 200, "status")
        equal(origin.last().version, "HTTP/1.1", "version at the origin")
        equal(len(origin.last().all("Host")), 1, "Host fields at the origin")

    with t.point("upstream connections are kept and used again"):
        before = origin.connections
        client = t.client(sluice)
        for _ in range(20):
            client.ask("/")
        true(origin.connections - before <= 1, f"{origin.connections - before} new connections")


@test("a chunked response to an HTTP/1.0 client is sent without chunks, ended by the close")
def chunked_to_old_client(t):
    def handler(x):
        x.read_body()
        x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + wire.chunked(b"ab", b"cd"))

    _, sluice = plain(t, handler)
    client = t.client(sluice)
    answer = client.ask("/", fields=[("Connection", "keep-alive")], version="1.0")
    equal((answer.framing, answer.body), ("close", b"abcd"))


@test("nothing is written behind a response that ends with the connection, though more was asked for")
def nothing_behind_the_end(t):
    def handler(x):
        if x.request.target == "/first":
            x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + wire.chunked(b"first"))
        else:
            x.reply(200, b"second")

    _, sluice = plain(t, handler)
    client = t.client(sluice)
    keep = [("Connection", "keep-alive")]
    client.send(request_bytes("/first", fields=keep, version="1.0")
                + request_bytes("/second", fields=keep, version="1.0"))
    equal(client.response().body, b"first")
    client.expect_end()


@test("half a head behind a request after whose response the connection closes")
def half_a_head_behind(t):
    """What was read of it is let go of, and what was configured when it came: a reload shows that."""
    def handler(x):
        x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n")

    origin = t.origin(handler)
    sections = to(origin)
    sluice = t.sluice(sections)
    half = b"GET /half HTTP/1.1\r\nX: " + b"y" * 100
    before = resident_bytes(sluice.pid)
    for _ in range(1500):
        client = t.client(sluice)
        client.send(request_bytes("/", fields=[("Connection", "keep-alive")], version="1.0") + half)
        equal(client.response_head().status, 200, "status")
        client.read_to_end()
        client.close()
    grown = resident_bytes(sluice.pid) - before
    true(SANITIZER or grown < 4 << 20, f"grown by {grown >> 10} KiB")
    sluice.reload(sections)
    sluice.process.wait_output("reloaded")


@test("pipelined requests are answered in order, the next one sent when the one before has been")
def pipelining(t):
    def handler(x):
        x.read_body()
        x.reply(200, x.request.target.encode())

    _, sluice = plain(t, handler)
    client = t.client(sluice)
    client.send(b"".join(request_bytes(f"/{n}") for n in range(10)))
    equal([client.response().body for _ in range(10)], [b"/%d" % n for n in range(10)], "order")


@test("1,000 pipelined GETs in one write, all answered in order, then a close")
def long_pipeline(t):
    _, sluice = plain(t, lambda x: x.reply(200, x.request.target.encode()))
    client = t.client(sluice)
    client.send(b"".join(request_bytes(f"/{n}") for n in range(999))
                + request_bytes("/999", fields=[("Connection", "close")]))
    for n in range(1000):
        equal(client.response().body, b"/%d" % n, "body")
    client.expect_end()


@test("pipelined requests that are answered by sluice itself, far more than a buffer holds")
def long_pipeline_of_refusals(t):
    # So few that one read takes them all: nothing comes later that would set it going again.
    origin, sluice = plain(t, lambda x: x.reply(200, b"served"), route="path = /served")
    client = t.client(sluice)
    client.send(b"".join(request_bytes("/none") for _ in range(600)) + request_bytes("/served"))
    for _ in range(600):
        equal(client.response().status, 404, "status")
    equal(client.response().body, b"served", "body")
    equal(origin.targets(), ["/served"], "targets")


def until_stuck(client, requests):
    """Sends until nobody takes more: both sockets are full and the proxy reads no further. Returns what is left."""
    left = memoryview(requests)
    client.socket.setblocking(False)
    # What the kernel holds varies, and who is slow for so long looks stuck too: the answers are the same.
    while left and select.select([], [client.socket], [], 0.5)[1]:
        left = left[client.socket.send(left):]
    return left


def until_full(client):
    """Until no more answers come: as many are here as are taken without a read."""
    before = -1
    while before != (here := int.from_bytes(fcntl.ioctl(client.socket, termios.FIONREAD, bytes(4)), "little")):
        before = here
        select.select([], [], [], 0.2)  # too short only lets less wait


def take_answers(client, left, wanted):
    """Sends what is left and reads until there are as many answers. Returns all that was read."""
    got, count, end = [], 0, b""
    while count < wanted:
        ready = select.select([client.socket], [client.socket] if left else [], [], wire.DEADLINE_SECONDS)
        true(ready[0] or ready[1], f"it goes on after {count} answers")
        if ready[1]:
            left = left[client.socket.send(left):]
        if ready[0]:
            read = client.socket.recv(1 << 20)
            true(read, f"more than {count} answers")
            got.append(read)
            count += (end + read).count(b"X-Request-Id: ") - end.count(b"X-Request-Id: ")
            end = read[-13:]
    return b"".join(got)


def slow_reader(t, handler, settings, count, pad):
    """Requests without a look at the answers, until no more fits anywhere; then all of them."""
    origin, sluice = plain(t, handler, **settings)
    client = t.client(sluice, receive_buffer=4096)
    requests = b"".join(request_bytes("/served", fields=[("X-Request-Id", f"{n:05}"), ("X-Pad", "-" * pad)])
                        for n in range(count))
    left = until_stuck(client, requests)
    numbers = re.findall(rb"X-Request-Id: (\d{5})\r\n", take_answers(client, left, count))
    equal(numbers, [b"%05d" % n for n in range(count)], "order")
    return origin


@test("a client that asks on without reading: refusals wait, none is lost")
def slow_reader_of_refusals(t):
    origin = slow_reader(t, None, {"route": "path = /other"}, 20000, 500)
    equal(origin.targets(), [], "targets")


@test("a client that asks on without reading: answers wait, chunked ones and long ones too, none is lost")
def slow_reader_of_answers(t):
    bodies = [b"short", b"x" * 3000, b"y" * 30000]

    def handler(x):
        number = int(x.request.get("X-Request-Id"))
        body = bodies[number % 3]
        if number % 2:
            x.reply(200, body)
        else:
            x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    slow_reader(t, handler, {}, 1500, 6000)


@test("a drain lets a client that has not read yet have its answers whole")
def drain_of_slow_reader(t):
    _, sluice = plain(t, route="path = /other")
    client = t.client(sluice, receive_buffer=4096)
    client.ask("/none")
    # Their answers are more than the sockets take, so some wait in sluice when it has to end.
    client.socket.sendall(request_bytes("/none") * 20000)
    until_full(client)
    sluice.terminate()
    sluice.process.wait_output("draining", 1)
    got = b""
    while read := client.socket.recv(1 << 20):
        got += read
    head, body = got[got.rindex(b"HTTP/1.1 404"):].split(b"\r\n\r\n", 1)
    length = int(re.search(rb"Content-Length: (\d+)", head).group(1))
    equal(len(body), length, "bytes of the last answer's body")
    equal(sluice.wait(), 0, "exit status")


# ---- targets and hosts -------------------------------------------------------------------------

@group("targets")
def targets(t):
    origin, sluice = plain(t)
    client = t.client(sluice)

    with t.point("OPTIONS * passes"):
        equal(client.ask("*", "OPTIONS").status, 200, "status")
        equal((origin.last().method, origin.last().target), ("OPTIONS", "*"))

    with t.point("absolute-form: its authority replaces Host, the origin sees origin-form"):
        equal(client.ask("http://example.com:81/x?y", host="other.test").status, 200, "status")
        equal((origin.last().target, origin.last().all("Host")), ("/x?y", ["example.com:81"]))

    with t.point("absolute-form without a path"):
        equal(client.ask("http://example.com").status, 200, "status")
        equal(origin.last().target, "/", "target")

    with t.point("OPTIONS http://host is OPTIONS *"):
        equal(client.ask("http://example.com", "OPTIONS").status, 200, "status")
        equal(origin.last().target, "*", "target")

    with t.point("a query passes untouched, also an empty one"):
        client.ask("/p?a=%7e&b=//../x&c")
        equal(origin.last().target, "/p?a=%7e&b=//../x&c", "target")
        client.ask("/p?")
        equal(origin.last().target, "/p?", "target")

    received = ("/a/./b/../c", "/%7euser", "/a%2fb", "/a%2Fb", "/a//b", "/../../x", "/caf%c3%a9", "/a;b=1//c?d;e//f",
                "/x|y\"z^w`{v}")
    with t.point("the path reaches the origin exactly as it came"):
        for sent in received:
            client.ask(sent)
            equal(origin.last().target, sent, sent)
            client.ask("http://one.test" + sent)
            equal(origin.last().target, sent, f"{sent} in absolute-form")

    with t.point("or, where the route says so, in its normal form"):
        normal = t.client(t.sluice(to(origin, route="forward_path = normal")))
        for sent, expected in (("/a/./b/../c", "/a/c"), ("/%7euser", "/~user"), ("/a%2fb", "/a%2Fb"), ("/a//b", "/a//b"),
                               ("/../../x", "/x"), ("/plain?a=%7e", "/plain?a=%7e")):
            normal.ask(sent)
            equal(origin.last().target, expected, sent)

    for lines in (b"Host: one.test\r\nX-A: b", b"X-A: b\r\nHost: one.test", b"host: one.test\r\nX-A: b",
                  b"Host:one.test\r\nX-A: b", b"Host: \t one.test\r\nX-A: b", b"Host: one.test \r\nX-A: b",
                  b"Host: one.test\r\nConnection: host\r\nX-A: b"):
        with t.point(f"{lines!r}: the origin gets the host once, and first"):
            client.send(b"GET /host HTTP/1.1\r\n" + lines + b"\r\n\r\n")
            equal(client.response().status, 200, "status")
            seen = origin.last()
            equal((seen.fields[0], seen.all("Host"), seen.all("X-A")), (("Host", "one.test"), ["one.test"], ["b"]))

    for bad in ("/a%zz", "/a%00b", "/..%2fx", "/a#b", "nothing", "ftp://example.com/"):
        with t.point(f"the target {bad!r} gets 400"):
            count = len(origin.requests)
            equal(t.client(sluice).ask(bad).status, 400, "status")
            equal(len(origin.requests), count, "requests at the origin")

    for bad in ("a b", "a/b", "user@host", "host:99999", "[::1", "a%41", "a?b"):
        with t.point(f"the Host {bad!r} gets 400"):
            equal(t.client(sluice).ask("/", host=bad).status, 400, "status")


# ---- fields ------------------------------------------------------------------------------------

@group("fields of one hop")
def hop_by_hop(t):
    def handler(x):
        x.read_body()
        x.reply(200, b"x", fields=[("Connection", "X-Hop, keep-alive"), ("X-Hop", "1"),
                                   ("Keep-Alive", "timeout=5"), ("Proxy-Connection", "x"),
                                   ("X-End", "2"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])

    origin, sluice = plain(t, handler)
    client = t.client(sluice)
    answer = client.ask("/", fields=[
        ("Connection", "X-Mine, x-OTHER"), ("Connection", "X-Third"), ("X-Mine", "1"),
        ("X-Other", "2"), ("X-Third", "3"), ("Keep-Alive", "300"), ("Proxy-Connection", "keep-alive"),
        ("TE", "gzip"), ("Upgrade", "h2c"), ("X-End", "4"), ("Cookie", "c=3"), ("X-Empty", "")])
    seen = origin.last()

    with t.point("of the request: those and what Connection lists are removed"):
        for name in ("X-Mine", "X-Other", "X-Third", "Keep-Alive", "Proxy-Connection", "TE", "Upgrade"):
            equal(seen.get(name), None, name)

    with t.point("of the request: all others pass, in their order"):
        equal((seen.get("X-End"), seen.get("Cookie"), seen.all("X-Empty")), ("4", "c=3", [""]))

    with t.point("of the response: those and what Connection lists are removed"):
        for name in ("X-Hop", "Keep-Alive", "Proxy-Connection"):
            equal(answer.get(name), None, name)

    with t.point("of the response: all others pass, lines of one name are not joined"):
        equal((answer.get("X-End"), answer.all("Set-Cookie")), ("2", ["a=1", "b=2"]))

    with t.point("Connection can't remove what sluice itself sets, nor Host"):
        client.ask("/", fields=[("Connection", "Host, X-Forwarded-For, Content-Length, close-not")])
        equal(origin.last().get("Host"), "api.test", "Host")
        true(origin.last().get("X-Forwarded-For"), "X-Forwarded-For is missing")


# ---- routes ------------------------------------------------------------------------------------

@group("routes")
def routes(t):
    origin = t.origin()
    rows = {
        "exact-host": "host = api.test\npath = /",
        "suffix": "host = *.wild.test",
        "deep-suffix": "host = *.deep.wild.test",
        "two-hosts": "host = one.test, two.test",
        "prefix": "host = paths.test\npath = /api",
        "longer": "host = paths.test\npath = /api/v2",
        "exact": "host = paths.test\npath = =/api/v2/only",
        "regex": r"host = paths.test" + "\n" + r"path = ~^/r/[0-9]+$",
        "get-only": "host = methods.test\nmethod = GET, HEAD",
        "post": "host = methods.test\nmethod = POST",
    }
    sluice = t.sluice(f"[upstream origin]\nserver = {origin}\n" + "".join(
        f"[route {name}]\n{text}\nupstream = origin\nresponse_header_set = X-Route: {name}\n"
        for name, text in rows.items()))
    client = t.client(sluice)
    table = [
        ("GET", "api.test", "/x", "exact-host"),
        ("GET", "API.Test", "/x", "exact-host"),
        ("GET", "api.test.", "/x", "exact-host"),
        ("GET", f"api.test:{sluice.port.number}", "/x", "exact-host"),
        ("GET", "a.wild.test", "/", "suffix"),
        ("GET", "a.b.wild.test", "/", "suffix"),
        ("GET", "x.deep.wild.test", "/", "deep-suffix"),
        ("GET", "wild.test", "/", 404),
        ("GET", "notwild.test", "/", 404),
        ("GET", "one.test", "/", "two-hosts"),
        ("GET", "two.test", "/", "two-hosts"),
        ("GET", "paths.test", "/api", "prefix"),
        ("GET", "paths.test", "/api/x", "prefix"),
        ("GET", "paths.test", "/apix", 404),
        ("GET", "paths.test", "/api/v2/x", "longer"),
        ("GET", "paths.test", "/api/v2x", "prefix"),
        ("GET", "paths.test", "/api/v2/only", "exact"),
        ("GET", "paths.test", "/api/v2/only/x", "longer"),
        ("GET", "paths.test", "/api/v1/../v2/x", 400),  # two routes, of which response_header_set restricts each
        ("GET", "paths.test", "/%61pi/x", "prefix"),
        ("GET", "paths.test", "/api/../other", 404),
        ("GET", "paths.test", "/api/%2e%2e/other", 404),
        ("GET", "paths.test", "/api/x/../y", "prefix"),
        ("GET", "paths.test", "/x/../api?/v2", 400),  # no route has it where dot segments stay
        ("GET", "paths.test", "/r/123", "regex"),
        ("GET", "paths.test", "/r/123x", 404),
        ("GET", "methods.test", "/", "get-only"),
        ("POST", "methods.test", "/", "post"),
        ("DELETE", "methods.test", "/", (404, 405)),
        ("GET", "nowhere.test", "/", 404),
    ]
    for method, host, target, expected in table:
        with t.point(f"{method} {host} {target} -> {expected}"):
            answer = client.ask(target, method, host=host)
            if isinstance(expected, str):
                equal((answer.status, answer.get("X-Route")), (200, expected))
            else:
                member(answer.status, expected if isinstance(expected, tuple) else (expected,), "status")
                equal(answer.get("Content-Type"), "application/problem+json", "Content-Type")


@test("of two routes that match alike the first in the file wins")
def route_order(t):
    origin = t.origin()
    sluice = t.sluice(f"""[upstream origin]
server = {origin}
[route second-name-first]
host = api.test
path = ~^/a
upstream = origin
response_header_set = X-Route: first
[route b]
host = api.test
path = ~a$
upstream = origin
response_header_set = X-Route: second
""")
    equal(t.client(sluice).ask("/a").get("X-Route"), "first", "route")


@test("raw UTF-8 is the same path and the same caller as percent-encoded")
def raw_utf8(t):
    sluice = t.sluice("[limit by_path]\nkey = path\nrate = 1 per 1h\n[limit by_key]\nkey = query:key\nrate = 1 per 1h\n",
                      to(t.origin(), name="cafe", route="path = /caf%C3%A9\nlimits = by_path"),
                      to(t.origin(), name="all", route="limits = by_key"))
    client = t.client(sluice)
    for target in (b"/caf%C3%A9", b"/?key=%C3%A4"):
        raw = target.replace(b"%C3%A9", b"\xc3\xa9").replace(b"%C3%A4", b"\xc3\xa4")
        for asked, status in ((raw, 200), (target, 429), (target.lower(), 429), (raw, 429)):
            client.send(b"GET " + asked + b" HTTP/1.1\r\nHost: api.test\r\n\r\n")
            equal((asked, client.response().status), (asked, status))


@group("OPTIONS and TRACE respect Max-Forwards, and a list of methods restricts any")
def max_forwards(t):
    origin = t.origin()
    sluice = t.sluice(f"""[upstream origin]
server = {origin}
[route some]
path = /some
method = GET, TRACE, PROPFIND
upstream = origin
[route other]
path = /some
method = OPTIONS
upstream = origin
[route any]
path = /any
upstream = origin
[route star]
host = star.test
upstream = origin
""")
    client = t.client(sluice)

    for path, allow in (("/any", "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH"),
                        ("/some", "GET, HEAD, OPTIONS, TRACE, PROPFIND")):
        with t.point(f"OPTIONS {path} with Max-Forwards: 0 is answered with Allow"):
            answer = client.ask(path, "OPTIONS", fields=[("Max-Forwards", "0")])
            equal((answer.status, answer.get("Allow"), answer.body, answer.get("Content-Length")),
                  (200, allow, b"", "0"))
            equal(answer.get("Content-Type"), None, "type of an answer without a body")
            equal(origin.targets(), [], "targets")

    for given, sent in (("1", "0"), ("10", "9"), ("0100", "099"), ("205", "204"), ("x", "x"), ("-1", "-1")):
        with t.point(f"OPTIONS with Max-Forwards: {given} is forwarded with {sent}"):
            equal(client.ask("/any", "OPTIONS", fields=[("Max-Forwards", given)]).status, 200, "status")
            equal(origin.last().get("Max-Forwards"), sent, "sent")

    with t.point("TRACE reaches the server only on a route that lists it, and at most Max-Forwards times"):
        equal(client.ask("/any", "TRACE").status, 405, "status")
        equal(client.ask("/some", "TRACE", fields=[("Max-Forwards", "1")]).status, 200, "status")
        equal((origin.last().method, origin.last().get("Max-Forwards")), ("TRACE", "0"))
        count = len(origin.requests)
        equal(client.ask("/some", "TRACE", fields=[("Max-Forwards", "0")]).status, 405, "status")
        equal(len(origin.requests), count, "requests at the origin")

    with t.point("OPTIONS * is counted and answered as well"):
        answer = client.ask("*", "OPTIONS", fields=[("Max-Forwards", "0")], host="star.test")
        equal((answer.status, answer.get("Allow"), answer.body),
              (200, "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH", b""))
        true("*" not in origin.targets(), "it was forwarded")
        equal(client.ask("*", "OPTIONS", fields=[("Max-Forwards", "3")], host="star.test").status, 200, "status")
        equal((origin.last().method, origin.last().target, origin.last().get("Max-Forwards")), ("OPTIONS", "*", "2"))

    with t.point("TRACE with a body is refused, by length and chunked, and nothing of it is taken for a request"):
        count = len(origin.requests)
        hidden = b"GET /hidden HTTP/1.1\r\nHost: api.test\r\n\r\n"
        for body in (b"Content-Length: %d\r\n\r\n" % len(hidden) + hidden,
                     b"Transfer-Encoding: chunked\r\n\r\n" + chunked(hidden)):
            other = t.client(sluice)
            other.send(b"TRACE /some HTTP/1.1\r\nHost: api.test\r\n" + body)
            equal(other.response("TRACE").status, 400, "status")
            other.expect_end()
        equal(len(origin.requests), count, "requests at the origin")

    with t.point("other methods keep the field as it came"):
        equal(client.ask("/any", fields=[("Max-Forwards", "0")]).status, 200, "status")
        equal((origin.last().method, origin.last().get("Max-Forwards")), ("GET", "0"))

    with t.point("a route's list admits PROPFIND, and neither POST nor a method without a name"):
        equal([client.ask("/some", method).status for method in ("PROPFIND", "POST", "FOO")], [200, 405, 405])


@group("what is refused by default")
def refused(t):
    origin, sluice = plain(t)

    with t.point("TRACE gets 405 or 501"):
        client = t.client(sluice)
        member(client.ask("/", "TRACE").status, (405, 501), "status")

    with t.point("CONNECT gets 405 or 501"):
        client = t.client(sluice)
        client.send(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
        member(client.response().status, (405, 501), "status")

    with t.point("neither reached the origin"):
        equal(origin.targets(), [], "targets")


@test("many fields of a long head pass whole")
def many_fields(t):
    origin, sluice = plain(t, listener="max_header_size = 64k\nmax_headers = 400")
    fields = [(f"X-Field-{n}", "v" * (n % 97)) for n in range(300)]
    client = t.client(sluice)
    client.send(b"GET / HTTP/1.1\r\nHost: api.test\r\n" + fields_bytes(fields) + b"\r\n")
    equal(client.response().status, 200, "status")
    seen = [(n, v) for n, v in origin.last().fields if n.startswith("X-Field-")]
    equal(seen, fields, "fields")


main()
