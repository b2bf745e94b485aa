#!/usr/bin/env python3
"""Drains lose nothing: a request that was sent on a connection that stood is answered, whole, while a
sluice ends, is replaced by another (a rolling restart), or is started again behind systemd's socket."""
import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import process
from lib.client import Client
from lib.crowd import Crowd
from lib.process import BINARY, until
from lib.sluice import Sluice, to
from lib.tap import equal, main, test, true
from lib.wire import Ended

SO_ATTACH_FILTER = 26
IDLE_SECONDS = 0.9  # a drain waits a little longer for a connection's next request

# What systemd does: the socket is descriptor 3, and the environment says so.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="web")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Clients(Crowd):
    """Clients on threads of their own, until they are stopped. A request is lost when its connection
    was made, all of it was sent, and no whole answer came. That a connection is refused, or had
    ended before anything was sent on it, loses nothing; nor does one that was sent when the connection had been idle for
    as long as a drain waits."""

    def __init__(self, t, address):
        super().__init__(t)
        self.t, self.address = t, address
        self.lost, self.answered, self.refused, self.told, self.idle = [], 0, 0, 0, 0

    def add(self, count, once, pause):
        return self.start(count, lambda number: self._ask(once, pause, number))

    def _connect(self):
        try:
            return Client(self.address)
        except OSError:
            with self._lock:
                self.refused += 1
            self._stop.wait(0.01)
            return None

    def _ask(self, once, pause, number):
        client, count = None, 0
        while not self._stop.is_set():
            if not client:
                since, client = time.monotonic(), self._connect()
            if not client:
                continue
            ended = client.has_ended()
            if ended:
                with self._lock:
                    self.idle += time.monotonic() - since > IDLE_SECONDS
            else:
                count += 1
                ended = self._one(client, f"/{'once' if once else 'kept'}/{number}/{count}", since) or once
                since = time.monotonic()
            if ended:
                client.close()
                client = None
            if pause:
                self._stop.wait(pause)
        if client:
            client.close()

    def _one(self, client, target, since):
        """A request and its answer; true when the connection takes no other. It has been idle since then."""
        was_idle = False
        try:
            try:
                client.request(target)
            finally:
                was_idle = time.monotonic() - since > IDLE_SECONDS
            answer = client.response()
        except (Ended, OSError) as error:
            with self._lock:
                self.idle += was_idle
                if not was_idle:
                    self.lost.append(f"{target}: {type(error).__name__} {error}")
            return True
        with self._lock:
            self.answered += 1
            closes = (answer.get("Connection") or "").lower() == "close"
            self.told += closes
            if answer.status != 200 or answer.body != b"":
                self.lost.append(f"{target}: {answer.status} {answer.body!r}")
        return closes

    def judge(self, least):
        equal(self.lost[:5], [], f"lost of {self.answered}")
        true(self.answered >= least, f"only {self.answered} were answered")


def keeps_out():
    """May this process let a listening socket drop what wants to connect again? Some systems leave that
    to root. (The filter takes all: BPF_RET, as many bytes as there are.)"""
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFFFFFF))
    with socket.socket() as sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                            struct.pack("HxxxxxxP", 1, ctypes.addressof(code)))
        except PermissionError:
            return False
    return True


def ready(sluice_process):
    sluice_process.wait_output("sluice is ready")


@test("a drain answers what was sent: of clients that connect again each time, and of those that stay")
def ends(t):
    origin = t.origin()
    sluice = t.sluice(to(origin))
    crowd = Clients(t, sluice.address)
    crowd.add(8, once=True, pause=0).add(8, once=False, pause=0).add(24, once=False, pause=0.05)
    until(lambda: crowd.answered > 500, "answers")
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status")
    crowd.stop()
    if keeps_out():
        crowd.judge(500)
    true(crowd.told + crowd.idle >= 24, f"only {crowd.told} were told Connection: close, {crowd.idle} were idle")


@test("a drain ends under load also if new connections can't be stopped")
def ends_without_root(t):
    if os.geteuid() != 0:
        t.skip("needs root; without it the test before this one shows the same")
    os.chmod(t.folder, 0o755)
    sluice = t.sluice(to(t.origin()), settings="user = nobody")
    stop = t.event()

    def knock():
        while not stop.is_set():
            with socket.socket() as sock:
                sock.connect_ex(("127.0.0.1", sluice.port.number))
                stop.wait(0.005)

    thread = threading.Thread(target=knock, daemon=True)
    thread.start()
    equal(t.client(sluice).ask("/").status, 200, "status")
    sluice.terminate()
    sluice.process.wait_output("draining")
    equal(sluice.wait(), 0, "exit status: it has ended before shutdown_timeout")
    stop.set()
    thread.join()


