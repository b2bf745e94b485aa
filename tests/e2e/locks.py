"""`sluice lock` and `sluice locks` with a real Redis: what a lock promises, by commands and by sessions that ask the
store themselves, at random and by name; and what becomes of the command."""
import os
import re
import signal
import threading
import time

from lib.cut import Way
from lib.hazard import Hazard
from lib.lock import LONG, Locks, Session, load
from lib.process import BINARY, DEADLINE_SECONDS, Process, until
from lib.redis import Pulse, Redis, Sentinels
from lib.redis_cluster import RedisCluster
from lib.terminal import Terminal
from lib.tap import IS_LONG, equal, group, main, test, true

MANY = """local now = redis.call('TIME')[1] * 1000
for i = 1, ARGV[1] do
    local key = 'sluice{locks}lock:many' .. i
    redis.call('HSET', key, 'session', 'host/1/' .. i, 'fence', i, 'ends', now + 600000, 'till', now + 600000)
    redis.call('ZADD', 'sluice{locks}lock', now + 600000, key)
end"""
FOREVER = "echo begun; while :; do sleep 0.1; done"
HELD_LONG = ("--lease", "10m")


def begun(child):
    child.wait_output("begun")
    return child


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return [int(child) for child in children.read().split()]


def until_dead(pid):
    until(lambda: not is_alive(pid), f"the end of process {pid}")


def pid_in(child, word):
    return int(child.wait_output(word + " ").split()[1])


