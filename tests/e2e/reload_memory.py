#!/usr/bin/env python3
"""Reloads and memory: one that gets none changes nothing, and none leaves anything behind."""
import contextlib
import mmap
import os
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib.process import SANITIZER, until
from lib.tap import equal, main, test, true
from lib.sluice import to

MANY = 20  # reloads that tell a leak from what is kept

LIBRARY = os.path.join(os.environ.get("top_builddir", "."), "tests/e2e/.libs/fail_malloc.so")


class Memory:
    """What fail_malloc.c shares."""

    def __init__(self, t):
        if SANITIZER:
            t.skip("a sanitizer has its own allocator")
        true(os.path.exists(LIBRARY), f"{LIBRARY} is not built")
        path = t.path("memory")
        with open(path, "w+b") as file:
            file.truncate(mmap.PAGESIZE)
            self.map = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.environment = {"LD_PRELOAD": os.path.abspath(LIBRARY), "FAIL_MALLOC_FILE": path}

    def live(self):
        return struct.unpack_from("=q", self.map, 0)[0]

    def fail(self, number):
        """The main thread's allocation of that number from now on fails; 0: none."""
        struct.pack_into("=q", self.map, 8, number)

    def has_failed(self):
        return struct.unpack_from("=q", self.map, 8)[0] <= 0


def answer_of(sluice):
    """How the next reload ended."""
    def count():
        log = sluice.log()
        return log.count(": reloaded"), log.count("reload failed")
    before = count()
    return lambda: until(lambda: count() != before, "the end of a reload") and count()[0] > before[0]


def files(sluice):
    """What it has open, but for connections of clients."""
    folder, found = f"/proc/{sluice.pid}/fd", []
    for fd in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(os.path.join(folder, fd)))
    return sorted(found)


def settled(read, what):
    """What it reads when it stays the same for a while: freed is at the end of the next turn."""
    last = [read(), 0]

    def same():
        now = read()
        last[1] = last[1] + 1 if now == last[0] else 0
        last[0] = now
        return last[1] >= 5
    until(same, f"{what} settles")
    return last[0]


# Nothing of one is in the other, and there is some of everything that a file may name.
BEFORE = """
[limit burst]
rate = 100000 per 1h
[upstream origin]
server = {origin}
[route all]
upstream = origin
limits = burst
response_header_set = X-Is: before
"""
AFTER = """
[limit burst]
key = header:X-Api-Key + path | query:k | ip
rate = 7 per 1h
[limit daily]
rate = 10 per day Europe/Oslo
ban = 3 per 1m for 5m
[limit paced]
rate = 50 per 1s
algorithm = gcra
[limit at-once]
concurrency = 5
[plans]
key = header:X-Api-Key
[plan gold]
limits = paced
callers = file:{keys}
[plan default]
limits = burst, daily
[upstream origin]
server = {origin} max_in_flight=9
server = unix:/nowhere/at-all.sock
max_in_flight = auto
pace = 100 per 1s
[upstream named]
server = localhost:{port}
health_path = /healthz
health_interval = 1h
balance = hash
hash_key = path
[route all]
host = *.test, api.test
upstream = origin
limits = plan, at-once
deny = 192.0.2.0/24, file:{keys}
request_header_set = X-Via-Sluice: yes
response_header_set = X-Is: after
[route other]
path = ~^/(a|b)+$
upstream = named
limits = paced
method = GET, PUT
upgrade = websocket, chat
request_trailers = X-Checksum
"""


def soon(claim):
    """Does it come true within a while?"""
    end = time.monotonic() + 3
    while not claim():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def sluice_of(t, memory, origin):
    names = {"origin": origin, "port": origin.port, "keys": t.file("keys", "gold-1\ngold-2\n")}
    os.mkdir(t.path("state"))
    logs = f"state = {t.path('state')}\nerror_log = stderr\n"
    sluice = t.sluice(BEFORE.format(**names), settings=logs, environment=memory.environment)
    return sluice, names


