"""Upgrade: after a 101 sluice carries bytes, both ways and nothing else."""
import fcntl
import json
import sys
import termios

from lib.admin import with_admin
from lib.client import request_bytes
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.wire import Ended

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n"
ASK = [("Connection", "Upgrade"), ("Upgrade", "shout")]
SHOUT = "upgrade = shout"


def shout(x):
    """Sends back what it is sent, in capitals, until the other side ends; then says so and ends."""
    x.read_body()
    x.complete = True
    if x.request.tokens("Upgrade") != ["shout"] or x.request.target == "/refuse":
        x.reply(200, b"plain")
        return
    x.send(SWITCH + b"with the handshake;")
    while data := x.stream.read_some():
        x.send(data.upper())
    x.send(b"goodbye")
    x.close()


def untaken(stream):
    """Bytes sent that the peer's system has not acknowledged (SIOCOUTQ)."""
    return int.from_bytes(fcntl.ioctl(stream.socket, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def upgraded(t, sluice, more=b""):
    client = t.client(sluice)
    client.send(request_bytes("/tunnel", fields=ASK) + more)
    answer = client.response_head()
    equal((answer.status, answer.tokens("Upgrade")), (101, ["shout"]))
    true("upgrade" in answer.tokens("Connection"), f"Connection {answer.get('Connection')}")
    equal(client.read_exactly(19), b"with the handshake;", "bytes behind the 101")
    return client


@group("tunnels")
def tunnels(t):
    origin = t.origin(shout)
    sluice = t.sluice(to(origin, route=SHOUT))

    with t.point("bytes go both ways, those sent along with the handshake too"):
        client = upgraded(t, sluice, b"early words;")
        equal(client.read_exactly(12), b"EARLY WORDS;", "bytes behind the request")
        for n in range(50):
            client.send(b"message %d\0\r\n" % n)
            expected = b"MESSAGE %d\0\r\n" % n
            equal(client.read_exactly(len(expected)), expected, "echo")
        seen = origin.last()
        equal(seen.tokens("Upgrade"), ["shout"], "Upgrade at the origin")
        true("upgrade" in seen.tokens("Connection"), "Connection at the origin")

    with t.point("much at once, both ways"):
        client = upgraded(t, sluice)
        data = b"0123456789abcdef" * 4096
        for _ in range(50):
            client.send(data)
            equal(client.read_exactly(len(data)), data.upper(), "echo")

    with t.point("a half close of the client reaches the origin, whose last words still come back"):
        client = upgraded(t, sluice)
        client.send(b"bye")
        client.finish_sending()
        equal(client.read_to_end(), b"BYEgoodbye", "last words")

    with t.point("a client that vanishes: the origin's side is closed"):
        other = t.origin(shout)
        client = upgraded(t, t.sluice(to(other, route=SHOUT)))
        client.reset()
        other.wait_connections_gone()

    with t.point("what looks like HTTP in a tunnel is bytes"):
        count = len(origin.requests)
        client = upgraded(t, sluice)
        data = request_bytes("/inside")
        client.send(data)
        equal(client.read_exactly(len(data)), data.upper(), "echo")
        equal(len(origin.requests), count + 1, "requests at the origin")

    with t.point("a refused upgrade is an answer like any other, and the connection goes on"):
        client = t.client(sluice)
        for _ in range(2):
            answer = client.ask("/refuse", fields=ASK)
            equal((answer.status, answer.body), (200, b"plain"))


@test("a tunnel is counted in no max_in_flight", workers=[1])
def tunnels_uncounted(t):
    for bound in ("upstream", "server"):
        origin = t.origin(shout)
        sections = (to(origin, upstream="max_in_flight = 1", route=SHOUT) if bound == "upstream"
                    else to(f"{origin} max_in_flight=1", route=SHOUT))
        sluice = t.sluice(sections)
        first, second = upgraded(t, sluice), upgraded(t, sluice)
        equal(t.client(sluice).ask("/refuse").status, 200, f"status, bound at the {bound}")
        for client in (first, second):
            client.send(b"x")
            equal(client.read_exactly(1), b"X", "echo")
            client.close()
        # And none was given back twice: there is one place, not three.
        equal(t.client(sluice).ask("/refuse").status, 200, "status when they are gone")


@test("least_in_flight counts tunnels, and a drained server keeps its own", workers=[1])
def tunnels_balanced(t):
    origins = [t.origin(shout), t.origin(shout)]
    sluice, admin = with_admin(t, to(*origins, upstream="balance = least_in_flight", route=SHOUT))
    clients = [upgraded(t, sluice) for _ in range(6)]
    equal([origin.connections for origin in origins], [3, 3], "tunnels at each server")

    def streams():
        servers = admin.json("/api/v1/upstreams")[1]["upstreams"][0]["servers"]
        return [(server["streams"], server["in_flight"]) for server in servers]

    until(lambda: streams() == [(3, 0), (3, 0)], "the admin interface has them")
    admin.json(f"/api/v1/upstreams/origin/servers/{origins[0]}/drain", "POST")
    clients += [upgraded(t, sluice) for _ in range(2)]
    equal([origin.connections for origin in origins], [3, 5], "behind the drain")
    for client in clients:
        client.send(b"x")
        equal(client.read_exactly(1), b"X", "echo")
        client.close()
    until(lambda: streams() == [(0, 0), (0, 0)], "they are gone")


@test("a drain waits for a tunnel no longer than shutdown_timeout", workers=[1])
def tunnel_in_drain(t):
    sluice = t.sluice(to(t.origin(shout), route=SHOUT), settings="shutdown_timeout = 4s")
    client = upgraded(t, sluice)
    sluice.terminate()
    sluice.process.wait_output("draining")
    client.send(b"x")
    equal(client.read_exactly(1), b"X", "echo in the drain")
    client.expect_end()
    equal(sluice.wait(), 1, "exit status of an end that cuts")


@test("what follows an upgrade is the tunnel's, even if it looks like a request or a part of one")
def early_requests(t):
    origin = t.origin(shout)
    sluice = t.sluice(to(origin, route=SHOUT))
    for early in (request_bytes("/inside"), request_bytes("/a") + b"GET /half HTTP/1.1\r\nHo", b"\r\n\r\n", b"P"):
        client = upgraded(t, sluice, early)
        equal(client.read_exactly(len(early)), early.upper(), "bytes behind the request")
    equal(len(origin.requests), 4, "requests at the origin")


@test("what follows an upgrade that is declined is the next request")
def behind_declined(t):
    sluice = t.sluice(to(t.origin(shout), route=SHOUT))
    client = t.client(sluice)
    client.send(request_bytes("/refuse", fields=ASK) + request_bytes("/refuse", "POST", ASK, b"body")
                + request_bytes("/refuse") + request_bytes("/refuse", "TRACE"))
    for _ in range(3):
        answer = client.response()
        equal((answer.status, answer.body), (200, b"plain"))
    equal(client.response().status, 405, "status of the one that sluice answers itself")


@test("an upgrade behind another request of its connection waits for that one's response")
def upgrade_behind(t):
    gate = t.event()

    def handler(x):
        if x.request.target == "/slow":
            gate.wait()
            x.reply(200, b"slow")
        else:
            shout(x)

    origin = t.origin(handler)
    client = t.client(t.sluice(to(origin, route=SHOUT)))
    client.send(request_bytes("/slow") + request_bytes("/tunnel", fields=ASK) + b"early")
    origin.wait_requests(1)
    gate.set()
    equal(client.response().body, b"slow", "the first response")
    equal(client.response_head().status, 101, "status of the second")
    equal(client.read_exactly(24), b"with the handshake;EARLY", "what came through the tunnel")


@test("an origin that ends the tunnel: the client gets all it said, then the end")
def origin_ends(t):
    def handler(x):
        x.send(SWITCH + b"words" * 100_000)
        x.close()

    sluice = t.sluice(to(t.origin(handler), route=SHOUT))
    client = t.client(sluice)
    client.request("/", fields=ASK)
    client.response_head()
    equal(len(client.read_to_end()), 500_000, "bytes before the end")


def end_of(stream):
    """How many bytes come until the end, and whether that is a reset."""
    count = 0
    while True:
        try:
            more = stream.read_some()
        except Ended:
            return count, "reset"
        if not more:
            return count, "end"
        count += len(more)


@test("a reset of one side is a reset for the other, behind the bytes before it; an end is an end")
def reset_passes(t):
    ended = []
    kept = []

    def handler(x):
        x.send(SWITCH)
        what = x.request.target
        if what == "/client":
            ended.append(end_of(x.stream))
            return
        x.send(b"words" * 1000 * (100 if what == "/slow" else 1))
        kept.append(x)
        if what != "/end":
            until(lambda: untaken(x.stream) == 0, "sluice's system has taken all")
            x.stream.reset()
        x.close()

    sluice = t.sluice(to(t.origin(handler), route=SHOUT))

    def begin(target, **more):
        client = t.client(sluice, **more)
        client.request(target, fields=ASK)
        client.response_head()
        return client

    equal(end_of(begin("/reset")), (5_000, "reset"), "a reset of the server")
    equal(end_of(begin("/end")), (5_000, "end"), "an end of the server")
    slow = begin("/slow", receive_buffer=4096)
    until(lambda: len(kept) == 3 and kept[2].stream.socket.fileno() < 0, "the server has reset it")
    equal(end_of(slow), (500_000, "reset"), "a reset of the server, the client is slow")
    for end in ("reset", "end"):
        client = begin("/client")
        client.send(b"bye")
        until(lambda: untaken(client) == 0, "sluice's system has taken all")
        client.reset() if end == "reset" else client.close()
        until(lambda: ended, "the server has it")
        equal(ended.pop(), (3, end), f"the client's {end}")


@test("bytes that a client sends together with its end, after the origin's end, reach the origin")
def behind_origins_end(t):
    heard = []

    def handler(x):
        x.send(SWITCH)
        x.stream.finish_sending()
        heard.append(x.stream.read_to_end())
        x.close()

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, route=SHOUT))
    for number in range(20):
        client = t.client(sluice)
        client.request("/", fields=ASK)
        client.response_head()
        equal(client.read_to_end(), b"", "the origin's words")
        client.send(b"x" * (1 + number * 1000))
        client.finish_sending()
        until(lambda: len(heard) == number + 1, "the origin has heard the end")  # pylint: disable=cell-var-from-loop
        equal(len(heard[number]), 1 + number * 1000, "bytes that it heard")
        client.close()


