"""Limits of a fleet of other kinds than a window of requests: paced, by the calendar, in flight, in bytes,
with bans; each over several nodes with one Redis."""
import signal
import time
from ctypes.util import find_library

from lib.fields import told, wait_ms
from lib.fleet import NODES, Load, ask, connected, fleet_of, in_one_window, judge, limit, nodes
from lib.hazard import Hazard
from lib.held import Held
from lib.process import DEADLINE_SECONDS, SANITIZER, until
from lib.redis import Redis
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.wire import quiet


def clients_of(t, sections, count=NODES, fleet="", **options):
    return [t.client(n) for n in nodes(t, Redis(t), sections, count, fleet, **options)]


@test("gcra over three nodes: a burst, then one at a time, at the time that a refusal says")
def paced(t):
    origin = t.origin()
    clients = clients_of(t, limit("it", "10 per 10s", "algorithm = gcra\nburst = 3") + to(origin, route="limits = it"))
    key, answers = in_one_window(1.0, lambda key: [ask(client, key) for client in clients])
    equal([answer.status for answer in answers], [200] * 3, "of the burst")
    left = [told(answer).left["it"]["r"] for answer in answers]
    true(left[0] == 2 and left[2] <= 1, f"left of the burst: {left}")
    refused = ask(clients[0], key)
    while refused.status == 200:  # a slow machine: a second has passed
        refused = ask(clients[0], key)
    wait = wait_ms(refused)
    true(0 < wait <= 1000, f"wait {wait}")
    time.sleep(wait / 1000)
    equal(ask(clients[1], key).status, 200, "then, by another node")


@test("gcra: what was refunded is free again")
def paced_refund(t):
    def handler(x):
        x.read_body()
        x.reply(500 if x.request.target == "/fail" else 200, b"x")
    sections = limit("it", "10 per 1h", "algorithm = gcra\nburst = 2") + to(
        t.origin(handler), route="limits = it\nrefund = 5xx")
    one, two = clients_of(t, sections, 2)
    equal(ask(one).status, 200, "one")
    for client in (two, one, two):  # the refund of the one before may still be on its way
        until(lambda client=client: ask(client, path="/fail").status == 500, "one that fails")


@test("a response that cost more than any limit has refuses its caller, and leaves others their verdicts")
def costly(t):
    def handler(x):
        x.read_body()
        x.reply(200, b"x", fields=[("X-Cost", "9" * 18)] if x.request.get("X-Api-Key") == "costly" else [])
    kinds = {"ring": ("5 per 1h", "", "exact"), "paced": ("5 per 1h", "algorithm = gcra", "exact"),
             "days": ("5 per day", "", "exact"), "leased": ("5 per 1h", "", "lease"),
             "parts": ("5 per 1h", "", "split"), "sums": ("5 per 1h", "", "relaxed")}
    sections = "".join(limit(name, rate, more, way) for name, (rate, more, way) in kinds.items())
    sections += to(t.origin(handler), route="limits = ring\ncost = response:X-Cost")
    sections += "".join(f"[route {name}]\npath = /{name}\nupstream = origin\nlimits = {name}\ncost = response:X-Cost\n"
                        for name in kinds)
    client, = clients_of(t, sections, 1)
    for name in kinds:
        until(lambda: ask(client, key="other", path=f"/{name}").status == 200, "a verdict")
        crowd = [ask(client, key="costly", path=f"/{name}").status for _ in range(8)]
        until(lambda: ask(client, key="costly", path=f"/{name}").status == 429, f"{name}: it is refused, after {crowd}")
        equal(set(crowd) - {200, 429}, set(), f"{name}: each has a verdict")
        equal(ask(client, key="other", path=f"/{name}").status, 200, f"{name}: another caller")


@test("gcra: a reload to another rate keeps how many requests are in use", workers=[1])
def paced_reload(t):
    def sections(rate):
        return fleet_of(redis) + limit("it", rate, "algorithm = gcra\nburst = 5") + to(origin, route="limits = it")
    redis, origin = Redis(t), t.origin()
    for key, before, after in (("lower", "60 per 1h", "5 per 10h"), ("higher", "5 per 10h", "60 per 1h")):
        node = t.sluice(sections(before))
        connected(node)
        client = t.client(node)
        while ask(client, key=key).status == 200:
            pass
        node.reload(sections(after))
        node.process.wait_output("reloaded")
        refused = ask(client, key=key)
        equal(refused.status, 429, f"{key}: of what is in use nothing is free")
        most = 7_200_000 if key == "lower" else 60_000
        true(0 < wait_ms(refused) <= most, f"{key}: {wait_ms(refused)} ms to the next request by the new rate")


