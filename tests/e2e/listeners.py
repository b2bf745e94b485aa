"""Listeners: where clients connect, how many may, how long they may take, and what happens when
the system has no more to give."""
import fcntl
import os
import resource
import signal
import socket
import sys
import time

from lib import process
from lib.client import request_bytes
from lib.held import Held
from lib.process import BINARY, DEADLINE_SECONDS, Port, cpu_seconds, open_files, until
from lib.sluice import to
from lib.tap import equal, group, main, member, test, true
from lib.wire import quiet


@group("addresses")
def addresses(t):
    origin = t.origin()

    with t.point("a unix socket, which is gone afterwards or can be taken again"):
        path = t.path("listen.sock")
        for _ in range(2):
            sluice = t.sluice(to(origin), bind="unix:" + path)
            equal(t.client(sluice).ask("/").status, 200, "status")
            sluice.terminate()
            equal(sluice.wait(), 0, "exit status")

    with t.point("IPv6; the origin gets the address"):
        sluice = t.sluice(to(origin), family=socket.AF_INET6, settings="forwarded = on")
        equal(t.client(sluice).ask("/").status, 200, "status")
        equal(origin.last().get("X-Forwarded-For"), "::1", "X-Forwarded-For")
        true('for="[::1]"' in origin.last().get("Forwarded"), origin.last().get("Forwarded"))

    with t.point("several binds of one listener, several listeners"):
        second, third = Port(), Port(socket.AF_INET6)
        for port in (second, third):
            t.defer(port.release)
        sluice = t.sluice(to(origin), f"[listener more]\nbind = [::1]:{third.number}",
                          listener=f"bind = 127.0.0.1:{second.number}")
        for address in (sluice.address, f"127.0.0.1:{second.number}", f"[::1]:{third.number}"):
            equal(t.client(address).ask("/").status, 200, f"status at {address}")


@group("a place that can't be listened at: exit status 1 and a line that says so")
def cannot_bind(t):
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    t.defer(taken.close)
    for what, bind, words in (
            ("a port that is taken", f"127.0.0.1:{taken.getsockname()[1]}", "in use"),
            ("an address of another machine", "203.0.113.1:8080", "assign"),
            ("a folder that is not there", "unix:" + t.path("none/x.sock"), "No such file")):
        with t.point(what):
            ini = t.file("bad.ini", f"[sluice]\nworkers = {t.workers}\n[listener x]\nbind = {bind}\n"
                         + to("127.0.0.1:1"))
            status, output = process.run([BINARY, "run", "-c", ini])
            equal(status, 1, "exit status")
            true(bind in output and words in output, f"output {output!r}")


@test("a unix socket that another process serves is not taken away from it")
def unix_in_use(t):
    origin = t.origin()
    path = t.path("listen.sock")
    first = t.sluice(to(origin), bind="unix:" + path)
    ini = t.file("second.ini", f"[listener x]\nbind = unix:{path}\n" + to("127.0.0.1:1"))
    status, output = process.run([BINARY, "run", "-c", ini])
    equal(status, 1, "exit status")
    true("in use" in output, f"output {output!r}")
    equal(t.client(first).ask("/").status, 200, "status of the first")


@group("an address that another sluice of the same user serves")
def served_twice(t):
    sections = to(t.origin())
    for bind in ("127.0.0.1", "0.0.0.0", "[::]"):
        with t.point(f"on {bind}: refused, for each would count for itself"):
            first = t.sluice(sections)
            ini = t.file("second.ini", f"[sluice]\nworkers = {t.workers}\n[listener x]\n"
                         f"bind = {bind}:{first.port.number}\nv6only = no\n" + sections)
            status, output = process.run([BINARY, "run", "-c", ini])
            equal(status, 1, "exit status")
            true("listener x: can't listen on" in output and "in use" in output, f"output {output!r}")
            equal(t.client(first).ask("/").status, 200, "status of the first")

    with t.point("shared when they count in one state folder"):
        settings = "state = " + t.path("state")
        first = t.sluice(sections, settings=settings)
        second = t.sluice(sections, settings=settings, bind=first.address)
        second.process.wait_output("is ready")
        equal(t.client(first).ask("/").status, 200, "status")

    with t.point("its own: a wildcard beside one of its addresses"):
        more = Port()
        t.defer(more.release)
        sluice = t.sluice(sections, listener=f"bind = 0.0.0.0:{more.number}\nbind = 127.0.0.1:{more.number}")
        sluice.process.wait_output("is ready")
        equal(t.client(f"127.0.0.1:{more.number}").ask("/").status, 200, "status")
        equal(t.client(sluice).ask("/").status, 200, "status")


# ---- timeouts ----------------------------------------------------------------------------------

