"""The tutorial's first configuration for an API of one's own, in front of an API that breaks above 50 requests a second."""
import collections
import os
import re
import threading
import time

from lib.process import Lateness, kept_waiting_seconds
from lib.tap import equal, main, test, true

TUTORIAL = os.path.join(os.environ.get("top_srcdir") or os.path.join(os.path.dirname(__file__), "../.."), "docs/tutorial.md")
BREAKS_ABOVE = 50
TRUSTED = "trusted_proxies = 127.0.0.0/8"  # its callers are those of a load balancer


class Api:
    """Answers 500 to what is more than 50 in any second."""

    def __init__(self):
        self.lock = threading.Lock()
        self.arrived = collections.deque()
        self.most = 0

    def __call__(self, x):
        x.read_body()
        with self.lock:
            now = time.monotonic()
            while self.arrived and self.arrived[0] <= now - 1:
                self.arrived.popleft()
            self.arrived.append(now)
            self.most = max(self.most, len(self.arrived))
            broken = len(self.arrived) > BREAKS_ABOVE
        x.reply(500 if broken else 200)


def configuration(t, server):
    """The first ini of that chapter, with the test's server and folder; the listener is the test's own."""
    with open(TUTORIAL, encoding="utf-8") as tutorial:
        chapter = tutorial.read().partition("## In front of your own API")[2]
    ini = re.search(r"```ini\n(.*?)```", chapter, re.S)[1]
    ini = re.sub(r"(?m)^server = \S+", f"server = {server}", ini)
    ini, removed = re.subn(r"(?ms)^\[sluice\].*?(?=^\[upstream)", "", ini)
    equal((removed, ini.count("pace = 45 per 1s")), (1, 1), "the tutorial's file")
    return ini


def protected(t, expected, **requests):
    """Are the statuses as expected? What left evenly may arrive in a heap where processes are kept from running: a try
    in which they were by more than a fiftieth of the window, which pace is exact to, is made again."""
    for _ in range(6):
        api = Api()
        sluice = t.sluice(configuration(t, t.origin(api)), listener=TRUSTED)
        with Lateness() as lateness:
            statuses = ask(t, sluice, **requests)
        late = max(lateness.worst, kept_waiting_seconds(sluice.pid))
        t.note(f"at most {api.most} in a second at the API; statuses {statuses}; up to {late * 1000:.0f} ms late")
        if statuses == expected or late <= 0.02:
            equal(statuses, expected, "statuses")
            return
    t.skip(f"this machine keeps processes from running for {late * 1000:.0f} ms")


def ask(t, sluice, callers, each, threads=4):
    """So many requests of each caller, as fast as they can, each caller's on some connections."""
    statuses = collections.Counter()
    lock = threading.Lock()

    def send(caller, count):
        client = t.client(sluice)
        for _ in range(count):
            status = client.ask("/", fields=[("X-Forwarded-For", f"192.0.2.{caller}")]).status
            with lock:
                statuses[status] += 1

    running = [threading.Thread(target=send, args=(caller, each // threads))
               for caller in range(callers) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return dict(statuses)


@test("ten callers at once: all are answered, and the API never breaks", workers=[2])
def many_callers(t):
    protected(t, {200: 200}, callers=10, each=20)


@test("one caller with 400 requests gets its 100, and the API never breaks", workers=[2])
def one_caller(t):
    protected(t, {200: 100, 429: 300}, callers=1, each=400, threads=20)


@test("without `pace` the same API breaks under the same callers", workers=[2])
def without_pace(t):
    api = Api()
    sluice = t.sluice(configuration(t, t.origin(api)).replace("pace = 45 per 1s", ";"), listener=TRUSTED)
    began = time.monotonic()
    statuses = ask(t, sluice, callers=10, each=20)
    took = time.monotonic() - began
    t.note(f"at most {api.most} in a second at the API; statuses {statuses} in {took:.2f} s")
    true(statuses.get(500, 0) > 0 or took > 200 / BREAKS_ABOVE, f"the API did not break: {statuses}")


main()