@test("a tunnel that both sides have ended went well: no outcome in the access log")
def no_outcome(t):
    log = t.path("access.log")
    sluice = t.sluice(to(t.origin(shout), route=SHOUT), settings=f"access_log = file:{log}\naccess_log_format = json")
    client = upgraded(t, sluice)
    client.finish_sending()
    equal(client.read_to_end(), b"goodbye", "the last words")
    client.close()
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status")
    with open(log, encoding="ascii") as lines:
        (line,) = [json.loads(line) for line in lines]
    equal((line["status"], line["upstream_status"], line.get("outcome")), (101, 101, None), "its line")


@test("a tunnel in which nobody speaks ends after tunnel_timeout")
def tunnel_timeout(t):
    origin = t.origin(shout)
    sluice = t.sluice(to(origin, upstream="tunnel_timeout = 300ms", route=SHOUT))
    client = upgraded(t, sluice)
    client.read_to_any_end()
    origin.wait_connections_gone()


@test("a tunnel outlives the timeouts that are meant for messages")
def other_timeouts(t):
    sluice = t.sluice(to(t.origin(shout), upstream="idle_timeout = 3s\nfirst_byte_timeout = 3s", route=SHOUT),
                      listener="idle_timeout = 3s\nheader_timeout = 3s\nbody_timeout = 3s")
    client = upgraded(t, sluice)
    other = t.client(sluice)
    other.expect_end()  # as long as this takes, idle_timeout has passed for the tunnel as well
    t.client(sluice).expect_end()
    client.send(b"still here")
    equal(client.read_exactly(10), b"STILL HERE", "echo")


