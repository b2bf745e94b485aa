"""Limits of a fleet of which nodes publish what they admit (fleet = relaxed), and by how much a window may
be too full."""
import signal
import threading
import time

from lib.crowd import Crowd

from lib.fields import told
from lib.fleet import Load, ask, connected, costly_origin, fleet_of, limit, named, nodes, start_named, state
from lib.process import until
from lib.redis import Pulse, Redis
from lib.spans import most_within
from lib.sluice import to
from lib.tap import equal, main, test, true

INTERVAL = 0.5
QUICK = "publish_interval = 100ms\n"
# Of a busy machine: what a node publishes late, and a request takes from its verdict to the origin.
LATE = 0.25


def relaxed(name, rate, more=""):
    return limit(name, rate, more, way="relaxed")


@test("what one node admits the others know, and a caller at the sum is refused by all; others are not")
def together(t):
    redis = Redis(t)
    origin = t.origin()
    sections = relaxed("it", "10 per 1h") + to(origin, route="limits = it")
    one, two = [t.client(n) for n in nodes(t, redis, sections, 2, fleet=QUICK)]
    equal([told(ask(one)).left["it"]["r"] for _ in range(6)], [9, 8, 7, 6, 5, 4], "on one node")
    until(lambda: told(ask(two, key="probe" + str(time.monotonic()))).policy["it"]["q"] == 10, "the other is up")
    answer = ask(two)
    until(lambda: (a := ask(two)).status == 429 or told(a).left["it"]["r"] <= 3, "the other node knows of these")
    while ask(two).status == 200:
        pass
    refused = ask(two)
    equal((answer.status, refused.status, told(refused).left["it"]["r"]), (200, 429, 0), "beyond it")
    until(lambda: ask(one).status == 429, "on the first node as well")
    equal([ask(c, key="other").status for c in (one, two)], [200, 200], "another caller")


@test("costs, refunds, bytes, shadow and a limit of the node reach the sum")
def afterwards(t):
    redis = Redis(t)
    origin = costly_origin(t, 1000)
    routes = {"cost": "limits = it\ncost = response:X-Cost", "fail": "limits = it\nrefund = 5xx",
              "bytes": "limits = bytes", "seen": "limits = seen", "own": "limits = it, own"}
    sections = (relaxed("it", "100 per 1h") + relaxed("bytes", "8kB per 1h") + relaxed("seen", "4 per 1h", "mode = shadow")
                + "[limit own]\nkey = header:X-Api-Key | ip\nrate = 1 per 1h\n" + to(origin, route="limits = it")
                + "".join(f"[route {name}]\npath = /{name}\nupstream = origin\n{rest}\n"
                          for name, rest in routes.items()))
    one, two = [t.client(n) for n in nodes(t, redis, sections, 2, fleet=QUICK)]
    left = lambda answer: told(answer).left["it"]["r"]
    equal([left(ask(one)) for _ in range(10)][-1], 90, "what is left")
    equal([ask(one, path="/fail").status for _ in range(5)], [500] * 5, "failures")
    equal(ask(one, path="/cost").status, 200, "a cost of 4")
    equal([ask(one, path="/own").status for _ in range(3)], [200, 429, 429], "by the node's own limit")
    until(lambda: left(ask(two, path="/fail")) == 84, "the other node knows of 10 + 4 + 1")
    for client in (one, two):
        until(lambda: ask(client, path="/bytes").status == 429, "bytes, until they are used up over both")
    bytes_at = [x for x in origin.requests if x.request.target == "/bytes"]
    true(8 <= len(bytes_at) <= 17, f"{len(bytes_at)} responses of 1 kB")
    equal([ask(c, path="/seen").status for c in (one, two) for _ in range(6)], [200] * 12, "shadow refuses nothing")


def most_sent(load, pulse, *stopped):
    """By all clients, within the interval and what a busy machine adds: how long a node that the test has not stopped, or
    the store, took to answer at the worst."""
    with load.lock:
        stood_still = max([pulse.worst, *(s for node, s in load.slowest.items() if node not in stopped)])
        return most_within([(s, s) for s in load.sent], INTERVAL + LATE + 2 * max(0, stood_still - LATE))


def judge_overshoot(t, load, origin, quota, window, pulse, *stopped):
    load.end()
    pulse.end()
    spans = load.spans(origin)
    most = most_within(spans, window - 0.05)
    with load.lock:
        sent = list(load.sent)
    at_once = most_sent(load, pulse, *stopped)
    t.note(f"{len(sent)} requests in {sent[-1] - sent[0]:.1f} s, answers {load.answers}, {len(spans)} at the origin: at "
           f"most {most} of {quota} within {window} s, {max(0, most - quota)} too many; at most {at_once} were sent "
           f"within {INTERVAL} s and what the machine stood still")
    true(most <= quota + at_once, f"{most} were sent and had arrived within {window} s")
    true(most >= 0.8 * quota, "most of it can be used")