@group("timeouts")
def timeouts(t):
    origin = t.origin()
    sluice = t.sluice(to(origin), listener="header_timeout = 2s\nidle_timeout = 2s\nbody_timeout = 2s")

    with t.point("header_timeout: 408 and a close"):
        client = t.client(sluice)
        client.send(b"GET / HTTP/1.1\r\nHost: api.test\r\nX-")
        equal(client.response().status, 408, "status")
        client.expect_end()

    with t.point("header_timeout counts from the first byte, a byte now and then does not help"):
        client = t.client(sluice)
        begin = time.monotonic()
        client.send(b"GET / HTTP/1.1\r\n")
        while quiet(client, 0.05):
            client.try_send(b"X: y\r\n")
            true(time.monotonic() < begin + DEADLINE_SECONDS, "a slow head is read for ever")
        member(client.read_to_any_end()[9:12], (b"408", b""), "status")

    with t.point("idle_timeout: closed without a word, before any request and between two"):
        t.client(sluice).expect_end()
        client = t.client(sluice)
        equal(client.ask("/").status, 200, "status")
        client.expect_end()

    with t.point("body_timeout: 408 and a close, the origin sees it cut"):
        client = t.client(sluice)
        client.send(b"POST /slow-body HTTP/1.1\r\nHost: api.test\r\nContent-Length: 10\r\n\r\n01234")
        equal(client.response().status, 408, "status")
        client.expect_end()
        slow = [x for x in origin.requests if x.request.target == "/slow-body"]
        for x in slow:
            origin.wait(lambda: x.cut, "the cut body")

    with t.point("none of them cuts a client that waits for a slow origin"):
        gate = t.event()

        def handler(x):
            x.read_body()
            gate.wait(DEADLINE_SECONDS)
            x.reply(200, b"late")
        slow_sluice = t.sluice(to(t.origin(handler)),
                               listener="header_timeout = 2s\nidle_timeout = 2s\nbody_timeout = 2s")
        client = t.client(slow_sluice)
        client.request("/", "POST", body=b"x")
        t.client(slow_sluice).expect_end()  # idle_timeout has passed
        t.client(slow_sluice).expect_end()
        gate.set()
        equal(client.response().body, b"late", "body")


@test("send_timeout: a client that reads nothing is cut, and its origin let go")
def send_timeout(t):
    def handler(x):
        x.read_body()
        x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            x.send(b"x" * 100_000)

    origin = t.origin(handler)
    sluice = t.sluice(to(origin), listener="send_timeout = 300ms")
    client = t.client(sluice, receive_buffer=4096)
    client.request("/")
    origin.wait_requests(1)
    origin.wait_connections_gone()


# ---- bounds ------------------------------------------------------------------------------------

@test("max_connections: what is beyond waits, and is served when another leaves")
def max_connections(t):
    held = Held(t)
    sluice = t.sluice(to(held.origin, route="ordering = none"), listener="max_connections = 5")
    held.let("/")
    clients = [t.client(sluice) for _ in range(5)]
    for n, client in enumerate(clients):
        client.request(f"/held{n}")
    held.here(*(f"/held{n}" for n in range(5)))
    waiting = [t.client(sluice) for _ in range(3)]
    for client in waiting:
        client.request("/")
    time.sleep(0.2)
    true(all(quiet(client, 0.01) for client in waiting), "a sixth connection was served")
    for leaver in clients[:3]:
        leaver.close()
    for client in waiting:
        equal(client.response().status, 200, "status")


@test("no file descriptors left: no spinning, open connections go on, the others come in later")
def out_of_files(t):
    gate = t.event()

    def handler(x):
        x.read_body()
        if x.request.target == "/held":
            gate.wait(DEADLINE_SECONDS)
        x.reply(200)

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, route="ordering = none"))
    first = t.client(sluice)
    first.request("/held")
    origin.wait_requests(1)
    enough = open_files(sluice.pid) + 10
    resource.prlimit(sluice.pid, resource.RLIMIT_NOFILE, (enough, enough))
    flood = [t.client(sluice) for _ in range(40)]
    for client in flood:
        client.request("/")
    until(lambda: open_files(sluice.pid) >= enough - 1, "the last file descriptor")
    before, wall = cpu_seconds(sluice.pid), time.monotonic()
    time.sleep(1.5)
    used, wall = cpu_seconds(sluice.pid) - before, time.monotonic() - wall
    t.note(f"{used:.2f} s of processor time in {wall:.2f} s without descriptors")
    true(used < 0.3 * wall, f"spins: {used:.2f} s of processor time in {wall:.2f} s")
    true(sluice.process.running(), "sluice is gone")
    gate.set()
    equal(first.response().status, 200, "status on the open connection")
    # Each that is closed lets another one in.
    served = 0
    waiting = list(flood)
    end = time.monotonic() + DEADLINE_SECONDS
    while waiting and time.monotonic() < end:
        for client in list(waiting):
            if not quiet(client, 0.01):
                member(client.response().status, (200, 502, 503), "status")
                client.close()
                waiting.remove(client)
                served += 1
    equal(served, len(flood), "served in the end")


