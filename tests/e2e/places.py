"""Places at servers: a bound counts the servers in service, what finds no place waits for one, and a place is kept for
as long as its server works."""
import threading
import time

from lib.admin import with_admin
from lib.process import DEADLINE_SECONDS, until
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.wire import Ended
from lib.workers import leave

MANY = 8


class Server:
    """Holds each request until `go` is set; knows how many it had at once."""

    def __init__(self, t):
        self.go = t.event()
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.healthy = True
        self.origin = t.origin(self.serve)

    def __str__(self):
        return str(self.origin)

    def serve(self, x):
        x.read_body()
        if x.request.target == "/health":
            x.reply(200 if self.healthy else 503)
            return
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.go.wait(DEADLINE_SECONDS)
        with self.lock:
            self.now -= 1
        x.reply(200, str(self).encode())

    def has(self, count):
        until(lambda: self.now == count, f"{count} requests at {self}")


def ask_all(t, sluice, count=MANY):
    clients = [t.client(sluice) for _ in range(count)]
    for client in clients:
        client.request("/")
    return clients


def statuses(clients):
    return [client.response().status for client in clients]


def operate(admin, server, word):
    equal(admin.json(f"/api/v1/upstreams/origin/servers/{server}/{word}", "POST")[0], 200, word)


def queued(admin):
    return admin.json("/api/v1/upstreams")[1]["upstreams"][0]["queued"]


def wait_queued(admin, count):
    until(lambda: queued(admin) == count, f"{count} queued")


def pair(t, first=" max_in_flight=2", second=" max_in_flight=2", **more):
    one, two = Server(t), Server(t)
    sluice, admin = with_admin(t, to(f"{one}{first}", f"{two}{second}", **more))
    return one, two, sluice, admin


@test("a server is drained or disabled: what the others have no place for waits, and none is refused")
def out_by_operator(t):
    for word in ("drain", "disable"):
        one, two, sluice, admin = pair(t)
        operate(admin, two, word)
        clients = ask_all(t, sluice)
        one.has(2)
        wait_queued(admin, MANY - 2)
        one.go.set()
        equal(statuses(clients), [200] * MANY, word)
        equal((one.most, two.most), (2, 0), word)


@test("a server that is enabled again serves those that wait, at once")
def enabled_again(t):
    one, two, sluice, admin = pair(t)
    operate(admin, two, "disable")
    clients = ask_all(t, sluice)
    one.has(2)
    wait_queued(admin, MANY - 2)
    operate(admin, two, "enable")
    two.has(2)
    wait_queued(admin, MANY - 4)
    one.go.set()
    two.go.set()
    equal(statuses(clients), [200] * MANY)


@test("what a drained server still works on takes no place of the others")
def drained_while_full(t):
    one, two, sluice, admin = pair(t)
    clients = ask_all(t, sluice, 4)
    one.has(2)
    two.has(2)
    operate(admin, two, "drain")
    one.go.set()
    equal(sum(client.response().status == 200 for client in ask_all(t, sluice)), MANY)
    two.go.set()
    equal(statuses(clients), [200] * 4)
    equal(two.most, 2)


@test("a server refuses connections and is ejected: what the other has no place for waits")
def ejected(t):
    one, two, sluice, admin = pair(t, upstream="max_fails = 1\nfail_timeout = 1m\nretries = 3\n")
    two.origin.refuse()
    for _ in range(3):
        clients = ask_all(t, sluice)
        one.has(2)
        one.go.set()
        equal(statuses(clients), [200] * MANY)
        one.go.clear()
    equal(one.most, 2)


@test("an ejection that is over by time lets those that wait go, with nothing else happening")
def back_by_time(t):
    one, two, sluice, admin = pair(t, upstream="max_fails = 1\nfail_timeout = 500ms\nretries = 3\n")
    two.origin.refuse()
    clients = ask_all(t, sluice)
    one.has(2)
    two.origin.reopen()
    two.has(2)
    equal(one.now, 2)
    one.go.set()
    two.go.set()
    equal(statuses(clients), [200] * MANY)


