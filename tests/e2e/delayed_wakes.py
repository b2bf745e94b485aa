"""What waits for a limit or a pace goes on at once when capacity becomes free, and what could not be served within its
delay is refused at once."""
import json
import threading
import time

from lib.admin import value, with_admin
from lib.fleet import connected, fleet_of
from lib.hazard import Hazard
from lib.process import DEADLINE_SECONDS, until
from lib.redis import Redis
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.websocket import open_socket, server

KEY = [("X-Api-Key", "caller")]
SOON = 20  # seconds: of the minutes that a request waits otherwise


def limit(rate="1 per 5m", delay="60m"):
    return f"[limit l]\nkey = header:X-Api-Key\nrate = {rate}\non_exceed = delay {delay}\n"


def route(more=""):
    return f"limits = l\nordering = none\nqueue_timeout = 60m\n{more}"


def waiting(admin):
    return admin.json("/api/v1/limits")[1]["limits"][0]["verdicts"]["delayed"]


class Waiting:
    """A sluice whose limit is used up by one request, and another one that waits."""

    def __init__(self, t, sections, count=1):
        self.origin = t.origin()
        self.sections = sections
        self.sluice, self.admin = with_admin(t, sections(self.origin))
        self.first = t.client(self.sluice)
        equal(self.first.ask("/first", fields=KEY).status, 200)
        self.clients = [t.client(self.sluice) for _ in range(count)]
        for n, client in enumerate(self.clients):
            client.request(f"/{n}", fields=KEY)
            until(lambda: waiting(self.admin) == n + 1, "a request that waits")

    def go_on(self):
        began = time.monotonic()
        equal([client.response().status for client in self.clients], [200] * len(self.clients), "statuses")
        true(time.monotonic() - began < SOON, "they waited")


def plain(rate="1 per 5m"):
    return lambda origin: limit(rate) + to(origin, route=route())


@group("what frees capacity wakes those that wait")
def woken(t):
    with t.point("limits set"):
        waits = Waiting(t, plain(), count=5)
        status = waits.admin.json("/api/v1/limits/l", "PATCH", body=b'{"rate": "100 per 5m"}')[0]
        equal(status, 200)
        waits.go_on()

    with t.point("limits set: as many as fit, the first of them"):
        waits = Waiting(t, plain(), count=5)
        equal(waits.admin.json("/api/v1/limits/l", "PATCH", body=b'{"rate": "3 per 5m"}')[0], 200)
        waits.origin.wait_requests(3)
        equal(set(waits.origin.targets()), {"/first", "/0", "/1"})
        equal(waits.admin.json("/api/v1/limits/l", "PATCH", body=b'{"rate": "6 per 5m"}')[0], 200)
        waits.go_on()

    with t.point("a reload"):
        waits = Waiting(t, plain(), count=3)
        waits.sluice.reload(waits.sluice.sections.replace("1 per 5m", "100 per 5m"))
        waits.go_on()

    with t.point("a reset"):
        waits = Waiting(t, plain())
        equal(waits.admin.json("/api/v1/callers?key=caller", "DELETE")[0], 200)
        waits.go_on()

    with t.point("an override"):
        waits = Waiting(t, plain(), count=3)
        hash = waits.admin.json("/api/v1/callers?key=caller&limit=l")[1]["limits"][0]["caller"]
        change = json.dumps({"exempt": True, "for": "1h"}).encode()
        equal(waits.admin.json(f"/api/v1/callers/{hash}/override", "PUT", body=change)[0], 200)
        waits.go_on()

    with t.point("one that waited before it leaves"):
        waits = Waiting(t, plain("1 per 3s"), count=2)
        waits.clients.pop(0).close()
        waits.go_on()


@test("a refund wakes those that wait for what it frees")
def refunded(t):
    gate = t.event()

    def handler(x):
        x.read_body()
        if x.request.target == "/first":
            gate.wait(DEADLINE_SECONDS)
            x.reply(503)
        else:
            x.reply(200)

    origin = t.origin(handler)
    sluice, admin = with_admin(t, limit() + to(origin, route=route("refund = 503")))
    first, second, third = t.client(sluice), t.client(sluice), t.client(sluice)
    first.request("/first", fields=KEY)
    origin.wait_requests(1)
    for n, client in enumerate((second, third)):
        client.request(f"/{n}", fields=KEY)
        until(lambda: waiting(admin) == n + 1, "a request that waits")
    began = time.monotonic()
    gate.set()
    equal(first.response().status, 503)
    equal(second.response().status, 200)
    true(time.monotonic() - began < SOON, "it waited")
    equal(len(origin.requests), 2)


