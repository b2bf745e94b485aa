#!/usr/bin/env python3
"""usage: what callers used of each limit, for invoices; kept over restarts, crashes and upgrades."""
import csv
import datetime
import io
import json
import os
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import process
from lib.admin import Admin, whole_content, with_admin
from lib.chain import Chain
from lib.process import BINARY, SANITIZER, Port, find_library, until
from lib.sluice import Sluice, to
from lib.tap import equal, group, main, test, true
from lib.wire import dial

LIMITS = ("[limit calls]\nkey = header:X-Key\nrate = 5 per 1h\n"
          "[limit tried]\nkey = header:X-Key\nrate = 2 per 1h\nmode = shadow\n")
ROUTE = "limits = calls, tried"


def settings(t, interval="1s", more=""):
    folder = t.path("state")
    os.makedirs(folder, exist_ok=True)
    return f"state = {folder}\nusage = {interval}\n{more}"


def sums(admin, query=""):
    """{(limit, caller): (admitted, refused)}"""
    status, answer = admin.json("/api/v1/usage" + query)
    equal(status, 200, answer)
    return {(row["limit"], row["caller"]): (row["admitted"], row["refused"]) for row in answer["usage"]}


def hash_of(admin, key, limit="calls"):
    found = admin.json(f"/api/v1/callers?key={key}&limit={limit}")[1]["limits"]
    return found[0]["caller"]


def ask(client, key, count):
    for _ in range(count):
        client.ask("/", fields=[("X-Key", key)])


@group("counts are what limits admitted and refused, by caller")
def counts(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, LIMITS + to(origin, route=ROUTE), settings=settings(t))
    clients = [t.client(sluice) for _ in range(4)]
    for n, client in enumerate(clients):
        ask(client, "ann", 2 + (n == 0))
    ask(clients[0], "bob", 3)
    expected = {("calls", hash_of(admin, "ann")): (5, 4), ("calls", hash_of(admin, "bob")): (3, 0),
                ("tried", hash_of(admin, "ann", "tried")): (5, 0), ("tried", hash_of(admin, "bob", "tried")): (3, 0)}

    with t.point("within an interval; a limit in shadow mode counts what was served"):
        until(lambda: sums(admin) == expected, "the counts", pause=0.05)
    with t.point("CSV, with the same"):
        status, fields, content = admin.ask("/api/v1/usage?format=csv")
        equal((status, fields["content-type"]), (200, "text/csv; charset=utf-8; header=present"))
        rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
        equal({(row["limit"], row["caller"]): (int(row["admitted"]), int(row["refused"])) for row in rows}, expected)
        equal(rows, sorted(rows, key=lambda row: (row["limit"], row["caller"])), "order")
    with t.point("spans"):
        today = time.strftime("%Y-%m-%d", time.gmtime())
        equal(sums(admin, f"?from={today}"), expected)
        equal(sums(admin, f"?from={today}T00:00:00Z&to=2100-01-01"), expected)
        equal(sums(admin, "?from=2001-02-03&to=2001-02-04T05:00Z"), {})
        for query in ("?from=yesterday", "?from=2026-11-22T09:30", "?to=2001-01-01", "?from=2026-13-01",
                      "?format=xml", "?from=2026-11-22x", "?from=2026-02-31", "?from=2025-02-29T00",
                      "?from=2026-11-1", "?from=2026-%201-11", "?from=2026-11-22T24", "?from=1999-12-31"):
            equal(admin.ask("/api/v1/usage" + query)[0], 400, query)
    with t.point("the command"):
        status, output = process.run([BINARY, "usage", "--admin", f"http://{admin.address}"])
        true(status == 0 and "ADMITTED" in output and hash_of(admin, "ann") in output, output)
        status, output = process.run([BINARY, "usage", "2001-01-01", "2100-01-01", "--csv", "--admin",
                                      f"http://{admin.address}"])
        equal((status, len(output.splitlines())), (0, 5), output)
        equal(process.run([BINARY, "usage", "x", "--admin", f"http://{admin.address}"])[0], 1)
    with t.point("a reload goes on counting"):
        sluice.reload(sluice.sections.replace("5 per 1h", "6 per 1h"))
        sluice.process.wait_output(": reloaded")
        ask(clients[1], "ann", 2)
        expected["calls", hash_of(admin, "ann")] = (6, 5)
        expected["tried", hash_of(admin, "ann", "tried")] = (6, 0)
        until(lambda: sums(admin) == expected, "the counts after it", pause=0.05)


