"""When, and only when, a request is tried again: connections that turn out dead, and servers that cut."""
import signal
import socket

from lib.client import request_bytes
from lib.problem import problem
from lib.process import DEADLINE_SECONDS, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true

OK = b"HTTP/1.1 200 OK\r\n"


def connecting_to(port):
    """Is there a TCP connection on its way to that port of this host (state SYN_SENT)?"""
    with open("/proc/net/tcp") as table:
        return any(line.split()[2].endswith(f":{port:04X}") and line.split()[3] == "02" for line in table)


def named(name):
    """A handler that says who answered."""
    def handler(x):
        x.read_body()
        x.reply(200, name.encode())
    return handler


def dying(x):
    """Answers the first request of a connection; closes at the second without a word."""
    x.read_body()
    if x.request.target == "/first" or not any(
            y.connection == x.connection and y.number < x.number for y in x.origin.requests):
        x.reply(200, b"x")
    else:
        x.close()


@group("a kept connection that turns out dead")
def reused_dead(t):
    origin = t.origin(dying)
    sluice = t.sluice(to(origin))

    def prepared(method, target, **more):
        client = t.client(sluice)
        count = len(origin.requests)
        client.ask("/first")
        answer = client.ask(target, method, **more)
        return answer, origin.targets()[count:]

    for method, body in (("GET", None), ("HEAD", None), ("OPTIONS", None), ("PUT", b""), ("DELETE", None)):
        with t.point(f"{method} is tried again on a fresh one"):
            answer, seen = prepared(method, f"/{method}", body=body)
            equal((answer.status, seen), (200, ["/first", f"/{method}", f"/{method}"]))

    for method in ("PUT", "DELETE"):
        with t.point(f"{method} with a short body is tried again, with it"):
            answer, seen = prepared(method, "/body", body=b"small")
            equal((answer.status, seen), (200, ["/first", "/body", "/body"]))
            equal([r.request.body for r in origin.requests[-2:]], [b"small", b"small"])

    for method, body in (("POST", b"x"), ("POST", None), ("PATCH", b"x")):
        with t.point(f"{method}{' with a body' if body else ''} is not: 502, sent once"):
            answer, seen = prepared(method, f"/{method}", body=body)
            equal((answer.status, seen), (502, ["/first", f"/{method}"]))


@group("a connection that ends before a request is sent on it", workers=[1])
def dead_before_sent(t):
    """That it is made and that it has ended is seen at once, as sluice stands still meanwhile."""
    good = t.origin()
    body = b"z" * 5000
    chunked = (request_bytes("/", "POST", [("Transfer-Encoding", "chunked")])
               + b"7d0\r\n" + body[:2000] + b"\r\nbb8\r\n" + body[2000:] + b"\r\n0\r\n\r\n")
    for what, method, request in (("a POST", "POST", request_bytes("/", "POST", body=body)),
                                  ("a POST in chunks", "POST", chunked),
                                  ("a PUT", "PUT", request_bytes("/", "PUT", body=body))):
        with t.point(f"{what} goes to the next server, whole, and what is behind it in its turn"):
            listener = socket.create_server(("127.0.0.1", 0), backlog=0)
            # With one in its queue the next one's SYN is lost, and sent again a second later.
            filler = socket.create_connection(listener.getsockname())
            bad = f"127.0.0.1:{listener.getsockname()[1]}"
            sluice = t.sluice(to(bad, good))
            client = t.client(sluice)
            client.send(request + request_bytes("/behind"))
            until(lambda: connecting_to(listener.getsockname()[1]), "a connect under way")
            sluice.process.stop()
            listener.accept()[0].close()
            listener.settimeout(DEADLINE_SECONDS)
            listener.accept()[0].close()
            listener.close()
            filler.close()
            sluice.process.signal(signal.SIGCONT)
            answer = client.response(method)
            equal((answer.status, answer.body), (200, body))
            equal(client.response().status, 200, "the request behind it")
            client.close()


