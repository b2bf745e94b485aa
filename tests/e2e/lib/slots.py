"""Nodes whose upstream takes the slots of a semaphore, and an origin that counts what is in flight at it."""
import threading
import time

from .admin import Admin
from .process import BINARY, DEADLINE_SECONDS, Process, until
from .tap import equal

SIZE = 6


class CountingOrigin:
    """Answers each request after `hold` seconds, while `go` is set. Counts those in flight by the node that sent them
    (X-Node), and the most at once since `begin`, without those of nodes that are dead."""

    def __init__(self, t, hold=0.05):
        self.hold, self.go = hold, t.event()
        self.go.set()
        self.lock = threading.Lock()
        self.by_node, self.peaks = {}, {}
        self.dead, self.most, self.count = set(), 0, 0
        self.origin = t.origin(self._handle)

    def _in_flight(self):
        return sum(n for node, n in self.by_node.items() if node not in self.dead)

    def _handle(self, x):
        x.read_body()
        node = x.request.get("X-Node")
        with self.lock:
            self.by_node[node] = self.by_node.get(node, 0) + 1
            self.peaks[node] = max(self.peaks.get(node, 0), self.by_node[node])
            self.most = max(self.most, self._in_flight())
            self.count += 1
        self.go.wait(DEADLINE_SECONDS)
        time.sleep(self.hold)  # what the server works on it
        with self.lock:
            self.by_node[node] -= 1
        x.reply(200, b"done")

    def begin(self):
        with self.lock:
            self.most, self.peaks = self._in_flight(), {}

    def kill(self, node):
        """What a dead node had sent may still run here."""
        with self.lock:
            self.dead.add(node)

    @staticmethod
    def wait(claim, what):
        until(claim, what)

    def wait_most(self, most):
        self.wait(lambda: self.most >= most, f"{most} in flight at once")

    def wait_more(self, count):
        end = self.count + count
        self.wait(lambda: self.count >= end, f"{count} more requests")


def semaphore(url, size=SIZE, heartbeat="2s", more=""):
    return f"[semaphore legacy]\nbroker = {url}\nsize = {size}\nheartbeat = {heartbeat}\n{more}\n"


def sections(t, origin, name, url, upstream="", **options):
    path = t.path(f"{name}.sock")
    return (f"[admin]\nbind = unix:{path}\n[upstream legacy]\nserver = {origin.origin}\nsemaphore = legacy\n{upstream}\n"
            f"[route all]\nupstream = legacy\nordering = none\nqueue_timeout = 1m\n"
            f"request_header_set = X-Node: {name}\n" + semaphore(url, **options))


def start(t, origin, name, url, upstream="", workers=2, command=None, **options):
    node = t.sluice(sections(t, origin, name, url, upstream, **options), workers=workers, command=command)
    node.name = name
    node.admin = Admin(f"unix:{t.path(name + '.sock')}")
    return node


def shown(node):
    """What it says of its slots."""
    status, answer = node.admin.json("/api/v1/upstreams")
    equal(status, 200, answer)
    return answer["upstreams"][0]["semaphore"]


def in_flight(node):
    """What it has at the server, as it says."""
    status, answer = node.admin.json("/api/v1/upstreams")
    equal(status, 200, answer)
    return sum(server["in_flight"] for server in answer["upstreams"][0]["servers"])


def administer(node, verb, *words):
    child = Process([BINARY, "semaphore", verb, "legacy", *map(str, words), "-c", node.ini_path], "semaphore")
    equal(child.wait(), 0, child.output())
