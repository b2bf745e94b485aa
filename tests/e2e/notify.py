#!/usr/bin/env python3
"""The service manager's protocol (sd_notify(3)): ready, reloading, stopping, and a watchdog that no
worker can be hung behind."""
import ctypes
import os
import select
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import process
from lib.chain import Chain, sections
from lib.sluice import Sluice, to
from lib.tap import equal, main, test, true

WATCHDOG_SECONDS = 0.4


class Manager:
    """systemd's end of NOTIFY_SOCKET."""

    def __init__(self, t, abstract=False):
        self.path = f"@sluice-e2e-{os.getpid()}-{t.workers}" if abstract else t.path("notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path.replace("@", "\0", 1))
        self.socket.settimeout(process.DEADLINE_SECONDS)
        t.defer(self.socket.close)

    def environment(self, **more):
        return {"NOTIFY_SOCKET": self.path, **more}

    def message(self):
        """The next one as a dictionary; waits for it."""
        text = self.socket.recv(65536).decode()
        return dict(line.split("=", 1) for line in text.splitlines())

    def without_watchdog(self):
        while True:
            message = self.message()
            if message != {"WATCHDOG": "1"}:
                return message

    def came_within(self, seconds):
        """Messages that come in that time."""
        end, messages = time.monotonic() + seconds, []
        while select.select([self.socket], [], [], max(0, end - time.monotonic()))[0]:
            messages.append(self.message())
        return messages


class Frozen:
    """A thread that does not go on: what a bug that loops or blocks would do to a worker."""
    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, t, thread_id):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.thread_id = thread_id
        if self._trace(self.SEIZE) != 0:
            t.skip(f"ptrace: {os.strerror(ctypes.get_errno())}")
        self._trace(self.INTERRUPT)
        os.waitpid(thread_id, self.WALL)

    def _trace(self, request):
        return self.libc.ptrace(request, ctypes.c_long(self.thread_id), None, None)

    def let_go(self):
        self._trace(self.DETACH)


def started(t, manager, **more):
    sluice = t.sluice(to(t.origin()), environment=manager.environment(**more))
    message = manager.message()
    equal(message.pop("READY", None), "1", f"READY, with {message}")
    true(sluice.ini_path in message["STATUS"], f"STATUS of {message}")
    return sluice


@test("ready when it serves, reloading until a reload is over, stopping when a drain begins")
def life(t):
    manager = Manager(t)
    sluice = started(t, manager)
    equal(t.client(sluice).ask("/").status, 200, "status")

    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    sluice.reload(sluice.sections)
    message = manager.message()
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    equal(message.get("RELOADING"), "1", "RELOADING")
    true(before <= int(message["MONOTONIC_USEC"]) <= after, f"{before} <= {message} <= {after}")
    equal(manager.message().get("READY"), "1", "READY after a reload")

    sluice.reload(sluice.sections + "colour = green\n")
    equal(manager.message().get("RELOADING"), "1", "RELOADING")
    message = manager.message()
    equal(message.get("READY"), "1", "READY after a reload that failed")
    true("has errors" in message["STATUS"], f"STATUS of {message}")

    sluice.terminate()
    message = manager.message()
    equal(message.get("STOPPING"), "1", "STOPPING")
    # shutdown_timeout is 10s: the manager may not kill before.
    true(int(message["EXTEND_TIMEOUT_USEC"]) > 10_000_000, f"the time of {message}")
    equal(sluice.wait(), 0, "exit status")
    equal(manager.came_within(0), [], "messages after the end")


@test("a socket of the abstract namespace")
def abstract(t):
    started(t, Manager(t, abstract=True))


@test("a start that fails is never ready")
def never_ready(t):
    manager = Manager(t)
    path = t.file("bad.ini", "[sluice]\nworkers = 1\n[listener l]\nbind = 127.0.0.1:1\n" +
                  to("127.0.0.1:9") + "colour = green\n")
    status, _ = process.run([process.BINARY, "run", "-c", path], environment=manager.environment())
    equal(status, 1, "exit status")
    equal(manager.came_within(0), [], "messages")


@test("the watchdog hears nothing while any one thread is hung, and all again after that")
def watchdog(t):
    manager = Manager(t)
    usec = str(int(WATCHDOG_SECONDS * 1e6))
    sluice = started(t, manager, WATCHDOG_USEC=usec)
    equal(manager.message(), {"WATCHDOG": "1"}, "when all have begun")
    threads = [int(name) for name in os.listdir(f"/proc/{sluice.pid}/task")]
    names = {thread: open(f"/proc/{sluice.pid}/task/{thread}/comm", encoding="utf-8").read().strip()
             for thread in threads}
    # The main thread, and the workers, which come after the log's writer.
    watched = [sluice.pid] + [thread for thread in sorted(threads) if "work" in names[thread]]
    equal(len(watched), 1 + t.workers, f"threads watched of {names}")
    for thread in watched:
        equal(manager.message(), {"WATCHDOG": "1"}, "while all turn")
        frozen = Frozen(t, thread)
        try:
            manager.came_within(0)  # what came before
            # Its last answer may be on its way; while all turn, ten would come.
            true(len(manager.came_within(5 * WATCHDOG_SECONDS)) <= 2, f"messages without {names[thread]}")
        finally:
            frozen.let_go()
        equal(manager.message(), {"WATCHDOG": "1"}, f"after {names[thread]} goes on")


@test("an upgrade: the manager learns the new process's number from the old one, which is then silent")
def upgraded(t):
    manager = Manager(t)
    chain = Chain(t, sections(t.origin()), environment=manager.environment(WATCHDOG_USEC="60000000"))
    equal(manager.message().get("READY"), "1", "READY")
    old = chain.pid
    chain.replace()
    equal(chain.ended(old), 0, "exit status of the old one")
    chain.pids.remove(old)
    messages = manager.came_within(0)
    equal([m["MAINPID"] for m in messages if "MAINPID" in m], [str(chain.pid)], f"MAINPID of {messages}")
    equal([m for m in messages if "STOPPING" in m], [], "STOPPING of the old one")
    chain.end()
    equal([m["STOPPING"] for m in manager.came_within(0) if "STOPPING" in m], ["1"], "of the new one")


@test("the watchdog of another process is none of ours, and a drain keeps it alive")
def watchdog_of(t):
    manager = Manager(t)
    usec = str(int(WATCHDOG_SECONDS * 1e6))
    other = started(t, manager, WATCHDOG_USEC=usec, WATCHDOG_PID="1")
    equal(manager.came_within(2 * WATCHDOG_SECONDS), [], "messages")
    other.terminate()
    equal(manager.message().get("STOPPING"), "1", "STOPPING")
    equal(other.wait(), 0, "exit status")

    gate = t.event()
    held = t.origin(lambda x: (gate.wait(process.DEADLINE_SECONDS), x.reply(200, b"")))
    # Ten messages wait in the manager's socket, and the sender of the next one waits: a test must not stand still for long.
    usec = str(int(3 * WATCHDOG_SECONDS * 1e6))
    sluice = t.sluice(to(held), environment=manager.environment(WATCHDOG_USEC=usec))
    equal(manager.message().get("READY"), "1", "READY")
    client = t.client(sluice)
    client.request("/held")
    held.wait_requests(1)
    sluice.terminate()
    equal(manager.without_watchdog().get("STOPPING"), "1", "STOPPING")
    for _ in range(6):  # also by those workers that have ended already
        equal(manager.message(), {"WATCHDOG": "1"}, "while it drains")
    gate.set()
    equal(client.response().status, 200, "status")
    equal(sluice.wait(), 0, "exit status")


main()