@test("nodes that reload one by one to another window do not make what is used last longer", workers=[1])
def windows_one_by_one(t):
    redis, origin = Redis(t), t.origin()
    for way in ("exact", "lease", "relaxed"):
        clients = []
        for window in ("10s", "12s"):
            node = t.sluice(fleet_of(redis) + limit("it", f"40 per {window}", way=way) + to(origin, route="limits = it"))
            connected(node)
            clients.append(t.client(node))
        answers = [ask(clients[n % 2], key=way) for n in range(200)]
        waits = [wait_ms(a) for a in answers if a.status == 429]
        true(waits and max(waits) <= 13_500, f"{way}: {len(waits)} refused, for at most {max(waits, default=0)} ms")


@test("nodes that reload one by one to a longer window keep the shorter one until the last has it, then the longer",
      workers=[1])
def longer_one_by_one(t):
    redis, origin = Redis(t), t.origin()
    sections = {(way, window): fleet_of(redis) + limit("it", f"5 per {window}", way=way) + to(origin, route="limits = it")
                for way in ("exact", "lease") for window in ("1s", "1h")}
    for way in ("exact", "lease"):
        one, two = (t.sluice(sections[way, "1s"]) for _ in range(2))
        for node in (one, two):
            connected(node)
        one.reload(sections[way, "1h"])
        one.process.wait_output("reloaded")
        clients = [t.client(node) for node in (one, two)]
        key, answers = in_one_window(0.9, lambda key, clients=clients: [ask(c, key).status for c in clients * 5])
        equal(answers.count(200), 5, f"{way}: within the shorter window")
        equal(ask(clients[0], key).status, 429, f"{way}: a node with the longer window still counts them")
        until(lambda clients=clients, key=key: ask(clients[1], key).status == 200,
              f"{way}: a node with the shorter window does not")
        two.reload(sections[way, "1h"])
        two.process.wait_output("reloaded")
        while 200 in [ask(c, key).status for c in clients]:
            pass
        time.sleep(1.2)  # longer than the window before
        equal([ask(c, key).status for c in clients * 2], [429] * 4, f"{way}: all nodes count the longer window")


@test("a reload to a longer window: requests that were under way do not shorten it", workers=[1])
def under_way(t):
    redis, gate = Redis(t), t.event()

    def handle(x):
        if x.request.target.startswith("/slow"):
            gate.wait(DEADLINE_SECONDS)
        x.reply(500 if x.request.target.endswith("fail") else 200, b"",
                fields=[("X-Cost", "3")] if x.request.target.endswith("cost") else [])
    origin = t.origin(handle)

    def sections(rate):
        return fleet_of(redis) + "".join(limit(way, rate, way=way) for way in ("exact", "lease")) + to(
            origin, route="limits = exact, lease\ncost = response:X-Cost\nrefund = 5xx\nordering = none")
    node = t.sluice(sections("5 per 50ms"))
    connected(node)
    slow = {end: t.client(node) for end in ("fail", "cost")}
    for end, client in slow.items():
        client.request(f"/slow/{end}", fields=[("X-Api-Key", end)])
        origin.wait(lambda end=end: f"/slow/{end}" in origin.targets(), "under way")
    node.reload(sections("5 per 1h"))
    node.process.wait_output("reloaded")
    client = t.client(node)
    for end in slow:
        until(lambda end=end: ask(client, key=end).status == 429, "all of it is used")
    time.sleep(0.2)  # longer than the window before
    gate.set()
    for end, slow_client in slow.items():
        equal(slow_client.response().status, 500 if end == "fail" else 200, "of a request that was under way")
        equal([ask(client, key=end).status for _ in range(5)], [429] * 5, f"{end}: what is used still counts")


