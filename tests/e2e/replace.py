#!/usr/bin/env python3
"""Another binary takes over (SIGUSR2): no request is lost, limits go on where they stood, and one that
can't start changes nothing. And the lame duck's time before a drain."""
import os
import shutil
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import process
from lib.admin import Admin
from lib.chain import Chain, Load, sections
from lib.client import Client
from lib.process import BINARY, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true

ROUNDS = int(os.environ.get("UPGRADE_ROUNDS", "2"))

# A program that is no sluice, but knows where to report.
NONSENSE = """
import os, time
manifest = open("/proc/self/fd/" + os.environ["SLUICE_UPGRADE"])
channel = [line.split()[1] for line in manifest if line.startswith("channel ")]
os.write(int(channel[0]), b"took 999\\n")
time.sleep(60)
"""

def quota_holds(t, state):
    """Reloads and upgrades under load: nothing fails, and the origin sees the limits' quota, no more."""
    origin = t.origin()
    settings = "lame_duck = 100ms" + (f"\nstate = {state}" if state else "")
    chain = Chain(t, sections(origin), settings=settings)
    load = Load(t, chain.sluice.address)
    load.add(3, "/once", True).add(3, "/kept", False)
    for caller in ("a", "b"):
        load.add(1, f"/limited/{caller}", caller == "a", caller)
    for number in range(ROUNDS):
        load.goes_on()
        before = chain.pid
        chain.replace()
        load.goes_on()
        equal(chain.ended(before), 0, "exit status of the one before")
        chain.pids.remove(before)
        chain.sluice.write_ini(sections(origin, more=f"[limit other{number}]\nrate = 1 per 1s\n"))
        os.kill(chain.pid, signal.SIGHUP)
        chain.sluice.process.wait_output(": reloaded", number + 1)
    load.goes_on()
    load.stop()
    equal(load.failed[:5], [], f"failed of {load.answered}")
    for caller in ("a", "b"):
        equal(load.statuses.get((caller, 200)), 20, f"admitted of {caller}")
    with origin.changed:
        seen = [x.request.target for x in origin.requests]
    for caller in ("a", "b"):
        equal(seen.count(f"/limited/{caller}"), 20, f"{caller}'s at the origin")
    chain.sluice.ended = True
    chain.end()


@test("upgrades and reloads under load: nothing fails, limits in memory hold")
def in_memory(t):
    quota_holds(t, None)


@test("upgrades and reloads under load: nothing fails, limits in a folder hold")
def in_a_folder(t):
    os.mkdir(t.path("state"))
    quota_holds(t, t.path("state"))


@group("a start that fails leaves the old process serving, with a line in the log")
def failures(t):
    pid_file, front, admin = t.path("pid"), t.path("front.sock"), t.path("admin.sock")
    text = sections(t.origin()) + f"[listener front]\nbind = unix:{front}\n[admin]\nbind = unix:{admin}\n"
    chain = Chain(t, text, settings=f"pid_file = {pid_file}")
    client, failed = t.client(chain.sluice), 0
    good = chain.sluice.ini()

    def fails(why, program=None, ini=None):
        nonlocal failed
        failed += 1
        if program is not None:
            os.remove(chain.binary)
            with open(chain.binary, "w", encoding="ascii") as out:
                out.write(program)
            os.chmod(chain.binary, 0o755)
        with open(chain.sluice.ini_path, "w", encoding="utf-8") as out:
            out.write(ini or good)
        os.kill(chain.pid, signal.SIGUSR2)
        line = chain.sluice.process.wait_output("upgrade failed", failed)
        true(why in line, f"{why!r} in {line!r}")
        equal(client.ask("/").status, 200, "status")
        for path, target in ((front, "/"), (admin, "/readyz")):
            other = Client(f"unix:{path}")
            equal(other.ask(target).status, 200, path)
            other.close()
        with open(pid_file, encoding="ascii") as pid:
            equal(int(pid.read()), chain.pid, "the pid file")
        true(not os.path.exists(pid_file + ".oldbin"), "the old pid file is still there")

    with t.point("a file with errors"):
        fails("exited with 1", ini=good + "colour = green\n")
    with t.point("a file with other limits"):
        fails("exited with 1", ini=good.replace("rate = 20", "rate = 21"))
        true("reload first, then upgrade" in chain.log(), "advice")
    with t.point("an address that another program has"):
        taken = process.Port()
        t.defer(taken.release)
        taken.socket.listen()
        fails("exited with 1", ini=good.replace("[upstream", f"[listener x]\nbind = 127.0.0.1:{taken.number}\n[upstream", 1))
    with t.point("a program that fails"):
        fails("exited with 3", program="#!/bin/sh\nexit 3\n")
    with t.point("a program that reports nonsense"):
        fails("its report can't be read",
              program=f"#!{sys.executable}\n" + NONSENSE)
    with t.point("a program that is killed"):
        fails("was killed by signal 9", program="#!/bin/sh\nkill -9 $$\n")
    with t.point("no program"):
        fails("Exec format error", program="")
        os.remove(chain.binary)
        shutil.copy2(BINARY, chain.binary)
    with t.point("and then one that works"):
        chain.sluice.write_ini()
        chain.replace()
        with open(pid_file, encoding="ascii") as pid:
            equal(int(pid.read()), chain.pid, "the pid file")
        equal(chain.ended(chain.pids.pop(0)), 0, "exit status of the old one")
        true(not os.path.exists(pid_file + ".oldbin"), "the old pid file is still there")
        equal(t.client(chain.sluice).ask("/").status, 200, "status")
        chain.end()
        for path in (pid_file, front, admin):
            true(not os.path.exists(path), f"{path} is still there")


