"""max_connections of a server: never more connections to it, whatever they are for, and what finds
none waits for one. Health checks do not count."""
import socket
import threading
import time

from lib.admin import value, with_admin
from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS, Port, open_files, until
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.wire import quiet

OK = b"HTTP/1.1 200 OK\r\n"
EVENTS = OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n:hi\n\r\n"


class Server:
    """Answers at once; /wait when `go` is set; /events until its client leaves, and never at /hang."""

    def __init__(self, t, **options):
        self.go = t.event()
        self.origin = t.origin(self.serve, counts_open=True, **options)

    def __str__(self):
        return str(self.origin)

    def serve(self, x):
        x.read_body()
        target = x.request.target
        if target == "/events":
            x.send(EVENTS)
            x.stream.read_to_end()
            x.close()
            return
        if target == "/socket":
            x.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                   b"Connection: Upgrade\r\n\r\n")
            x.stream.read_to_end()
            x.close()
            return
        if target == "/wait":
            self.go.wait(DEADLINE_SECONDS)
        x.reply(200, target.encode(), [("X-Connection", str(x.connection))])


def hold(t, sluice, target="/events"):
    """A client whose response, or upgraded connection, goes on until it leaves."""
    client = t.client(sluice)
    fields = [("Upgrade", "websocket"), ("Connection", "Upgrade")] if target == "/socket" else []
    client.request(target, fields=fields)
    equal(client.read_head().status, 101 if fields else 200, "status")
    return client


def of_server(admin):
    return admin.json("/api/v1/upstreams")[-1]["upstreams"][0]["servers"][0]


@test("many at once: never more connections than that, and every request is answered")
def many(t):
    for bound in (1, 3):
        server = Server(t)
        sluice = t.sluice(to(f"{server} max_connections={bound}"))
        clients = [t.client(sluice) for _ in range(40)]
        for _ in range(3):
            for client in clients:
                client.request("/x")
            for client in clients:
                equal(client.response().status, 200, "status")
        true(server.origin.most_open <= bound, f"{server.origin.most_open} connections at once")
        true(server.origin.connections <= bound, f"{server.origin.connections} connections in all")


@test("an idle connection serves whichever worker the next client is of")
def over_workers(t):
    server = Server(t)
    sluice = t.sluice(to(f"{server} max_connections=1"))
    for _ in range(40):
        equal(t.client(sluice).ask("/x").status, 200, "status")
    equal(server.origin.connections, 1, "connections in all")


@test("one at a time passes them on in the order of arrival, pipelined requests too")
def in_turn(t):
    server = Server(t)
    sluice = t.sluice(to(f"{server} max_connections=1"))
    first = t.client(sluice)
    first.request("/wait")
    server.origin.wait_requests(1)
    client = t.client(sluice)
    client.send(b"".join(request_bytes(f"/{n}") for n in range(10)))
    others = [t.client(sluice) for _ in range(4)]
    for other in others:
        other.request("/other")
    server.go.set()
    equal(first.response().status, 200, "the first")
    for n in range(10):
        equal(client.response().body, b"/%d" % n, "pipelined")
    for other in others:
        equal(other.response().status, 200, "another's")
    equal([server.origin.connections, server.origin.most_open], [1, 1], "connections")


@test("streams and upgraded connections count: what finds none waits until one ends")
def streams(t):
    for target in ("/events", "/socket"):
        server = Server(t)
        sluice = t.sluice(to(f"{server} max_connections=2", upstream="max_in_flight = 100"))
        holders = [hold(t, sluice, target) for _ in range(2)]
        clients = [t.client(sluice) for _ in range(6)]
        for client in clients:
            client.request("/x")
        time.sleep(0.2)
        equal(server.origin.targets().count("/x"), 0, "requests at the server")
        equal(server.origin.most_open, 2, "connections at once")
        holders[0].reset()
        for client in clients:
            equal(client.response().status, 200, "status")
        equal(t.client(sluice).ask("/x").status, 200, "one more")
        holders[1].reset()