@group("each property of a lock", workers=[1])
def properties(t):
    """Takes half a minute: leases of seconds end, one after another."""
    redis = Redis(t)
    locks = Locks(t, redis.url)
    equal(locks.run("first", "true"), (0, ""))  # which loads the functions
    with t.point("the first goes on after its lease as long as nobody has taken the lock"):
        pulse, status = Pulse(t, redis), None
        while status is None or (status == 76 and pulse.worst > 0.5):  # which waits for a second for the store
            pulse.worst = 0
            first = begun(locks.shell("n1", "echo begun; sleep 8; exit 3", "--lease", "4s"))
            first.stop()
            until(lambda: locks.listed()["n1"]["state"] == "lapsed", "the lease's end")
            first.signal(signal.SIGCONT)
            status = first.wait()
        pulse.end()
        equal(status, 3, first.output())
    with t.point("a session is over for good after a takeover: it takes, renews, and commits nothing"):
        first = begun(locks.shell("n2", FOREVER, "--lease", "1s"))
        first.stop()
        equal(locks.run("n2", "true")[0], 0)
        first.signal(signal.SIGCONT)
        equal(first.wait(), 76, first.output())
        old, new = Session(t, redis.number, "old"), Session(t, redis.number, "new")
        birth = old.birth("n3")
        _, fence, *_ = old.ask("take", "n3", birth, 1)
        until(lambda: old.ask("look", "n3", 0)[0] == "lapsed", "the lease's end")
        later = new.take("n3")
        new.ask("release", "n3", later)
        for verb, number in (("use", fence), ("release", fence), ("take", birth), ("take", fence)):
            equal(old.ask(verb, "n3", number, value="mine")[0], "over", verb)
        equal(old.ask("look", "n3", 0)[4], "", "nothing was committed")
    with t.point("locks of distinct names are independent"):
        one = begun(locks.shell("n4", FOREVER, *HELD_LONG))
        equal(locks.run("n5", "true", options=("--wait", "0"))[0], 0)
        equal(locks.run("n4", "true", options=("--wait", "0"))[0], 75)
        one.signal(signal.SIGTERM)
        equal(one.wait(), 128 + signal.SIGTERM)
    with t.point("runners share a session"):
        runners = [Session(t, redis.number, "shared") for _ in range(3)]
        fence = runners[0].take("n6")
        for n, runner in enumerate(runners):
            equal(runner.ask("use", "n6", fence, value=f"by {n}")[:2], ("held", fence))
        runners[1].ask("release", "n6", fence)
        equal(runners[2].ask("use", "n6", fence)[0], "over")
    with t.point("a release does nothing unless the session has the lock"):
        fence = new.take("n7")
        for other, number in ((old, fence), (new, fence - 1), (old, 0)):
            equal(other.ask("release", "n7", number)[0], "over")
        equal(new.ask("use", "n7", fence)[0], "held")
    with t.point("a release frees the lock at once, whatever its lease"):
        fence = new.take("n8")
        equal(new.ask("release", "n8", fence)[0], "free")
        true(old.take("n8") > fence, "the next takes it")
        first = begun(locks.shell("n9", "echo begun; sleep 1", "--lease", "24h"))
        equal(locks.run("n9", "true")[0], 0, "the one that waits")
        equal(first.wait(), 0)
    with t.point("an administrator ends any session"):
        first = begun(locks.shell("n10", FOREVER, "--lease", "4s"))
        row = locks.listed()["n10"]
        status, output = locks.administer("end", "n10")
        equal(status, 0)
        true(row["session"] in output, output)
        equal(first.wait(), 76, first.output())
        status, output = locks.administer("end", "n10")
        equal((status, output), (1, "sluice locks: no session has n10\n"))
    with t.point("the later of two ends of a lease stays"):
        fence = new.take("n11", LONG)
        equal(new.ask("use", "n11", fence, 1_000)[0], "held")
        true(locks.listed()["n11"]["left_ms"] > LONG - 60_000, "a shorter lease does not shorten it")
    with t.point("renewal keeps the lock as long as the command runs"):
        first = begun(locks.shell("n12", f"echo begun; while [ ! -e {t.path('n12')} ]; do sleep 0.1; done", "--lease", "4s"))
        equal(locks.run("n12", "true", options=("--wait", "6s"))[0], 75)
        t.file("n12", "")
        equal(first.wait(), 0, first.output())
    with t.point("there is an active session, or there is none"):
        true("n13" not in locks.listed(), "nobody has taken it")
        first = begun(locks.shell("n13", FOREVER, "--lease", "4s"))
        until(lambda: locks.listed()["n13"]["state"] == "active", "it is renewed")
        first.kill()
        until(lambda: locks.listed()["n13"]["state"] == "lapsed", "the lease's end")
        locks.administer("end", "n13")
        true("n13" not in locks.listed(), "it was ended")
    with t.point("one lock by name, with a status that says whether a session holds it"):
        equal(locks.administer("show", "n15")[0], 75)
        equal(locks.shown("n15"), {"name": "n15", "state": "free"}, "nobody has ever taken it")
        mine = Session(t, redis.number, "mine/1/1")
        fence = mine.take("n15", 1)
        until(lambda: locks.shown("n15")["state"] == "lapsed", "the lease's end")
        equal(locks.administer("show", "n15")[0], 75)
        equal(mine.ask("use", "n15", fence)[0], "held")
        status, output = locks.administer("show", "n15")
        equal(status, 0, output)
        true("mine/1/1" in output and str(fence) in output, output)
        equal({name: locks.shown("n15")[name] for name in ("name", "state", "session", "fence")},
              {"name": "n15", "state": "active", "session": "mine/1/1", "fence": fence})
        mine.ask("release", "n15", fence)
        equal(locks.shown("n15"), {"name": "n15", "state": "free"}, "it was released")
        for words in (("show",), ("show", "a", "b"), ("show", "a b")):
            status, output = locks.administer(*words)
            equal(status, 2, output)
            true(output.startswith("sluice locks show: "), output)
    with t.point("a second process joins a session by its id, has its fence, and does not end it"):
        first = begun(locks.shell("n16", f"echo $SLUICE_SESSION $SLUICE_FENCE; {FOREVER}", *HELD_LONG))
        session, fence = first.output().splitlines()[0].split()
        equal(locks.shown("n16")["session"], session)
        status, output = locks.run("n16", "sh", "-c", "echo $SLUICE_SESSION $SLUICE_FENCE; exit 4",
                                   options=("--session", session))
        equal((status, output), (4, f"{session} {fence}\n"))
        equal(locks.shown("n16")["session"], session, "it goes on")
        second = begun(locks.shell("n16", FOREVER, "--session", session, "--lease", "1s"))
        first.signal(signal.SIGTERM)
        equal(first.wait(), 128 + signal.SIGTERM, "its own command has ended, and it releases the lock")
        equal(second.wait(), 76, second.output())
    with t.point("a session that does not hold the lock is not joined, nor waited for"):
        status, output = locks.run("n16", "true", options=("--session", session))
        equal((status, output), (75, f"sluice lock: n16: session {session} does not have it\n"))
        third = begun(locks.shell("n16", FOREVER, *HELD_LONG))
        status, output = locks.run("n16", "true", options=("--session", session))
        equal(status, 75)
        true(f"does not have it; {locks.shown('n16')['session']} has it" in output, output)
        third.kill()
    with t.point("a joined session outlives the process that began it, as long as one renews it"):
        locks.administer("end", "n16")
        first = begun(locks.shell("n16", FOREVER, "--lease", "1s"))
        session = locks.shown("n16")["session"]
        second = begun(locks.shell("n16", FOREVER, "--session", session, "--lease", "1s"))
        first.kill()
        equal(locks.run("n16", "true", options=("--wait", "2s"))[0], 75)
        second.signal(signal.SIGTERM)
        equal(second.wait(), 128 + signal.SIGTERM)
        equal(locks.run("n16", "true"), (0, ""), "it is free after the lease")
    with t.point("the fence grows with every taking, also when the store has lost its memory"):
        fences = []
        for n in range(6):
            if n == 3:
                redis.kill()
                redis.start()
            status, output = locks.run("n14", "sh", "-c", "echo $SLUICE_FENCE")
            equal(status, 0, output)
            fences.append(int(output.splitlines()[-1]))
        equal(fences, sorted(set(fences)))