@test("a connection goes on in the old process for the lame duck's time, and a request under way ends there")
def lame_after_upgrade(t):
    gate = t.event()

    def answer(x):
        x.read_body()
        if x.request.target == "/held":
            gate.wait(process.DEADLINE_SECONDS)
        x.reply(200, b"")

    origin = t.origin(answer)
    chain = Chain(t, sections(origin), settings="lame_duck = 5s")
    kept, held = t.client(chain.sluice), t.client(chain.sluice)
    equal(kept.ask("/").status, 200, "status before")
    held.request("/held")
    origin.wait_requests(2)
    chain.replace()
    answer = kept.ask("/")
    equal((answer.status, answer.get("Connection")), (200, None), "in the lame duck's time")
    chain.sluice.process.wait_output("draining: ")
    gate.set()
    equal(held.response().status, 200, "of the request under way")
    equal(chain.ended(chain.pids.pop(0)), 0, "exit status of the old one")
    chain.end()


@test("after SIGTERM a lame duck accepts and serves on, until a second one")
def lame_after_term(t):
    path = t.path("admin.sock")
    sluice = t.sluice(f"[admin]\nbind = unix:{path}\n" + to(t.origin()), settings="lame_duck = 1h")
    sluice.process.wait_output("sluice is ready")
    kept, admin = t.client(sluice), t.client(f"unix:{path}")
    equal(kept.ask("/").status, 200, "status before")
    equal(admin.ask("/readyz").status, 200, "readiness before")
    sluice.terminate()
    sluice.process.wait_output("lame duck: ")
    answer = kept.ask("/")
    equal((answer.status, answer.get("Connection")), (200, None), "on a connection from before the upgrade")
    equal(t.client(sluice).ask("/").status, 200, "on a new connection")
    equal(t.client(f"unix:{path}").ask("/readyz").status, 503, "readiness")
    equal(t.client(f"unix:{path}").ask("/healthz").status, 200, "health")
    sluice.terminate()
    sluice.process.wait_output("draining: ")
    equal(sluice.wait(), 0, "exit status")


@test("a listener with health = on answers probes itself, before routes and limits")
def probes(t):
    origin = t.origin()
    limited = "[limit none]\nkey = host\nrate = 1 per 1h\n"
    sluice = t.sluice(limited + to(origin, route="limits = none"), settings="lame_duck = 1h", listener="health = on")
    other = t.sluice(to(origin))
    client = t.client(sluice)
    for _ in range(3):
        equal([client.ask(path).status for path in ("/healthz", "/readyz")], [200, 200], "statuses")
    equal(client.ask("/readyz", method="HEAD").status, 200, "status of HEAD")
    equal(len(origin.requests), 0, "requests at the origin")
    for target, method in (("/readyz/", "GET"), ("/healthz", "POST")):
        equal(t.client(other).ask(target, method=method).status, 200, f"{method} {target}")
    equal([x.request.target for x in origin.requests], ["/readyz/", "/healthz"], "forwarded without health = on")
    equal(client.ask("/healthz", method="POST", body=b"x").status, 200, "a POST is forwarded")
    equal(len(origin.requests), 3, "requests at the origin")
    sluice.terminate()
    sluice.process.wait_output("lame duck: ")
    equal([client.ask(path).status for path in ("/healthz", "/readyz")], [200, 503], "in the lame duck's time")
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status")


