"""Limits of a fleet with store_down = strict: whatever happens to the store or to nodes, no window at the
origin holds more than the quota. Times are claimed as in promise.py."""
import signal
import time

from lib.cut import Way
from lib.fields import told
from lib.fleet import Load, ask, limit, start_named, state
from lib.process import until
from lib.redis import Redis
from lib.sluice import to
from lib.spans import most_within
from lib.tap import equal, main, test, true

WINDOW = 2.0
# What strict waits for before shares are used: 3 leases, the tail (1.2 s) and the window, 6.5 s.
FLEET = "store_down = strict\nmembership_lease = 1s\nstore_timeout = 1s\n"


def sections(origin, quota, way="exact"):
    return limit("it", f"{quota} per 2s", way=way) + to(origin, route="limits = it")


def start(t, stores, text, more=""):
    """A node for each of the stores; all have their shares."""
    names = [f"n{i}" for i in range(len(stores))]
    made = [start_named(t, store, name, text, fleet=FLEET + more) for store, name in zip(stores, names)]
    name = "big" if "[limit big]" in text else "it"
    for node in made:
        until(lambda: seen(node, name)["share"] == seen(node, name)["quota"] // len(made), "its share")
    return made


def seen(node, name="it"):
    found, = (x for x in state(node)["limits"] if x["name"] == name)
    return found


def left(t, node):
    """Of the quota, for a caller that was never seen, and this request; None: there is no verdict."""
    answer = ask(t.client(node), key=f"{time.monotonic()}")
    return told(answer).left["it"]["r"] if answer.status != 503 else None


def judge(t, load, origin, quota):
    """Of the load's caller."""
    load.end()
    spans = [(load.sent[int(x.request.get("X-Number"))], x.arrived) for x in origin.requests
             if x.request.get("X-Number")]
    most = most_within(spans, WINDOW - 0.05)
    t.note(f"answers {load.answers}, {len(spans)} at the origin, at most {most} of {quota} within {WINDOW} s")
    true(most <= quota, f"{most} were sent and had arrived within {WINDOW} s")


def on_rung(nodes, *rungs):
    for node in nodes:
        until(lambda: seen(node)["rung"] in rungs, f"the limit is on {rungs}")


def more_arrive(origin, count, what):
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + count, what)


def lose_and_find(t, way, count, lose, find):
    """A fleet under load loses its store for longer than shares wait, and finds it again."""
    quota = 40 * count
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    nodes = start(t, [redis] * count, sections(origin, quota, way))
    load = Load(t, 1).begin(nodes)
    more_arrive(origin, 2 * quota, "windows of the store's")
    lose(redis)
    on_rung(nodes, "wait", "share")
    on_rung(nodes, "share")
    more_arrive(origin, quota, "windows of shares")
    find(redis)
    on_rung(nodes, "store")
    more_arrive(origin, 2 * quota, "windows of the store's again")
    judge(t, load, origin, quota)


@test("the store is killed under three nodes, and returns without its memory", workers=[1])
def killed(t):
    """Takes half a minute: shares wait 6.5 s, at the loss and at the return."""
    lose_and_find(t, "exact", 3, lambda redis: redis.kill(), lambda redis: redis.start())


@test("the store stands still under five nodes, and goes on", workers=[2])
def paused(t):
    """Takes half a minute: shares wait 6.5 s, at the loss and at the return."""
    lose_and_find(t, "exact", 5, lambda redis: redis.process.signal(signal.SIGSTOP),
                  lambda redis: redis.process.signal(signal.SIGCONT))


@test("the same by leases, without its memory", workers=[1])
def leases(t):
    lose_and_find(t, "lease", 3, lambda redis: redis.kill(), lambda redis: redis.start())


@test("the store is flushed under nodes that lease, and their connections stay", workers=[2])
def flushed(t):
    quota = 80
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    nodes = start(t, [redis] * 2, sections(origin, quota, "lease"))
    load = Load(t, 1).begin(nodes)
    for _ in range(2):
        more_arrive(origin, 2 * quota, "windows of the store's")
        redis.connect().ask("FLUSHALL")
        on_rung(nodes, "wait")
        on_rung(nodes, "store")
    more_arrive(origin, 2 * quota, "windows of the store's again")
    judge(t, load, origin, quota)


