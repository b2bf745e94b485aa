"""Turns at a busy upstream, and lanes within a session: who waits for whom, seen at the origin.

The origin answers one by one, as the test lets it, so that what is measured is an order and not a
speed. SLUICE_E2E_GREEDY sets how many requests the greedy client queues."""
import os
import signal
import threading

from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS, SANITIZER
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.workers import Barrier

GREEDY = int(os.environ.get("SLUICE_E2E_GREEDY") or (100 if SANITIZER else 200))
SINGLES = 50

ROUTE = "host = api.test\nordering = {}\nsession = {}\nqueue_depth = 100k\nqueue_timeout = 10m\n"


class Stepped:
    """An origin that answers so many as it was told to; `order` is who came, by X-Name."""

    def __init__(self, t):
        self.order = []
        self.allowed = 0
        self.changed = threading.Condition()
        t.defer(lambda: self.let(1 << 40))
        self.origin = t.origin(self._handle, backlog=4096)

    def _handle(self, x):
        x.read_body()
        with self.changed:
            self.order.append(x.request.get("X-Name"))
            mine = len(self.order)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.allowed >= mine, DEADLINE_SECONDS)
        x.reply(200)

    def let(self, count):
        """Answers `count` in all."""
        with self.changed:
            self.allowed = count
            self.changed.notify_all()

    def step_until(self, name):
        """Answers one after the other until `name` has come; how many came meanwhile, it included."""
        with self.changed:
            before = len(self.order)
            while name not in self.order[before:]:
                self.allowed += 1
                self.changed.notify_all()
                came = self.changed.wait_for(lambda: len(self.order) > self.allowed, DEADLINE_SECONDS)
                assert came, f"{name} never came; {len(self.order)} did"
            return len(self.order) - before

    def wait(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.order) >= count, DEADLINE_SECONDS), \
                f"{len(self.order)} of {count} came"


def named(name, client=None, method="GET", more=()):
    return request_bytes("/", method, [("X-Api-Key", client or name), ("X-Name", name), *more])


class Scene:
    """Clients whose requests wait behind a first one, which the origin holds."""

    def __init__(self, t, key="header:X-Api-Key | ip", ordering="writes", upstream="", plans="",
                 listener="", route=""):
        self.t = t
        self.at = Stepped(t)
        self.sluice = t.sluice(
            plans, to(self.at.origin, upstream="max_in_flight = 1\n" + upstream,
                      route=ROUTE.format(ordering, key) + route),
            listener=listener, settings="queue_total = 1M\nqueue_total_bytes = 0")
        self.free = []   # connections not used yet
        self.used = []   # those that sent a request
        first = t.client(self.sluice)
        self._send(first, named("first"))
        self.at.wait(1)

    def prepare(self, connections):
        """Makes so many, so that sending on one tells when sluice has taken it in."""
        self.free = [self.t.client(self.sluice) for _ in range(connections)]
        for client in self.free:
            equal(client.ask("/", host="nowhere.test").status, 404, "first status")
        self.barrier = Barrier(self.t, self.sluice, self.free)

    def _send(self, client, data):
        client.send(data)
        self.used.append(client)

    def queue(self, data, count=1):
        """Sends so many of these; returns when sluice has queued them all."""
        for _ in range(count):  # each on its own: one behind another would not be in the queue
            client = self.free.pop()
            self._send(client, data)
            self.barrier.passed_by(client)

    def finish(self):
        self.at.let(1 << 40)
        for client in self.used:
            equal(client.response().status, 200, "status")


def table(t, title, rows):
    t.note(title)
    for name, values in rows:
        values = sorted(values)
        t.note(f"  {name:22} least {values[0]:5}  median {values[len(values) // 2]:5}  most {values[-1]:5}")


# ---- fairness ----------------------------------------------------------------------------------

def one_by_one(t, key, count=SINGLES):
    """Singles that come one after the other while the greedy one's requests are served: after how
    many exchanges each is at the origin."""
    scene = Scene(t, key, ordering="none")
    singles = [f"single {n}" for n in range(count)]
    scene.prepare(GREEDY + count)
    scene.queue(named("greedy"), GREEDY)
    waits = []
    for name in singles:
        scene.queue(named(name))
        waits.append(scene.at.step_until(name))
    scene.finish()
    return waits