@test("a new binary with another number of workers serves all sockets")
def other_workers(t):
    origin = t.origin()
    chain = Chain(t, sections(origin))
    for number, workers in enumerate((3, 1, 4, 1)):
        chain.sluice.workers = workers
        chain.sluice.write_ini()
        old = chain.pid
        chain.replace()
        equal(chain.ended(old), 0, "exit status")
        chain.pids.remove(old)
        # Spread over all sockets by their ports: one that nobody serves would be found.
        for _ in range(40):
            client = Client(chain.sluice.address)
            equal(client.ask("/").status, 200, "status")
            client.close()
    chain.end()


@test("unix sockets go over: their file stays until the last has ended")
def unix(t):
    path = t.path("front.sock")
    chain = Chain(t, sections(t.origin()), bind=f"unix:{path}")
    chain.replace()
    equal(chain.ended(chain.pids.pop(0)), 0, "exit status")
    equal(t.client(chain.sluice).ask("/").status, 200, "status")
    chain.end()
    true(not os.path.exists(path), "the file is still there")


@test("nothing of one upgrade is left over for the next: descriptors, variables")
def nothing_left(t):
    chain = Chain(t, sections(t.origin()))
    seen = []
    for _ in range(3):
        chain.replace()
        equal(chain.ended(chain.pids.pop(0)), 0, "exit status")
        chain.sluice.process.wait_output("the process before this one has ended", chain.replaced)
        links = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{chain.pid}/fd")]
        seen.append(sorted(link.split(":")[0] for link in links))
        with open(f"/proc/{chain.pid}/cmdline", "rb") as line:
            equal(line.read().split(b"\0")[1:4], [b"run", b"-c", chain.sluice.ini_path.encode()], "arguments")
    equal(seen[1:], seen[:1] * 2, "descriptors")
    chain.end()


@test("a reload that comes while two have the table waits until one has ended")
def reload_waits(t):
    gate = t.event()
    origin = t.origin(lambda x: (x.request.target == "/held" and gate.wait(process.DEADLINE_SECONDS), x.reply(200, b"")))
    chain = Chain(t, sections(origin))
    held = t.client(chain.sluice)
    held.request("/held")
    origin.wait_requests(1)
    chain.replace()
    chain.sluice.write_ini(sections(origin, rate=30))
    os.kill(chain.pid, signal.SIGHUP)
    chain.sluice.process.wait_output("the reload waits until the upgrade is over")
    os.kill(chain.pid, signal.SIGUSR2)
    chain.sluice.process.wait_output("upgrade refused: the process before this one has not ended yet")
    true(": reloaded" not in chain.log(), "a reload while two have the table")
    gate.set()
    equal(held.response().status, 200, "status")
    chain.sluice.process.wait_output(": reloaded")
    equal(chain.ended(chain.pids.pop(0)), 0, "exit status")
    chain.end()


def freeze(pid):
    """Stops all of its threads, each of which stops when it is run next."""
    def states():
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as stat:
                yield stat.read().rsplit(")", 1)[1].split()[0]

    os.kill(pid, signal.SIGSTOP)
    until(lambda: set(states()) == {"T"}, "it stands still")


@group("what a process that is killed after it has handed over had in flight is free again", workers=[1])
def killed_after_upgrade(t):
    os.mkdir(t.path("state"))
    for where, settings in (("memory", ""), ("a folder", f"state = {t.path('state')}")):
        with t.point(f"limits in {where}"):
            gate = t.event()
            origin = t.origin(lambda x: (x.request.target == "/held" and gate.wait(process.DEADLINE_SECONDS),
                                         x.reply(200, b"")))
            text = to(origin, route="limits = few") + "[limit few]\nkey = ip\nconcurrency = 3\n"
            chain = Chain(t, text, settings=settings)

            def hold(count):
                clients = [t.client(chain.sluice) for _ in range(count)]
                for client in clients:
                    client.request("/held")
                return clients

            hold(2)
            origin.wait_requests(2)
            before = chain.pid
            chain.replace()
            freeze(before)  # it may go on: what it has is in flight
            own = hold(1)
            origin.wait_requests(3)
            equal(t.client(chain.sluice).ask("/").status, 429, "status while it stands still")
            os.kill(before, signal.SIGKILL)
            equal(chain.ended(chain.pids.pop(0)), -signal.SIGKILL, "exit status")
            client = t.client(chain.sluice)
            until(lambda: client.ask("/").status == 200, "a place is free")
            hold(2)
            origin.wait_requests(6)  # those before, one that found a place, these
            equal(t.client(chain.sluice).ask("/").status, 429, "status when all are taken, one by the first")
            gate.set()
            equal(own[0].response().status, 200, "status of what the new one had")
            chain.end()