class Teller:
    """A session, then another: each counts up what the lock's value says, as long as it has the lock."""

    def __init__(self, t, redis, hazard, number, seed):
        self.t, self.redis, self.hazard, self.number = t, redis, hazard, number
        self.random = type(t.random)(seed)
        self.known, self.takings = [], []
        self.thread = threading.Thread(target=self.work, daemon=True)

    def work(self):
        for life in range(15):
            session = Session(self.t, self.hazard.number, f"teller-{self.number}-{life}")
            self.live(session)
            session.leave()

    def live(self, session):
        birth = fence = None
        for _ in range(40):
            if birth is None:
                answer = session.ask("look", "bank", 0)
                birth = answer and answer[1]
                continue
            if fence is None:
                answer = session.ask("take", "bank", birth, self.random.choice([1, 20, 50]))
                if answer and answer[0] == "over":
                    return
                if answer and answer[0] == "held":
                    fence = answer[1]
                    self.takings.append(fence)
                    count = int(answer[4].split()[1]) if answer[4] else 0
            else:
                answer = session.ask("use", "bank", fence, 20, f"{fence} {count + 1}")
                if answer is None or answer[0] == "over":
                    return  # whether it was done may not be known: the next session reads it
                count += 1
                self.known.append((fence, count))
            time.sleep(self.random.choice([0, 0.001, 0.03]))


def hold_to_account(tellers, value):
    known = sorted(use for teller in tellers for use in teller.known)
    takings = [fence for teller in tellers for fence in teller.takings]
    equal(len(takings), len(set(takings)), "fences of takings")
    counts = [count for _, count in known]
    equal(counts, sorted(set(counts)), "each use is on top of the one before, by a fence that is no smaller")
    true(not counts or int(value.split()[1]) >= counts[-1], f"{value} after {known[-1:]}")
    return len(counts)


@test("two sessions never both commit: random sessions, with connections that are cut and a store that stands still",
      workers=[1])
def bank(t):
    redis = Redis(t)
    load(redis)
    done = 0
    for _ in range(6):
        redis.connect().ask("FLUSHALL")
        hazard = Hazard(t, redis.number)
        tellers = [Teller(t, redis, hazard, n, t.random.getrandbits(32)) for n in range(4)]
        for teller in tellers:
            teller.thread.start()
        while any(teller.thread.is_alive() for teller in tellers):
            draw = t.random.random()
            if draw < 0.3:
                hazard.reset_all()
            elif draw < 0.5:
                hazard.cut_replies(2)
            elif draw < 0.6:
                redis.stop()
                time.sleep(0.05)
                redis.go_on()
            time.sleep(0.03)
        look = Session(t, redis.number, "look").ask("look", "bank", 0)
        done += hold_to_account(tellers, look[4])
        hazard.end()
    true(done > 50, f"{done} uses")


COUNTING = """trap 'exit 9' TERM
while :; do echo $SLUICE_FENCE $(date +%%s) >>%s; sleep 0.02; done"""


def disturb(random, redis, locks, child, stopped):
    draw = random.random()
    if child in stopped:
        child.signal(signal.SIGCONT)
        stopped.discard(child)
    elif draw < 0.3:
        child.stop()
        stopped.add(child)
    elif draw < 0.4:
        child.kill()
    elif draw < 0.5:
        locks.administer("end", "bank")
    elif draw < 0.55:
        redis.kill()
        redis.start()


def read_takings(path):
    """[(fence, when it was first and last used)], by fence."""
    takings = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            fence, *when = map(int, line.split())
            if when:  # else date was ended by the TERM
                takings.setdefault(fence, [when[0]] * 2)[1] = when[0]
    return sorted((fence, *times) for fence, times in takings.items())


