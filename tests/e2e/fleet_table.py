"""The table of sluice.ini.5: each feature of a limit under each way to share it, over two nodes with the origin
looked at, or rejected by `sluice check` with the limit, the key and why."""
import os
import re
import time

from lib.fleet import named, share
from lib.held import Held
from lib.process import BINARY, run, until
from lib.redis import Redis
from lib.sluice import to
from lib.spans import most_within
from lib.tap import equal, group, main, test, true

WAYS = ("exact", "lease", "split", "relaxed")
QUOTA, WINDOW = 40, 10
ALL, STORE = WAYS, ("exact", "lease")

# feature: its limit's lines, its route's, the ways that it works by, and what check says of the others
ROWS = {
    "window": (f"rate = {QUOTA} per {WINDOW}s", "", ALL, None),
    "cost": (f"rate = {QUOTA} per {WINDOW}s", "cost = response:X-Cost", ALL, None),
    "refund": (f"rate = {QUOTA} per {WINDOW}s", "refund = 5xx", ALL, None),
    "bytes": (f"rate = {QUOTA}0kB per {WINDOW}s", "", ALL, None),
    "gcra": (f"rate = {QUOTA} per {WINDOW}s\nalgorithm = gcra\nburst = 5", "", STORE, "the pace of gcra"),
    "calendar": (f"rate = {QUOTA} per hour UTC", "", STORE, "the end of a calendar period"),
    "concurrency": ("concurrency = 3", "ordering = none", STORE, "concurrency: "),
    "ban": ("rate = 2 per 1h\nban = 3 per 1m for 2m", "", STORE, "ban: "),
    "count_refused": ("rate = 2 per 1h\ncount_refused = on", "", STORE, "count_refused: "),
    "shadow": (f"rate = 4 per {WINDOW}s\nmode = shadow", "", ALL, None),
    "delay": ("rate = 6 per 1s\non_exceed = delay 30s", "", ALL, None),
    "operators": (f"rate = {QUOTA} per {WINDOW}s", "", ALL, None),
    "override": (f"rate = {QUOTA} per {WINDOW}s", "", ALL, None),
    "was": ("rate = 4 per 1h\nwas = before", "", (), "was: "),
}


def lines_of(feature, way):
    return (f"[limit {feature}]\nkey = header:X-Api-Key | ip\n{ROWS[feature][0]}\nscope = fleet\nfleet = {way}\n"
            + ("precision = auto\n" if feature == "window" else ""))


class Fleet:
    """Two nodes with one way, and what they sent to the origin."""

    def __init__(self, t, way):
        self.way, self.held, self.sent = way, Held(t), []

        def handler(x):
            x.read_body()
            fields = [("X-Cost", "4")] if x.request.target == "/cost" else []
            x.reply(500 if x.request.target == "/refund" else 200,
                    b"x" * (10000 if x.request.target == "/bytes" else 1), fields=fields)
        self.origin = t.origin(handler)
        sections = to(self.origin) + f"[upstream held]\nserver = {self.held.origin}\n"
        for feature, (_, route, ways, _) in ROWS.items():
            if way in ways:
                upstream = "held" if feature == "concurrency" else "origin"
                sections += lines_of(feature, way) + (
                    f"[route {feature}]\npath = /{feature}\nupstream = {upstream}\nlimits = {feature}\n{route}\n")
        self.nodes = named(t, Redis(t), sections, ("one", "two"), workers=2)
        if way == "split":
            for feature in ("window", "delay"):
                until(lambda f=feature: None not in [share(n, f) or None for n in self.nodes], "their shares")
        self.clients = [t.client(n) for n in self.nodes]
        self.t = t

    def ask(self, node, feature, method="GET", key="one"):
        self.sent.append(time.monotonic())
        return self.clients[node].ask("/" + feature, method,
                                      fields=[("X-Api-Key", key), ("X-Number", str(len(self.sent) - 1))])

    def send(self, feature, count):
        """By both in turn. Statuses, and whether all was within a window's time."""
        began = time.monotonic()
        statuses = [self.ask(n % 2, feature).status for n in range(count)]
        return statuses, time.monotonic() - began < WINDOW - 1

    def spans(self, feature):
        return [(self.sent[int(x.request.get("X-Number"))], x.arrived)
                for x in self.origin.requests if x.request.target == "/" + feature]

    def both_closed(self, feature):
        until(lambda: [self.ask(n, feature).status for n in (0, 1)] == [429, 429], "both nodes are closed")

    def counted(self, feature, sends, least, most):
        """What passes of so many. By relaxed nodes: when they have published it, nothing more."""
        if self.way == "relaxed":
            self.send(feature, sends)
            self.both_closed(feature)
            return
        statuses, in_time = self.send(feature, sends)
        full = most_within(self.spans(feature), WINDOW - 0.05)
        self.t.note(f"{self.way} {feature}: {statuses.count(200)} of {sends}, at most {full} in a window")
        true(full <= most, f"{full} in a window")
        true(statuses.count(200) >= least or not in_time, f"{statuses.count(200)} passed")