@test("by the calendar: one quota of all nodes, to the end of the zone's day, also of nodes whose clocks differ")
def by_calendar(t):
    redis, origin = Redis(t), t.origin()
    library = find_library("faketime/libfaketime.so.1") if not SANITIZER else None
    sections = fleet_of(redis) + limit("it", "3 per hour Asia/Kolkata") + to(
        origin, route="limits = it")
    made = []
    for shift in (0, 1300, -1300):
        environment = {"LD_PRELOAD": library, "FAKETIME": f"{shift:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        made.append(t.sluice(sections, environment=environment if library and shift else None))
    for node in made:
        connected(node)
    clients = [t.client(n) for n in made]
    before = time.time()
    answers = [ask(clients[n % 3], key=str(before)) for n in range(5)]
    after = time.time()
    # the hours of Kolkata begin half an hour off those of UTC
    if (before - 1800) // 3600 != (after - 1800) // 3600:
        t.skip("an hour has just begun")
    equal([a.status for a in answers], [200] * 3 + [429] * 2, "three in the hour")
    ends = 3600 - (before - 1800) % 3600
    for refused in answers[3:]:
        true(ends - (after - before) - 1 <= wait_ms(refused) / 1000 <= ends + 1,
             f"{wait_ms(refused)} ms to the end of the hour, {ends:.1f} s")


@test("bytes are charged as they pass, over all nodes, and a debt is waited for")
def in_bytes(t):
    origin = t.origin(lambda x: x.reply(200, b"x" * 40000))
    sections = limit("it", "100kB per 1h") + to(origin, route="limits = it")
    clients = clients_of(t, sections)
    for n in range(3):
        equal(ask(clients[n]).status, 200, f"download {n}")
        until(lambda n=n: (a := ask_nothing(clients[0])).status == 429 or told(a).left["it"]["r"] <= 100000 - 40000 * (n + 1),
              "its bytes are charged")
    equal([ask(c).status for c in clients], [429] * 3, "more than there were has passed")
    equal(ask(clients[0], key="two").status, 200, "another caller")


def ask_nothing(client):
    """A HEAD, whose answer has no body."""
    return client.ask("/", "HEAD", fields=[("X-Api-Key", "one")])


@test("a caller refused too often by any nodes is banned by all")
def bans(t):
    sections = limit("it", "1 per 1h", "ban = 3 per 1m for 2m") + limit("other", "100 per 1h") + to(
        t.origin(), route="limits = it, other")
    one, two, three = clients_of(t, sections)
    equal([ask(c).status for c in (one, two, three, one)], [200] + [429] * 3, "refused thrice")
    banned = ask(two)
    equal(banned.status, 429, "banned")
    true(100_000 < wait_ms(banned) <= 120_000, f"for the ban's time, {wait_ms(banned)} ms")
    equal(told(banned).left["other"]["r"], 99, "of the other limit nothing was taken")
    equal(ask(three, key="two").status, 200, "another caller")


@test("what a limit refuses counts, too, where it says so")
def counted(t):
    sections = limit("it", "2 per 1m", "count_refused = on") + to(t.origin(), route="limits = it")
    one, two = clients_of(t, sections, 2)
    equal([ask(c).status for c in (one, two, one, two)], [200, 200, 429, 429], "beyond it")
    first = wait_ms(ask(one))
    time.sleep(0.5)  # so that what was refused is younger than what was admitted
    ask(two)
    later = wait_ms(ask(one))
    true(later > 0 and first > 0, f"{first}, then {later} ms")


# ---- in flight ----------------------------------------------------------------------------------

FLIGHT = "[limit it]\nkey = header:X-Api-Key | ip\nconcurrency = {}\nscope = fleet\n{}\n"


def begin(held, client, path, key="one"):
    client.request(path, fields=[("X-Api-Key", key)])
    held.here(path)


def begins(held, client, path, key="one"):
    """False: it was answered, as by a node whose store was late."""
    client.request(path, fields=[("X-Api-Key", key)])
    until(lambda: path in held.seen or not quiet(client, 0), f"{path}, or its answer")
    return path in held.seen


@test("in flight over three nodes: no more at once, and each end makes room")
def in_flight(t):
    held = Held(t)
    held.let("/")
    made = nodes(t, Redis(t), FLIGHT.format(3, "") + to(held.origin, route="limits = it\nordering = none"))
    clients, others = [t.client(n) for n in made], [t.client(n) for n in made]
    for n, client in enumerate(clients):
        begin(held, client, f"/{n}")
    equal([ask(c).status for c in others], [429] * 3, "a fourth")
    equal(ask(others[0], key="two").status, 200, "another caller")
    held.let("/1")
    equal(clients[1].response().status, 200, "one ends")
    until(lambda: ask(others[2]).status == 200, "there is room, by another node")
    held.let("/0", "/2")
    equal([clients[n].response().status for n in (0, 2)], [200] * 2, "the others end")
    until(lambda: told(ask(others[0])).left["it"]["r"] == 2, "nothing else is in flight")


@test("in flight for longer than a lease: it still counts; a dead node's share comes back when its lease is over")
def dead_holder(t):
    held, redis = Held(t), Redis(t)
    held.let("/")
    sections = FLIGHT.format(2, "") + to(held.origin, route="limits = it\nordering = none")
    one, two = nodes(t, redis, sections, 2, "membership_lease = 3s")  # longer than a machine stands still
    for n, node in enumerate((one, two)):
        begin(held, t.client(node), f"/{n}")
    client = t.client(two)
    equal(ask(client).status, 429, "a third")
    time.sleep(4.5)  # leases are renewed; their length is the subject
    equal(ask(client).status, 429, "after more than a lease")
    killed = time.monotonic()
    one.process.kill()
    one.ended = True
    until(lambda: ask(client).status == 200, "what the dead node held has come back")
    t.note(f"after {time.monotonic() - killed:.2f} s")
    held.let("/0", "/1")


@test("a node that stood still for longer than its lease: what it holds counts again, once")
def late_holder(t):
    held, redis = Held(t), Redis(t)
    held.let("/")
    sections = FLIGHT.format(3, "") + to(held.origin, route="limits = it\nordering = none")
    one, two = nodes(t, redis, sections, 2, "membership_lease = 3s")
    for n in range(2):
        begin(held, t.client(one), f"/one{n}")
    client = t.client(two)
    equal(told(ask(client)).left["it"]["r"], 0, "with the two of the other node")
    one.process.stop()
    until(lambda: told(ask(client)).left["it"]["r"] == 2, "those of the node that stands still have come back")
    begin(held, t.client(two), "/two")
    one.process.signal(signal.SIGCONT)
    until(lambda: ask(client).status == 429, "they count again")
    held.let("/one0")
    until(lambda: told(a := ask(client)).left["it"]["r"] == 0 and a.status == 200, "one of them ends, once")
    time.sleep(1.5)  # renewals; that they do not count anything twice is the subject
    equal(ask(client).status, 200, "and there is room")
    held.let("/one1", "/two")
    until(lambda: told(ask(client)).left["it"]["r"] == 2, "nothing is in flight")


@test("in flight: a call that reaches the store after its connection was given up changes nothing", workers=[1])
def stale_holder(t):
    held, redis = Held(t), Redis(t)
    held.let("/")
    hazard = Hazard(t, redis.number)
    sections = FLIGHT.format(3, "") + to(held.origin, route="limits = it\nordering = none")
    fleet = "membership_lease = 9s\nstore_timeout = 500ms\nstore_down = refuse\n"
    one, two = (t.sluice(f"[fleet]\nstore = {store.url}\n{fleet}{sections}") for store in (hazard, redis))
    for node in (one, two):
        connected(node)
    begin(held, t.client(one), "/0")
    hazard.late(3, 3)
    late = time.monotonic()
    equal(ask(t.client(one), path="/late").status, 503, "a question that the store does not hear yet")
    hazard.late(0, 0)
    connected(one, 2)
    for n in (1, 2):
        until(lambda n=n: begins(held, t.client(one), f"/{n}"), "in flight")
    if time.monotonic() - late > 2.5:
        t.skip("this machine stands still")
    client, answers = t.client(two), []
    while time.monotonic() - late < 5:
        answers.append(ask(client).status)
        time.sleep(0.02)
    equal(set(answers) - {503}, {429}, "of another node, while three are in flight")  # 503: the store was late
    held.let("/0", "/1", "/2")
    until(lambda: (a := ask(client)).status != 503 and told(a).left["it"]["r"] == 2, "nothing is in flight")


@test("in flight while the store comes back empty: nodes say again what they hold", workers=[1])
def lost_holders(t):
    held, redis = Held(t), Redis(t)
    held.let("/")
    sections = FLIGHT.format(2, "") + to(held.origin, route="limits = it\nordering = none")
    one, two = nodes(t, redis, sections, 2, "membership_lease = 4s")
    begin(held, t.client(one), "/one")
    begin(held, t.client(two), "/two")
    redis.connect().ask("FLUSHALL")
    client = t.client(two)
    store = redis.connect()
    until(lambda: [len(store.ask("GET", key) or "") for key in store.ask("KEYS", "*it:1n")] == [48], "renewals of both")
    equal(ask(client).status, 429, "both count")
    held.let("/one", "/two")
    until(lambda: ask(client).status == 200, "when they have ended")


@test("the promise of gcra over three nodes under load", workers=[2])
def paced_promise(t):
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = limit("it", "50 per 2s", "algorithm = gcra\nburst = 10") + to(origin, route="limits = it")
    load = Load(t, 3).begin(nodes(t, Redis(t), sections, fleet="store_timeout = 5s"))
    origin.wait(lambda: len(origin.requests) >= 120, "some windows' worth")
    judge(t, load, origin, 60, 2.0)  # the burst and what drains in the time


main()