def changes(path):
    return len(read_takings(path)) - 1 if os.path.exists(path) else 0


@test("random commands that are killed, stopped and go on, while sessions are ended and the store loses its memory: a later "
      "taking has a larger fence, and who lost the lock stops", workers=[1])
def commands(t):
    redis = Redis(t)
    locks, path, random = Locks(t, redis.url), t.path("fences"), t.random
    running, stopped = [], set()
    began = time.monotonic()
    while time.monotonic() < began + (25 if IS_LONG else 8) or changes(path) < 3 and time.monotonic() < began + DEADLINE_SECONDS:
        running = [child for child in running if child.running()]
        while len(running) < 4:
            running.append(locks.shell("bank", COUNTING % path, "--lease", "1s"))
        disturb(random, redis, locks, random.choice(running), stopped)
        time.sleep(random.uniform(0.1, 0.8))
    takings = read_takings(path)
    for (fence, _, last), (later, first, _) in zip(takings, takings[1:]):
        true(last <= first + 10, f"{fence} was used for {last - first} s after {later}")
    true(changes(path) >= 3, "the lock has changed hands")


@group("the command", workers=[1])
def command(t):
    """Takes half a minute: leases of seconds end, one after another."""
    redis = Redis(t)
    locks = Locks(t, redis.url)
    with t.point("its exit status is that of sluice lock, and a signal's is 128 more"):
        equal(locks.run("c", "sh", "-c", "exit 42")[0], 42)
        equal(locks.run("c", "sh", "-c", "kill -9 $$")[0], 128 + 9)
        equal(locks.run("c", "/does/not/exist"), (127, "sluice lock: /does/not/exist: No such file or directory\n"))
        equal(locks.run("c", "/etc/passwd")[0], 126)
        equal(locks.run("c", "true", options=("--wait", "0"))[0], 0, "each has released it")
    with t.point("what it reads and writes is its own"):
        child = Process(["sh", "-c", f"echo in | {BINARY} lock -c {locks.path} c -- sh -c 'cat; echo out >&2'"], "pipe")
        equal(child.wait(), 0)
        equal(sorted(child.output().split()), ["in", "out"])
    with t.point("it has a process group of its own, and signals are passed on to it"):
        child = locks.shell("c", "trap 'echo got; exit 5' USR1; echo group $(ps -o pgid= -p $$) $$; " + FOREVER)
        line = child.wait_output("group ").split()
        equal(line[1], line[2])
        begun(child).signal(signal.SIGUSR1)
        equal(child.wait(), 5)
        child.wait_output("got")
    with t.point("it dies with sluice lock, and so do its descendants, also those that have left its group"):
        child = locks.shell("c", "setsid sh -c 'echo descendant $$; exec sleep 1000' & echo child $$; wait", *HELD_LONG)
        pids = pid_in(child, "descendant"), pid_in(child, "child")
        os.kill(child.pid, signal.SIGKILL)
        for pid in pids:
            until_dead(pid)
        locks.administer("end", "c")
    with t.point("it dies when only its keeper is killed, with all its descendants, and the lock is free"):
        child = locks.shell("c", "setsid sh -c 'echo descendant $$; exec sleep 1000' & echo child $$ $PPID; wait",
                            *HELD_LONG)
        descendant = pid_in(child, "descendant")
        _, pid, keeper = child.wait_output("child ").split()
        os.kill(int(keeper), signal.SIGKILL)
        equal(child.wait(), 128 + 9, child.output())
        equal([is_alive(descendant), is_alive(pid)], [False, False], "all of it has ended before the lock is released")
        equal(locks.run("c", "true", options=("--wait", "0"))[0], 0)
    with t.point("standard descriptors may be closed"):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            child = Process(["sh", "-c", f"{BINARY} lock -c {locks.path} --wait 0 c -- sh -c 'exit 7' {closed}"], "closed")
            equal(child.wait(), 7, closed)
    with t.point("it stands still with all its descendants when sluice lock does so for longer than the lease"):
        child = locks.shell("c", "setsid sh -c 'echo descendant $$; exec sleep 1000' & echo child $$; wait", "--lease", "3s")
        pids = pid_in(child, "descendant"), pid_in(child, "child")
        child.stop()
        for pid in pids:
            until(lambda: state_of(pid) == "T", "it stands still")
        child.signal(signal.SIGCONT)
        for pid in pids:
            until(lambda: state_of(pid) in "SXZ", "it goes on, or is ended")
        child.signal(signal.SIGKILL)
        child.wait()
    with t.point("a keeper that was stopped alone ends it, too: on a loss, and when sluice lock is killed"):
        for end in (lambda: locks.administer("end", "c"), lambda: child.signal(signal.SIGKILL)):
            child = locks.shell("c", "echo child $$ $PPID; exec sleep 1000", "--lease", "3s")
            _, pid, keeper = child.wait_output("child ").split()
            os.kill(int(keeper), signal.SIGSTOP)
            until(lambda: state_of(keeper) == "T", "it stands still")
            end()
            until_dead(int(pid))
            child.wait()
        locks.administer("end", "c")
    with t.point("a keeper that was stopped for long does not hold sluice lock up: it sees the loss, and ends the command"):
        child = locks.shell("c", "trap '' USR1; echo child $$ $PPID; exec sleep 1000", "--lease", "3s")
        _, pid, keeper = child.wait_output("child ").split()
        os.kill(int(keeper), signal.SIGSTOP)
        until(lambda: state_of(keeper) == "T", "it stands still")
        for _ in range(1000):  # more than a socket holds
            child.signal(signal.SIGUSR1)
            time.sleep(0.001)
        locks.administer("end", "c")
        until_dead(int(pid))
        equal(child.wait(), 76, child.output())
    with t.point("a keeper that is stopped within the grace has its command killed after it"):
        child = locks.shell("c", "trap '' TERM; echo child $$ $PPID; " + FOREVER, "--lease", "3s", "--grace", "2s")
        _, pid, keeper = child.wait_output("child ").split()
        locks.administer("end", "c")
        child.wait_output("the lock is lost")
        os.kill(int(keeper), signal.SIGSTOP)
        equal(child.wait(), 76, child.output())
        until_dead(int(pid))
    with t.point("a keeper that was stopped alone is woken by a signal, which is passed on"):
        child = locks.shell("c", "trap 'exit 5' TERM; echo child $$ $PPID; " + FOREVER, *HELD_LONG)
        _, _, keeper = child.wait_output("child ").split()
        begun(child)
        os.kill(int(keeper), signal.SIGSTOP)
        until(lambda: state_of(keeper) == "T", "it stands still")
        child.signal(signal.SIGTERM)
        equal(child.wait(), 5, child.output())
    with t.point("its exit status is known although its keeper was stopped, and has not read that the lease was renewed"):
        child = locks.shell("c", f"echo child $$ $PPID; until [ -e {t.path('end')} ]; do sleep 0.05; done; exit 6", "--lease", "2s")
        _, pid, keeper = child.wait_output("child ").split()
        os.kill(int(keeper), signal.SIGSTOP)
        until(lambda: state_of(keeper) == "T", "it stands still")
        until(lambda: locks.listed()["c"]["left_ms"] < 1_600, "the time before a renewal")
        until(lambda: locks.listed()["c"]["left_ms"] > 1_700, "a renewal")
        t.file("end", "")
        until_dead(int(pid))
        os.kill(int(keeper), signal.SIGCONT)
        equal(child.wait(), 6, child.output())
    with t.point("its end is seen where the caller ignores the ends of its children"):
        child = Process(["sh", "-c", f"trap '' CHLD; exec {BINARY} lock -c {locks.path} c -- sh -c 'exit 7'"], "ignoring")
        t.defer(child.kill)
        equal(child.wait(), 7, child.output())
    with t.point("nor one that was stopped before there was a command: the wait ends in time, and by a signal"):
        holder = begun(locks.shell("c", FOREVER, *HELD_LONG))
        until(lambda: redis.callers() == 1, "the store knows the holder alone")
        for options, number, status in ((("--wait", "6s"), signal.SIGCONT, 75), ((), signal.SIGTERM, 128 + signal.SIGTERM)):
            child = locks.shell("c", "true", *options)
            until(lambda: redis.callers() == 2, "it has asked, and so waits")
            keeper, = children_of(child.pid)
            os.kill(keeper, signal.SIGSTOP)
            until(lambda: state_of(keeper) == "T", "it stands still")
            child.signal(number)
            equal(child.wait(), status, child.output())
            until(lambda: redis.callers() == 1, "its connection has ended")
        holder.signal(signal.SIGTERM)
        holder.wait()
    with t.point("it gets the terminal when it asks for it, is stopped by ^Z and goes on with sluice lock"):
        terminal = Terminal(t)
        lock = f"{BINARY} lock -c {locks.path} --lease 10m --wait 0 tty --"
        terminal.type(f"{lock} sh -c 'stty tostop; read a; echo got $a; read b; echo got $a $b'\n")
        terminal.type("one\n")
        terminal.wait_output("got one")
        terminal.type("\x1a")
        terminal.wait_output("Stopped")
        terminal.type("echo the shell has it; fg; echo status $?\n")
        terminal.wait_output("the shell has it")
        terminal.type("two\n")
        terminal.wait_output("got one two")
        terminal.wait_output("status 0")
        terminal.type(f"{lock} sh -c 'read a; echo got $a; exec sleep 1000'; echo status $?\n")
        terminal.type("three\n")
        terminal.wait_output("got three")
        terminal.type("\x03")
        terminal.wait_output("status 130")
        terminal.type(f"{lock} sh -c 'echo ready; read a; echo got $a' &\n")
        terminal.wait_output("Stopped")
        terminal.type("fg\nfour\n")
        terminal.wait_output("got four")
        terminal.type(f"sh -c '{lock} sh -c \"read a; echo got \\$a\"; read b; echo then $b'\nfive\n")
        terminal.wait_output("got five")
        terminal.type("six\n")
        terminal.wait_output("then six")
    with t.point("on a loss it gets TERM, and after the grace KILL, with all its descendants"):
        child = locks.shell("c", "trap '' TERM; (setsid sh -c 'echo descendant $$; exec sleep 1000') & echo child $$; "
                            + FOREVER, "--lease", "4s", "--grace", "3s")
        pids = pid_in(child, "descendant"), pid_in(begun(child), "child")
        ended = time.monotonic()
        locks.administer("end", "c")
        child.wait_output("the lock is lost")
        equal(child.wait(), 76)
        true(time.monotonic() - ended > 2.9, "the grace")
        for pid in pids:
            until_dead(pid)
        child = locks.shell("c", "trap 'echo goodbye; exit 0' TERM; " + FOREVER, "--lease", "1s", "--grace", "1h")
        begun(child)
        locks.administer("end", "c")
        equal(child.wait(), 76, child.output())
        true("goodbye" in child.output(), child.output())
    with t.point("a signal ends the wait for the lock"):
        first = begun(locks.shell("c", FOREVER, *HELD_LONG))
        until(lambda: redis.callers() == 1, "the store knows the first alone")
        child = locks.start("c", "true")
        until(lambda: redis.callers() == 2, "the second has asked, and so waits")
        child.signal(signal.SIGTERM)
        equal(child.wait(), 128 + signal.SIGTERM, child.output())
        until(lambda: redis.callers() == 1, "its connection has ended")
        child = Process(["sh", "-c", f"trap '' HUP; exec {BINARY} lock -c {locks.path} --wait 6s c -- true"], "nohup")
        t.defer(child.kill)
        until(lambda: redis.callers() == 2, "it has asked, and so waits")
        child.signal(signal.SIGHUP)
        equal(child.wait(), 75, "unless it was ignored at the start: " + child.output())
        first.signal(signal.SIGTERM)
        first.wait()