def overshoot(t, count):
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = relaxed("it", "200 per 2s") + to(origin, route="limits = it")
    made, pulse = nodes(t, redis, sections, count), Pulse(t, redis)
    load = Load(t, 2, pace=0.02).begin(made)
    origin.wait(lambda: len(origin.requests) >= 1000, "windows")
    judge_overshoot(t, load, origin, 200, 2.0, pulse)


@test("three nodes under load: a window is too full by no more than is sent in publish_interval", workers=[2])
def three(t):
    overshoot(t, 3)


@test("five nodes under load: the same", workers=[2])
def five(t):
    overshoot(t, 5)


@test("a node that is stopped, one that is killed, one that joins: the same", workers=[2])
def nodes_fail(t):
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = relaxed("it", "200 per 2s") + to(origin, route="limits = it")
    all_nodes = named(t, redis, sections, ["a", "b", "c"], fleet="membership_lease = 2s")
    pulse = Pulse(t, redis)
    load = Load(t, 2, pace=0.02).begin(all_nodes)

    def more(count):
        at = len(origin.requests)
        origin.wait(lambda: len(origin.requests) >= at + count, "requests")
    more(300)
    all_nodes[0].process.stop()
    more(200)
    all_nodes[0].process.signal(signal.SIGCONT)
    all_nodes[1].process.kill()
    all_nodes[1].ended = True
    more(200)
    new = start_named(t, redis, "d", sections, fleet="membership_lease = 2s")
    connected(new)
    load.begin([new])
    more(300)
    judge_overshoot(t, load, origin, 200, 2.0, pulse, all_nodes[0])


# ---- what it takes with it, and what it does not know --------------------------------------------

@test("what is given back is published, too", workers=[1])
def given_back(t):
    redis, known = Redis(t), threading.Event()

    def handler(x):
        if x.request.target == "/held":
            known.wait(120)
        x.reply(500, b"x")
    origin = t.origin(handler)
    sections = relaxed("it", "10 per 1h") + to(origin, route="limits = it\nrefund = 5xx")
    one, two = nodes(t, redis, sections, 2, fleet=QUICK)
    left = lambda: told(ask(t.client(two))).left["it"]["r"]
    Crowd(t).start(4, lambda _: ask(t.client(one), path="/held"))
    until(lambda: left() == 5, "the other node knows of four")
    known.set()
    until(lambda: left() == 9, "and that they were given back")


def operate(node, words, method="GET"):
    status, answer = node.admin.json(f"/api/v1/{words}", method)
    equal(status, 200, answer)
    return answer


@test("callers, explain and reset: of all nodes, by any of them", workers=[1])
def operators(t):
    redis = Redis(t)
    sections = relaxed("it", "10 per 1h") + relaxed("big", "9000 per 1h") + to(t.origin(), route="limits = it")
    one, two = named(t, redis, sections, ["one", "two"], fleet=QUICK)
    used = lambda node: operate(node, "callers?key=one&limit=it")["limits"][0]["used"]
    outcome = lambda node: operate(node, "explain?path=/&field.X-Api-Key=one")["outcome"]
    equal((used(two), outcome(two)), (0, "admit"), "before")
    client = t.client(one)
    equal([ask(client).status for _ in range(11)], [200] * 10 + [429], "by one")
    until(lambda: used(two) == 10, "the sum, by the other node")
    equal(outcome(two), "refuse", "what it would say")
    equal(operate(one, "callers?key=one", "DELETE")["reset"], ["it"], "what was reset")
    equal(used(two), 0, "forgotten")
    until(lambda: (a := ask(client)).status == 200 and told(a).left["it"]["r"] >= 8, "by the node as well")
    equal(ask(t.client(two)).status, 200, "by the other")
    equal(operate(two, "callers?key=nobody", "DELETE")["reset"], [], "of a caller without use")


@test("on_exceed = delay: a request waits until others' use leaves the window, too", workers=[1])
def delayed(t):
    redis = Redis(t)
    sections = relaxed("it", "5 per 4s", "on_exceed = delay 30s") + to(t.origin(), route="limits = it")
    one, two = [t.client(n) for n in nodes(t, redis, sections, 2, fleet=QUICK)]
    begun = time.monotonic()
    equal([ask(one).status for _ in range(5)], [200] * 5, "by one node")
    until(lambda: len(redis.connect().ask("KEYS", "*")) >= 2, "published")
    until(lambda: ask(two).status == 200 and time.monotonic() - begun >= 3.9, "by the other, with some delay")
    true(time.monotonic() - begun < 30, "it is no longer than it must be")


@test("many callers are published in calls of a bounded number", workers=[1])
def many(t):
    redis = Redis(t)
    origin = t.origin()
    sections = relaxed("it", "10 per 1h") + to(origin, route="limits = it")
    one, two = nodes(t, redis, sections, 2, fleet="publish_interval = 2s\n")
    client = t.client(one)
    ask(client, key="first")
    until(lambda: redis.connect().ask("DBSIZE") >= 2, "a first call is over, and the next is due later")
    for number in range(700):
        ask(client, key=f"caller {number}")
    other = t.client(two)
    for number in (0, 255, 256, 699):
        until(lambda: told(ask(other, key=f"caller {number}")).left["it"]["r"] <= 8, "the other node knows of it")


