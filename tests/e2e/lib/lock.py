"""Locks in a store: `sluice lock` and `sluice locks` by a file of their own, and sessions that ask the store themselves."""
import json
import os

from .process import BINARY, Process
from .redis import Connection
from .store_function import function_text
from .tap import equal, true

BASE = """[listener main]
bind = 127.0.0.1:1
[upstream api]
server = 127.0.0.1:2
[route all]
upstream = api
"""
LONG = 10 * 60_000  # a lease that no test waits for


class Locks:
    def __init__(self, t, url, lines=""):
        self.t = t
        # So that --wait 0 does not give up a store that a busy machine holds up; of others it is for replicas, too.
        patient = "" if "store_" in lines else "store_timeout = 3s\n"
        self.path = t.file(f"locks-{os.urandom(4).hex()}.ini", f"{BASE}[fleet]\nstore = {url}\n{patient}{lines}")
        self.store_line = BASE.count("\n") + 2

    def start(self, name, *command, options=()):
        """`sluice lock` with this command, which is killed with the test."""
        child = Process([BINARY, "lock", "-c", self.path, name, *options, "--", *command], f"lock-{name}")
        self.t.defer(child.kill)
        return child

    def run(self, name, *command, options=()):
        """(exit status, what it and the command wrote)"""
        child = self.start(name, *command, options=options)
        return child.wait(), child.output()

    def shell(self, name, script, *options):
        return self.start(name, "sh", "-c", script, options=options)

    def administer(self, *words):
        child = Process([BINARY, "locks", "-c", self.path, *words], "locks")
        return child.wait(), child.output()

    def shown(self, name):
        """The row of one lock."""
        child = Process([BINARY, "locks", "-c", self.path, "show", name, "--json"], "locks")
        child.wait()
        return json.loads(child.answer())

    def listed(self):
        """{name: row}"""
        child = Process([BINARY, "locks", "-c", self.path, "--json"], "locks")
        equal(child.wait(), 0, child.output())
        return {row["name"]: row for row in json.loads(child.answer())["locks"]}


class Session:
    """One that asks a store (no cluster) by itself, as sluice's prefix and keys are."""

    def __init__(self, t, number, session, connect=None):
        self.connect = connect or (lambda: Connection(number))
        self.connection, self.session = None, session
        t.defer(self.leave)

    def leave(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def ask(self, verb, name, number, lease=LONG, value="", keep=24 * 3600_000):
        """(status, fence, left, session, value); None: no answer."""
        try:
            self.connection = self.connection or self.connect()
            text = self.connection.ask("FCALL", "sluice_lock_1", 2, "sluice{locks}lock:" + name, "sluice{locks}lock",
                                       verb, self.session, number, lease, keep, value)
        except (OSError, IndexError, ValueError):
            self.leave()
            return None
        line, rest = text.split(b"\n", 1)
        status, fence, left, session, size = line.decode().split()
        return status, int(fence), int(left), session, rest[:int(size)].decode()

    def birth(self, name):
        return self.ask("look", name, 0)[1]

    def take(self, name, lease=LONG):
        """Its fence."""
        status, fence, *_ = self.ask("take", name, self.birth(name), lease)
        true(status == "held", f"{self.session} takes {name}: {status}")
        return fence


def load(redis):
    redis.connect().ask("FUNCTION", "LOAD", "REPLACE", function_text("lock"))
