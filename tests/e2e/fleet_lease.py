"""Limits of a fleet of which nodes take parts in advance (fleet = lease). What is claimed of times is
claimed as in promise.py: a window that was too full for certain."""
import signal
import threading
import time

from lib.fields import told, wait_ms
from lib.fleet import Load, ask, costly_origin, fleet_of, in_one_window, judge, limit, nodes
from lib.process import until
from lib.redis import Redis
from lib.sluice import to
from lib.spans import most_within
from lib.tap import equal, main, test, true


def leased(name, rate, more=""):
    return limit(name, rate, more, way="lease")


def on_lease(redis, name="it"):
    """Callers that the store keeps."""
    return len(redis.connect().ask("KEYS", f"sluice{{*}}{name}:lease"))


# ---- one caller ---------------------------------------------------------------------------------

@test("most requests need no store, and a whole quota can be used, on one node or another")
def one_caller(t):
    redis = Redis(t)
    redis.log_calls()
    origin = t.origin()
    sections = leased("it", "400 per 1h") + to(origin, route="limits = it")
    one, two = [t.client(n) for n in nodes(t, redis, sections, 2)]
    statuses = [ask(one).status for _ in range(300)]
    equal(statuses, [200] * 300, "of one node")
    made = redis.calls_about_callers("sluice_lease_1")
    t.note(f"{made} calls for 300 requests")
    true(made <= 60, f"{made} calls for 300 requests")
    refused = ask(two)
    while refused.status == 200:
        statuses.append(200)
        refused = ask(two)
    equal(refused.status, 429, "beyond it")
    true(300 < len(statuses) <= 400, f"{len(statuses)} were admitted")
    t.note(f"{400 - len(statuses)} of 400 were on lease at the other node")
    # What is on lease counts for a window from the end of that, which is at most 30 s ahead.
    true(0 < wait_ms(refused) <= 3_630_000, f"a wait of {wait_ms(refused)} ms")
    equal(told(refused).left["it"]["r"], 0, "left")
    equal(told(refused).policy["it"]["q"], 400, "the quota")


@test("a small quota is judged by the store for each request, and says exactly when to retry")
def small(t):
    redis = Redis(t)
    origin = t.origin()
    sections = leased("it", "4 per 2s") + to(origin, route="limits = it")
    clients = [t.client(n) for n in nodes(t, redis, sections, 2)]
    key, answers = in_one_window(2.0, lambda key: [ask(clients[n % 2], key) for n in range(5)])
    equal([told(answer).left["it"]["r"] for answer in answers[:4]], [3, 2, 1, 0], "what each node says is left")
    wait = wait_ms(answers[4])
    true(0 < wait <= 2000, f"a wait of {wait} ms")
    time.sleep(wait / 1000)
    equal(ask(clients[1], key).status, 200, "after the time that the other node said")


@test("a limit that is lowered: what a node has on lease of the larger one is not used")
def lowered(t):
    redis, origin = Redis(t), t.origin()

    def sections(rate):
        return leased("it", rate) + to(origin, route="limits = it")
    node, = nodes(t, redis, sections("1000 per 1h"), 1)
    client = t.client(node)
    equal([ask(client).status for _ in range(100)], [200] * 100, "of the larger one")
    node.reload(fleet_of(redis) + sections("50 per 1h"))
    node.process.wait_output("reloaded")
    equal([ask(client).status for _ in range(30)], [429] * 30, "more than the smaller one is used")


@test("what is over is returned: a quota that one node held is another's when it ends")
def returned(t):
    redis = Redis(t)
    origin = t.origin()
    sections = leased("it", "60 per 10s") + to(origin, route="limits = it")
    one, two = [t.client(n) for n in nodes(t, redis, sections, 2)]
    equal([ask(one).status for _ in range(10)], [200] * 10, "a lease is taken")
    at = time.monotonic()
    used = 10
    while used < 60 and time.monotonic() < at + 9:
        answer = ask(two)
        used += answer.status == 200
        if answer.status == 429:
            time.sleep(min(wait_ms(answer), 200) / 1000)
    equal(used, 60, "all of it was used within the window, though the first node had a part")


@test("costs, refunds, and limits that are leased, exact and of the node, all or none")
def afterwards(t):
    redis = Redis(t)
    origin = costly_origin(t)
    sections = (leased("it", "100 per 1h") + limit("narrow", "3 per 1h") + leased("tiny", "3 per 1h")
                + to(origin, route="limits = it")
                + "[route cost]\npath = /cost\nupstream = origin\nlimits = it\ncost = response:X-Cost\n"
                + "[route fail]\npath = /fail\nupstream = origin\nlimits = it\nrefund = 5xx\n"
                + "[route narrow]\npath = /narrow\nupstream = origin\nlimits = it, narrow\n"
                + "[route tiny]\npath = /tiny\nupstream = origin\nlimits = it, tiny\n")
    node, = nodes(t, redis, sections, 1)
    client = t.client(node)
    equal(told(ask(client, "a")).left["it"]["r"], 99, "left after the first")
    equal([ask(client, "a").status for _ in range(39)], [200] * 39, "of the quota")
    equal([ask(client, "a", path="/fail").status for _ in range(20)], [500] * 20, "failures, which are given back")
    drain(client, "a", 60, lost=10)
    equal(ask(client, "b", path="/cost").status, 200, "a cost of 4")
    drain(client, "b", 96)
    for path in ("/narrow", "/tiny"):
        equal([ask(client, path, path=path).status for _ in range(12)], [200] * 3 + [429] * 9, path)
        drain(client, path, 97, lost=3)