@test("a reload for which any one allocation fails changes nothing and leaks nothing", workers=[2])
def every_allocation(t):
    memory, origin = Memory(t), t.origin()
    os.mkdir(t.path("more"))
    # Not by a pattern: glob(3) of glibc 2.36 frees its names twice when memory runs out in it.
    t.file("more/a.ini", f"[upstream a]\nserver = {origin}\n")
    sluice, names = sluice_of(t, memory, origin)
    client = t.client(sluice)
    left = None

    def before():
        sluice.settings = f"state = {t.path('state')}\nerror_log = stderr"
        sluice.listener = ""
        return BEFORE.format(**names)

    def after():
        sluice.settings += f"\naccess_log = file:{t.path('access.log')}"
        sluice.settings += f"\nvia = ${{SLUICE_NO_SUCH:-here}}\ninclude = {t.path('more/a.ini')}"
        sluice.listener = f"bind = unix:{t.path('new.sock')}\nresponse_header_set = X-A: b"
        return AFTER.format(**names)

    def reload(sections):
        done = answer_of(sluice)
        sluice.reload(sections)
        return done()

    def probe():
        """Which site answers, what its limit has left, what is open and in the folder, what lives."""
        nonlocal left
        answer, last = client.ask("/"), left
        left = int(answer.get("RateLimit").partition("r=")[2].partition(";")[0])
        return {"site": answer.get("X-Is"), "spent": last - left,
                "files": settled(lambda: files(sluice), "files"),
                "folder": sorted(os.listdir(t.folder)) + sorted(os.listdir(t.path("state"))),
                "live": settled(memory.live, "memory")}

    def not_leaked(number, live, after_what):
        """What lives after many more such failures. What is kept for good when two threads happen to run at once (their
        stacks, spare blocks) does not grow with them."""
        for _ in range(MANY):
            memory.fail(number)
            took = reload(after())
            memory.fail(0)  # which it may not have reached: the next one is not to fail
            if took:
                true(reload(before()), "back to the first file")
            before()
        probe()  # what was admitted before that is forgotten
        true(soon(lambda: memory.live() < live + MANY), f"a block more for each time {after_what}")
        return settled(memory.live, "memory")

    # A few times, so that what is kept for good (the rows of counters, spare blocks) is there.
    for _ in range(4):
        true(reload(after()), "the other file is refused")
        true(reload(before()), "the first file is refused")
        client.ask("/")
    left = int(client.ask("/").get("RateLimit").partition("r=")[2].partition(";")[0])
    mine = probe()
    equal(mine["spent"], 1, "the limit counts")
    number, passed = 0, 0
    while passed < 3:
        number += 1
        memory.fail(number)
        took = reload(after())
        if not memory.has_failed():
            memory.fail(0)
            true(took, "a reload without a failure is refused")
            passed += 1
        elif took:
            t.note(f"allocation {number}: not needed")
        if took:
            true(reload(before()), "back to the first file")
            probe()  # what was admitted before that is forgotten
        after_what = f"after allocation {number} failed{' but it was taken' if took else ''}"
        if not soon(lambda: memory.live() <= mine["live"]):
            mine["live"] = not_leaked(number, memory.live(), after_what)
        until(lambda: files(sluice) == mine["files"], f"the same files {after_what}")
        found = probe()
        mine["live"] = min(mine["live"], found.pop("live"))
        for what, value in found.items():
            equal(value, mine[what], f"{what} {after_what}")
        before()
    t.note(f"{number} allocations")
    true(number > 80, f"only {number} allocations")


@test("binds that come and go under new names leave nothing behind, once their clients have left")
def binds(t):
    memory, origin = Memory(t), t.origin()
    sluice = t.sluice(to(origin), environment=memory.environment)

    def reload(number):
        sluice.sections = "\n".join([f"[listener extra-{number}]", f"bind = unix:{t.path(f'{number}.sock')}",
                                     to(origin)])
        done = answer_of(sluice)
        sluice.reload(sluice.sections)
        true(done(), "it is refused")
        equal(sorted(name for name in os.listdir(t.folder) if name.endswith(".sock")), [f"{number}.sock"], "sockets")

    def ask(number):
        client = t.client(f"unix:{t.path(f'{number}.sock')}")
        until(lambda: client.ask("/").status == 200, "an answer")
        return client

    def cycle(first):
        staying = []
        for number in range(first, first + 20):
            reload(number)
            staying.append(ask(number))
        for client in staying:
            equal(client.ask("/").status, 200, "a client of what is closed")
            client.close()
        for number in range(first + 20, first + 22):
            reload(number)
            ask(number).close()

    cycle(0)  # spare memory is kept, for as many clients as there were at once
    before = settled(memory.live, "memory")
    for number in range(3):
        cycle(100 * number + 100)
        until(lambda: memory.live() < before + 40, "what the binds took is free")


main()