def all_at_once(t, key):
    """All singles are queued behind the greedy one: how many of its exchanges each waits for."""
    scene = Scene(t, key, ordering="none")
    singles = [f"single {n}" for n in range(SINGLES)]
    scene.prepare(GREEDY + SINGLES)
    scene.queue(named("greedy"), GREEDY)
    for name in singles:
        scene.queue(named(name))
    scene.finish()
    order = scene.at.order
    equal(len(order), 1 + GREEDY + SINGLES, "requests at the origin")
    return [order[:order.index(name)].count("greedy") for name in singles]


CLIENT, ALL = "header:X-Api-Key | ip", "host"  # one session each; one for all: first come, first served


@test(f"{SINGLES} clients of one request each hardly wait for one that queued {GREEDY}")
def greedy(t):
    came, mixed = one_by_one(t, CLIENT), all_at_once(t, CLIENT)
    # Of one session, the first single has everything before it, and those after it have nothing.
    came_fcfs, mixed_fcfs = one_by_one(t, ALL, 1), all_at_once(t, ALL)
    table(t, "one after the other: exchanges until it is at the origin, itself included",
          [("turns", came), ("first come first served", came_fcfs)])
    table(t, "all at once: the greedy client's exchanges before it",
          [("turns", mixed), ("first come first served", mixed_fcfs)])
    # Itself, and whatever its turn had to wait for: nothing, as the one in flight is not counted.
    true(max(came) <= 3, f"{max(came)} exchanges")
    # Ten newcomers (the quantum) go for one of the others.
    true(max(mixed) <= SINGLES // 10 + 1, f"{max(mixed)} exchanges of the greedy client")
    true(min(mixed_fcfs) == GREEDY, "first come first served makes them wait for all: the test can tell")
    true(came_fcfs[0] >= GREEDY, "first come first served makes them wait for all: the test can tell")


def shares(t, plans, sizes, first, **options):
    """Sessions with so many requests queued; how many of each are among the `first` at the origin."""
    scene = Scene(t, CLIENT, ordering="none", plans=plans, **options)
    scene.prepare(sum(sizes.values()))
    for name, count in sizes.items():
        scene.queue(named(name), count)
    scene.finish()
    order = scene.at.order[1:1 + first]
    return {name: order.count(name) for name in sizes}


@test("weights: a plan of weight 3 has three times the share of one of weight 1, while both have work")
def weights(t):
    plans = ("[plans]\nkey = header:X-Api-Key\n"
             f"[plan heavy]\nweight = 3\ncallers = file:{t.file('heavy.keys', 'heavy' + chr(10))}\n"
             "[plan default]\nweight = 1\n")
    found = shares(t, plans, {"light": 200, "heavy": 200}, 200)
    t.note(f"of the first 200, with quantum = 10: {found}")
    # Turns are of 30 and 10; a newcomer has one before its first.
    true(abs(found["heavy"] - 150) <= 11, f"{found}")
    found = shares(t, plans, {"light": 200, "heavy": 200}, 320, upstream="quantum = 20")
    equal(found, {"light": 120, "heavy": 200}, "when one has no more, the other has it all")


@test("max-min: what one does not use is shared by those who have work")
def max_min(t):
    found = shares(t, "", {"small": 20, "b": 300, "c": 300}, 320)
    t.note(f"of the first 320: {found}")
    equal(found["small"], 20, "the small one had all it wanted")
    true(abs(found["b"] - 150) <= 11, f"the others share the rest: {found}")
    alone = shares(t, "", {"alone": 200}, 200, upstream="quantum = 10")
    equal(alone, {"alone": 200}, "a lone session is drained in one go")


# ---- lanes -------------------------------------------------------------------------------------

def lane_order(t, sends, **options):
    """What was queued in this order, (name, client, more fields) each, in the order it was served."""
    scene = Scene(t, options.pop("key", ALL), ordering="strict", **options)
    scene.prepare(len(sends))
    for name, client, more in sends:
        scene.queue(named(name, client, "POST", more))
    scene.finish()
    return scene.at.order[1:]


PLANS = ("[plans]\nkey = header:X-Api-Key\n[plan gold]\nlane = high\ncallers = file:{}\n"
         "[plan default]\nlane = normal\n")


@test("lane = high by plan: before every waiting normal one of the session")
def by_plan(t):
    plans = PLANS.format(t.file("gold.keys", "gold\n"))
    sends = [("n1", "other", ()), ("n2", "other", ()), ("h1", "gold", ()), ("n3", "other", ()),
             ("h2", "gold", ())]
    equal(lane_order(t, sends, plans=plans), ["h1", "h2", "n1", "n2", "n3"], "order")


@test("lane = high by route: before those whose Priority says that they can wait")
def by_route(t):
    sends = [("n1", "a", [("Priority", "u=5")]), ("n2", "b", [("Priority", "u=7, i")]), ("h1", "a", ()),
             ("h2", "b", [("Priority", "u=3")])]
    equal(lane_order(t, sends, listener="trust_priority = on", route="lane = high\n"),
          ["h1", "h2", "n1", "n2"], "order")


@test("lane by Priority: urgent ones first, where it is trusted, each lane in its order")
def by_priority(t):
    sends = [("n1", "a", ()), ("h1", "a", [("Priority", "u=2")]), ("n2", "a", [("Priority", "u=4")]),
             ("h2", "a", [("Priority", "u=0")])]
    equal(lane_order(t, sends, listener="trust_priority = on"), ["h1", "h2", "n1", "n2"], "order")
    equal(lane_order(t, sends), ["n1", "h1", "n2", "h2"], "not trusted")


@test("lane = high by plan: customers of it are served before the queued requests of the others")
def between_customers(t):
    plans = PLANS.format(t.file("gold.keys", "gold\n"))
    scene = Scene(t, CLIENT, ordering="none", plans=plans)
    scene.prepare(65)
    for number in range(60):
        scene.queue(named(f"n{number}", f"free {number % 20}"))
    for number in range(5):
        scene.queue(named(f"gold {number}", "gold"))
    scene.finish()
    order = scene.at.order[1:]
    equal([name for name in order[:5]], [f"gold {n}" for n in range(5)], f"who went first of {order}")


@test("high_burst: of so many and one that go, one is normal, however many high ones come")
def burst(t):
    plans = PLANS.format(t.file("gold.keys", "gold\n"))
    sends = [(f"n{n}", "other", ()) for n in range(4)] + [(f"h{n:02}", "gold", ()) for n in range(12)]
    for high_burst, expected in (
            (3, "h h h n h h h n h h h n h h h n"), (1, "h n h n h n h n h h h h h h h h"),
            (100, "h h h h h h h h h h h h n n n n")):
        order = lane_order(t, sends, plans=plans, route=f"high_burst = {high_burst}\n")
        t.note(f"high_burst = {high_burst:3}: {' '.join(name[0] for name in order)}")
        equal(" ".join(name[0] for name in order), expected, f"lanes with high_burst = {high_burst}")
        for lane in "nh":
            names = [name for name in order if name[0] == lane]
            equal(names, sorted(names), "the order within a lane")


@test("high_burst: high ones that keep coming do not starve a normal one")
def starvation(t):
    plans = PLANS.format(t.file("gold.keys", "gold\n"))
    scene = Scene(t, ALL, ordering="strict", plans=plans, route="high_burst = 4\n")
    scene.prepare(30)
    scene.queue(named("h", "gold", "POST"))
    scene.queue(named("normal", "other", "POST"))
    passed = 0
    while "normal" not in scene.at.order:
        scene.queue(named("h", "gold", "POST"))  # there is always another one
        before = len(scene.at.order)
        scene.at.let(before)
        scene.at.wait(before + 1)
        passed += 1
        true(passed < 20, "starved")
    t.note(f"the normal one was served after {passed - 1} high ones")
    equal(passed - 1, 4, "high ones that passed it")
    scene.finish()


@test("a client that has asked much at once lets others in between", workers=[1])
def one_asks_much(t):
    sluice = t.sluice(to(t.origin(), route="path = /served"), settings="access_log = stdout")
    greedy, other = t.client(sluice), t.client(sluice)
    for client in (greedy, other):
        equal(client.ask("/served").status, 200, "status")
    sluice.process.stop()
    count = 3000
    greedy.send(request_bytes("/greedy") * count)
    other.request("/other")
    sluice.process.signal(signal.SIGCONT)
    equal(other.response().status, 404, "status of the other's")
    for _ in range(count):
        equal(greedy.response().status, 404, "status of the greedy one's")
    sluice.process.wait_output("/greedy", count)
    lines = [line for line in sluice.log().splitlines() if "/greedy" in line or "/other" in line]
    before = next(n for n, line in enumerate(lines) if "/other" in line)
    true(before < count // 2, f"{before} of {count} were served before the other's one")


main()