def alone(t, way_of_limit):
    """One node is cut off alone until it uses its share, which the others have left free, and comes back."""
    quota = 90
    redis = Redis(t)
    way = Way(t, redis.number)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    *near, far = start(t, [redis, redis, way], sections(origin, quota, way_of_limit))
    load = Load(t, 1).begin([*near, far])
    more_arrive(origin, 2 * quota, "windows of the store's")
    way.cut()
    on_rung([far], "wait", "share")
    on_rung(near, "store")
    on_rung([far], "share")
    until(lambda: (left(t, far), left(t, near[0])) == (29, 59), "a share, and what the others have without it")
    more_arrive(origin, 3 * quota, "windows of both")
    way.mend()
    on_rung([far], "store")
    more_arrive(origin, 2 * quota, "windows of the store's again")
    until(lambda: left(t, near[0]) == 89, "all of the quota is the store's again")
    judge(t, load, origin, quota)


@test("one node alone is cut off for longer than shares wait, and comes back", workers=[1])
def alone_exact(t):
    """Takes half a minute: shares wait 6.5 s, at the loss and at the return."""
    alone(t, "exact")


@test("one node alone is cut off, by leases", workers=[2])
def alone_leases(t):
    """Takes half a minute: shares wait 6.5 s, at the loss and at the return."""
    alone(t, "lease")


@test("a node is killed: its share is left to it, and comes back to the others", workers=[1])
def node_killed(t):
    """Takes half a minute: shares wait 6.5 s, at the loss and at the return."""
    quota = 90
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    *near, gone = start(t, [redis] * 3, sections(origin, quota), more="lost_share = 10s\n")
    load = Load(t, 1).begin([*near, gone])
    more_arrive(origin, 2 * quota, "windows of all")
    gone.process.kill()
    gone.ended = True
    until(lambda: left(t, near[0]) == 59, "its share is left to it")
    until(lambda: left(t, near[0]) == 89, "it is the others'")
    more_arrive(origin, 2 * quota, "windows of the others")
    judge(t, load, origin, quota)


@test("a node that leaves leaves its share to the others at once", workers=[1])
def departed(t):
    redis = Redis(t)
    origin = t.origin()
    near, gone = start(t, [redis] * 2, sections(origin, 10))
    gone.terminate()
    gone.wait()
    until(lambda: seen(near)["share"] == 10, "all is its share")
    until(lambda: left(t, near) == 9, "nothing is left to the other")


@test("a limit smaller than the fleet: shares of none, which refuse", workers=[1])
def small(t):
    redis = Redis(t)
    origin = t.origin()
    nodes = start(t, [redis] * 3, sections(origin, 2) + limit("big", "30 per 2s"))

    def by_the_store():
        began, key = time.monotonic(), f"{time.monotonic()}"
        statuses = [ask(t.client(node), key=key).status for node in nodes]
        true(statuses.count(200) <= 2 or time.monotonic() - began >= WINDOW, statuses)
        return statuses == [200, 200, 429]
    until(by_the_store, "by the store")
    redis.kill()
    on_rung(nodes, "wait")
    equal(ask(t.client(nodes[0]), key="other").status, 503, "while it waits")
    on_rung(nodes, "share")
    equal(ask(t.client(nodes[0]), key="other").status, 429, "its share is none")


@test("nodes lose the store and find it at random times", workers=[1])
def at_random(t):
    draw = t.random
    quota, count = 60, 3
    redis = Redis(t)
    ways = [Way(t, redis.number) for _ in range(count)]
    origin = t.origin(lambda x: x.reply(200, b"x"))
    nodes = start(t, ways, sections(origin, quota, draw.choice(["exact", "lease"])))
    load = Load(t, 1).begin(nodes)
    for _ in range(draw.randrange(3, 7)):
        way = draw.choice(ways)
        draw.choice([way.cut, way.mend])()
        time.sleep(draw.choice([0.5, 4.0]) * draw.random())  # the schedule
    for way in ways:
        way.mend()
    on_rung(nodes, "store")
    more_arrive(origin, quota, "the store's windows")
    judge(t, load, origin, quota)


main()
