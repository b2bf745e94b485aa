"""Nodes of a fleet and a store that is far away, on a way that delays, stops, resets and cuts (lib/hazard.py). What is
claimed of times is claimed as in promise.py."""
import time

from lib.crowd import Crowd
from lib.fleet import Load, ask, connected, judge, limit, nodes
from lib.hazard import Hazard
from lib.process import resident_bytes, until
from lib.redis import Redis
from lib.sluice import to
from lib.spans import most_within
from lib.tap import equal, longer, main, test, true

QUOTA, WINDOW = 120, 2.0
# Of a worker's silent store: left after twice its timeout, or a second.
TIMEOUT = "store_timeout = 200ms"


def begin(t, way="exact", count=3, fleet="", rate=f"{QUOTA} per {WINDOW:.0f}s"):
    hazard = Hazard(t, Redis(t).number)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = limit("it", rate).replace("= exact", f"= {way}") + to(origin, route="limits = it")
    return hazard, origin, nodes(t, hazard, sections, count, fleet)


def more_requests(origin, count):
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + count, "requests")


# ---- the promise --------------------------------------------------------------------------------

def late(t, way):
    hazard, origin, all_nodes = begin(t, way)
    hazard.late(0.001, 0.04)
    load = Load(t, 4).begin(all_nodes)
    more_requests(origin, 4 * QUOTA)
    judge(t, load, origin, QUOTA, WINDOW)
    equal(load.count(503), 0, "answers without a verdict")


@test("exact: bytes are late, each by another time", workers=[1])
def exact_late(t):
    late(t, "exact")


@test("lease: bytes are late, each by another time", workers=[1])
def lease_late(t):
    late(t, "lease")


