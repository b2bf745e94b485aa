"""A fleet whose store is a Redis Cluster: callers are divided among the primaries, and nodes follow slots that
move and primaries that are replaced."""
from lib.fields import told
from lib.fleet import Load, ask, connected, judge, limit, nodes, start_named, state
from lib.process import until
from lib.redis import Redis
from lib.redis_cluster import RedisCluster
from lib.sluice import to
from lib.tap import equal, main, test, true

CLUSTER = "cluster = on"


def by(name, field, rate, way="exact"):
    return f"[limit {name}]\nkey = header:{field}\nrate = {rate}\nscope = fleet\nfleet = {way}\n"


def owner_of(cluster, pattern):
    """Where the one caller like this is kept, and its slot."""
    (primary, key), = cluster.keys(pattern)
    return primary, primary.ask("CLUSTER", "KEYSLOT", key)


def judged(client):
    """The answer to a request that the cluster has judged, when it does so again."""
    return until(lambda: (answer := ask(client)).status != 503 and answer, "the cluster judges")


def callers_of_each(cluster, client):
    """A caller of each primary: (key, primary)."""
    found, known = {}, set()
    for number in range(1000):
        ask(client, f"caller-{number}")
        (primary, key), = (x for x in cluster.keys("*it:1") if x[1] not in known)
        known.add(key)
        found.setdefault(primary, (f"caller-{number}", primary))
        if len(found) == len(cluster.primaries):
            return list(found.values())
    raise AssertionError("no callers of some primary")


@test("callers are divided among the primaries, of which one is named; each is shown, and has the functions",
      workers=[1, 2])
def divided(t):
    cluster = RedisCluster(t)
    origin = t.origin()
    sections = limit("it", "5 per 1h") + to(origin, route="limits = it")
    node = start_named(t, cluster.primaries[0], "one", sections, fleet=CLUSTER)
    connected(node)
    client = t.client(node)
    for number in range(30):
        equal([told(ask(client, f"caller-{number}")).left["it"]["r"] for _ in range(2)], [4, 3], "left")
    for primary in cluster.primaries:
        true(primary.ask("KEYS", "*it:1"), "it keeps callers")
        true(len(primary.ask("FUNCTION", "LIST", "LIBRARYNAME", "sluice_*")) >= 4, "it has the functions")
    equal(len(cluster.keys("*it:1")), 30, "callers at all primaries")
    shown = state(node)["primaries"]
    equal(sorted(p["address"] for p in shown), sorted(f"127.0.0.1:{p.number}" for p in cluster.primaries), "primaries")
    equal(sum(p["slots"] for p in shown), 16384, "slots")
    true(all(p["connected"] for p in shown), "connected")
    equal([n["name"] for n in state(node)["nodes"]], ["one"], "nodes")


@test("limits of several callers in one request, whose slots differ: all or none", workers=[1])
def several(t):
    cluster = RedisCluster(t)
    origin = t.origin()
    sections = by("one", "X-One", "50 per 1h") + by("two", "X-Two", "10 per 1h", "lease") \
        + by("three", "X-Three", "3 per 1h") + to(origin, route="limits = one, two, three")
    node, = nodes(t, cluster, sections, 1, fleet=CLUSTER)
    client = t.client(node)

    def send(number):
        return client.ask("/", fields=[(f, f"{f}-{number}") for f in ("X-One", "X-Two", "X-Three")])

    for number in range(20):
        left = [told(send(number)).left for _ in range(3)]
        left = [[x[name]["r"] for name in ("one", "two", "three")] for x in left]
        equal(left, [[49, 9, 2], [48, 8, 1], [47, 7, 0]], "admitted")
        for _ in range(3):
            refused = send(number)
            equal(refused.status, 429, "the third limit is full")
            equal(told(refused).left["one"]["r"], 47, "nothing of the others was kept")
        fields = [("X-One", f"X-One-{number}"), ("X-Two", f"X-Two-{number}"), ("X-Three", f"X-Three-new-{number}")]
        left = told(client.ask("/", fields=fields)).left
        equal([left[name]["r"] for name in ("one", "two", "three")], [46, 6, 2], "with another")
    true(len({primary.number for primary, _ in cluster.keys("*one:1")}) == 3, "callers at all primaries")