# ---- what the system still has for a client ------------------------------------------------------

def taking(t, **options):
    """A client that has begun to take a response of which the system has most; and its head."""
    body = bytes(600_000)
    origin = t.origin(lambda x: (x.read_body(), x.reply(200, body if x.request.target == "/large" else b"")))
    sluice = t.sluice(to(origin), **options)
    slow = t.client(sluice, receive_buffer=4096)
    slow.request("/large")
    return sluice, slow, slow.response_head()


def finishes(slow, head):
    """Its next request comes while it still takes the response before: a closed connection would be reset."""
    slow.request("/next")
    equal(len(slow.read_body(head).body), 600_000, "bytes of the response")
    return slow.response()


@test("idle_timeout begins when the client has taken its response", workers=(1,))
def still_taken(t):
    _, slow, head = taking(t, listener="idle_timeout = 2s")  # which a slow client's first request is within
    time.sleep(3)  # it would be closed by now
    equal(finishes(slow, head).status, 200, "status of the next request")
    slow.expect_end()


@test("a drain waits for a client that still takes its response", workers=(1,))
def drained_while_taken(t):
    sluice, slow, head = taking(t)
    sluice.terminate()
    time.sleep(1.5)  # it would be closed by now
    last = finishes(slow, head)
    equal((last.status, last.get("Connection")), (200, "close"), "the next response")
    equal(sluice.wait(), 0, "exit status")


@test("a client that connects and says nothing holds nobody else up")
def silent_clients(t):
    sluice = t.sluice(to(t.origin()))
    silent = [t.client(sluice) for _ in range(200)]
    client = t.client(sluice)
    for n in range(20):
        equal(client.ask(f"/{n}").status, 200, "status")
    for one in silent:
        one.send(request_bytes("/"))
    for one in silent:
        equal(one.response().status, 200, "status")


# ---- systemd -----------------------------------------------------------------------------------

# What systemd does: the socket is descriptor 3, and the environment says so.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="web")
os.execv(sys.argv[2], sys.argv[2:])
"""


@test("systemd socket activation: the socket named web is served")
def activation(t):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(100)
    t.defer(listener.close)
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    early = t.client(address)  # before anybody runs, as activation has it
    early.request("/early")
    passed = fcntl.fcntl(listener.fileno(), fcntl.F_DUPFD, 60)  # far from 3, which it becomes
    t.defer(lambda: os.close(passed))
    origin = t.origin()
    ini = t.file("systemd.ini", f"[sluice]\nworkers = {t.workers}\naccess_log = off\n"
                 f"[listener web]\nbind = systemd:web\n" + to(origin))
    child = process.Process([sys.executable, "-c", ACTIVATE, str(passed), BINARY, "run", "-c", ini],
                            "activated", pass_fds=(passed,))
    t.defer(child.kill)
    equal(early.response().status, 200, "status of the one that came before")
    for _ in range(8):
        equal(t.client(address).ask("/").status, 200, "status")
    child.signal(signal.SIGTERM)
    equal(child.wait(), 0, "exit status")


@group("systemd: a socket that was not passed, and what was", workers=[1])
def not_passed(t):
    ini = t.file("systemd.ini", "[listener x]\nbacklog = 10\nbind = systemd:public\n" + to("127.0.0.1:1"))
    for what, environment, words in (
            ("no socket at all", {}, "systemd passed no sockets (LISTEN_FDS is not set)"),
            ("sockets for another process", {"LISTEN_FDS": "1", "LISTEN_PID": "1", "LISTEN_FDNAMES": "public"},
             "systemd passed no sockets to this process (LISTEN_PID is 1)"),
            ("sockets of other names", {"LISTEN_FDS": "2", "LISTEN_FDNAMES": "web:admin"},
             'systemd passed no socket of the name "public" (LISTEN_FDNAMES is "web:admin", LISTEN_FDS 2)'),
            ("sockets without names", {"LISTEN_FDS": "2"},
             'systemd passed no socket of the name "public" (LISTEN_FDNAMES is not set, LISTEN_FDS 2)'),
            ("a name whose socket is beyond the count", {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "web:public"},
             'systemd passed no socket of the name "public" (LISTEN_FDNAMES is "web:public", LISTEN_FDS 1)')):
        with t.point(what):
            status, output = process.run([BINARY, "run", "-c", ini], environment=environment)
            equal(status, 1, "exit status")
            true(f"{ini}:3: listener x: can't listen on systemd:public: {words}\n" in output,
                 f"output {output!r}")


main()