@test("one that waits for too long gets 503, with Retry-After, and the next its connection")
def timeout(t):
    server = Server(t)
    sluice = t.sluice(to(f"{server} max_connections=1", route="queue_timeout = 300ms",
                         upstream="max_in_flight = 100"))
    holder = hold(t, sluice)
    for _ in range(2):
        answers = [t.client(sluice) for _ in range(3)]
        for client in answers:
            client.request("/x")
        for client in answers:
            response = client.response()
            equal(response.status, 503, "status")
            true(response.get("Retry-After"), "Retry-After")
    equal(server.origin.targets(), ["/events"], "at the server")
    holder.reset()
    until(lambda: t.client(sluice).ask("/x").status == 200, "one that is served")


@test("clients that leave while they wait let the others have what is free")
def leavers(t):
    server = Server(t)
    sluice = t.sluice(to(f"{server} max_connections=1", upstream="max_in_flight = 100"))
    holder = hold(t, sluice)
    clients = [t.client(sluice) for _ in range(20)]
    for client in clients:
        client.request("/x")
    time.sleep(0.1)
    for client in clients[::2]:
        client.reset()
    holder.reset()
    for client in clients[1::2]:
        equal(client.response().status, 200, "status")
    # A request that is there when its client leaves takes its connection with it; the next one is opened then.
    equal(server.origin.most_open, 1, "connections at once")


@test("sessions with connections of their own: one more waits until one of them ends, they do not")
def sessions(t):
    def ask(key, target="/x"):
        return t.client(sluice).ask(target, fields=[("X-Api-Key", key)])

    server = Server(t)
    sluice = t.sluice(to(f"{server} max_connections=2",
                         route="session = header:X-Api-Key\nupstream_affinity = session\n"
                               "session_idle_timeout = 4s"))
    mine = {key: ask(key).get("X-Connection") for key in ("a", "b")}
    equal(len(set(mine.values())), 2, "connections")
    late = t.client(sluice)
    late.request("/late", fields=[("X-Api-Key", "c")])
    began = time.monotonic()
    while time.monotonic() - began < 1:
        for key, connection in mine.items():
            equal(ask(key).get("X-Connection"), connection, f"connection of {key}")
    equal(server.origin.targets().count("/late"), 0, "the third session at the server")
    equal(late.response().status, 200, "when one has ended")
    equal(server.origin.most_open, 2, "connections at once")


@test("a reload that lowers it closes what is idle, and one that raises it serves what waits")
def reload(t):
    server = Server(t)

    def sections(bound):
        return to(f"{server} max_connections={bound}" if bound else str(server))

    for before, after in ((0, 1), (6, 1), (6, 2)):
        server.go.clear()
        sluice = t.sluice(sections(before))
        clients = [t.client(sluice) for _ in range(6)]
        for client in clients:
            client.request("/wait")
        server.origin.wait(lambda: server.origin.open_connections == 6, "6 connections")
        server.go.set()
        for client in clients:
            equal(client.response().status, 200, "status")
        sluice.reload(sections(after))
        server.origin.wait(lambda: server.origin.open_connections == after,  # pylint: disable=cell-var-from-loop
                           "fewer connections")
        for client in clients * 2:
            client.request("/x")
            equal(client.response().status, 200, "status afterwards")
        equal(server.origin.open_connections, after, "connections afterwards")
        server.go.clear()
        seen = len(server.origin.requests)
        for client in clients:
            client.request("/wait")
        server.origin.wait_requests(seen + after)
        time.sleep(0.1)
        equal(len(server.origin.requests), seen + after, "as many at the server as it may have")
        sluice.reload(sections(before))
        server.origin.wait_requests(seen + 6)
        server.go.set()
        for client in clients:
            equal(client.response().status, 200, "status of those that waited")
        sluice.end()
        server.origin.wait_connections_gone()


