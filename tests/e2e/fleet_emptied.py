"""A store that was emptied (FLUSHALL, or a restart without its memory) under a node that goes on, and a node that
remembers nothing speaks to it first: what was admitted before is not admitted again."""
from lib.fleet import ask, connected, limit, share, start_named, state
from lib.hazard import Hazard
from lib.process import until
from lib.redis import Redis
from lib.sluice import to
from lib.tap import equal, main, test, true

LEASE = "membership_lease = 3s\n"  # a store is young for twice as long: longer than the new node needs to ask


def flush(redis):
    redis.connect().ask("FLUSHALL")


def restart(redis):
    redis.kill()
    redis.start()


def take(t, node, count):
    client = t.client(node)
    return sum(ask(client).status == 200 for _ in range(count))


def emptied(t, way, quota, empty, fleet, most=1):
    """Of one hour, so that all that is ever admitted counts: `most` quotas."""
    redis = Redis(t)
    hazard = Hazard(t, redis.number)
    sections = limit("it", f"{quota} per 1h", way=way) + to(t.origin(), route="limits = it")
    names = [f"{name}-{way}-{fleet.split()[-1] if fleet else way}-{empty.__name__}" for name in ("old", "new")]
    old = start_named(t, hazard, names[0], sections, fleet=fleet + LEASE)
    until(lambda: ask(t.client(old), key="another").status == 200, "the limit has its store")
    admitted = take(t, old, 2 * quota)
    equal(admitted, quota, "all of the quota")
    hazard.stall()
    empty(redis)
    new = start_named(t, redis, names[1], sections, fleet=fleet + LEASE)
    connected(new)
    admitted += take(t, new, 2 * quota)
    hazard.go_on()
    until(lambda: all(len(state(node)["nodes"]) == 2 for node in (old, new)), "they know each other")
    if way == "split":
        until(lambda: share(old) == quota // 2, "the old one has a share of what it had")
    for _ in range(3):
        admitted += take(t, new, quota) + take(t, old, quota)
    true(admitted <= most * quota, f"{admitted} of {quota}")


@test("split: a node that remembers nothing has nothing until the others have spoken", workers=[1])
def split(t):
    for empty in (flush, restart):
        emptied(t, "split", 90, empty, "")


@test("exact and lease, store_down = refuse: a store that nobody is known to have used is full", workers=[1])
def refuse(t):
    for way in ("exact", "lease"):
        for empty in (flush, restart):
            emptied(t, way, 60, empty, "store_down = refuse\n")


@test("exact and lease, store_down = strict: the same", workers=[1])
def strict(t):
    for way in ("exact", "lease"):
        for empty in (flush, restart):
            emptied(t, way, 60, empty, "store_down = strict\n")


@test("store_down = local, and relaxed: twice the limit at most", workers=[1])
def twice(t):
    for way, down in (("exact", "local"), ("lease", "local"), ("relaxed", "local"), ("relaxed", "refuse")):
        emptied(t, way, 60, flush, f"store_down = {down}\n", most=2)


@test("a running node that has nothing to ask says what it remembers while the store is young", workers=[1])
def says(t):
    """Nobody asks it since the store was flushed: the new one waits for the limit's window all the same."""
    for way in ("exact", "lease"):
        redis = Redis(t)
        sections = limit("it", "5 per 1h", way=way) + to(t.origin(), route="limits = it")
        old = start_named(t, redis, f"old-{way}", sections, fleet=LEASE)
        connected(old)
        equal(take(t, old, 9), 5, "all of the quota")
        flush(redis)
        new = start_named(t, redis, f"new-{way}", sections, fleet=LEASE)
        connected(new)
        store = redis.connect()
        until(lambda: int(store.ask("GET", "sluice{epoch}:1") or 0) % 2 == 1, "the store knows that it has forgotten")
        equal(take(t, new, 9), 0, "full")


@test("lease, refuse: what nodes have in hand when the store is emptied and what they get then is one quota", workers=[1])
def in_hand(t):
    """Both have leases, and all that is ever admitted counts."""
    redis, quota = Redis(t), 400
    sections = limit("it", f"{quota} per 1h", way="lease") + to(t.origin(), route="limits = it")
    fleet = "store_down = refuse\n" + LEASE
    nodes = [start_named(t, redis, name, sections, fleet=fleet) for name in ("one", "two")]
    for node in nodes:
        connected(node)
    admitted = sum(take(t, node, 60) for node in nodes)
    equal(admitted, 120, "of the quota")
    flush(redis)
    nodes.append(start_named(t, redis, "three", sections, fleet=fleet))
    connected(nodes[2])
    admitted += sum(take(t, node, quota) for node in (nodes[2], *nodes))
    true(120 < admitted <= quota, f"{admitted} of {quota}")


@test("a new fleet: strict, refuse and split begin after two leases, or a window; local and admit at once", workers=[1])
def new_fleet(t):
    redis = Redis(t, young=True)
    ways = {"split": "split"} | {f"{way}-{down}": f"{way}\nstore_down = {down}"
                                 for way in ("exact", "lease") for down in ("refuse", "strict", "local", "admit")}
    sections = "".join(limit(name, "5 per 1h", way=way) for name, way in ways.items()) + to(t.origin())
    sections += "".join(f"[route {name}]\npath = /{name}\nlimits = {name}\nupstream = origin\n" for name in ways)
    node = start_named(t, redis, "one", sections, fleet="store_down = local\nmembership_lease = 4s\n")
    connected(node)

    client = t.client(node)

    def statuses():
        statuses.count += 1
        return {name: ask(client, f"caller {statuses.count}", path=f"/{name}").status for name in ways}
    statuses.count = 0
    found = statuses()
    equal({name for name, status in found.items() if status == 200},
          {name for name in ways if name.endswith(("local", "admit"))}, "at once")
    true(set(found.values()) <= {200, 429, 503}, found)
    until(lambda: set(statuses().values()) == {200}, "all admit")


main()