@test("a slot is moved under load: no window is too full", workers=[1, 2])
def moved(t):
    """Takes half a minute: several windows under load, before, during and after the move."""
    cluster = RedisCluster(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = limit("it", "40 per 2s") + to(origin, route="limits = it")
    all_nodes = nodes(t, cluster, sections, 2, fleet=CLUSTER)
    load = Load(t, 2).begin(all_nodes)
    origin.wait(lambda: len(origin.requests) >= 50, "requests")
    source, slot = owner_of(cluster, "*it:1")
    for target in (p for p in cluster.primaries if p is not source):
        errors = source.errors("TRYAGAIN"), source.errors("ASK")
        cluster.begin_move(slot, source, target)
        at = len(load.sent)
        until(lambda: len(load.sent) >= at + 100, "requests while the slot is on its way")
        cluster.move_keys(slot, source, target, 1)
        until(lambda: source.errors("TRYAGAIN") > errors[0], "a request while its keys are at both")
        while cluster.move_keys(slot, source, target):
            pass
        until(lambda: source.errors("ASK") > errors[1], "a request while its keys are at the target")
        at = len(origin.requests)
        origin.wait(lambda: len(origin.requests) >= at + 50, "requests")
        moved_before = source.errors("MOVED")
        cluster.end_move(slot, source, target)
        until(lambda: source.errors("MOVED") > moved_before, "a request that has moved")
        origin.wait(lambda: len(origin.requests) >= at + 100, "requests at the new owner")
        equal(owner_of(cluster, "*it:1"), (target, slot), "the owner")
        source = target
    judge(t, load, origin, 40, 2.0)
    equal(load.count(503), 0, "requests that the store did not judge")


@test("a primary is killed under load, with store_quorum = 1: its replica knows of all that was admitted",
      workers=[1])
def killed(t):
    """Takes half a minute: the cluster waits before it takes a node to have failed."""
    cluster = RedisCluster(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = limit("it", "100000 per 1h") + to(origin, route="limits = it")
    node, = nodes(t, cluster, sections, 1, fleet=CLUSTER)
    client = t.client(node)
    ask(client)
    source, _ = owner_of(cluster, "*it:1")
    replica = cluster.add_replica(source)
    load = Load(t, 2).begin(nodes(t, cluster, sections, 2, fleet=f"{CLUSTER}\nstore_quorum = 1\nstore_timeout = 1s"))
    until(lambda: load.count(200) >= 200, "admitted")
    source.kill()
    until(lambda: replica.role() == "master", "the replica takes over")
    load.end()
    connected(node, 2)
    admitted = 1 + load.count(200)
    known = 100000 - told(judged(client)).left["it"]["r"] - 1
    t.note(f"{admitted} were admitted, the replica knows of {known}")
    true(known >= admitted, f"{admitted} were admitted, the replica knows of {known}")


@test("a killed primary's replica takes over: its callers are served again", workers=[1])
def taken_over(t):
    cluster = RedisCluster(t)
    origin = t.origin()
    sections = limit("it", "50 per 1h") + to(origin, route="limits = it")
    node, = nodes(t, cluster, sections, 1, fleet=CLUSTER)
    client = t.client(node)
    equal(told(ask(client)).left["it"]["r"], 49, "before")
    source, _ = owner_of(cluster, "*it:1")
    replica = cluster.add_replica(source)
    until(lambda: replica.ask("KEYS", "*it:1"), "the replica has it")
    source.kill()
    until(lambda: ask(client).status == 503, "without it")
    until(lambda: replica.role() == "master", "the replica takes over")
    connected(node, 2)
    left = told(judged(client)).left["it"]["r"]
    true(left <= 48, f"what the replica was told: {left} are left")


@test("a primary stands still: its callers are on the rung, others are served; it is replaced, and goes on",
      workers=[1])
def paused(t):
    """Takes half a minute: the cluster waits before it takes a node to have failed."""
    cluster = RedisCluster(t)
    origin = t.origin()
    sections = limit("it", "50 per 1h") + to(origin, route="limits = it")
    node, = nodes(t, cluster, sections, 1, fleet=CLUSTER + "\nstore_timeout = 3s")
    client = t.client(node)
    (name, stopped), *others = callers_of_each(cluster, client)
    replica = cluster.add_replica(stopped)
    left = told(ask(client, name)).left["it"]["r"]
    stopped.stop()
    equal(ask(client, name).status, 503, "a caller of it")
    for other, _ in others:
        equal(ask(client, other).status, 200, "a caller of another primary")
    until(lambda: replica.role() == "master", "the replica takes over")
    connected(node, 2)
    until(lambda: ask(client, name).status == 200, "by the next primary")
    stopped.go_on()
    until(lambda: stopped.role() == "slave", "it is a replica")
    true(told(ask(client, name)).left["it"]["r"] < left, "what was counted")


@test("a primary without a replica is killed: the cluster is down, and refuses; then it is gone from the slots",
      workers=[1])
def down(t):
    cluster = RedisCluster(t)
    origin = t.origin()
    sections = limit("it", "50 per 1h") + to(origin, route="limits = it")
    node, = nodes(t, cluster, sections, 1, fleet=CLUSTER)
    client = t.client(node)
    callers = callers_of_each(cluster, client)
    callers[0][1].kill()
    for name, _ in callers:
        until(lambda: ask(client, name).status == 503, "the cluster refuses")
    node.process.wait_output("CLUSTERDOWN")


@test("a server that is no cluster, and a cluster that is not named so: logged, and answered 503", workers=[1])
def wrong(t):
    redis = Redis(t)
    origin = t.origin()
    sections = limit("it", "5 per 1h") + to(origin, route="limits = it")
    node = t.sluice(f"[fleet]\nstore = {redis.url}\ncluster = on\nstore_down = refuse\n" + sections)
    node.process.wait_output("cluster support disabled")
    equal(ask(t.client(node)).status, 503, "no cluster")
    cluster = RedisCluster(t)
    node = t.sluice(f"[fleet]\nstore = {cluster.primaries[0].url}\nstore_down = refuse\n" + sections)
    node.process.wait_output("it is a node of a Redis Cluster; expected cluster = on")
    equal(ask(t.client(node)).status, 503, "a cluster")


main()