@test("a server is down by its check: what the other has no place for waits, until it is up again")
def unhealthy(t):
    one, two, sluice, admin = pair(t, upstream="health_path = /health\nhealth_interval = 100ms\n")
    two.healthy = False
    sluice.process.wait_output("is unhealthy")
    clients = ask_all(t, sluice)
    one.has(2)
    wait_queued(admin, MANY - 2)
    two.healthy = True
    two.has(2)
    one.go.set()
    two.go.set()
    equal(statuses(clients), [200] * MANY)
    equal((one.most, two.most), (2, 2))


@test("all servers are ejected: all are asked, within their bounds")
def all_ejected(t):
    one, two, sluice, admin = pair(t, upstream="health_path = /health\nhealth_interval = 100ms\n")
    one.healthy = two.healthy = False
    sluice.process.wait_output("is unhealthy", 2)
    clients = ask_all(t, sluice)
    one.has(2)
    two.has(2)
    one.go.set()
    two.go.set()
    equal(statuses(clients), [200] * MANY)
    equal((one.most, two.most), (2, 2))


@test("no server is enabled: refused at once")
def none_enabled(t):
    one, two, sluice, admin = pair(t)
    operate(admin, one, "drain")
    operate(admin, two, "disable")
    equal(set(statuses(ask_all(t, sluice))), {503})


@test("one server has a bound, the other none and is drained: what waits is bounded by the one")
def bounded_beside_unbounded(t):
    one, two, sluice, admin = pair(t, second="")
    two.go.set()
    operate(admin, two, "drain")
    clients = ask_all(t, sluice)
    one.has(2)
    wait_queued(admin, MANY - 2)
    operate(admin, two, "enable")
    wait_queued(admin, 0)
    one.go.set()
    equal(statuses(clients), [200] * MANY)
    equal(one.most, 2)


@test("a reload raises a server's bound: those that wait go, and one that takes a server away leaves them their order")
def reloaded(t):
    one, two, sluice, admin = pair(t)
    clients = ask_all(t, sluice)
    one.has(2)
    two.has(2)
    sluice.reload(sluice.sections.replace(f"{one} max_in_flight=2", f"{one} max_in_flight=4"))
    one.has(4)
    wait_queued(admin, MANY - 6)
    sluice.reload(sluice.sections.replace(f"server = {two} max_in_flight=2\n", ""))
    one.go.set()
    two.go.set()
    equal(statuses(clients), [200] * MANY)
    equal((one.most, two.most), (4, 2))


@test("an event stream and an upgrade give the place at their server and in the queue back as one: no plain request is "
      "refused beside them", workers=[1, 2, 4])