@test("`upgrade = off` on a route: the fields are taken off, the request is served")
def upgrade_off(t):
    origin = t.origin(shout)
    sluice = t.sluice(to(origin, route="upgrade = off"))
    answer = t.client(sluice).ask("/", fields=ASK)
    equal((answer.status, answer.body), (200, b"plain"))
    equal(origin.last().get("Upgrade"), None, "Upgrade at the origin")


@group("only protocols of the list are asked for, by default websocket")
def protocols(t):
    switched = {}

    def handler(x):
        x.read_body()
        if x.request.get("Upgrade"):
            x.send(f"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: {switched['to']}\r\n\r\n".encode())
            x.stream.read_to_any_end()
            x.close()
        else:
            x.reply(200, b"plain")

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream="max_fails = 0\nretries = 0"))
    for asked, switch, status, seen in (
            ("h2c", "h2c", 200, None), ("h2c, websocket", "websocket", 101, "websocket"),
            ("WebSocket", "websocket", 101, "WebSocket"), ("websocket", "h2c", 502, "websocket"),
            ("websocket", "websocket, h2c", 502, "websocket"), ("websocket, h2c", "h2c", 502, "websocket"),
            ("websocket/13", "websocket", 200, None), ("shout", "shout", 200, None)):
        with t.point(f"Upgrade: {asked}, answered with {switch}: {status}"):
            switched["to"] = switch
            client = t.client(sluice)
            client.request("/", fields=[("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", asked),
                                        ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA")])
            equal(client.response_head().status, status, "status")
            equal((origin.last().get("Upgrade"), origin.last().get("HTTP2-Settings")), (seen, None), "at the origin")


@test("h2c: requests inside a tunnel would pass no limit, so none is opened")
def h2c_and_limits(t):
    origin = t.origin(shout)
    sluice = t.sluice("[limit few]\nrate = 2 per 1h\n" + to(origin, route="limits = few"))
    client = t.client(sluice)
    for status in (200, 200, 429):
        answer = client.ask("/", fields=[("Connection", "Upgrade"), ("Upgrade", "h2c")])
        equal(answer.status, status, "status")


@test("a tunnel orders nothing: its client's other requests go on, also under strict")
def tunnel_and_queue(t):
    sluice = t.sluice(to(t.origin(shout), route="ordering = strict\n" + SHOUT))
    client = upgraded(t, sluice)
    equal(t.client(sluice).ask("/refuse", "POST", body=b"x").body, b"plain", "body")
    client.send(b"x")
    equal(client.read_exactly(1), b"X", "echo")


main()
