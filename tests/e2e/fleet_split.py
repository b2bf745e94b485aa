"""Limits of a fleet that are divided among its nodes (fleet = split). What is claimed of times is claimed
as in promise.py: a window that was too full for certain."""
import signal
import time

from lib.fields import told, wait_ms
from lib.fleet import Load, ask, connected, costly_origin, fleet_of, judge, limit, named, share, start_named, state
from lib.process import BINARY, run, until
from lib.redis import Redis
from lib.sluice import to
from lib.tap import equal, main, test, true

LEASE = "membership_lease = 4s"  # longer than a busy machine stands still


def split(name, rate, more=""):
    return limit(name, rate, more, way="split")


def shared(all_nodes, name="it"):
    return [share(node, name) for node in all_nodes]


def await_shares(all_nodes, expected, name="it"):
    until(lambda: shared(all_nodes, name) == expected, f"shares of {expected}")


# ---- shares -------------------------------------------------------------------------------------

@test("each node has its part, the rest is the lowest names', and a node judges by its part alone")
def parts(t):
    redis = Redis(t)
    origin = t.origin()
    sections = split("it", "11 per 1s") + split("long", "20 per 1h") + to(origin, route="limits = it") + (
        "[route long]\npath = /long\nupstream = origin\nlimits = long\n")
    one = start_named(t, redis, "one", sections, fleet=LEASE)
    await_shares([one], [11])
    await_shares([one], [20], "long")
    client = t.client(one)

    def left_within_a_window():
        began, key = time.monotonic(), f"alone {time.monotonic()}"
        left = [told(ask(client, key=key)).left["it"]["r"] for _ in range(3)]
        return left if time.monotonic() - began < 0.9 else None
    equal(until(left_within_a_window, "three requests in a window"), [10, 9, 8], "alone")
    equal(told(ask(client, path="/long")).policy["long"]["q"], 20, "the quota is the whole limit's")
    two, three = [start_named(t, redis, name, sections, fleet=LEASE) for name in ("two", "three")]
    all_nodes = [one, three, two]  # in the order of their names
    await_shares(all_nodes, [4, 4, 3])
    equal(share(two, "long"), 0, "of a long window a joiner has nothing yet")
    refused = ask(t.client(two), path="/long")
    equal(refused.status, 429, "so it refuses,")
    true(wait_ms(refused) > 0, "and says how long to wait")
    for node, most in zip(all_nodes, (4, 4, 3)):
        client = t.client(node)
        statuses = [ask(client, key="new").status for _ in range(6)]
        true(statuses.count(200) <= most or statuses[:most] != [200] * most, statuses)
    status, text = run([BINARY, "fleet", "-c", one.ini_path])
    equal(status, 0, text)
    true("JUDGED BY" in text and "long" in text, text)
    equal([s["nodes"] for s in state(one)["shares"]], [3, 3], "among the nodes")
    metrics = one.admin.ask("/metrics")[2].decode()
    true('sluice_fleet_share{limit="it"} 4' in metrics, "in the metrics")


@test("a node's own refusals: exactly its part, and the exact time to retry")
def refusals(t):
    redis = Redis(t)
    origin = t.origin()
    sections = split("it", "8 per 8s") + to(origin, route="limits = it")
    both = named(t, redis, sections, ["one", "two"], fleet=LEASE)
    await_shares(both, [4, 4])
    for node in both:
        client = t.client(node)
        equal([ask(client).status for _ in range(6)], [200] * 4 + [429] * 2, "its part")
    refused = ask(t.client(both[0]))
    equal(told(refused).left["it"]["r"], 0, "left")
    wait = wait_ms(refused)
    true(0 < wait <= 8000, f"a wait of {wait} ms")
    time.sleep(wait / 1000)
    equal(ask(t.client(both[0])).status, 200, "after it")


@test("more nodes than units: the store judges each request; and back again")
def fewer_units(t):
    redis = Redis(t)
    origin = t.origin()
    sections = split("it", "2 per 1s") + to(origin, route="limits = it")

    def judges(all_nodes):
        return [state(n)["shares"][0]["judged_by"] for n in all_nodes]
    all_nodes = named(t, redis, sections, ["one", "two", "zwo"], fleet=LEASE)
    until(lambda: judges(all_nodes) == ["store"] * 3, "the store judges")
    at = time.monotonic()
    statuses = [ask(t.client(n)).status for n in all_nodes]
    if time.monotonic() - at < 0.9:
        equal(statuses, [200, 200, 429], "by the store")
    all_nodes[2].terminate()
    equal(all_nodes[2].wait(), 0, "a clean end")
    await_shares(all_nodes[:2], [1, 1])
    until(lambda: ask(t.client(all_nodes[1])).status == 200, "by its share")