def drain(client, key, left, lost=0):
    """So many are left for this caller, or `lost` less: what comes back to the store stays used if a lease of an earlier
    slot is there. A request may be refused while the rest is on its way to the node."""
    admitted = 0

    def more():
        nonlocal admitted
        admitted += ask(client, key).status == 200
        return admitted >= left - lost
    until(more, f"{left} more")
    admitted += sum(ask(client, key).status == 200 for _ in range(10))
    true(admitted <= left, f"{admitted} of {left}")


# ---- the promise --------------------------------------------------------------------------------

@test("the promise over three nodes under load, and what leases leave unused", workers=[2])
def promise(t):
    redis = Redis(t)
    redis.log_calls()
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = leased("it", "150 per 2s") + to(origin, route="limits = it")
    load = Load(t, 3).begin(nodes(t, redis, sections))
    origin.wait(lambda: len(origin.requests) >= 600, "four windows' worth")
    spans = judge(t, load, origin, 150, 2.0)
    took = spans[-1][0] - spans[0][0]
    t.note(f"{len(spans)} in {took:.1f} s: {100 * len(spans) / (150 * (took / 2 + 1)):.0f} % of the quota")
    t.note(f"{redis.calls_about_callers('sluice_lease_1')} calls for {len(load.sent)} requests")
    equal(load.count(503), 0, "answers without a verdict")


@test("five nodes: one stopped for a while, one killed, one restarted: no window is too full", workers=[2])
def nodes_fail(t):
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = leased("it", "200 per 2s") + to(origin, route="limits = it")
    all_nodes = nodes(t, redis, sections, 5, fleet="store_timeout = 2s\nmembership_lease = 1s")
    load = Load(t, 2).begin(all_nodes)

    def more(count):
        at = len(origin.requests)
        origin.wait(lambda: len(origin.requests) >= at + count, "requests")
    more(200)
    all_nodes[1].process.stop()
    more(300)
    all_nodes[1].process.signal(signal.SIGCONT)
    more(100)
    all_nodes[2].process.kill()
    all_nodes[2].ended = True
    more(300)
    all_nodes[3].terminate()
    all_nodes[3].wait()
    more(300)
    judge(t, load, origin, 200, 2.0)


@test("a store that stands still or is killed: leases in hand last until they end, no window too full",
      workers=[2])
def store_fails(t):
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = leased("it", "150 per 2s") + to(origin, route="limits = it")
    all_nodes = nodes(t, redis, sections, fleet="store_timeout = 100ms")
    load = Load(t, 2).begin(all_nodes)
    origin.wait(lambda: len(origin.requests) >= 300, "requests")
    redis.stop()
    until(lambda: load.count(503) > 50, "refusals without a verdict")
    redis.go_on()
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + 300, "requests after it")
    judge(t, load, origin, 150, 2.0)


@test("a node that ends returns its leases", workers=[2])
def leaves(t):
    redis = Redis(t)
    origin = t.origin()
    sections = leased("it", "100 per 1h") + to(origin, route="limits = it")
    one, two = nodes(t, redis, sections, 2)
    equal([ask(t.client(one)).status for _ in range(20)], [200] * 20, "a lease is taken")
    one.terminate()
    equal(one.wait(), 0, "a clean end")
    client = t.client(two)
    admitted = 0
    while ask(client).status == 200:
        admitted += 1
    true(75 <= admitted <= 80, f"the other node gets the rest, {admitted} of 80")


@test("what comes back to a store that stood still until it counted no more is taken from nobody else", workers=[1])
def late_return(t):
    redis, released = Redis(t), threading.Event()
    t.defer(released.set)
    slow = t.origin(lambda exchange: (released.wait(60), exchange.reply(200, b"x")))
    origin = t.origin()
    sections = (leased("it", "12 per 2s")
                + f"[upstream slow]\nserver = {slow}\nmax_in_flight = 1\n"
                + "[route free]\npath = /free\nupstream = slow\n"
                + "[route slow]\npath = /slow\nupstream = slow\nlimits = it\nqueue_timeout = 60s\n"
                + to(origin, route="limits = it"))
    [node] = nodes(t, redis, sections, 1)
    client, sent = t.client(node), []

    def fire(count):
        for number in range(count):
            sent.append(time.monotonic())
            ask(client, number=len(sent) - 1)
    t.client(node).request("/free")  # the slow server is busy
    until(lambda: len(slow.requests), "it has come")
    began = time.monotonic()
    waiting = [t.client(node) for _ in range(6)]
    for one in waiting:
        one.request("/slow", fields=[("X-Api-Key", "one")])
    time.sleep(max(0.0, began + 1.0 - time.monotonic()))  # half a window later
    fire(6)
    time.sleep(max(0.0, began + 1.9 - time.monotonic()))  # just before they count no more
    redis.stop()
    for one in waiting:
        one.close()
    time.sleep(max(0.0, began + 2.6 - time.monotonic()))
    redis.go_on()
    fire(14)
    spans = [(sent[int(request.request.get("X-Number"))], request.arrived) for request in origin.requests]
    most = most_within(spans, 1.95)
    released.set()
    true(most <= 12, f"{most} of 12 within a window")


main()
