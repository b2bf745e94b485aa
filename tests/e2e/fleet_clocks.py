"""Nodes of a fleet whose clocks are minutes apart, from the start or because they are set while they run (by
libfaketime). What is claimed of times is claimed as in promise.py, by the clock of the test."""
import os

from lib.fields import wait_ms
from lib.fleet import Load, ask, connected, fleet_of, judge, limit
from lib.process import SANITIZER, find_library
from lib.redis import Redis
from lib.sluice import to
from lib.tap import equal, main, test, true

WAYS = ("exact", "lease")
QUOTA, WINDOW = 120, 2.0


class Clock:
    """A node's clock, so many seconds from the true one."""

    def __init__(self, t, name, library, seconds, more=()):
        self.path = t.path(name)
        self.set(seconds)
        self.environment = {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": self.path,
                            "FAKETIME_NO_CACHE": "1", **dict(more)}

    def set(self, seconds):
        with open(self.path + ".new", "w", encoding="utf-8") as out:
            out.write(f"{seconds:+d}s\n")
        os.replace(self.path + ".new", self.path)


def preload(t):
    library = find_library("faketime/libfaketime.so.1")
    if not library or SANITIZER:
        t.skip("libfaketime is not installed" if not SANITIZER else "libfaketime and a sanitizer")
    return library


def begin(t, way, apart, more):
    """Nodes whose clocks are so many seconds from the true one."""
    library, redis = preload(t), Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = (fleet_of(redis) + limit("it", f"{QUOTA} per {WINDOW:.0f}s").replace("= exact", f"= {way}")
                + to(origin, route="limits = it"))
    clocks = [Clock(t, f"clock{n}", library, seconds, more) for n, seconds in enumerate(apart)]
    made = [t.sluice(sections, environment=clock.environment) for clock in clocks]
    for node in made:
        connected(node)
    return origin, clocks, made


def more_requests(origin, count):
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + count, "requests")


def judge_waits(t, nodes):
    """Whatever a node's clock is, a refusal says how long to wait."""
    for node in nodes:
        client = t.client(node)
        answer = ask(client)
        while answer.status == 200:
            answer = ask(client)
        equal(answer.status, 429, "beyond the quota")
        true(0 < wait_ms(answer) <= 1000 * WINDOW * 1.3, f"a wait of {wait_ms(answer)} ms")


def apart(t, way, more):
    origin, _, nodes = begin(t, way, (-420, 0, 660), more)
    load = Load(t, 2).begin(nodes)
    more_requests(origin, 4 * QUOTA)
    spans = judge(t, load, origin, QUOTA, WINDOW)
    equal(load.count(503), 0, "answers without a verdict")
    took = spans[-1][0] - spans[0][0]
    t.note(f"{way}: {100 * len(spans) / (QUOTA * (took / WINDOW + 1)):.0f} % of the quota")
    judge_waits(t, nodes)


@test("exact: clocks of the day minutes apart", workers=[1])
def exact_apart(t):
    apart(t, "exact", {"FAKETIME_DONT_FAKE_MONOTONIC": "1"})


@test("lease: clocks of the day minutes apart", workers=[1])
def lease_apart(t):
    apart(t, "lease", {"FAKETIME_DONT_FAKE_MONOTONIC": "1"})


@test("lease: all clocks of the nodes minutes apart, those since the machines' starts, too", workers=[1])
def lease_all_apart(t):
    apart(t, "lease", {"FAKETIME_DONT_FAKE_MONOTONIC": "0"})


def stepped(t, way):
    origin, clocks, nodes = begin(t, way, (0, 0, 0), {"FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    load = Load(t, 2).begin(nodes)
    more_requests(origin, QUOTA)
    steps = [(1, 300), (2, -300), (1, -2), (0, 3600), (1, 0), (0, -86400), (2, 1)]
    for number, seconds in steps:
        clocks[number].set(seconds)
        more_requests(origin, QUOTA // 2)
    for node in nodes:
        node.process.wait_output("the system clock was set", 2)
    judge(t, load, origin, QUOTA, WINDOW)
    equal(load.count(503), 0, "answers without a verdict")
    judge_waits(t, nodes)


@test("exact: clocks that are set while the nodes run", workers=[2])
def exact_stepped(t):
    stepped(t, "exact")


@test("lease: clocks that are set while the nodes run", workers=[2])
def lease_stepped(t):
    stepped(t, "lease")


main()
