#!/usr/bin/env python3
"""usage: what callers used of each limit, for invoices; kept over restarts, crashes and upgrades."""
import csv
import io
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import process
from lib.admin import Admin, with_admin
from lib.chain import Chain
from lib.process import BINARY, Port, until
from lib.sluice import Sluice, to
from lib.tap import equal, group, main, test, true

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
                      "?format=xml", "?from=2026-11-22x"):
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
    port.release()
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
    port.release()
    admin = Admin(f"127.0.0.1:{port.number}")
    origin = t.origin(lambda x: x.reply(200))
    chain = Chain(t, f"[admin]\nbind = {admin.address}\n" + LIMITS.replace("5 per", "5000 per") +
                  to(origin, route=ROUTE), settings=settings(t, "1h"))
    ask(t.client(chain.sluice), "ann", 7)
    chain.replace()
    ask(t.client(chain.sluice), "ann", 5)
    equal(chain.ended(chain.pids.pop(0)), 0, "exit status")
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
