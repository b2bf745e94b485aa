#!/usr/bin/env python3
"""Clients with a round trip of 300 ms while a listener goes away, in a drain or by a reload: a client whose SYN
the kernel has answered is served, although its handshake is finished after the listener began to retire."""
import ctypes
import os
import platform
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import distance, wire
from lib.client import Client, request_bytes
from lib.crowd import Crowd
from lib.distance import FAR, HOME, Distance
from lib.process import BINARY, Lateness, until
from lib.sluice import to
from lib.tap import equal, main, test, true

ROUND_TRIP = 0.3
SO_ATTACH_FILTER = 26

# Runs a program that gets EPERM for each netlink socket, as in some containers.
WITHOUT_NETLINK = """
import ctypes, os, platform, struct, sys
number = {"x86_64": 41, "aarch64": 198}[platform.machine()]
code = b"".join(struct.pack("HBBI", *line) for line in (
    (0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 0, 1, 16),
    (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)))
filter = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 6, ctypes.addressof(filter)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


class Distant(Client):
    """Its request goes with the last packet of its handshake."""

    def __init__(self, port, target):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex((FAR, port))
        sock.settimeout(None)
        wire.Stream.__init__(self, sock)
        self.target = target

    def ask_once(self):
        """None, or what became of it: "refused" or how it was lost."""
        try:
            self.socket.sendall(request_bytes(self.target, fields=[("Connection", "close")]))
            answer = self.response()
            return None if answer.status == 200 else f"{self.target}: {answer.status}"
        except ConnectionRefusedError:
            return "refused"
        except (wire.Ended, OSError) as error:
            return f"{self.target}: {type(error).__name__} {error}"
        finally:
            self.close()


class Burst:
    """Clients on threads of their own that have connected when it is made, as far as HOME has answered them."""

    def __init__(self, t, far, port, count):
        self.outcomes = []
        goal = far.answered() + count
        clients = [Distant(port, f"/{number}") for number in range(count)]
        self._threads = [threading.Thread(target=self._run, args=(client,), daemon=True) for client in clients]
        for thread in self._threads:
            thread.start()
        t.defer(self.wait)
        until(lambda: far.answered() >= goal, "all handshakes begun")

    def _run(self, client):
        self.outcomes.append(client.ask_once())

    def wait(self):
        for thread in self._threads:
            thread.join(60)
        return self.outcomes


class AtAllTimes(Crowd):
    """Clients that connect again after a random while, until they are stopped."""

    def __init__(self, t, port):
        super().__init__(t)
        self.port, self.random = port, t.random
        self.answered, self.refused, self.lost = 0, 0, []

    def run(self, number):
        while not self._stop.wait(self.random.uniform(0, 2 * ROUND_TRIP)):
            outcome = Distant(self.port, f"/{number}").ask_once()
            with self._lock:
                if outcome == "refused":
                    self.refused += 1
                elif outcome:
                    self.lost.append(outcome)
                else:
                    self.answered += 1


def far_sluice(t, settings="shutdown_timeout = 20s", **options):
    """A sluice at HOME, port 8080, and the way to it."""
    far = Distance(ROUND_TRIP / 2)
    t.defer(far.close)
    sluice = t.sluice(to(t.origin()), bind=f"{HOME}:8080", settings=settings, **options)
    return sluice, far


def take_away(sluice):
    sluice.listener = ""
    sluice.reload(sluice.sections)


def with_second_bind(t, **options):
    sluice, far = far_sluice(t, **options)
    sluice.listener = f"bind = {HOME}:8081"
    sluice.reload(sluice.sections)
    sluice.process.wait_output(": reloaded")
    return sluice, far


@test("a bind that a reload takes away serves clients whose handshakes have begun")
def reload(t):
    sluice, far = with_second_bind(t)
    burst = Burst(t, far, 8081, 12)
    take_away(sluice)
    equal(set(burst.wait()), {None}, "outcomes")
    until(lambda: Distant(8081, "/late").ask_once() == "refused", "a refused client")


@test("a drain serves clients whose handshakes have begun")
def drain(t):
    sluice, far = far_sluice(t)
    burst = Burst(t, far, 8080, 12)
    sluice.terminate()
    equal(set(burst.wait()), {None}, "outcomes")
    equal(sluice.wait(), 0, "exit status")


def at_all_times(t, port):
    """Clients that have begun to connect and ask, without a pause."""
    crowd = AtAllTimes(t, port)
    crowd.start(8, crowd.run)
    until(lambda: crowd.answered >= 20, "answers")
    return crowd


@test("clients that connect at all times while a reload takes a bind away")
def reload_at_all_times(t):
    sluice, _ = with_second_bind(t)
    crowd = at_all_times(t, 8081)
    take_away(sluice)
    until(lambda: crowd.refused >= 8, "refused clients")
    crowd.stop()
    equal(crowd.lost, [], "lost requests")


@test("clients that connect at all times while a drain begins")
def drain_at_all_times(t):
    sluice, _ = far_sluice(t)
    crowd = at_all_times(t, 8080)
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status")
    crowd.stop()
    equal(crowd.lost, [], "lost requests")


@test("a drain serves them also if the state of handshakes is unknown")
def drain_without_netlink(t):
    if platform.machine() not in ("x86_64", "aarch64"):
        t.skip("the number of the system call is not known")
    sluice, far = far_sluice(t, settings="log_level = debug\nshutdown_timeout = 20s",
                             command=[sys.executable, "-c", WITHOUT_NETLINK, BINARY])
    with Lateness() as lateness:
        burst = Burst(t, far, 8080, 12)
        sluice.terminate()
        outcomes = set(burst.wait())
    # It waits for 1.5 s: where this test's own packets are so late, they find nobody.
    true(outcomes == {None} or lateness.worst > 1, f"outcomes {outcomes}, packets up to {lateness.worst:.2f} s late")
    equal(sluice.wait(), 0, "exit status")
    true("can't read the state of handshakes: Operation not permitted" in sluice.log(), sluice.log())


@test("handshakes that are never finished hold up neither a reload nor a drain")
def dead(t):
    nothing = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
    drop_all = struct.pack("HxxxxxxP", 1, ctypes.addressof(nothing))

    def knock(port):
        client = socket.socket()
        t.defer(client.close)
        client.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, drop_all)
        client.setblocking(False)
        client.connect_ex((FAR, port))

    sluice, far = with_second_bind(t, settings="shutdown_timeout = 6s")
    for port in (8080, 8081) * 20:
        knock(port)
    until(lambda: far.answered() >= 40, "all handshakes begun")
    take_away(sluice)
    sluice.process.wait_output(f"listener main: {HOME}:8081 is closed although", count=t.workers)
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status: it has ended before shutdown_timeout")


distance.enter()
main()