@group("the store", workers=[1])
def store(t):
    """Takes half a minute: the store is away for seconds, shorter and longer than leases."""
    redis = Redis(t)
    hazard = Hazard(t, redis.number)
    locks = Locks(t, f"redis://127.0.0.1:{hazard.number}")
    with t.point("a connection that is cut is made again, and the lock is kept"):
        child = begun(locks.shell("s", "echo begun; sleep 3; exit 4", "--lease", "6s"))
        for _ in range(5):
            hazard.reset_all()
            time.sleep(0.3)
        equal(child.wait(), 4, child.output())
    with t.point("while the store is away the command runs until the lease's end, and is ended then"):
        child = begun(locks.shell("s", FOREVER, "--lease", "6s"))  # renewed every 2 s, or as late as the machine is
        began = time.monotonic()
        redis.stop()
        equal(child.wait(), 76, child.output())
        true(time.monotonic() - began > 1.9, "the lease that was left")
        true("the store has not renewed the lease" in child.output(), child.output())
        redis.go_on()
    with t.point("a store that comes back in time has the lock as it was"):
        child = begun(locks.shell("s", "echo begun; sleep 8; exit 4", "--lease", "30s"))
        redis.stop()
        time.sleep(3)
        redis.go_on()
        equal(child.wait(), 4, child.output())
    with t.point("a lock that is granted when its keeper has been killed is released"):
        near = Locks(t, redis.url)

        def is_released():
            """An answer that comes more than a second after the keeper's end is not waited for."""
            holder = begun(near.shell("s", FOREVER, *HELD_LONG))
            child = locks.start("s", "true", options=HELD_LONG)
            until(lambda: redis.callers() == 2 and hazard.is_quiet(), "it has asked, and so waits")
            keeper, = children_of(child.pid)
            hazard.hold_replies()
            holder.signal(signal.SIGTERM)
            holder.wait()
            until(lambda: f"/{child.pid}/" in near.listed().get("s", {}).get("session", ""), "the store has granted it")
            killed = time.monotonic()
            os.kill(keeper, signal.SIGKILL)
            child.wait_output("was killed")
            hazard.go_on()
            equal(child.wait(), 128 + signal.SIGKILL, child.output())
            took = time.monotonic() - killed
            if "s" not in locks.listed():
                return True
            true(took >= 1, f"the lock is free, {took:.3f} s after the keeper was killed")
            equal(near.administer("end", "s")[0], 0, "ended, for the next")
            return False
        until(is_released, "an answer within a second")
    with t.point("a lock that may be granted after it was given up is said to be held until its lease ends"):
        for way, word in (("keeper", 128 + signal.SIGKILL), ("TERM", 128 + signal.SIGTERM), ("wait", 75)):
            options = ("--wait", "3s") if way == "wait" else ()
            holder = begun(near.shell("given", FOREVER, *HELD_LONG))
            child = locks.start("given", "true", options=HELD_LONG + options)
            until(lambda: redis.callers() == 2 and hazard.is_quiet(), "it has asked, and so waits")
            hazard.hold_replies()
            holder.signal(signal.SIGTERM)
            holder.wait()
            until(lambda: f"/{child.pid}/" in near.listed().get("given", {}).get("session", ""),
                  "the store has granted it")
            if way == "keeper":
                os.kill(children_of(child.pid)[0], signal.SIGKILL)
            elif way == "TERM":
                child.signal(signal.SIGTERM)
            equal(child.wait(), word, child.output())
            true("its lease ends by itself" in child.output(), child.output())
            hazard.go_on()
            equal(near.administer("end", "given")[0], 0, "it was held")
    with t.point("a wait whose asks were all answered is given up without a word"):
        holder = begun(near.shell("given", FOREVER, *HELD_LONG))
        child = locks.start("given", "true", options=HELD_LONG)
        until(lambda: redis.callers() == 2 and hazard.is_quiet(), "it has asked, and so waits")
        child.signal(signal.SIGTERM)
        equal((child.wait(), child.output()), (128 + signal.SIGTERM, ""))
        holder.signal(signal.SIGTERM)
        holder.wait()
    with t.point("a command that waits for a store that is away has the lock when it comes"):
        redis.kill()
        child = locks.start("s", "true")
        child.wait_output("trying again")
        redis.start()
        equal(child.wait(), 0, child.output())


