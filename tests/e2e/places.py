"""Places at servers: a bound counts the servers in service, what finds no place waits for one, and a place is kept for
as long as its server works."""
import threading

from lib.admin import with_admin
from lib.process import DEADLINE_SECONDS, until
from lib.sluice import to
from lib.tap import equal, main, test

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
        self.origin.wait(lambda: self.now == count, f"{count} requests at {self}")


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


main()
