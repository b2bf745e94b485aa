"""Where no place is free for a client that connects, the connection that has been idle longest is closed for it."""
import threading
import time

from lib.admin import value, with_admin
from lib.held import Held
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.workers import leave, of_worker, workers_of
from lib.wire import Ended

FLOOD = 60
KINDS = {
    "that never sent a byte": None,
    "that sent half of an empty line": b"\r",
    "idle after a response": b"GET /flood HTTP/1.1\r\nHost: api.test\r\n\r\n",
}


def flood(t, sluice, count, sends):
    """Connections of one address, of which sluice serves as many as it will."""
    clients = [t.client(sluice) for _ in range(count)]
    for client in clients:
        if sends:
            try:
                client.send(sends)
            except OSError:
                pass  # it has given way


def serve_newcomers(t, sluice, count=3):
    for n in range(count):
        newcomer = t.client(sluice)
        equal(newcomer.ask(f"/new{n}").status, 200, "status of a newcomer")
        newcomer.close()


def closed(clients):
    return [n for n, client in enumerate(clients) if client.has_ended()]


@group("a flood of one client's connections keeps no newcomer out")
def floods(t):
    origin = t.origin()
    for kind, sends in KINDS.items():
        with t.point(f"{kind}, at max_connections"):
            sluice = t.sluice(to(origin), listener="max_connections = 8")
            flood(t, sluice, FLOOD, sends)
            serve_newcomers(t, sluice)
        with t.point(f"{kind}, at the limit of descriptors"):
            # One worker: idle connections to the origin that others keep may leave none for a newcomer's.
            sluice = t.sluice(to(origin), nofile=120, workers=1)
            flood(t, sluice, FLOOD, sends)
            serve_newcomers(t, sluice)
    with t.point("with half a head: as soon as header_timeout is over"):
        sluice = t.sluice(to(origin), listener="max_connections = 8\nheader_timeout = 2s")
        flood(t, sluice, 12, b"GET / HTTP/1.1\r\nHo")
        serve_newcomers(t, sluice)


@test("one idle connection of another worker gives way, whichever worker the newcomer comes to", workers=(4,))
def other_workers(t):
    sluice = t.sluice(to(t.origin()), listener="max_connections = 1")
    clients = []
    for n in range(24):
        clients.append(t.client(sluice))
        equal(clients[-1].ask(f"/{n}").status, 200, "status")
        until(lambda: closed(clients) == list(range(n)), "the end of the connection before")


@test("the one that has been idle longest is closed, and no other", workers=(1,))
def longest(t):
    sluice = t.sluice(to(t.origin()), listener="max_connections = 4")
    clients = [t.client(sluice) for _ in range(4)]
    for n in (3, 1, 0, 2, 3):
        equal(clients[n].ask("/").status, 200, "status")
        time.sleep(0.01)  # times are compared in milliseconds
    for n, order in enumerate(([1], [0, 1], [0, 1, 2], [0, 1, 2, 3])):
        clients.append(t.client(sluice))
        equal(clients[-1].ask("/").status, 200, "status of a newcomer")
        until(lambda o=order: closed(clients) == o, f"the end of {order}")


@test("an address with many idle connections loses one of these before another loses its only one", workers=(1,))
def many(t):
    sluice = t.sluice(to(t.origin()), listener="max_connections = 6")
    honest = t.client(sluice, local="127.0.0.2")
    equal(honest.ask("/").status, 200, "status")
    greedy = [t.client(sluice, local="127.0.0.3") for _ in range(5)]
    for client in greedy:
        equal(client.ask("/").status, 200, "status")
        time.sleep(0.01)  # times are compared in milliseconds
    time.sleep(0.2)  # all of them count as idle
    for n in range(1, 4):
        newcomer = t.client(sluice, local=f"127.0.0.{10 + n}")
        equal(newcomer.ask("/").status, 200, "status of a newcomer")
        until(lambda: closed(greedy) == list(range(n)), "the end of the oldest of them")
    equal(honest.ask("/").status, 200, "status on the connection of the other")


