"""What limits of a fleet do while the store is away, and when it returns. What is claimed of times is
claimed as in promise.py: a window that was too full for certain, by when requests were sent and when the
origin had them."""
import json
import re
import time

from lib.admin import Admin
from lib.cut import Way
from lib.fields import told
from lib.fleet import Load, ask, limit, nodes
from lib.process import BINARY, run, until
from lib.redis import Redis
from lib.sluice import to
from lib.spans import most_within
from lib.tap import equal, main, test, true

WINDOW = 2.0


def local(count, more=""):
    """A short timeout would put single requests on the rung, on a slow machine."""
    return f"store_down = local\nnodes = {count}\nstore_timeout = 3s\n{more}"


def last_rung(node):
    found = re.findall(r"limits of the fleet: (.*)", node.process.output())
    return found[-1] if found else ""


def on_rung(node, *rungs):
    """The node has said so of its limit, and nothing else since. One that was elsewhere for a moment, as the machine
    stood still, is waited for."""
    until(lambda: last_rung(node) in [f"{rung} (it)" for rung in rungs], f"on {rungs}")


def most(t, load, origin, quota, factor, since, what):
    """Of requests that were sent since then."""
    spans = [span for span in load.spans(origin) if span[0] >= since]
    found = most_within(spans, WINDOW - 0.05)
    t.note(f"{what}: at most {found} of {factor} x {quota} within {WINDOW} s, {len(spans)} at the origin")
    true(found <= factor * quota, f"{what}: {found} within {WINDOW} s, {factor} x {quota} are promised")
    return len(spans)


def limit_of(way, quota, more=""):
    return limit("it", f"{quota} per 2s", more).replace("fleet = exact", f"fleet = {way}")


# ---- store_down = local -------------------------------------------------------------------------

def lose_and_find(t, way, count, lose, find):
    """A fleet under load loses its store and finds it again."""
    quota = 60 * count
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    all_nodes = nodes(t, redis, limit_of(way, quota) + to(origin, route="limits = it"), count, fleet=local(count))
    load = Load(t, 1).begin(all_nodes)
    origin.wait(lambda: len(origin.requests) >= 2 * quota, "two windows of the store's")
    lose(redis)
    for node in all_nodes:
        on_rung(node, "share")
    away = time.monotonic()
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + 2 * quota, "windows of shares")
    find(redis)
    for node in all_nodes:
        on_rung(node, "returning", "store")
    returned = time.monotonic()
    at = len(origin.requests)
    for node in all_nodes:
        on_rung(node, "store")
    back = time.monotonic()
    after = len(origin.requests)
    true(after > at or back < returned + 5, "requests while it returns")
    origin.wait(lambda: len(origin.requests) >= after + quota, "windows of the store's again")
    load.end()
    most(t, load, origin, quota, 2, 0, f"{way}, {count} nodes, all")
    most(t, load, origin, quota, 1, away, "since all have lost the store")
    most(t, load, origin, quota, 1, returned, "since it is back")
    most(t, load, origin, quota, 1, back, "since it judges alone")
    equal(load.count(503), 0, "answers without a verdict")


def killed(redis):
    redis.kill()


def started(redis):
    redis.start()


def paused(redis):
    redis.stop()


def resumed(redis):
    redis.go_on()


@test("local: the store is killed under three nodes, and returns without its memory", workers=[1])
def local_killed(t):
    lose_and_find(t, "exact", 3, killed, started)


@test("local: the store stands still under five nodes, and goes on", workers=[1])
def local_paused(t):
    """Takes half a minute: the store is away for longer than windows and shares last."""
    lose_and_find(t, "exact", 5, paused, resumed)


@test("local: the same by leases", workers=[1])
def local_leases(t):
    lose_and_find(t, "lease", 3, killed, started)


@test("local: a store that is flushed under nodes that lease, whose connections stay", workers=[2])
def flushed(t):
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    all_nodes = nodes(t, redis, limit_of("lease", 80) + to(origin, route="limits = it"), 2,
                      fleet=local(2, "membership_lease = 1s\n"))
    load = Load(t, 1).begin(all_nodes)
    origin.wait(lambda: len(origin.requests) >= 160, "two windows of the store's")
    redis.connect().ask("FLUSHALL")
    for node in all_nodes:
        node.process.wait_output("limits of the fleet: returning (it)")
    for node in all_nodes:
        on_rung(node, "store")
    load.end()


@test("local: one node alone is cut off, and comes back", workers=[1])
def local_alone(t):
    quota = 60
    redis = Redis(t)
    way = Way(t, redis.number)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = limit_of("exact", quota) + to(origin, route="limits = it")
    near = nodes(t, redis, sections, 2, fleet=local(3))
    far, = nodes(t, way, sections, 1, fleet=local(3))
    load = Load(t, 1).begin([*near, far])
    origin.wait(lambda: len(origin.requests) >= 2 * quota, "two windows of the store's")
    way.cut()
    on_rung(far, "share")
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + 3 * quota, "windows of both")
    way.mend()
    on_rung(far, "returning", "store")
    returned = time.monotonic()
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + 2 * quota, "windows of the store's again")
    load.end()
    most(t, load, origin, quota, 2, 0, "all")
    most(t, load, origin, quota, 1, returned, "since it is back")
    equal(load.count(503), 0, "answers without a verdict")