def endless(t):
    def serve(x):
        x.read_body()
        if x.request.target == "/events":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            x.send(b"4\r\n:hi\n\r\n0\r\n\r\n")
        elif x.request.target == "/socket":
            x.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            x.close()
        else:
            x.reply(200)

    origin = t.origin(serve)
    sluice = t.sluice(to(f"{origin} max_in_flight=1"))
    found, lock = {}, threading.Lock()

    def count(what, status):
        with lock:
            found[what, status] = found.get((what, status), 0) + 1

    def ask(target):
        client = t.client(sluice)
        for _ in range(100):
            if target == "/socket":
                client = t.client(sluice)
                client.request(target, fields=[("Upgrade", "websocket"), ("Connection", "Upgrade")])
                count(target, client.read_head().status)
                client.close()
            else:
                count(target, client.ask(target).status)

    threads = [threading.Thread(target=ask, args=(target,), daemon=True)
               for target in ("/x", "/events", "/x", "/socket", "/x", "/events", "/x", "/x")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    equal(found, {("/x", 200): 500, ("/events", 200): 200, ("/socket", 101): 100})


# ---- clients that leave ------------------------------------------------------------------------

def many_that_leave(t, sluice, server, places, fields=()):
    """Clients that ask and leave as soon as the server works for them, or not at all: how many does it have at once?"""
    for number in range(MANY):
        client = t.client(sluice)
        client.request(f"/{number}", fields=fields)
        if number < places:
            server.has(number + 1)
        leave(sluice, client, "reset" if number % 2 else "close")
    stays = t.client(sluice)
    stays.request("/stays", fields=fields)
    return stays


@test("clients that leave give no place at the server to others: a request waits until the server has answered theirs")
def left(t):
    for upstream, own in (("max_in_flight = 2\n", ""), ("", " max_in_flight=2"), ("max_in_flight = auto\n"
                          "max_in_flight_floor = 1\nmax_in_flight_ceiling = 2\n", " max_in_flight=2")):
        server = Server(t)
        sluice, admin = with_admin(t, to(f"{server}{own}", upstream=upstream))
        stays = many_that_leave(t, sluice, server, 2 if "auto" not in upstream else 1)
        wait_queued(admin, 1)
        server.go.set()
        equal(stays.response().status, 200, upstream + own)
        equal(server.most, 2 if "auto" not in upstream else 1, upstream + own)


@test("clients that leave give no place of a concurrency limit to others before the server has answered")
def left_concurrency(t):
    server = Server(t)
    sluice = t.sluice(to(server, route="limits = few\n") + "[limit few]\nkey = ip\nconcurrency = 2\n")
    equal(many_that_leave(t, sluice, server, 2).response().status, 429)
    server.go.set()
    server.has(0)
    until(lambda: t.client(sluice).ask("/").status == 200, "a free place")
    equal(server.most, 2)


@test("ordering = strict, session_in_flight = 1: a write waits for the answer to a read whose client has left")
def left_order(t):
    for route in ("ordering = strict\n", "ordering = none\nsession_in_flight = 1\n"):
        server, fields = Server(t), [("X-Api-Key", "one")]
        sluice, admin = with_admin(t, to(server, route=f"session = header:X-Api-Key\n{route}"))
        reader, writer = t.client(sluice), t.client(sluice)
        reader.request("/read", fields=fields)
        server.has(1)
        leave(sluice, reader, "reset")
        writer.request("/write", "POST", fields, b"x")
        until(lambda: admin.json("/api/v1/status")[1]["queue"]["queued"] == 1, "the write waits")
        server.go.set()
        equal(writer.response().status, 200, route)
        equal(server.most, 1, route)


@test("a place whose client has left is free at the first_byte_timeout, and when the server closes")
def left_bounds(t):
    server = Server(t)
    sluice = t.sluice(to(f"{server} max_in_flight=1", upstream="first_byte_timeout = 300ms\nmax_fails = 0\n"))
    gone, stays = t.client(sluice), t.client(sluice)
    gone.request("/")
    server.has(1)
    leave(sluice, gone)
    stays.request("/")
    server.has(2)  # the first one's time is over
    server.origin.requests[1].reset()
    equal(stays.response().status, 502)
    server.go.set()
    equal(t.client(sluice).ask("/").status, 200)


@test("clients that leave in the middle of an upload give no place at the server to others before it has closed")
def left_upload(t):
    server = Server(t)

    def serve(x):
        with server.lock:
            server.now += 1
            server.most = max(server.most, server.now)
        server.go.wait(DEADLINE_SECONDS)
        with server.lock:
            server.now -= 1
        x.close()

    server.origin.handler = serve
    sluice, admin = with_admin(t, to(f"{server} max_in_flight=2", upstream="max_fails = 1\n",
                                     route="request_buffering = off\n"))
    for number in range(MANY):
        client = t.client(sluice)
        client.send(b"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 10\r\n\r\nhalf")
        if number < 2:
            server.has(number + 1)
        leave(sluice, client, "reset" if number % 2 else "close")
    stays = t.client(sluice)
    stays.request("/")
    wait_queued(admin, 1)
    server.go.set()
    equal(stays.response().status, 502)  # as this server answers nothing
    equal(server.most, 2)


@test("a long response whose client has left is read for a megabyte, then cut; an event stream is cut at once")
def left_bytes(t):
    cut = {"/long": t.event(), "/events": t.event()}

    def serve(x):
        x.read_body()
        kind = b"text/event-stream" if x.request.target == "/events" else b"text/plain"
        x.send(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                x.send(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                if x.request.target == "/events":
                    x.stream.read_to_end()
                    break
        except Ended:
            pass
        cut[x.request.target].set()
        x.close()

    origin = t.origin(serve)
    sluice = t.sluice(to(f"{origin} max_in_flight=1", route="response_buffering = off\n"))
    for target in ("/events", "/long"):
        client = t.client(sluice, receive_buffer=4096)
        client.request(target)
        client.read_head()
        leave(sluice, client, "reset")
        equal(cut[target].wait(DEADLINE_SECONDS), True, target)


@test("NDJSON holds a place until its end, and as one of stream_types it holds none")
def ndjson(t):
    ends = t.event()

    def serve(x):
        x.read_body()
        if x.request.target == "/lines":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
            ends.wait(DEADLINE_SECONDS)
            x.send(b"0\r\n\r\n")
        else:
            x.reply(200, b"small")

    origin = t.origin(serve)
    for types, passes in (("", False), ("\nstream_types = application/x-ndjson", True)):
        sluice, admin = with_admin(t, to(origin, upstream="max_in_flight = 1" + types))
        ends.clear()
        lines, small = t.client(sluice), t.client(sluice)
        lines.request("/lines")
        lines.read_through(b"{}\n\r\n")
        small.request("/small")
        if not passes:
            wait_queued(admin, 1)
            ends.set()
        equal(small.response().body, b"small")
        ends.set()
        lines.read_through(b"0\r\n\r\n")


# ---- max_in_flight = auto ----------------------------------------------------------------------

AUTO = "max_in_flight = auto\nmax_in_flight_floor = 1\nmax_in_flight_ceiling = 200\nretries = 0\n"


class Load:
    """Clients that ask one request after the other, until the test ends."""

    def __init__(self, t, sluice, count):
        self.ends = t.event()
        self.threads = [threading.Thread(target=self.ask, args=(t.client(sluice),), daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()
        t.defer(self.end)

    def ask(self, client):
        while not self.ends.is_set():
            client.ask("/")

    def end(self):
        self.ends.set()
        for thread in self.threads:
            thread.join(DEADLINE_SECONDS)


def bound(admin):
    return admin.json("/api/v1/upstreams")[1]["upstreams"][0]["max_in_flight"]


@test("max_in_flight = auto: clients that reset at once, and a server that refuses connections for a second, do not lower "
      "it", workers=[2])
def auto(t):
    def serve(x):
        x.read_body()
        time.sleep(0.05)
        x.reply(200)

    origin = t.origin(serve)
    sluice, admin = with_admin(t, to(origin, upstream=AUTO))
    load = Load(t, sluice, 30)
    until(lambda: bound(admin) >= 24, "a bound that has grown", pause=0.05)
    before = bound(admin)
    least, until_time = before, time.monotonic() + 4
    while time.monotonic() < until_time:
        clients = [t.client(sluice) for _ in range(60)]
        for client in clients:
            client.request("/")
            client.reset()
        least = min(least, bound(admin))
        time.sleep(0.1)
    # A look at the latency without a queue halves it for a moment.
    t.note(f"{before}, then at least {least} beside clients that reset")
    true(least >= before // 4, f"it fell from {before} to {least} by clients that reset")
    load.end()
    before = bound(admin)
    origin.refuse()
    client, until_time = t.client(sluice), time.monotonic() + 1
    while time.monotonic() < until_time:
        equal(client.ask("/").status, 502)
    true(bound(admin) >= before // 2, f"it fell from {before} to {bound(admin)} by refused connections")


main()
