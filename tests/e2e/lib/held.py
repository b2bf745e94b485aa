"""Requests of one client whose answers the test gives one by one."""
import threading

from .process import DEADLINE_SECONDS
from .sluice import to
from .workers import Barrier

ROUTE = "host = api.test\nsession = header:X-Api-Key | ip\nordering = {}\nread_hold = 1m\n"


class Held:
    """An origin whose answers are given one by one; knows what was unanswered when each came."""

    def __init__(self, t):
        self.t = t
        self.gates = {}
        self.unanswered = []
        self.seen = {}  # target: what was unanswered when it arrived
        self.lock = threading.Lock()
        self.origin = t.origin(self._handle)

    def gate(self, target):
        with self.lock:
            return self.gates.setdefault(target, self.t.event())

    def _handle(self, x):
        x.read_body()
        target = x.request.target
        with self.lock:
            self.seen[target] = set(self.unanswered)
            self.unanswered.append(target)
        self.gate(target).wait(DEADLINE_SECONDS)
        with self.lock:
            self.unanswered.remove(target)
        x.reply(200, target.encode())

    def here(self, *targets):
        self.origin.wait(lambda: set(targets) <= set(self.origin.targets()), f"{targets}")

    def let(self, *targets):
        for target in targets:
            self.gate(target).set()


def ask(client, text, key="one"):
    method, target = text.split()
    client.request(target, method, [("X-Api-Key", key)], body=b"x" if method == "POST" else None)


def scene(t, ordering, texts, more=""):
    """The requests, each on a connection of its own, received by sluice in this order."""
    held = Held(t)
    sluice = t.sluice(to(held.origin, route=ROUTE.format(ordering) + more))
    clients = [t.client(sluice) for _ in texts]
    for client in clients:
        client.ask("/", host="nowhere.test")
    barrier = Barrier(t, sluice, clients)
    for client, text in zip(clients, texts):
        ask(client, text)
        barrier.passed_by(client)
    return held, clients, sluice