@test("a connection whose request is under way or has begun does not give way")
def under_way(t):
    held = Held(t)
    sluice = t.sluice(to(held.origin, route="ordering = none"), listener="max_connections = 2")
    waits, begun = t.client(sluice), t.client(sluice)
    waits.request("/held")
    begun.send(b"GET /begun HTTP/1.1\r\nHos")
    held.here("/held")
    newcomer = t.client(sluice)
    newcomer.request("/new")
    time.sleep(0.4)
    equal(closed([waits, begun, newcomer]), [], "closed")
    held.let("/held", "/begun", "/new")
    begun.send(b"t: api.test\r\n\r\n")
    equal(begun.response().body, b"/begun", "body")
    equal(waits.response().body, b"/held", "body")
    equal(newcomer.response().body, b"/new", "body")


@test("a connection whose client still takes its response does not give way", workers=(1,))
def still_taken(t):
    body = bytes(600_000)  # all of it is the system's at once, and little of it the client's
    origin = t.origin(lambda x: (x.read_body(), x.reply(200, body if x.request.target == "/large" else b"")))
    sluice = t.sluice(to(origin), listener="max_connections = 1")
    slow = t.client(sluice, receive_buffer=4096)
    slow.request("/large")
    large = slow.response_head()
    newcomer = t.client(sluice)
    newcomer.request("/new")
    time.sleep(0.5)  # it would have given way by now
    slow.request("/next")
    equal(len(slow.read_body(large).body), len(body), "bytes of the response")
    equal(slow.response().status, 200, "status of the next request")
    equal(newcomer.response().status, 200, "status of the newcomer")


@test("a request that follows the one before within 100 ms finds its connection, under need of places, too")
def in_use(t):
    sluice = t.sluice(to(t.origin()), listener="max_connections = 2")
    over, failed = threading.Event(), []

    def go_on():
        began = time.monotonic()
        client = t.client(sluice)
        try:
            while not over.is_set():
                before, began = began, time.monotonic()
                client.request("/")
                sent = time.monotonic()
                equal(client.response().status, 200, "status")
        except (OSError, Ended) as error:
            if sent - before < 0.1:  # this thread was slow otherwise, and the connection idle
                failed.append(error)

    threads = [threading.Thread(target=go_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    newcomer = t.client(sluice)
    newcomer.request("/new")
    time.sleep(0.4)
    over.set()
    for thread in threads:
        thread.join()
    equal(failed, [], "failures")
    equal(newcomer.response().status, 200, "status")


def another_worker(t, sluice, worker):
    """A worker that is not this one."""
    while True:
        client = t.client(sluice)
        found = workers_of(sluice, [client])[0]
        leave(sluice, client)
        if found != worker:
            return found


@test("connections to servers that one worker keeps give way to requests of another, at the limit of descriptors",
      workers=(2,))
def kept_by_another(t):
    held = Held(t)
    sections = to(held.origin, upstream="keepalive = 64\nkeepalive_timeout = 1h", route="ordering = none")
    sluice, admin = with_admin(t, sections, nofile=100)
    worker = None
    for wave in range(2):
        clients, worker = of_worker(t, sluice, 28, worker)
        targets = [f"/{wave}/{n}" for n in range(len(clients))]
        for client, target in zip(clients, targets):
            client.request(target)
        held.here(*targets)  # each has a connection to the server, and its worker keeps that
        held.let(*targets)
        equal({client.response().status for client in clients}, {200}, "statuses")
        for client in clients:
            client.close()
        worker = another_worker(t, sluice, worker)
    sluice.process.wait_output("closing idle connections to servers")
    true(value(admin.metrics()[1], "sluice_idle_server_connections_closed_total") > 0, "the metric")


@test("they are counted, and the log says so once a minute", workers=(1,))
def counted(t):
    sluice, admin = with_admin(t, to(t.origin()), listener="max_connections = 2")
    for _ in range(5):
        equal(t.client(sluice).ask("/").status, 200, "status")
    line = sluice.process.wait_output("closing idle connections for new ones, 1 so far")
    true(" warn  max_connections are open, listener main: " in line, line)
    equal(value(admin.metrics()[1], "sluice_idle_connections_closed_total"), 3, "the metric")
    equal(sluice.log().count("closing idle connections for new ones"), 1, "lines")


main()