@group("the administrator", workers=[1])
def administrator(t):
    redis = Redis(t)
    locks = Locks(t, redis.url)
    equal(locks.run("first", "true"), (0, ""))  # which loads the functions
    with t.point("a session is ended once: not the next one, too, when the answer is lost and it is asked again"):
        way = Way(t, redis.number)
        first, second = Session(t, redis.number, "first/1/1"), Session(t, redis.number, "second/1/1")
        fence = first.take("a")
        way.lose(b"\r\nend\r\n")
        ending = Process([BINARY, "locks", "-c", Locks(t, way.url).path, "end", "a"], "ending")
        t.defer(ending.kill)
        later = None
        while not later:
            status, number, *_ = second.ask("take", "a", second.birth("a"))
            later = number if status == "held" else None
        equal(ending.wait(), 0, ending.output())
        true("first/1/1" in ending.output() and str(fence) in ending.output(), ending.output())
        equal(second.ask("use", "a", later)[0], "held", "its session goes on")
        equal(first.ask("use", "a", fence)[0], "over")
        second.ask("release", "a", later)
    with t.point("many locks are listed"):
        count = 40_000
        redis.connect().ask("EVAL", MANY, 0, count)
        equal(len(locks.listed()), count)
    with t.point("a key of somebody else at a lock's name is said"):
        redis.connect().ask("SET", "sluice{locks}lock:other", "no lock")
        redis.connect().ask("ZADD", "sluice{locks}lock", 10 ** 15, "sluice{locks}lock:other")
        for status, output in locks.administer(), locks.administer("end", "other"), locks.run("other", "true"):
            equal(status, 3)
            true("WRONGTYPE" in output, output)