@test("what is freed while the store is asked is not missed by who asked", workers=[1])
def asked(t):
    gate = t.event()

    def handler(x):
        x.read_body()
        if x.request.target == "/first":
            gate.wait(DEADLINE_SECONDS)
        x.reply(503 if x.request.target == "/first" else 200)

    def questions():
        return value(admin.metrics()[1], "sluice_fleet_questions_total") or 0
    origin = t.origin(handler)
    way = Hazard(t, Redis(t).number)
    sluice, admin = with_admin(t, fleet_of(way) + limit() + "scope = fleet\nfleet = exact\n" +
                               to(origin, route=route("refund = 503")))
    connected(sluice)
    first, second = t.client(sluice), t.client(sluice)
    first.request("/first", fields=KEY)
    origin.wait_requests(1)
    way.hold_replies()
    before = questions()
    second.request("/second", fields=KEY)
    until(lambda: questions() > before, "a question")
    gate.set()
    equal(first.response().status, 503)  # and the refund is behind the question
    way.go_on()
    began = time.monotonic()
    equal(second.response().status, 200)
    true(time.monotonic() - began < SOON, "it waited")


@test("a message that waits goes on at once when its limit allows it")
def message(t):
    origin = t.origin(server())
    sluice, admin = with_admin(t, "[limit l]\nkey = header:X-Api-Key\nrate = 1 per 1h\n" + to(
        origin, route="websocket = messages\nmessage_limits = l\non_message_exceed = delay\n"))
    socket = open_socket(t, sluice, fields=KEY)
    socket.send("one")
    equal(socket.message(), "one")
    socket.send("two")
    socket.send("three")
    until(lambda: waiting(admin) == 1, "a message that waits")
    began = time.monotonic()
    equal(admin.json("/api/v1/limits/l", "PATCH", body=b'{"rate": "10 per 1h"}')[0], 200)
    equal([socket.message(), socket.message()], ["two", "three"])
    true(time.monotonic() - began < SOON, "it waited")


@test("a pace that a reload raises lets those go on that wait for it")
def paced(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, upstream="pace = 1 per 40m", route="ordering = none\nqueue_timeout = 60m"))
    equal(t.client(sluice).ask("/").status, 200)
    clients = [t.client(sluice) for _ in range(3)]
    for n, client in enumerate(clients):
        client.request(f"/{n}")
    time.sleep(0.2)  # they wait; that they do not is no failure of what is tested
    began = time.monotonic()
    sluice.reload(sluice.sections.replace("pace = 1 per 40m", "pace = 100 per 40m"))
    equal([client.response().status for client in clients], [200] * 3)
    true(time.monotonic() - began < SOON, "they waited")


def burst(t, sluice, count):
    """Statuses with Retry-After of so many requests at once, and when each was answered."""
    clients = [t.client(sluice) for _ in range(count)]
    answers, began = [None] * count, time.monotonic()

    def ask(n):
        answer = clients[n].ask(f"/{n}", fields=KEY)
        answers[n] = answer.status, answer.get("Retry-After"), time.monotonic() - began
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@group("those that can't be served within their delay are refused at once, with the true time")
def hopeless(t):
    for what, rate, delay, count, served, wait in (("a ring", "1 per 5s", "18s", 40, 4, "20"),
                                                   ("evenly paced", "1 per 5s\nalgorithm = gcra\nburst = 1", "18s", 40, 4, "20"),
                                                   ("a burst of two", "2 per 8s", "12s", 20, 4, "16")):
        with t.point(what):
            origin = t.origin()
            answers = burst(t, t.sluice(limit(rate, delay) + to(origin, route=route())), count)
            equal(sum(status == 200 for status, _, _ in answers), served, "served")
            refused = [answer for answer in answers if answer[0] == 429]
            equal(len(refused), count - served, "refused")
            equal({after for _, after, _ in refused}, {wait}, "Retry-After")
            true(max(after for _, _, after in refused) < 5, "they were refused late")


@test("one that comes while others wait is behind them")
def behind(t):
    waits = Waiting(t, plain("1 per 2s"), count=2)
    late = t.client(waits.sluice)
    late.request("/late", fields=KEY)
    waits.go_on()
    equal(late.response().status, 200)
    equal(waits.origin.targets(), ["/first", "/0", "/1", "/late"])


if __name__ == "__main__":
    main()
