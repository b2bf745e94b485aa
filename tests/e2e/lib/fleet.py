"""Nodes of a fleet, and load on them: what tests of fleets share."""
import threading
import time

from .admin import Admin
from .client import Client
from .crowd import Crowd
from .process import Hung, until
from .spans import most_within
from .tap import equal, true
from .wire import Ended

NODES = 3


# Longer than the store takes on a slow machine, unless a test is about it.
PATIENT = "store_timeout = 5s\n"


def fleet_of(redis, more=""):
    down = "" if "store_down" in more else "store_down = refuse\n"
    return f"[fleet]\nstore = {redis.url}\n{'' if 'store_timeout' in more else PATIENT}{down}{more}\n"


def limit(name, rate, more="", way="exact"):
    return (f"[limit {name}]\nkey = header:X-Api-Key | ip\nrate = {rate}\nscope = fleet\nfleet = {way}\n"
            f"{more}\n")


def nodes(t, redis, sections, count=NODES, fleet="", **options):
    """Nodes that have found the store."""
    made = [t.sluice(fleet_of(redis, fleet) + sections, **options) for _ in range(count)]
    for node in made:
        connected(node)
    return made


def start_named(t, redis, name, sections, fleet="", **options):
    """A node of this name, with an admin interface: node.admin."""
    node = t.sluice(fleet_of(redis, f"node = {name}\n{fleet}") + f"[admin]\nbind = unix:{t.path(name)}\n" + sections,
                    **options)
    node.admin = Admin(f"unix:{t.path(name)}")
    return node


def state(node):
    """What it says of the fleet."""
    status, answer = node.admin.json("/api/v1/fleet")
    equal(status, 200, answer)
    return answer


def named(t, redis, sections, names, **options):
    """Nodes that know each other."""
    made = [start_named(t, redis, name, sections, **options) for name in names]
    for node in made:
        until(lambda: len(state(node)["nodes"]) == len(names), "they know each other")
    return made


def share(node, name="it"):
    """What it may admit of a limit with fleet = split; None: it holds nothing."""
    held, = (s for s in state(node)["shares"] if s["limit"] == name)
    return held["units"] if held["judged_by"] != "nobody" else None


def connected(node, times=1):
    for worker in range(node.workers):
        node.process.wait_output(f"connected (worker {worker})", times)


def ask(client, key="one", path="/", number=None):
    fields = [("X-Api-Key", key)]
    if number is not None:
        fields.append(("X-Number", str(number)))
    return client.ask(path, fields=fields)


def in_one_window(seconds, requests):
    """(key, what requests(key) gives), of a caller whose requests were sent and answered within so many seconds. Where
    the machine has stood still for longer, what was used first may be free again: then another caller makes them."""
    for number in range(100):
        began = time.monotonic()
        found = requests(f"caller-{number}")
        if time.monotonic() - began < seconds:
            return f"caller-{number}", found
    raise Hung(f"this machine is never on time within {seconds} s")


def costly_origin(t, count=1):
    """An origin whose answers of `count` bytes cost 4 below /cost, and are errors below /fail."""
    def handler(x):
        x.read_body()
        fields = [("X-Cost", "4")] if x.request.target.startswith("/cost") else []
        x.reply(500 if x.request.target.startswith("/fail") else 200, b"x" * count, fields=fields)
    return t.origin(handler)


class Load:
    """Clients that ask nodes, all as one caller: as fast as these serve them, and when refused again after a moment, as
    thousands of refusals a second find no more, and take the processors from other tests. Records when each request was
    sent and how many answers there were of each status."""

    REFUSED_SECONDS = 0.025

    def __init__(self, t, clients_each, key="one", pace=0, refused_seconds=REFUSED_SECONDS):
        self.key, self.refused_seconds = key, refused_seconds
        self.pace = pace  # seconds between a client's requests
        self.sent, self.nodes, self.answers, self.lock = [], [], {}, threading.Lock()
        self.slowest = {}  # seconds, by node
        self.clients_each = clients_each
        self.crowd = Crowd(t)

    def begin(self, all_nodes):
        for node in all_nodes:
            self.crowd.start(self.clients_each, lambda _, node=node: self._hammer(node))
        return self

    def _hammer(self, node):
        client = None
        while not self.crowd._stop.is_set():
            try:
                client = client or Client(node.address)
                with self.lock:
                    number = len(self.sent)
                    self.nodes.append(node)
                    self.sent.append(time.monotonic())
                began = time.monotonic()
                status = ask(client, self.key, number=number).status
                took = time.monotonic() - began
                self.slowest[node] = max(self.slowest.get(node, 0), took)
            except (OSError, Ended):
                status, client = None, None
                time.sleep(0.01)  # the node is away; the test's own pace
            with self.lock:
                self.answers[status] = self.answers.get(status, 0) + 1
            if self.pace or status != 200:
                time.sleep(self.pace or self.refused_seconds)

    def stop(self):
        """Nothing more is sent; what was sent may still be answered."""
        self.crowd.no_more()

    def end(self):
        self.crowd.stop()

    def spans(self, origin, node=None):
        """(sent, arrived) of what the origin has had; of one node."""
        numbers = [(int(x.request.get("X-Number")), x.arrived) for x in origin.requests]
        return [(self.sent[number], arrived) for number, arrived in numbers if node in (None, self.nodes[number])]

    def count(self, status):
        with self.lock:
            return self.answers.get(status, 0)


def judge(t, load, origin, quota, window):
    load.end()
    spans = load.spans(origin)
    most = most_within(spans, window - 0.05)
    t.note(f"{len(load.sent)} requests, answers {load.answers}, {len(spans)} at the origin, "
           f"at most {most} of {quota} within {window} s")
    true(most <= quota, f"{most} were sent and had arrived within {window} s")
    return spans