@group("other stores", workers=[1])
def stores(t):
    """Takes half a minute: Sentinels and a cluster wait before they replace a primary."""
    with t.point("a Redis Cluster has locks on all its primaries"):
        cluster = RedisCluster(t)
        locks = Locks(t, cluster.url, "cluster = on\n")
        held = {f"k{n}": begun(locks.shell(f"k{n}", FOREVER, "--lease", "10s")) for n in range(6)}
        equal(set(locks.listed()), set(held))
        (node, key), = cluster.keys("*lock:k0")
        equal(locks.run("k0", "true", options=("--wait", "0"))[0], 75)
        equal(locks.administer("end", "k0")[0], 0)
        equal(held["k0"].wait(), 76, held["k0"].output())
        for child in list(held.values())[1:]:
            child.signal(signal.SIGTERM)
            equal(child.wait(), 128 + signal.SIGTERM, child.output())
        equal(locks.listed(), {})
        node.ask("SET", key, "no lock")
        node.ask("ZADD", key[:-len(b":k0")], 10 ** 15, key)
        equal(locks.administer()[0], 3, "it ends where the store never answers for one of them")
    with t.point("a primary that is replaced by its Sentinels"):
        watched = Sentinels(t, replicas=1)
        locks = Locks(t, watched.url, f"sentinel = {watched.name}\nstore_quorum = 1\n")
        child = begun(locks.shell("s", "echo begun; while [ ! -e %s ]; do sleep 0.1; done; exit 6" % t.path("end"),
                                  "--lease", "60s"))
        watched.primary.kill()
        until(lambda: watched.named() != watched.primary.number, "another primary")
        with open(t.path("end"), "w", encoding="ascii"):
            pass
        equal(child.wait(), 6, child.output())