@test("what an interval wrote survives kill -9, and a stop loses nothing", workers=[2])
def survives(t):
    origin = t.origin(lambda x: x.reply(200))
    port = Port()
    t.defer(port.release)
    admin = Admin(f"127.0.0.1:{port.number}")
    sections = f"[admin]\nbind = {admin.address}\n" + LIMITS.replace("5 per", "5000 per") + to(origin, route=ROUTE)

    def start():
        sluice = t.sluice(sections, settings=settings(t))
        sluice.process.wait_output("sluice is ready")
        return sluice

    def admitted():
        return sum(row[0] for (limit, _), row in sums(admin).items() if limit == "calls")
    first = start()
    ask(t.client(first), "ann", 30)
    until(lambda: admitted() == 30, "what is written", pause=0.05)
    first.ended = True
    first.process.kill()
    folder = os.path.join(t.path("state"), "usage")
    (name,) = os.listdir(folder)
    with open(os.path.join(folder, name), "a", encoding="ascii") as file:
        file.write("0123456789abcdef 99999 0 call")  # as a crash leaves it, or a full disk
    second = start()
    equal(admitted(), 30, "after the crash")
    ask(t.client(second), "ann", 12)
    second.terminate()
    equal(second.wait(), 0, "exit status")
    third = start()
    equal(admitted(), 42, "after the stop")
    equal({limit for limit, _ in sums(admin)}, {"calls", "tried"}, "limits: what was torn is no row of another one")
    ask(t.client(third), "ann", 1)
    until(lambda: admitted() == 43, "what is written", pause=0.05)


@test("an upgrade loses nothing", workers=[2])
def upgrade(t):
    port = Port()
    t.defer(port.release)
    admin = Admin(f"127.0.0.1:{port.number}")
    origin = t.origin(lambda x: x.reply(200))
    chain = Chain(t, f"[admin]\nbind = {admin.address}\n" + LIMITS.replace("5 per", "5000 per") +
                  to(origin, route=ROUTE), settings=settings(t, "1h"))
    ask(t.client(chain.sluice), "ann", 7)
    chain.replace()
    # Only then no connection reaches the old one, which serves those that it had accepted.
    equal(chain.ended(chain.pids.pop(0)), 0, "exit status")
    ask(t.client(chain.sluice), "ann", 5)
    equal([row for (limit, _), row in sums(admin).items() if limit == "calls"], [(7, 0)], "the old one's")
    chain.end()
    total = 0
    folder = os.path.join(t.path("state"), "usage")
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file if line.split()[3] == "calls")
    equal(total, 12, "both")


@test("the oldest hours go when the files are larger than usage_size", workers=[1])
def bounded(t):
    text = settings(t, more="usage_size = 1M\n")
    folder = os.path.join(t.path("state"), "usage")
    os.makedirs(folder)
    for hour in ("2001020304", "2001020305", "2001020306"):
        with open(os.path.join(folder, hour), "w", encoding="ascii") as file:
            file.write("0123456789abcdef 1 0 calls\n" * 20000)
    with open(os.path.join(folder, "other"), "w", encoding="ascii") as file:
        file.write("x" * 2000000)
    sluice, admin = with_admin(t, LIMITS + to(t.origin(), route=ROUTE), settings=text)
    sluice.process.wait_output("usage: the oldest 2 hours are removed")
    equal(sorted(os.listdir(folder)), ["2001020306", "other"], "what is left")
    equal(sums(admin, "?from=2001-02-03&to=2001-02-04"), {("calls", "0123456789abcdef"): (20000, 0)})