# ---- what goes with limits ----------------------------------------------------------------------

@test("costs, refunds, bytes, shadow, delay, and limits of the node and the store beside it")
def afterwards(t):
    redis = Redis(t)
    origin = costly_origin(t, 1000)
    routes = {"cost": "limits = it\ncost = response:X-Cost", "fail": "limits = it\nrefund = 5xx",
              "bytes": "limits = bytes", "seen": "limits = seen", "slow": "limits = slow",
              "own": "limits = it, own", "mixed": "limits = it, few"}
    sections = (split("it", "40 per 1h") + split("bytes", "8kB per 1h") + split("seen", "4 per 1h", "mode = shadow")
                + split("slow", "2 per 500ms", "on_exceed = delay 10s") + limit("few", "1 per 1h")
                + "[limit own]\nkey = header:X-Api-Key | ip\nrate = 1 per 1h\n" + to(origin, route="limits = it")
                + "".join(f"[route {name}]\npath = /{name}\nupstream = origin\n{rest}\n"
                          for name, rest in routes.items()))
    node = start_named(t, redis, "one", sections, fleet=LEASE)
    await_shares([node], [40])
    client = t.client(node)
    left = lambda answer: told(answer).left["it"]["r"]
    equal([left(ask(client)) for _ in range(2)], [39, 38], "what is left")
    equal(ask(client, path="/fail").status, 500, "a failure")
    until(lambda: left(ask(client, path="/fail")) == 37, "is given back")
    equal(ask(client, path="/cost").status, 200, "a cost of 4")
    until(lambda: left(ask(client, path="/fail")) == 33, "what it cost in truth")
    for path in ("/own", "/mixed"):
        before = left(ask(client, path="/fail"))
        equal([ask(client, path=path).status for _ in range(3)], [200, 429, 429], path)
        until(lambda: left(ask(client, path="/fail")) == before - 1, "only what was admitted is charged")
    statuses = []
    while len(statuses) < 20 and 429 not in statuses:
        statuses.append(ask(client, path="/bytes").status)
    equal(statuses, [200] * 8 + [429], "of bytes, until they are used up")
    equal([ask(client, path="/seen").status for _ in range(6)], [200] * 6, "shadow refuses nothing")
    began = time.monotonic()
    equal([ask(client, path="/slow").status for _ in range(5)], [200] * 5, "delayed")
    true(time.monotonic() - began >= 0.9, "each after its time")


@test("a reload: a smaller quota has a smaller share at once, a larger one when the store has given it")
def reload(t):
    redis = Redis(t)
    origin = t.origin()

    def sections(rate):
        return split("it", rate) + to(origin, route="limits = it")
    node = start_named(t, redis, "one", sections("10 per 1h"), fleet=LEASE)
    await_shares([node], [10])
    client = t.client(node)
    equal([ask(client).status for _ in range(3)], [200] * 3, "at first")
    head = fleet_of(redis, f"node = one\n{LEASE}") + f"[admin]\nbind = unix:{t.path('one')}\n"
    node.reload(head + sections("4 per 1h"))
    until(lambda: told(ask(client)).policy["it"]["q"] == 4, "the smaller one")
    equal(ask(client).status, 429, "of the smaller one, what was used counts")
    node.reload(head + sections("100 per 1h"))
    await_shares([node], [100])
    until(lambda: told(ask(client)).left["it"]["r"] >= 80, "of the larger one")
    node.reload(head + to(origin))
    until(lambda: state(node)["shares"] == [], "no limit any more")


# ---- the promise --------------------------------------------------------------------------------

def more(origin, count):
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + count, "requests")


@test("three nodes under load while they join: no window is too full, and all of it is used", workers=[2])
def joining(t):
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = split("it", "90 per 1s") + to(origin, route="limits = it")
    load = Load(t, 2)
    all_nodes = []
    for name in ("one", "two", "three"):
        node = start_named(t, redis, name, sections, fleet=LEASE)
        connected(node)
        load.begin([node])
        all_nodes.append(node)
        until(lambda: None not in shared(all_nodes) and sum(shared(all_nodes)) == 90, "all of it is given")
        more(origin, 150)
    spans = judge(t, load, origin, 90, 1.0)
    await_shares(all_nodes, [30] * 3)
    since = spans[-1][1] - 1.0
    t.note(f"{sum(span[1] >= since for span in spans)} of 90 in the last second")