def slow(t, way, count):
    """Longer than store_timeout, so that shares admit what the store, or a lease of a late answer, may admit too. While it
    is, each node keeps to its share, which would show a request too many where others leave a part of theirs."""
    hazard, origin, all_nodes = begin(t, way, count, "store_down = local\nstore_timeout = 20ms\n")
    load = Load(t, 2).begin(all_nodes)
    more_requests(origin, QUOTA)
    hazard.late(0.0125, 0.014)
    more_requests(origin, 2 * QUOTA)  # windows that overlap the change may hold twice the quota
    began = time.monotonic()
    more_requests(origin, 5 * QUOTA)
    ended = time.monotonic()
    hazard.late(0, 0)
    more_requests(origin, 2 * QUOTA)
    load.end()

    def most(until, node=None):
        return most_within([span for span in load.spans(origin, node) if began <= span[0] < until], WINDOW - 0.05)
    found, by_node = most(time.monotonic()), [most(ended, node) for node in all_nodes]
    t.note(f"answers {load.answers}, at most {found} of {QUOTA} within {WINDOW} s, by node {by_node}")
    true(found <= QUOTA, f"{found} were sent and had arrived within {WINDOW} s")
    true(max(by_node) <= QUOTA // count, f"{max(by_node)} by one node, which has a share of {QUOTA // count}")


@test("lease and local: a store that is slower than store_timeout does not add up with the share", workers=[1])
def lease_slow(t):
    for count in (1, 3):
        slow(t, "lease", count)


@test("exact and local: the same", workers=[1])
def exact_slow(t):
    slow(t, "exact", 2)


def troubled(t, way):
    hazard, origin, all_nodes = begin(t, way, fleet="store_timeout = 100ms")
    load = Load(t, 3).begin(all_nodes)
    done = []
    for _ in range(longer(9)):
        more_requests(origin, QUOTA // 3)
        trouble = t.random.choice(["stall", "reset", "cut", "late"])
        done.append(trouble)
        if trouble == "stall":
            hazard.stall()
            before = load.count(503)
            until(lambda: load.count(503) > before + 20, "refusals without a verdict")
            hazard.go_on()
        elif trouble == "reset":
            hazard.reset_all()
        elif trouble == "cut":
            hazard.cut_replies(t.random.randint(1, 6))
        else:
            hazard.late(0, t.random.choice([0.002, 0.03, 0.15]))
    hazard.late(0, 0)
    hazard.cut_replies(0)
    more_requests(origin, 2 * QUOTA)
    t.note(", ".join(done))
    judge(t, load, origin, QUOTA, WINDOW)


@test("exact: stalls, resets and replies that are cut, in any order", workers=[2])
def exact_troubled(t):
    troubled(t, "exact")


@test("lease: stalls, resets and replies that are cut, in any order", workers=[2])
def lease_troubled(t):
    troubled(t, "lease")


# ---- time and memory ----------------------------------------------------------------------------

@test("store_timeout: no verdict takes longer, whether the store is silent or late", workers=[1])
def timeout(t):
    """That it takes no longer is seen by what has not happened when the verdict is there: a late answer, which admits, and
    the end of the silent connection. The latter comes 800 ms later, which a busy machine may need for a verdict."""
    hazard, _, (node,) = begin(t, count=1, fleet=TIMEOUT, rate="1000 per 1h")
    client = t.client(node)

    def without_verdict(trouble):
        """Whether the connection to the store was left meanwhile."""
        until(lambda: ask(client).status == 200, "the store answers")
        left = node.process.output().count("store_down decides")
        trouble()
        began = time.monotonic()
        equal(ask(client).status, 503, "without a verdict")
        took = time.monotonic() - began
        left = node.process.output().count("store_down decides") - left
        hazard.go_on()
        hazard.late(0, 0)
        t.note(f"{1000 * took:.0f} ms")
        true(took >= 0.19, f"{took:.3f} s")
        return left > 0
    until(lambda: not without_verdict(hazard.stall), "a verdict before the connection is left")
    for _ in range(3):
        without_verdict(lambda: hazard.late(0.35, 0.4))


@test("a silent store: what waits for it takes no more memory with time", workers=[1])
def memory(t):
    hazard, _, (node,) = begin(t, count=1, fleet=TIMEOUT, rate="1000 per 1h")
    hazard.stall()
    crowd, statuses = Crowd(t), []

    def hammer(number):
        client = t.client(node)
        while not crowd._stop.is_set():
            statuses.append(ask(client, key=f"{number}-{len(statuses)}").status)
    crowd.start(12, hammer)
    resident = []
    for _ in range(4):
        at = len(statuses)
        until(lambda: len(statuses) > at + 3000, "requests")
        resident.append(resident_bytes(node.pid))
    crowd.stop()
    t.note(f"{len(statuses)} requests, then {[r >> 20 for r in resident]} MiB")
    equal(set(statuses), {503}, "answers")
    true(resident[-1] - resident[0] < 4 << 20, f"{(resident[-1] - resident[0]) >> 10} KiB more")
    hazard.go_on()
    until(lambda: ask(t.client(node)).status == 200, "the store answers")


@test("a late store: requests that wait for it have bounded memory", workers=[1])
def waiting(t):
    hazard, _, (node,) = begin(t, count=1, fleet="store_timeout = 10s", rate="100000 per 1h")
    before = resident_bytes(node.pid)
    hazard.stall()
    clients = [t.client(node) for _ in range(500)]
    for number, client in enumerate(clients):
        client.request("/", fields=[("X-Api-Key", str(number))])
    until(lambda: node.process.running() and resident_bytes(node.pid) > before, "they wait")
    hazard.go_on()
    equal({c.response().status for c in clients}, {200}, "answers")
    grown = (resident_bytes(node.pid) - before) / len(clients)
    t.note(f"{grown / 1024:.1f} KiB for each that waited")
    true(grown < 64 << 10, f"{grown:.0f} bytes for each")


def attempts_of_a_loss(hazard, workers):
    """When `workers` that are connected try to connect after the store is lost, in ms; five attempts for each."""
    until(lambda: sum(not each.ended.is_set() for each in hazard.connections) >= workers, "connections of all")
    before = len(hazard.accepted)
    hazard.refuses = True
    lost = time.monotonic()
    hazard.reset_all()
    until(lambda: len(hazard.accepted) >= before + 5 * workers, "attempts")
    attempts = [1000 * (at - lost) for at in hazard.accepted[before:]]
    hazard.refuses = False
    return attempts


# A machine that stands still moves what is seen of an attempt, but never to an earlier time: the lower bounds hold for
# each loss. That attempts differ is only seen while the machine runs: of several losses, one has to show it.
@test("nodes that lost the store come back one after the other, and less and less often", workers=[4])
def jitter(t):
    hazard, _, all_nodes = begin(t, count=3)
    workers = sum(node.workers for node in all_nodes)
    equal(workers, 12, "workers")
    spread = []
    for loss in range(6):
        attempts = attempts_of_a_loss(hazard, workers)
        t.note(", ".join(f"{at:.0f}" for at in attempts))
        # 25 to 50 ms, then about 50 to 100, 100 to 200, 200 to 400.
        true(attempts[0] >= 20, f"the first after {attempts[0]:.0f} ms")
        true(attempts[3 * workers] >= 25 + 50 + 100, f"the fourth round's after {attempts[3 * workers]:.0f} ms")
        spread.append(len({round(at / 2) for at in attempts[:workers]}))
        if spread[-1] >= 4:
            break
    else:
        true(False, f"all at once: {spread} different times of {workers}")
    for node in all_nodes:
        connected(node, len(spread) + 1)


main()