@test("a drain accepts what waits in the backlog, and waits for requests that were about to come")
def backlog(t):
    origin = t.origin()
    sluice = t.sluice(to(origin))
    sluice.process.stop()
    waiting = [t.client(sluice) for _ in range(100)]
    for client in waiting[:50]:
        client.request("/sent")
    sluice.terminate()
    began = time.monotonic()
    sluice.process.signal(signal.SIGCONT)
    for client in waiting[50:]:
        with contextlib.suppress(Ended):
            client.request("/later")
    took = time.monotonic() - began
    equal({status_or_none(client) for client in waiting[:50]}, {200}, "statuses of what was sent before")
    statuses = {status_or_none(client) for client in waiting[50:]}
    # Where it took longer, some may have found their connection closed.
    true(statuses == {200} or took > IDLE_SECONDS and statuses <= {200, None},
         f"statuses of what was sent within {took:.2f} s: {statuses}")
    equal(sluice.wait(), 0, "exit status")


def status_or_none(client):
    """Of the last response on this connection; None: it ended without one."""
    try:
        answer = client.response()
    except Ended:
        return None
    client.expect_end()
    return answer.status


@test("a part of a head holds a drain for half of shutdown_timeout at most")
def parts_of_heads(t):
    sluice = t.sluice(to(t.origin()), listener="header_timeout = 1m")
    before, asked, silent = (t.client(sluice) for _ in range(3))
    before.send(b"GET / HTT")
    asked.ask("/")
    asked.send(b"GET / HTT")
    silent.ask("/")
    sluice.terminate()
    sluice.process.wait_output("draining")
    silent.send(b"GET / HTT")
    for client in (before, asked, silent):
        equal(client.response().status, 408)
    equal(sluice.wait(), 0, "exit status")


@test("what waits on a unix socket is answered, too")
def unix_backlog(t):
    path = t.path("front.sock")
    sluice = t.sluice(to(t.origin()), bind=f"unix:{path}")
    sluice.process.stop()
    waiting = [t.client(sluice) for _ in range(50)]
    for client in waiting:
        client.request("/")
    sluice.terminate()
    sluice.process.signal(signal.SIGCONT)
    equal({client.response().status for client in waiting}, {200}, "statuses")
    equal(sluice.wait(), 0, "exit status")
    true(not os.path.exists(path), "the socket file is still there")


@test("a bind that a reload takes away answers what has arrived there")
def bind_taken_away(t):
    take_bind_away(t)


@test("a bind that a reload takes away answers what has arrived there, without the right to filter")
def bind_taken_away_without_root(t):
    if os.geteuid() != 0:
        t.skip("needs root; without it the test before this one shows the same")
    os.chmod(t.folder, 0o755)
    take_bind_away(t, settings="user = nobody")


def take_bind_away(t, **options):
    sluice = t.sluice(to(t.origin()), **options)
    port = process.Port()
    t.defer(port.release)
    address = f"127.0.0.1:{port.number}"
    sluice.listener = f"bind = {address}"
    sluice.reload(sluice.sections)
    sluice.process.wait_output(": reloaded")
    crowd = Clients(t, address).add(8, once=True, pause=0)
    until(lambda: crowd.answered > 300, "answers")
    refused = crowd.refused
    sluice.listener = ""
    sluice.reload(sluice.sections)
    until(lambda: crowd.refused > refused, "a refused connection")
    crowd.stop()
    crowd.judge(300)


@test("rolling restarts with a shared state lose nothing and refuse nobody")
def rolling(t):
    origin = t.origin()
    state = t.path("state")
    os.mkdir(state)
    first = t.sluice(to(origin), settings=f"state = {state}")
    crowd = Clients(t, first.address)
    crowd.add(6, once=True, pause=0).add(4, once=False, pause=0).add(10, once=False, pause=0.03)
    running = first.process
    for number in range(4):
        goal = crowd.answered + 300
        until(lambda: crowd.answered > goal, "answers")
        following = process.Process([BINARY, "run", "-c", first.ini_path], f"follower{number}")
        t.defer(following.kill)
        ready(following)
        running.signal(15)
        equal(running.wait(), 0, "exit status")
        running = following
    first.ended = True
    crowd.stop()
    crowd.judge(1200)
    equal(crowd.refused, 0, "refused connections")
    running.signal(15)
    equal(running.wait(), 0, "exit status")


@test("restarts behind systemd's socket lose nothing and refuse nobody")
def activated(t):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1000)
    t.defer(listener.close)
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    passed = fcntl.fcntl(listener.fileno(), fcntl.F_DUPFD, 60)
    t.defer(lambda: os.close(passed))
    ini = t.file("systemd.ini", f"[sluice]\nworkers = {t.workers}\naccess_log = off\n"
                 f"[listener web]\nbind = systemd:web\n" + to(t.origin()))
    crowd = Clients(t, address)
    crowd.add(6, once=True, pause=0).add(4, once=False, pause=0).add(10, once=False, pause=0.03)
    for number in range(4):
        child = process.Process(
            [sys.executable, "-c", ACTIVATE, str(passed), BINARY, "run", "-c", ini],
            f"activated{number}", pass_fds=(passed,))
        t.defer(child.kill)
        goal = crowd.answered + 300
        until(lambda: crowd.answered > goal, "answers")
        if number == 3:
            crowd.stop()  # one that comes after the last would wait in the backlog
        child.signal(15)
        equal(child.wait(), 0, "exit status")
    crowd.judge(1200)
    equal(crowd.refused, 0, "refused connections")


main()