@group("what is wrong is said", workers=[1])
def errors(t):
    redis = Redis(t, "--requirepass", "secret")
    good = Locks(t, redis.url.replace("//", "//default:secret@"))
    with t.point("names"):
        for name in ("a b", "x" * 65, "a/b", "\u00e4", ""):
            status, output = good.run(name, "true")
            equal(status, 2)
            true("expected 1 to 64 of A-Z a-z 0-9 . _ : -" in output, output)
            equal(good.administer("end", name)[0], 2)
        equal(good.run("A-z.0_9:" + "x" * 56, "true"), (0, ""))
    with t.point("credentials, and a user who may not"):
        for url, text in ((redis.url.replace("//", "//default:wrong@"), "WRONGPASS"), (redis.url, "NOAUTH")):
            bad = Locks(t, url)
            for status, output in (bad.run("a", "true"), bad.administer()):
                equal(status, 3, output)
                true(text in output and f":{bad.store_line}: [fleet] store: " in output, output)
                true("wrong@" not in output, "the password is not shown")
        connection = redis.connect()
        connection.ask("AUTH", "secret")
        connection.ask("ACL", "SETUSER", "few", "on", ">few", "~*", "+role", "+cluster", "-fcall")
        few = Locks(t, redis.url.replace("//", "//few:few@"))
        status, output = few.run("a", "true")
        equal(status, 3, output)
        true("NOPERM" in output, output)
        redis.stop()
        child = bad.start("a", "true")
        child.wait_output("trying again")
        redis.go_on()
        equal(child.wait(), 3, "also where the store was away at first: " + child.output())
    with t.point("a file without a store, and command lines"):
        bare = Locks(t, redis.url)
        with open(bare.path, "w", encoding="ascii") as ini:
            ini.write("[listener main]\nbind = 127.0.0.1:1\n[upstream a]\nserver = 127.0.0.1:2\n[route a]\nupstream = a\n")
        status, output = bare.run("a", "true")
        equal(status, 1)
        true("there is no store in [fleet]" in output, output)
        for words in ((), ("a",), ("a", "--"), ("a", "b", "--", "true"), ("a", "--lease", "0", "--", "true"),
                      ("a", "--lease", "x", "--", "true"), ("a", "--grace", "2h", "--", "true"),
                      ("a", "--wait", "-1", "--", "true"), ("a", "--session", "-", "--", "true"),
                      ("a", "--session", "a b", "--", "true")):
            child = Process([BINARY, "lock", "-c", good.path, *words], "lock")
            equal(child.wait(), 2, words)
            true(re.search("^sluice lock: ", child.output(), re.M), child.output())
    with t.point("a store that is not there"):
        away = Locks(t, "redis://127.0.0.1:1")
        status, output = away.run("a", "true", options=("--wait", "1s"))
        equal(status, 75, output)
        true("the store did not answer" in output, output)


main()