@test("the admin interface goes over, and readiness is the new one's")
def admin(t):
    path = t.path("admin.sock")
    chain = Chain(t, f"[admin]\nbind = unix:{path}\n" + sections(t.origin()),
                  settings="lame_duck = 1s")
    address = f"unix:{path}"

    def status():
        client = Client(address)
        try:
            return client.ask("/api/v1/status").body, client.ask("/readyz").status
        finally:
            client.close()

    equal(status()[1], 200, "ready before")
    chain.replace()
    body, ready = status()
    equal(ready, 200, "ready after")
    true(str(chain.pid).encode() in body, f"pid {chain.pid} in {body!r}")
    equal(chain.ended(chain.pids.pop(0)), 0, "exit status")
    equal(status()[1], 200, "ready when the old one has ended")
    chain.end()
    true(not os.path.exists(path), "the file is still there")


SLOW = """#!/bin/sh
while [ ! -e {go} ]; do sleep 0.05; done
exec {binary} "$@"
"""


def start_slowly(chain, go):
    """Asks for an upgrade, whose new process begins when the file `go` is there."""
    os.rename(chain.binary, chain.binary + ".real")
    with open(chain.binary, "w", encoding="ascii") as out:
        out.write(SLOW.format(go=go, binary=chain.binary + ".real"))
    os.chmod(chain.binary, 0o755)
    os.kill(chain.pid, signal.SIGUSR2)
    chain.sluice.process.wait_output("upgrade: process")


def let_go(chain, go):
    """Lets it begin, and waits until it has taken over."""
    with open(go, "w", encoding="ascii"):
        pass
    chain.replaced += 1
    line = chain.sluice.process.wait_output("has taken over", chain.replaced)
    chain.pids.append(int(line.split("process ")[1].split()[0]))


@test("a reload that is asked for while another process starts is done by the one that serves then", workers=[2])
def reload_meanwhile(t):
    admin = Admin(f"unix:{t.path('admin.sock')}")
    origin = t.origin(lambda x: x.reply(200, b""))
    text = sections(origin, more=f"[admin]\nbind = {admin.address}\n")
    chain = Chain(t, text)
    go = t.path("go")
    start_slowly(chain, go)
    status, answer = admin.json("/api/v1/reload", "POST")
    equal((status, answer["waiting"]), (202, "the end of the upgrade"), answer)
    let_go(chain, go)
    equal(chain.ended(chain.pids.pop(0)), 0, "exit status")
    chain.sluice.process.wait_output(": reloaded")
    true("the reload waits until the upgrade is over" in chain.log(), chain.log())
    equal(t.client(chain.sluice).ask("/").status, 200)
    chain.end()


@test("what an operator has said of servers goes over", workers=[2])
def servers_go_over(t):
    admin = Admin(f"unix:{t.path('admin.sock')}")
    origins = [t.origin(lambda x: x.reply(200, b"")) for _ in range(3)]
    chain = Chain(t, to(*origins) + f"[admin]\nbind = {admin.address}\n")
    path = lambda of, word: f"/api/v1/upstreams/origin/servers/{of}/{word}"
    equal(admin.ask(path(origins[0], "disable"), "POST")[0], 200)
    equal(admin.ask(path(origins[1], "drain"), "POST")[0], 200)
    equal(admin.ask(path(origins[2], "weight"), "PUT", b'{"weight": 7}')[0], 200)
    said = lambda: [(one["mode"], one["weight"]) for one in admin.json("/api/v1/upstreams")[1]["upstreams"][0]["servers"]]
    expected = [("disabled", 1), ("draining", 1), ("enabled", 7)]
    equal(said(), expected, "before")
    go = t.path("go")
    start_slowly(chain, go)
    for one, word in ((origins[0], "enable"), (origins[2], "drain")):
        equal(admin.ask(path(one, word), "POST")[0], 409, "meanwhile")
    equal(admin.ask(path(origins[2], "weight"), "PUT", b'{"weight": 8}')[0], 409, "meanwhile")
    let_go(chain, go)
    equal(chain.ended(chain.pids.pop(0)), 0, "exit status")
    equal(said(), expected, "after")
    client = t.client(chain.sluice)
    equal({client.ask("/").status for _ in range(6)}, {200})
    equal([len(one.requests) for one in origins], [0, 0, 6], "requests of each origin")
    chain.end()