@test("local: nodes lose the store and find it at random times", workers=[1])
def local_random(t):
    draw = t.random
    quota, count = 60, 3
    redis = Redis(t)
    ways = [Way(t, redis.number) for _ in range(count)]
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = limit_of(draw.choice(["exact", "lease"]), quota) + to(origin, route="limits = it")
    all_nodes = [nodes(t, way, sections, 1, fleet=local(count))[0] for way in ways]
    load = Load(t, 1).begin(all_nodes)
    for _ in range(draw.randrange(4, 10)):
        way = draw.choice(ways)
        draw.choice([way.cut, way.mend])()
        time.sleep(draw.uniform(0, 1.5))  # the schedule
    for way in ways:
        way.cut()
    for node in all_nodes:
        on_rung(node, "share")
    away = time.monotonic()
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + quota, "windows of shares")
    for way in ways:
        way.mend()
        time.sleep(draw.uniform(0, 1.0))  # the schedule
    for node in all_nodes:
        on_rung(node, "returning", "store")
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + quota, "the store's windows")
    load.end()
    most(t, load, origin, quota, 2, 0, "all")
    most(t, load, origin, quota, 1, away, "since all have lost the store")


# ---- what is seen, and what a limit says for itself ---------------------------------------------

def fleet_of_node(node):
    status, text = run([BINARY, "fleet", "--json", "-c", node.ini_path])
    equal(status, 0, text)
    return json.loads(text)


def rungs(node):
    return {x["name"]: (x["store_down"], x["rung"], x["quota"], x["share"]) for x in fleet_of_node(node)["limits"]}


@test("each limit on its own rung: in the log, in sluice fleet and in the metrics")
def seen(t):
    redis = Redis(t)
    origin = t.origin()
    sections = (limit("shared", "10 per 1h") + limit("closed", "10 per 1h", "store_down = refuse")
                + limit("open", "1 per 1h", "store_down = admit")
                + f"[admin]\nbind = unix:{t.path('admin')}\n"
                + to(origin, route="limits = shared")
                + "[route closed]\npath = /closed\nupstream = origin\nlimits = closed\n"
                + "[route open]\npath = /open\nupstream = origin\nlimits = open\n"
                + "[route all]\npath = /all\nupstream = origin\nlimits = shared, closed\n")
    node, = nodes(t, redis, sections, 1, fleet=local(2))
    client = t.client(node)
    equal([ask(client).status for _ in range(3)], [200] * 3, "with the store")
    equal(rungs(node), {"shared": ("local", "store", 10, 5), "closed": ("refuse", "store", 10, 5),
                        "open": ("admit", "store", 1, 0)}, "with the store")
    redis.kill()
    node.process.wait_output("limits of the fleet: share (shared), refuse (closed), admit (open)")
    equal({name: x[1] for name, x in rungs(node).items()},
          {"shared": "share", "closed": "refuse", "open": "admit"}, "without the store")
    text = run([BINARY, "fleet", "-c", node.ini_path])[1]
    true(re.search(r"shared +local +share +10 +5", text), text)
    answer = ask(client)
    equal((answer.status, told(answer).left["shared"]["r"]), (200, 1), "the fourth of its share of five")
    equal([ask(client).status for _ in range(2)], [200, 429], "the share")
    equal(ask(client, key="other").status, 200, "another caller")
    equal([ask(client, path="/closed").status, ask(client, path="/all", key="new").status], [503, 503], "closed")
    equal([ask(client, path="/open").status for _ in range(3)], [200] * 3, "open")
    page = metrics(t)
    for rung, count in (("store", 0), ("returning", 0), ("share", 1), ("refuse", 1), ("admit", 1)):
        true(f'sluice_fleet_limits{{rung="{rung}"}} {count}' in page, page)
    redis.start()
    node.process.wait_output("limits of the fleet: store (closed, open), returning (shared)")


def metrics(t):
    return Admin(f"unix:{t.path('admin')}").ask("/metrics")[2].decode()


@test("what shares have admitted is charged to the store when it is back", workers=[2])
def charged(t):
    redis = Redis(t)
    origin = t.origin()
    sections = limit("it", "20 per 1h") + to(origin, route="limits = it")
    way = Way(t, redis.number)
    one, = nodes(t, redis, sections, 1, fleet=local(2))
    two, = nodes(t, way, sections, 1, fleet=local(2))
    equal(ask(t.client(two)).status, 200, "with the store")
    way.cut()
    on_rung(two, "share")
    statuses = [ask(t.client(two)).status for _ in range(12)]
    equal(statuses, [200] * 9 + [429] * 3, "its share is ten, of which one was used")
    equal(told(ask(t.client(one))).left["it"]["r"], 18, "the store does not know of them")
    way.mend()
    until(lambda: told(ask(t.client(one), key="one", path="/")).left["it"]["r"] <= 8, "it knows of them")


main()