@group("a connection that is reset in the same moment as its answer arrives", workers=[1])
def reset_with_answer(t):
    """As sluice stands still meanwhile, the loop tells it of both at once, which looks like an answer alone."""
    bodies = {"GET": None, "PUT": b"z" * 3000, "POST": b"z" * 3000}

    def handler(x):
        x.read_body()
        if x.request.target == "/first":
            sluices[-1].process.stop()
            x.reply(200, b"x")
            x.reset()
            sluices[-1].process.signal(signal.SIGCONT)
        else:
            x.reply(200, x.request.body)

    sluices = []
    origin = t.origin(handler)

    def asked_once():
        """A client of another sluice, whose connection to the origin was reset behind the first answer."""
        sluices.append(t.sluice(to(origin, upstream="max_in_flight = 1")))
        client = t.client(sluices[-1])
        equal(client.ask("/first").status, 200, "status of the first")
        return client

    for method, body in bodies.items():
        with t.point(f"the next {method} is sent on another one, whole"):
            client = asked_once()
            answer = client.ask("/next", method, body=body)
            equal((answer.status, answer.body), (200, body or b""))
            equal(t.client(sluices[-1]).ask("/other").status, 200, "status of another client")

    chunked = request_bytes("/", "POST", [("Transfer-Encoding", "chunked")])
    for what, data, body in (("one in chunks", b"1\r\na\r\n", b"a"), ("one in chunks without content", b"", b"")):
        with t.point(f"{what} is sent on another one, whole"):
            client = asked_once()
            client.send(chunked + data + b"0\r\n\r\n")
            answer = client.response()
            equal((answer.status, answer.body), (200, body))
        with t.point(f"{what} and with trailers is answered too"):
            client = asked_once()
            client.send(chunked + data + b"0\r\nDigest: x\r\n\r\n")
            problem(client.response(), 502)
            equal(t.client(sluices[-1]).ask("/other").status, 200, "status of another client")


@test("a body that was put back for another connection, which fails too, is not read as a request", workers=[1])
def put_back_and_refused(t):
    def handler(x):
        sluice.process.stop()
        x.reply(200, b"x")
        x.reset()
        origin.refuse()
        sluice.process.signal(signal.SIGCONT)

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, route="host = api.test"))
    client = t.client(sluice)
    equal(client.ask("/first").status, 200, "status of the first")
    client.send(request_bytes("/next", "POST", body=request_bytes("/smuggled"))
                + request_bytes("/nowhere", host="nowhere.test"))
    problem(client.response(), 502)
    problem(client.response(), 404)


@group("a fresh connection that dies, and one that dies within an answer")
def fresh_dead(t):
    def handler(x):
        x.read_body()
        if x.request.target == "/word":
            x.send(b"HTTP/1.1 2")
        if x.request.target == "/body":
            x.send(OK + b"Content-Length: 10\r\n\r\nhello")
        x.close()

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream="max_fails = 0"))

    with t.point("a GET on a fresh connection that is closed without a byte: 502, not tried for ever"):
        problem(t.client(sluice).ask("/none"), 502)
        true(len(origin.requests) <= 3, f"sent {len(origin.requests)} times")

    with t.point("after a byte of the response: never again"):
        count = len(origin.requests)
        problem(t.client(sluice).ask("/word"), 502)
        equal(origin.targets()[count:], ["/word"], "requests")

    with t.point("within the body: never again"):
        count = len(origin.requests)
        client = t.client(sluice)
        client.request("/body")
        client.expect_cut()
        equal(origin.targets()[count:], ["/body"], "requests")


@group("two servers, of which one cuts fresh connections before a byte of a response")
def next_server(t):
    def cut(x):
        x.read_body()
        x.close()

    bad, good = t.origin(cut), t.origin(named("good"))
    sluice = t.sluice(to(bad, good, upstream="max_fails = 0\nkeepalive = 0"))
    client = t.client(sluice)

    for method in ("GET", "HEAD", "OPTIONS"):
        with t.point(f"{method} is tried on the other one"):
            for number in range(4):
                answer = client.ask(f"/{method}/{number}", method)
                equal(answer.status, 200, "status")
    true(bad.targets(), "the bad one was asked")
    equal(len(set(bad.targets())), len(bad.targets()), "none was sent to it twice")

    with t.point("what may have changed something is not"):
        for method in ("POST", "PUT", "DELETE"):
            statuses = [client.ask(f"/{n}", method, body=b"x").status for n in range(2)]
            equal(sorted(statuses), [200, 502], f"statuses of {method}")

    with t.point("retries = 0: none is"):
        none = t.sluice(to(bad, good, upstream="max_fails = 0\nkeepalive = 0\nretries = 0"))
        client = t.client(none)  # one worker, which asks the servers by turns
        equal(sorted(client.ask("/").status for _ in range(2)), [200, 502], "statuses")

    with t.point("when both cut, it is 502 and each was asked once"):
        other = t.origin(cut)
        both = t.sluice(to(bad, other, upstream="max_fails = 0\nkeepalive = 0\nretries = 9"))
        problem(t.client(both).ask("/both"), 502)
        equal((bad.targets().count("/both"), other.targets().count("/both")), (1, 1), "times sent")


main()