@test("an upgrade that would lose keys or overrides that are in memory is refused", workers=[1])
def keys_in_memory(t):
    admin = Admin(f"unix:{t.path('admin.sock')}")
    plans = "[plans]\nkey = header:X-Key\n[plan gold]\nlimits = few\n"
    chain = Chain(t, sections(t.origin(), more=plans + f"[admin]\nbind = {admin.address}\n"))
    equal(admin.ask("/api/v1/keys/ann", "PUT", b'{"plan": "gold"}')[0], 201)
    os.kill(chain.pid, signal.SIGUSR2)
    chain.sluice.process.wait_output("upgrade refused: keys or overrides")
    equal(admin.json("/api/v1/keys/ann")[1]["plan"], "gold")
    equal(t.client(chain.sluice).ask("/").status, 200)
    equal(admin.ask("/api/v1/keys/ann", "DELETE")[0], 200)
    chain.replace()
    equal(chain.ended(chain.pids.pop(0)), 0, "exit status, without the key")
    chain.end()


@test("without any limit there are upgrades, too, and starts that find the table", workers=[2])
def without_limits(t):
    for state in ("", f"state = {t.path('state')}"):
        os.makedirs(t.path("state"), exist_ok=True)
        chain = Chain(t, to(t.origin(lambda x: x.reply(200, b""))), settings=state)
        chain.replace()
        equal(chain.ended(chain.pids.pop(0)), 0, "exit status")
        equal(t.client(chain.sluice).ask("/").status, 200)
        chain.end()
    true(not os.path.exists(t.path("state") + "/throttle.table.set-aside"), "the table was set aside")


@test("while another process starts, keys and overrides are refused, so that none is lost", workers=[2])
def keys_meanwhile(t):
    os.mkdir(t.path("state"))
    port = process.Port()
    t.defer(port.release)
    plans = f"[plans]\nkey = header:X-Key\n[plan gold]\ncallers = file:{t.file('callers', 'someone')}\nlimits = few\n"
    chain = Chain(t, f"[admin]\nbind = 127.0.0.1:{port.number}\n" +
                  sections(t.origin(), more=plans).replace("limits = few\n", "limits = few, plan\n", 1),
                  settings=f"state = {t.path('state')}")
    admin = Admin(f"127.0.0.1:{port.number}")
    go = t.path("go")

    def put(key, status):
        equal(admin.ask(f"/api/v1/keys/{key}", "PUT", b'{"plan": "gold"}')[0], status, key)
    put("before", 201)
    start_slowly(chain, go)
    until(lambda: admin.ask("/api/v1/keys/meanwhile", "PUT", b'{"plan": "gold"}')[0] == 409, "refused")
    equal(admin.ask("/api/v1/callers/0123456789abcdef/override", "PUT", b'{"deny": true, "for": 60}')[0], 409)
    equal(admin.ask("/api/v1/keys/before")[0], 200, "reading goes on")
    let_go(chain, go)
    put("after", 201)
    equal(admin.json("/api/v1/keys/before")[1]["plan"], "gold", "what was before")
    chain.ended(chain.pids.pop(0))
    chain.end()


@test("a limit that was changed by PATCH: a reload takes the file's, and an upgrade asks for that first", workers=[2])
def patched_limit(t):
    port = process.Port()
    t.defer(port.release)
    chain = Chain(t, f"[admin]\nbind = 127.0.0.1:{port.number}\n" + sections(t.origin()))
    admin = Admin(f"127.0.0.1:{port.number}")

    def amount():
        return admin.json("/api/v1/limits/few")[1]["amount"]
    equal(admin.ask("/api/v1/limits/few", "PATCH", b'{"rate": "30 per 1h"}')[0], 200)
    equal(amount(), 30, "changed")
    os.kill(chain.pid, signal.SIGUSR2)
    chain.sluice.process.wait_output("reload first, then upgrade")
    chain.sluice.process.wait_output("upgrade failed")
    equal(amount(), 30, "it goes on")
    os.kill(chain.pid, signal.SIGHUP)
    chain.sluice.process.wait_output(": reloaded")
    equal(amount(), 20, "the file's")
    chain.replace()
    equal(amount(), 20, "the next process's")
    chain.ended(chain.pids.pop(0))
    chain.end()


main()