@test("health checks have connections of their own")
def health(t):
    server = Server(t)
    sluice, admin = with_admin(
        t, to(f"{server} max_connections=1",
              upstream="health_path = /health\nhealth_interval = 100ms\nhealth_timeout = 5s"))
    holder = hold(t, sluice)
    server.origin.wait(lambda: server.origin.targets().count("/health") >= 5, "checks")
    shown = of_server(admin)
    equal([shown["up"], shown["connections"]], [True, 1], "of the server")
    equal(value(admin.metrics()[1], "sluice_server_connections", upstream="origin",
                server=str(server)), 1, "metric")
    holder.reset()


@test("of two servers one that is full, one that is down: the first serves all, in turn")
def servers(t):
    one, other = Server(t), Server(t)
    dead = Port(socket.AF_INET)
    sluice = t.sluice(to(f"{one} max_connections=1", f"{other} max_connections=2",
                         f"127.0.0.1:{dead.number} max_connections=1", upstream="retries = 2"))
    clients = [t.client(sluice) for _ in range(30)]
    for _ in range(3):
        for client in clients:
            client.request("/x")
        for client in clients:
            equal(client.response().status, 200, "status")
    equal([one.origin.most_open, other.origin.most_open], [1, 2], "connections at once")
    dead.release()


@test("a request that waits for a full server goes to another one that is up again")
def again(t):
    one = Server(t)
    other = t.origin(lambda x: x.reply(200, b"other"), listen=False)
    sluice = t.sluice(to(f"{one} max_connections=1", f"{other} max_connections=1",
                         upstream="max_fails = 1\nfail_timeout = 500ms\nretries = 2",
                         route="queue_timeout = 30s"))
    holder = hold(t, sluice)
    client = t.client(sluice)
    client.request("/x")
    sluice.process.wait_output("ejected")
    other.listen()
    equal(client.response().body, b"other", "body, while the first is full")
    holder.reset()


@test("a request that waits for a full server goes to one that a reload brings, and so do those behind it")
def added(t):
    one, other = Server(t), Server(t)
    route = "session = header:X-Api-Key | ip\nqueue_timeout = 8s"
    sluice = t.sluice(to(f"{one} max_connections=1", upstream="max_in_flight = 2", route=route))
    holder, waits, behind = (t.client(sluice) for _ in range(3))
    holder.request("/wait")
    one.origin.wait_requests(1)
    waits.request("/waits")
    behind.request("/behind")
    with_two = to(f"{one} max_connections=1", f"{other} max_connections=1",
                  upstream="max_in_flight = 2", route=route)
    sluice.reload(with_two)
    equal([x.response().status for x in (waits, behind)], [200, 200], "while the first is full")
    equal(sorted(other.origin.targets()), ["/behind", "/waits"], "at the other server")
    sluice.reload(to(f"{one} max_connections=1", upstream="max_in_flight = 2", route=route))
    one.go.set()
    equal(holder.response().status, 200, "the one that was held")
    equal(waits.ask("/x").status, 200, "one more")


@test("when the last server is drained or disabled, those that wait for it get 503 and no others wait")
def none_enabled(t):
    for word in ("drain", "disable"):
        one, other = Server(t), Server(t)
        sluice, admin = with_admin(t, to(f"{one} max_connections=1", f"{other} max_connections=1",
                                         route="queue_timeout = 1h"))
        operate = lambda server, word, admin=admin: equal(
            admin.json(f"/api/v1/upstreams/origin/servers/{server}/{word}", "POST")[0], 200)
        operate(other, "disable")
        holder = hold(t, sluice)
        waiting = [t.client(sluice) for _ in range(3)]
        for client in waiting:
            client.request("/x")
        until(lambda admin=admin: sum(value(admin.metrics()[1], f"sluice_{state}_requests")
                                      for state in ("in_flight", "queued")) >= 3, "three that wait")
        operate(one, word)
        for client in waiting:
            equal(client.response().status, 503, f"waiting, {word}")
        equal(t.client(sluice).ask("/x").status, 503, f"one that comes, {word}")
        equal([one.origin.targets(), other.origin.targets()], [["/events"], []], "at the servers")
        operate(other, "enable")
        equal(t.client(sluice).ask("/x").status, 200, "the other one is enabled")
        holder.reset()