@test("what was used in an hour is counted in it, however long the interval", workers=[1])
def dated(t):
    library = find_library("faketime/libfaketime.so.1")
    if not library or SANITIZER:
        t.skip("libfaketime is not installed" if not SANITIZER else "libfaketime and a sanitizer")
    # Five seconds before December.
    shift = round(datetime.datetime(2026, 11, 30, 23, 59, 55, tzinfo=datetime.timezone.utc).timestamp() - time.time())
    sluice, admin = with_admin(t, LIMITS.replace("5 per", "5000 per") + to(t.origin(lambda x: x.reply(200)), route=ROUTE),
                               settings=settings(t, "1h"), environment={
                                   "LD_PRELOAD": library, "FAKETIME": f"{shift:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    client, folder = t.client(sluice), os.path.join(t.path("state"), "usage")
    ask(client, "ann", 1)
    # Its file is written when the hour ends.
    until(lambda: os.listdir(folder), "the hour's file", pause=0.05)
    ask(client, "ann", 2)
    sluice.terminate()
    sluice.wait()
    counts = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="ascii") as file:
            counts[name] = sum(int(line.split()[1]) for line in file if line.endswith(" calls\n"))
    equal(counts, {"2026113023": 1, "2026120100": 2}, "by hours")


@test("an hour that is itself as large as usage_size counts callers together from then on", workers=[2])
def full_hour(t):
    text = settings(t, more="usage_size = 1M\n")
    folder = os.path.join(t.path("state"), "usage")
    os.makedirs(folder)
    hour_now = lambda: time.strftime("%Y%m%d%H", time.gmtime())
    hour = hour_now()
    with open(os.path.join(folder, hour), "w", encoding="ascii") as file:
        file.write("0123456789abcdef 1 0 calls\n" * 40000)
    sluice, admin = with_admin(t, LIMITS + to(t.origin(lambda x: x.reply(200)), route=ROUTE), settings=text)
    client = t.client(sluice)
    for key in range(3):
        ask(client, f"flood{key}", 6)
    together = ("calls", "0" * 16), ("tried", "0" * 16)
    are_there = lambda: [sums(admin).get(row) for row in together] == [(15, 3), (15, 0)]
    until(lambda: hour_now() != hour or are_there(), "the rows of all", pause=0.05)
    if hour_now() == hour:  # else the next one's file was new
        equal(len(sums(admin)), 3, "rows")
        sluice.process.wait_output("usage: the file of this hour alone has reached usage_size")


@test("a folder that can't be written: a line in the log, and service goes on", workers=[1])
def unwritable(t):
    sluice, _admin = with_admin(t, LIMITS + to(t.origin(lambda x: x.reply(200)), route=ROUTE), settings=settings(t))
    folder = os.path.join(t.path("state"), "usage")
    os.rename(folder, folder + ".away")
    with open(folder, "w", encoding="ascii"):
        pass
    client = t.client(sluice)
    equal(client.ask("/", fields=[("X-Key", "a")]).status, 200)
    sluice.process.wait_output("can't be written, ")
    equal(client.ask("/", fields=[("X-Key", "a")]).status, 200)
    os.remove(folder)
    os.rename(folder + ".away", folder)
    client.ask("/", fields=[("X-Key", "a")])
    sluice.process.wait_output("is written again")


def files(t, **texts):
    """The settings, with files of 2001-02-03 by their hours; a number is a file of so many bytes without a row."""
    folder = os.path.join(t.path("state"), "usage")
    text = settings(t, "1h", "usage_size = 1000000G\n")
    os.makedirs(folder)
    for hour, content in texts.items():
        with open(os.path.join(folder, "20010203" + hour[1:]), "w", encoding="ascii") as file:
            if isinstance(content, int):
                file.truncate(content)
            else:
                file.write(content)
    return text


def begin(admin, query):
    """A connection that has asked for usage, and reads nothing."""
    sock = dial(admin.address)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # the kernel keeps less than the answer
    sock.sendall(f"GET /api/v1/usage{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return sock


ALL = "?from=2001-02-03&to=2001-02-04"
FIRST = "?from=2001-02-03T00&to=2001-02-03T01"
# A hole that takes longer to read than any test: until then, the question is not answered.
HOLE = 1 << 42
ROWS = "".join(f"{n:016x} 1 0 calls\n" for n in range(1, 300001))


@group("a question whose files are read for long holds up no other request", workers=[1])
def held_by_files(t):
    text = files(t, h00="0123456789abcdef 7 0 calls\n", h01=HOLE)
    sluice, admin = with_admin(t, LIMITS + to(t.origin(), route=ROUTE), settings=text)
    one, two = begin(admin, ALL), begin(admin, ALL)
    is_full = lambda: admin.ask("/api/v1/usage" + FIRST)[0] == 503
    until(is_full, "both to be read", pause=0.01)

    with t.point("health, metrics and what callers do are answered meanwhile"):
        equal(admin.ask("/healthz")[0], 200)
        admin.metrics()
        equal(admin.json("/api/v1/callers?key=ann&limit=calls")[0], 200)
    with t.point("one more is refused with the time to retry after"):
        status, fields, content = admin.ask("/api/v1/usage" + FIRST)
        equal((status, fields["retry-after"]), (503, "10"), content)
        equal(admin.ask("/api/v1/usage?from=never")[0], 400, "a wrong one")
    with t.point("a client that leaves frees its place, though nothing was sent to it"):
        one.close()
        until(lambda: not is_full(), "a free place", pause=0.01)
        equal(sums(admin, FIRST), {("calls", "0123456789abcdef"): (7, 0)})
    with t.point("a reload leaves it alone"):
        sluice.reload(sluice.sections.replace("5 per 1h", "6 per 1h"))
        sluice.process.wait_output(": reloaded")
        one = begin(admin, ALL)
        until(is_full, "both to be read", pause=0.01)
    with t.point("a stop does not wait for it"):
        sluice.terminate()
        equal(sluice.wait(), 0, "exit status")
    for sock in (one, two):
        equal(sock.recv(65536)[:12] in (b"", b"HTTP/1.1 503"), True, "the answer")
        sock.close()


class Reader:
    """A client that reads its answer as slowly as it likes."""

    def __init__(self, admin, query):
        self.sock = begin(admin, query)
        self.answer = b""

    def read(self, most):
        """False when no more will come."""
        try:
            part = self.sock.recv(most)
        except ConnectionError:
            return False
        self.answer += part
        return bool(part) and not self.answer.endswith(b"\r\n0\r\n\r\n")

    def rows(self):
        """Of the whole answer; None when it was cut."""
        while self.read(1 << 20):
            pass
        if not self.answer.endswith(b"\r\n0\r\n\r\n"):
            return None
        return json.loads(whole_content(self.answer.partition(b"\r\n\r\n")[2]))["usage"]


@group("clients that hardly read their answers hold up no other request", workers=[1])
def held_by_clients(t):
    sluice, admin = with_admin(t, LIMITS + to(t.origin(), route=ROUTE), settings=files(t, h00=ROWS, h01="\n"))
    empty = "/api/v1/usage?from=2001-02-03T01&to=2001-02-03T02"
    begun = time.monotonic()
    both = [Reader(admin, FIRST) for _ in range(2)]
    for reader in both:
        reader.read(12)
        equal(reader.answer, b"HTTP/1.1 200")

    with t.point("health is answered meanwhile"):
        equal(admin.ask("/healthz")[0], 200)
    with t.point("a third question is refused while they have time to read"):
        status = admin.ask(empty)[0]
        true(status == 503 or time.monotonic() - begun >= 5, status)
    with t.point("one that only drips loses its place to the next question"):
        def is_served():
            for reader in both:
                reader.read(4096)  # libmicrohttpd itself cuts those that read much less
            return admin.ask(empty)[0] == 200
        until(is_served, "an answer to the third", pause=0.05)
    with t.point("the other one has it all"):
        rows = sorted((reader.rows() for reader in both), key=bool)
        equal(rows[0], None, "the answer that was cut")
        equal(rows[1], [{"limit": "calls", "caller": f"{n:016x}", "admitted": 1, "refused": 0} for n in range(1, 300001)])
    with t.point("a client that leaves frees its place"):
        for sock in [begin(admin, FIRST) for _ in range(2)] + [reader.sock for reader in both]:
            sock.close()
        until(lambda: admin.ask(empty)[0] == 200, "a free place", pause=0.01)
    with t.point("one without a file is empty"):
        equal(sums(admin, "?from=2001-02-05&to=2001-02-06"), {})
    with t.point("a stop does not wait for a client that reads nothing"):
        begin(admin, FIRST).recv(12, socket.MSG_PEEK)
        sluice.terminate()
        equal(sluice.wait(), 0, "exit status")


@test("an export that is too large says so; a malformed row is not counted", workers=[1])
def too_much(t):
    limits = "".join(f"0123456789abcdef 1 0 limit{n}\n" for n in range(4097))
    rows = "".join(f"{n:016x} 1 0 calls\n" for n in range(1000001))
    torn = "0123456789abcdef 1 0 calls\n-123456789abcdef 5 0 calls\n0123456789abcdef -5 0 calls\n"
    _sluice, admin = with_admin(t, LIMITS + to(t.origin(), route=ROUTE),
                                settings=files(t, h00=limits, h01=rows, h02=torn))
    for hour, words in ((0, "4096 limits"), (1, "a million rows")):
        status, problem = admin.json(f"/api/v1/usage?from=2001-02-03T0{hour}&to=2001-02-03T0{hour + 1}")
        true(status == 422 and words in problem["detail"], problem)
    equal(sums(admin, "?from=2001-02-03T02&to=2001-02-03T03"), {("calls", "0123456789abcdef"): (1, 0)})


@test("off: nothing is kept and the question says so; without a state folder it is an error", workers=[1])
def off(t):
    sluice, admin = with_admin(t, LIMITS + to(t.origin(), route=ROUTE), settings=f"state = {t.path('state')}")
    equal(admin.ask("/api/v1/usage")[0], 404)
    true(not os.path.exists(os.path.join(t.path("state"), "usage")), "there is a folder")
    for text, why in (("usage = 10s", "usage needs a folder"), (settings(t, "10ms"), "usage is below 1s")):
        wrong = Sluice(t.folder, LIMITS + to("127.0.0.1:1"), settings=text)
        wrong.write_ini()
        status, output = process.run([BINARY, "check", "-c", wrong.ini_path])
        true(status == 1 and why in output, output)
        wrong.port.release()


main()