# ---- the features -------------------------------------------------------------------------------

def window(fleet):
    fleet.counted("window", 70, QUOTA // 2 if fleet.way == "lease" else QUOTA, QUOTA)


def cost(fleet):
    # each takes 1 and is settled after its response: 10 pass, and those that overtake what the ones before have cost on
    # its way to the store. Without the costs all would pass.
    fleet.counted("cost", 24, 5 if fleet.way == "lease" else 10, 16)


def refund(fleet):
    for n in range(QUOTA + 10):  # a refund may be on its way
        until(lambda n=n: fleet.ask(n % 2, "refund").status == 500, "what failed is free again")


def in_bytes(fleet):
    fleet.counted("bytes", 60, QUOTA - 4, QUOTA + 4)


def gcra(fleet):
    began = time.monotonic()
    statuses, _ = fleet.send("gcra", 20)
    most = 5 + (time.monotonic() - began) * QUOTA / WINDOW + 1
    true(5 <= statuses.count(200) <= most, f"{statuses}")


def calendar(fleet):
    hour = time.time() // 3600
    statuses, _ = fleet.send("calendar", QUOTA + 6)
    true(statuses.count(200) == QUOTA or time.time() // 3600 != hour, f"{statuses}")


def concurrency(fleet):
    more = [fleet.t.client(fleet.nodes[n % 2]) for n in range(3)]
    for n, client in enumerate(more):
        client.request(f"/concurrency/{n}", fields=[("X-Api-Key", "one")])
        fleet.held.here(f"/concurrency/{n}")
    equal([fleet.ask(n, "concurrency").status for n in (0, 1)], [429] * 2, "a fourth")
    fleet.held.let("/concurrency", *[f"/concurrency/{n}" for n in range(3)])
    equal([client.response().status for client in more], [200] * 3, "those in flight")
    until(lambda: fleet.ask(1, "concurrency").status == 200, "there is room")


def ban(fleet):
    equal(fleet.send("ban", 5)[0], [200, 200, 429, 429, 429], "refused by both nodes")
    for n in (0, 1):
        retry = int(fleet.ask(n, "ban").get("Retry-After"))
        true(60 < retry <= 120, f"banned for {retry} s")


def count_refused(fleet):
    equal(fleet.send("count_refused", 4)[0], [200, 200, 429, 429], "beyond it")
    used = until(lambda: caller(fleet, 1, "count_refused"), "what is used")
    true(used["remaining"] == 0, f"{used}")


def shadow(fleet):
    equal(fleet.send("shadow", 12)[0], [200] * 12, "a shadow refuses nothing")
    until(lambda: caller(fleet, 0, "shadow")["used"] > 0 or fleet.send("shadow", 2) is None, "but it counts")


def delay(fleet):
    equal(fleet.send("delay", 15)[0], [200] * 15, "each after its time")
    if fleet.way != "relaxed":
        most = most_within(fleet.spans("delay"), 0.95)
        true(most <= 6, f"{most} in a window")


def caller(fleet, node, name):
    status, answer = fleet.nodes[node].admin.json(f"/api/v1/callers?key=one&limit={name}")
    equal(status, 200, answer)
    return answer["limits"][0]


def explain(fleet, node, name):
    status, answer = fleet.nodes[node].admin.json(f"/api/v1/explain?path=/{name}&field.X-Api-Key=one")
    equal(status, 200, answer)
    return answer


def operators(fleet):
    began = time.monotonic()
    equal([fleet.ask(0, "operators").status for _ in range(4)], [200] * 4, "some")
    used = caller(fleet, 0, "operators")
    found = explain(fleet, 0, "operators")
    status, answer = fleet.nodes[0].admin.json("/api/v1/callers?key=one&limit=operators", "DELETE")
    after = caller(fleet, 0, "operators")
    if time.monotonic() - began < WINDOW - 1:
        true(used["used"] >= 4, f"callers: {used}")
        equal(found["outcome"], "admit", "explain")
        true(found["limits"][0]["remaining"] < QUOTA, f"explain: {found}")
        equal((status, answer["reset"]), (200, ["operators"]), f"reset: {answer}")
        true(after["used"] < used["used"] if fleet.way == "lease" else after["used"] == 0, f"after: {after}")


def override(fleet):
    name = explain(fleet, 0, "override")["caller"]
    status, answer = fleet.nodes[0].admin.json(f"/api/v1/callers/{name}/override", "PUT",
                                               body=b'{"deny": true, "for": "1h"}')
    equal(status, 200, answer)
    equal([fleet.ask(n, "override").status for n in (0, 1)], [403, 200], "of the node that it was given to")


POINTS = {"bytes": in_bytes, **{f.__name__: f for f in (
    window, cost, refund, gcra, calendar, concurrency, ban, count_refused, shadow, delay, operators, override)}}


def of_way(way):
    @group(f"fleet = {way}", workers=[2])
    def cells(t):
        fleet = Fleet(t, way)
        for feature, (_, _, ways, _) in ROWS.items():
            if way in ways:
                with t.point(f"{way}: {feature}"):
                    POINTS[feature](fleet)


for each in WAYS:
    of_way(each)


# ---- what is rejected ---------------------------------------------------------------------------

REST = ("[fleet]\nstore = redis://127.0.0.1\n[listener a]\nbind = 127.0.0.1:1\n[upstream u]\nserver = 127.0.0.1:2\n"
        "[route r]\nupstream = u\n")


def check(t, text):
    t.file("ini", REST + text)
    return run([BINARY, "check", "-c", t.path("ini")])


@test("what does not work by a way is rejected: the limit, its key, the way and why", workers=[1])
def rejected(t):
    count = 0
    for feature, (_, _, ways, reason) in ROWS.items():
        for way in WAYS:
            status, output = check(t, lines_of(feature, way))
            equal(status, int(way not in ways), f"{feature}, {way}: {output}")
            if way in ways:
                continue
            count += 1
            line = next((x for x in output.splitlines() if reason in x), "")
            true(re.search(r"ini:\d+: ", line) and feature in line and "expected" in line, f"{feature}, {way}: {output}")
            true(feature == "was" or f"fleet = {way}" in line, f"{feature}, {way}: {output}")
    t.note(f"{count} combinations are rejected")
    for way, lines, reason in (("exact", "rate = 1000 per 1h\nprecision = exact", "precision: "),
                               ("relaxed", "rate = 1000 per 1h\nprecision = exact", "precision: "),
                               ("lease", "concurrency = 3\nstore_down = local", "store_down: "),
                               ("exact", "rate = 3 per day UTC\nstore_down = local", "store_down: "),
                               ("split", "rate = 30 per 10s\nstore_down = local", "store_down: "),
                               ("split", "rate = 30 per 10s\nstore_down = strict", "store_down: ")):
        status, output = check(t, f"[limit it]\n{lines}\nscope = fleet\nfleet = {way}\n")
        true(status == 1 and reason in output, f"{lines}: {output}")


@test("times that leave nothing of what a key promises are warned of", workers=[1])
def warned(t):
    for way, lines, warning in (
            ("lease", "rate = 30 per 28m", None),
            ("lease", "rate = 30 per 29m", "never has its share"),
            ("lease", "rate = 30 per 29m\nstore_down = strict", "never has its share"),
            ("exact", "rate = 30 per 1h\nstore_down = refuse", None),
            ("exact", "concurrency = 3", None),
            ("split", "rate = 30 per 1h", None),
            ("relaxed", "rate = 30 per 501ms", None),
            ("relaxed", "rate = 30 per 500ms", "admits the whole amount")):
        t.file("ini", REST.replace("[fleet]\n", "[fleet]\nstore_down = strict\n")
               + f"[limit it]\n{lines}\nscope = fleet\nfleet = {way}\n")
        status, output = run([BINARY, "check", "-c", t.path("ini")])
        equal((status, "never has" in output or "admits the" in output), (0, warning is not None), f"{lines}: {output}")
        true(not warning or re.search(r"ini:\d+: .*it.*" + warning, output), output)


@test("the table in sluice.ini.5 says the same", workers=[1])
def manual(t):
    top = os.environ.get("top_srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(os.path.join(top, "etc", "man", "sluice.ini.5"), encoding="utf-8") as page:
        rows = re.search(r'^\.\\" table of ways\n(.*?)^\.El', page.read(), re.M | re.S)[1]
    said = {}
    for row in re.findall(r"^\.It (.*)$", rows, re.M)[1:]:
        cells = [cell.strip() for cell in row.split(" Ta ")]
        said[cells[0].split()[-1]] = cells[1:]
    for feature, (_, _, ways, _) in ROWS.items():
        true(feature in said, f"{feature} is in the table")
        equal([cell != "rejected" for cell in said[feature]], [way in ways for way in WAYS], feature)


main()