@test("a request that waits for a full server loses nothing by another one that is down")
def other_down(t):
    for route in ("", "session = header:X-Api-Key | ip\nupstream_affinity = session\n"
                  "session_idle_timeout = 100ms"):
        one = Server(t)
        other = t.origin(listen=False)
        sluice, admin = with_admin(t, to(f"{one} max_connections=1", str(other),
                                         upstream="max_fails = 0\nretries = 1", route=route))
        holder, waits = t.client(sluice), t.client(sluice)
        holder.request("/wait")
        one.origin.wait_requests(1)
        waits.request("/x", fields=[("X-Api-Key", "another")])
        until(lambda: admin.json("/api/v1/upstreams")[-1]["upstreams"][0]["failures"] >= 6,
              "the other server is tried again and again")
        one.go.set()
        equal(holder.response().status, 200, "the one that was held")
        equal(waits.response().status, 200, "the one that waited")


@test("reloads, and looking for other servers, do not prolong queue_timeout")
def not_prolonged(t):
    route = "session = header:X-Api-Key | ip\nupstream_affinity = session\nqueue_timeout = 1s"
    one = Server(t)
    other = t.origin(listen=False)
    servers = [f"{one} max_connections=1"], [f"{one} max_connections=1", str(other)]
    sluice = t.sluice(to(*servers[0], route=route))
    holder, waits = t.client(sluice), t.client(sluice)
    holder.request("/wait")
    one.origin.wait_requests(1)
    waits.request("/x", fields=[("X-Api-Key", "another")])
    reloads = 0
    while quiet(waits, 0.15):
        true(reloads < 100, "the wait ends, however many reloads there are")
        reloads += 1
        sluice.reload(to(*servers[reloads % 2], upstream="max_fails = 0", route=route))
        sluice.process.wait_output(": reloaded", reloads)
    equal(waits.response().status, 503, "the one that waited")
    one.go.set()
    equal(holder.response().status, 200, "the one that was held")


@test("a request that is to be sent once more, and waits for a connection, has its time, too")
def retried(t):
    one = Server(t)
    other = t.origin(lambda x: x.close(), listen=False)
    sluice = t.sluice(to(f"{one} max_connections=1", f"{other} max_connections=1",
                         upstream="max_fails = 100\nretries = 2", route="queue_timeout = 3s"))
    holder = hold(t, sluice)
    other.listen()
    client = t.client(sluice)
    client.request("/x")
    equal(client.response().status, 503, "status")
    equal(other.targets(), ["/x"], "at the server that closed on it")
    holder.reset()


@test("a server that closes each connection, or breaks them, is asked again and again")
def closing(t):
    def handler(x):
        x.read_body()
        if x.request.target == "/break":
            x.reset()
        else:
            x.reply(200, b"", [("Connection", "close")])
            x.close()

    origin = t.origin(handler)
    sluice = t.sluice(to(f"{origin} max_connections=2", upstream="max_fails = 0"))
    clients = [t.client(sluice) for _ in range(12)]
    for n in range(3):
        for i, client in enumerate(clients):
            client.request("/break" if (n + i) % 3 == 0 else "/x")
        for i, client in enumerate(clients):
            equal(client.response().status, 502 if (n + i) % 3 == 0 else 200, "status")


@test("no descriptor is left over, however often workers take connections of each other")
def descriptors(t):
    server = Server(t)
    sluice, admin = with_admin(t, to(f"{server} max_connections=2"))
    t.client(sluice).ask("/x")
    before = open_files(sluice.pid)

    def storm():
        for _ in range(150):
            with_client = t.client(sluice)
            equal(with_client.ask("/x").status, 200, "status")
            with_client.close()

    threads = [threading.Thread(target=storm) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: open_files(sluice.pid) <= before + 1, "descriptors given back")
    true(server.origin.connections <= 2, f"{server.origin.connections} connections in all")
    shown = of_server(admin)
    equal([shown["in_flight"], shown["connections"]], [0, server.origin.connections], "of the server")


main()