@test("a reload keeps what is known; another limit before it changes nothing", workers=[2])
def reloaded(t):
    redis = Redis(t)
    origin = t.origin()
    sections = relaxed("it", "10 per 1h") + to(origin, route="limits = it")
    one, two = nodes(t, redis, sections, 2, fleet=QUICK)
    for _ in range(6):
        ask(t.client(one))
    until(lambda: told(ask(t.client(two), key="one")).left["it"]["r"] <= 3, "it is known")
    two.reload(fleet_of(redis, QUICK) + relaxed("a", "5 per 1h") + relaxed("b", "5 per 1h") + sections)
    while ask(t.client(two)).status == 200:
        pass
    until(lambda: ask(t.client(one)).status == 429, "the sum is used up on both")
    equal(len(origin.requests) <= 20, True, "not each by itself")


# ---- without the store --------------------------------------------------------------------------

@test("store_down = local: shares while the store is away; then what these admitted is in the sum", workers=[2])
def local(t):
    quota, count = 180, 3
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = relaxed("it", f"{quota} per 2s") + to(origin, route="limits = it")
    all_nodes = nodes(t, redis, sections, count, fleet=f"store_down = local\nnodes = {count}\n")
    pulse = Pulse(t, redis)
    load = Load(t, 2, pace=0.02).begin(all_nodes)

    def more(requests):
        at = len(origin.requests)
        origin.wait(lambda: len(origin.requests) >= at + requests, "requests")

    def on_rung(rung):
        for node in all_nodes:
            node.process.wait_output(f"limits of the fleet: {rung} (it)")
        return time.monotonic()
    more(2 * quota)
    pulse.end()
    redis.kill()
    away = on_rung("share")
    more(2 * quota)
    before = time.monotonic()
    redis.start()
    pulse.begin()
    returned = on_rung("returning")
    more(quota)
    load.end()
    pulse.end()
    spans = load.spans(origin)
    at_once = most_sent(load, pulse)
    for what, since, until_when, most in (("all", 0, returned + 1e6, 2 * quota + at_once),
                                          ("by shares", away, before, quota),
                                          ("since all are back", returned, returned + 1e6, quota + at_once)):
        found = most_within([s for s in spans if since <= s[0] and s[1] < until_when], 1.95)
        t.note(f"{what}: at most {found} of {quota} within 2 s")
        true(found <= most, f"{what}: {found}, {most} are promised")
    equal(load.count(503), 0, "answers without a verdict")


@test("a store that is flushed: nodes that only publish notice it, and keep to their shares for a window", workers=[2])
def flushed(t):
    redis = Redis(t)
    origin = t.origin()
    sections = relaxed("it", "9 per 8s", "store_down = local") + to(origin, route="limits = it")
    all_three = [start_named(t, redis, name, sections, fleet=QUICK + "membership_lease = 3s\n")
                 for name in ("one", "two", "three")]
    it = lambda node: state(node)["limits"][0]
    for node in all_three:
        until(lambda: (it(node)["rung"], it(node)["share"]) == ("store", 3) or None, "it has a share")
    redis.connect().ask("FLUSHALL")
    for node in all_three:
        until(lambda: it(node)["rung"] == "returning" or None, "it has noticed")
    clients = [t.client(node) for node in all_three]
    answers = [[ask(client).status for _ in range(5)] for client in clients]
    true(all(one.count(200) <= 3 for one in answers), f"no more than the share of each: {answers}")
    for node in all_three:
        until(lambda: it(node)["rung"] == "store" or None, "a window later it judges by the sum")


@test("store_down = refuse and admit", workers=[1])
def closed_and_open(t):
    redis = Redis(t)
    origin = t.origin()
    sections = (relaxed("closed", "5 per 1h", "store_down = refuse") + relaxed("open", "5 per 1h", "store_down = admit")
                + relaxed("shared", "5 per 1h", "store_down = local")
                + to(origin, route="limits = closed") + "".join(
                    f"[route {name}]\npath = /{name}\nupstream = origin\nlimits = {name}\n" for name in ("open", "shared")))
    node, = nodes(t, redis, sections, 1, fleet="nodes = 2\n" + QUICK)
    client = t.client(node)
    equal([ask(client, path=path).status for path in ("/", "/open", "/shared")], [200] * 3, "with the store")
    redis.kill()
    node.process.wait_output("limits of the fleet: share (shared), refuse (closed), admit (open)")
    answer = ask(client)
    equal((answer.status, bool(answer.get("Retry-After"))), (503, True), "refuse")
    equal([ask(client, path="/open").status for _ in range(9)], [200] * 9, "admit")
    equal([ask(client, path="/shared").status for _ in range(3)], [200, 429, 429], "two of five are its share")


main()
