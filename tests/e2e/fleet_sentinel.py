"""A fleet whose store is a primary with replicas under Redis's Sentinels: they are asked where it is,
and nodes follow them when it fails over."""
import re

from lib.fields import told
from lib.fleet import Load, ask, connected, fleet_of, judge, limit, nodes
from lib.process import until
from lib.redis import Connection, Redis, Refused, Sentinels
from lib.sluice import to
from lib.tap import equal, main, test, true


def fails_over(sentinels, number):
    until(lambda: all(sentinels.named(n) != number for n in range(len(sentinels.sentinels))),
          "the Sentinels name another primary")


def has_all(primary):
    """Its replica."""
    facts = primary.connect().ask("INFO", "replication").decode()
    sent = re.search(r"master_repl_offset:(\d+)", facts)[1]
    return re.search(rf"slave0:.*state=online,offset={sent},", facts)


def replicates(server, text):
    """Waits for this in what it reports of its replication. A Sentinel that makes a server a replica cuts the server's
    connections, this one too."""
    def reports():
        try:
            return text in server.connect().ask("INFO", "replication")
        except OSError:
            return False
    until(reports, f"{text} of {server.number}")


@test("the Sentinels are asked for the primary, the first of them gone", workers=[1])
def asked(t):
    sentinels = Sentinels(t)
    sentinels.sentinels[0][1].kill()
    origin = t.origin()
    node, = nodes(t, sentinels, limit("it", "5 per 1h") + to(origin, route="limits = it"), 1,
                  fleet="sentinel = it")
    client = t.client(node)
    equal([told(ask(client)).left["it"]["r"] for _ in range(2)], [4, 3], "left")
    true(sentinels.primary.connect().ask("KEYS", "*it:1"), "the primary keeps it")


@test("a name that no Sentinel knows, and a Sentinel that names a replica: logged, and answered 503", workers=[1])
def unknown(t):
    sentinels = Sentinels(t, 1, 1)
    origin = t.origin()
    route = limit("it", "5 per 1h") + to(origin, route="limits = it")
    node = t.sluice(f"[fleet]\nstore = {sentinels.url}\nsentinel = other\n" + route)
    node.process.wait_output("it knows no primary of the name")
    equal(ask(t.client(node)).status, 503, "without a primary")
    replica = sentinels.replicas[0]
    node = t.sluice(f"[fleet]\nstore = {replica.url}\n" + route)
    node.process.wait_output("it is not a primary")
    equal(ask(t.client(node)).status, 503, "at a replica")
    equal(replica.connect().ask("KEYS", "*it:1"), [], "nothing was written there")


@test("the primary is killed under load, then the next one stands still and returns as a second primary: "
      "no window is too full", workers=[1])
def fails(t):
    """Takes most of a minute: Sentinels wait 4 s and more before they replace a primary, and it is replaced twice."""
    # With a quorum: without it, a replica takes over that may lack as many writes as it was slow.
    sentinels = Sentinels(t, 2, 3, "it", "--min-replicas-to-write", "1")
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = limit("it", "40 per 2s") + to(origin, route="limits = it")
    all_nodes = nodes(t, sentinels, sections, fleet="sentinel = it\nstore_timeout = 2s\nstore_quorum = 1")
    load = Load(t, 2).begin(all_nodes)
    origin.wait(lambda: len(origin.requests) >= 60, "requests")
    servers = {r.number: r for r in (sentinels.primary, *sentinels.replicas)}
    first = servers[sentinels.primary.number]
    first.kill()
    fails_over(sentinels, first.number)
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + 80, "requests by the next primary")
    first.start()  # to be a replica of the next, which may not write without one
    second = servers[sentinels.named()]
    replicates(second, b"connected_slaves:2")
    second.stop()
    fails_over(sentinels, second.number)
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + 80, "requests by the third primary")
    second.go_on()
    replicates(second, b"role:slave")
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + 40, "requests")
    judge(t, load, origin, 40, 2.0)


@test("the Sentinels move the primary while all live: nodes follow", workers=[1])
def moved(t):
    sentinels = Sentinels(t, 1, 3)
    origin = t.origin()
    node, = nodes(t, sentinels, limit("it", "50 per 1h") + to(origin, route="limits = it"), 1,
                  fleet="sentinel = it")
    client = t.client(node)
    equal(told(ask(client)).left["it"]["r"], 49, "before")
    old = sentinels.primary
    until(lambda: has_all(old), "the replica has what was counted")
    other = Connection(sentinels.sentinels[0][0])

    def accepts():
        try:
            return other.ask("SENTINEL", "FAILOVER", "it") == b"OK"
        except Refused:
            return False  # it has not heard of the replica lately
    until(accepts, "a failover by hand", pause=0.1)
    other.close()
    fails_over(sentinels, old.number)
    connected(node, 2)
    equal(told(ask(client)).left["it"]["r"], 48, "what the replica was told")


@test("store_quorum: a verdict counts when a replica has it, and is none without one", workers=[1])
def quorum(t):
    primary = Redis(t)
    replica = Redis(t, "--replicaof", "127.0.0.1", str(primary.number))
    replicates(primary, b"state=online")
    origin = t.origin()
    node, = nodes(t, primary, limit("it", "500 per 1h") + to(origin, route="limits = it"), 1,
                  fleet="store_quorum = 1\nstore_timeout = 5s")
    client = t.client(node)
    equal([told(ask(client)).left["it"]["r"] for _ in range(3)], [499, 498, 497], "with a replica")
    node.reload(fleet_of(primary, "store_quorum = 1\nstore_timeout = 1s")
                + limit("it", "500 per 1h") + to(origin, route="limits = it"))
    node.process.wait_output(": reloaded")
    connected(node, 2)
    replica.kill()

    def misses_it():
        equal(ask(client).status, 503, "without")
        return "0 replicas have confirmed the last writes, 1 are needed" in node.log()
    until(misses_it, "it says so")
    replica.start()
    until(lambda: ask(client).status == 200, "with one again")
    node.process.wait_output("enough replicas confirm writes again")
    node.reload(fleet_of(primary, "store_quorum = 2\nstore_timeout = 200ms")
                + limit("it", "500 per 1h") + to(origin, route="limits = it"))
    node.process.wait_output(": reloaded", 2)
    equal(ask(client).status, 503, "with one of two")


@test("a store by its host's name; a name that is not found is logged", workers=[1])
def names(t):
    redis = Redis(t)
    origin = t.origin()
    route = limit("it", "5 per 1h") + to(origin, route="limits = it")
    node = t.sluice(f"[fleet]\nstore = redis://localhost:{redis.number}\nstore_timeout = 5s\n" + route)
    connected(node)
    equal(told(ask(t.client(node))).left["it"]["r"], 4, "by the name")
    name = "a" * 64 + ".test"  # a label has at most 63 bytes (RFC 1035): no network is needed to fail
    node = t.sluice(f"[fleet]\nstore = redis://{name}:{redis.number}\n" + route)
    node.process.wait_output(f"host {name}: ")
    equal(ask(t.client(node)).status, 503, "without an address")


main()