@test("five nodes: one stopped, one killed, one restarted, one joins: no window is too full", workers=[2])
def nodes_fail(t):
    """Takes half a minute: leases of 4 s end, of one node after another."""
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = split("it", "100 per 1s") + to(origin, route="limits = it")
    names = ["a", "b", "c", "d", "e"]
    all_nodes = named(t, redis, sections, names, fleet=LEASE)
    await_shares(all_nodes, [20] * 5)
    load = Load(t, 2).begin(all_nodes)
    more(origin, 200)
    all_nodes[1].process.stop()
    others = [all_nodes[0], *all_nodes[2:]]
    await_shares(others, [25] * 4)
    more(origin, 200)
    all_nodes[1].process.signal(signal.SIGCONT)
    await_shares(all_nodes, [20] * 5)
    more(origin, 100)
    all_nodes[2].process.kill()
    all_nodes[2].ended = True
    left = [all_nodes[0], all_nodes[1], *all_nodes[3:]]
    await_shares(left, [25] * 4)
    more(origin, 100)
    all_nodes[3].terminate()
    all_nodes[3].wait()
    again = start_named(t, redis, "d", sections, fleet=LEASE)
    new = start_named(t, redis, "f", sections, fleet=LEASE)
    for node in (again, new):
        connected(node)
    load.begin([again, new])
    await_shares([all_nodes[0], all_nodes[1], again, all_nodes[4], new], [20] * 5)
    more(origin, 200)
    judge(t, load, origin, 100, 1.0)


@test("a store that is away for longer than a lease: no share, store_down decides; and it returns", workers=[2])
def store_away(t):
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = split("it", "60 per 1s") + to(origin, route="limits = it")
    all_nodes = named(t, redis, sections, ["one", "two", "three"], fleet=LEASE)
    await_shares(all_nodes, [20] * 3)
    load = Load(t, 2).begin(all_nodes)
    more(origin, 120)
    redis.stop()
    more(origin, 30)  # by the shares that they hold
    until(lambda: shared(all_nodes) == [None] * 3, "no share")
    until(lambda: load.count(503) > 50, "refusals without a verdict")
    redis.go_on()
    await_shares(all_nodes, [20] * 3)
    more(origin, 120)
    redis.kill()
    redis.start()  # it has forgotten all
    more(origin, 120)
    await_shares(all_nodes, [20] * 3)
    more(origin, 60)
    judge(t, load, origin, 60, 1.0)


@test("a node that stood still for longer than its lease has nothing until it has rejoined", workers=[1])
def stood_still(t):
    redis = Redis(t)
    origin = t.origin()
    sections = split("it", "10 per 1h") + to(origin, route="limits = it")
    node = start_named(t, redis, "one", sections, fleet="membership_lease = 3s")
    await_shares([node], [10])
    client = t.client(node)
    equal(ask(client).status, 200, "before")
    redis.stop()
    node.process.stop()
    time.sleep(3.2)  # the lease's time is the subject
    node.process.signal(signal.SIGCONT)
    equal(ask(client).status, 503, "after its lease, without the store")
    redis.go_on()
    until(lambda: ask(client).status == 200, "it has rejoined")


# ---- what is rejected ---------------------------------------------------------------------------

CASES = (("concurrency = 3", "as requests in flight end"),
         ("rate = 1 per 1s\nalgorithm = gcra", "as the pace of gcra cannot"),
         ("rate = 1 per day", "as shares move only at the end"),
         ("rate = 1 per 1s\ncount_refused = on", "as a node does not count the requests"),
         ("rate = 1 per 1s\nban = 5 per 1m for 1h", "as a node does not count the requests"),
         ("rate = 1 per 1s\nwas = b", "as the nodes keep their shares"))


@test("sluice check names what cannot be split or relaxed, by file and line", workers=[1])
def checks(t):
    rest = "[listener a]\nbind = 127.0.0.1:1\n[upstream u]\nserver = 127.0.0.1:2\n[route r]\nupstream = u\n"
    for way in ("split", "relaxed"):
        for lines, expected in CASES:
            t.file("ini", "[fleet]\nstore = redis://127.0.0.1\n"
                   f"[limit a]\n{lines}\nscope = fleet\nfleet = {way}\n" + rest)
            status, output = run([BINARY, "check", "-c", t.path("ini")])
            equal(status, 1, lines)
            true(expected in output and f": not supported with fleet = {way}, " in output, f"{lines}: {output}")
            true(f"{t.path('ini')}:" in output, output)
    t.file("ini", "[fleet]\nstore = redis://127.0.0.1\n[limit a]\nrate = 1000 per 1s\nprecision = exact\n"
           "scope = fleet\nfleet = relaxed\n" + rest)
    true("as the store remembers at most 255 times" in run([BINARY, "check", "-c", t.path("ini")])[1], "precision")


main()
