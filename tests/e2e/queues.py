"""Queues seen from outside: an upstream's pace and bounds, lanes, fairness between clients,
sessions' affinity to a server, and what a reload changes of them."""
import os
import threading
import time

from lib.client import request_bytes
from lib.peers import Nginx
from lib.process import DEADLINE_SECONDS, SANITIZER, Lateness, kept_waiting_seconds, until
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.workers import Barrier, leave

def arrivals(origin):
    return sorted(x.arrived for x in origin.requests)


def most_in_window(times, seconds):
    """The most of `times` that any trailing window of that length holds."""
    most, first = 0, 0
    for last, moment in enumerate(times):
        while times[first] <= moment - seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


def lines(path):
    """Those that are whole."""
    with open(path, encoding="ascii") as text:
        return text.read().split("\n")[:-1]


def all_answered(t, sluice, clients, each):
    """Each client sends its requests in one go; returns the statuses."""
    statuses = []

    def one(number):
        client = t.client(sluice)
        client.send(b"".join(request_bytes("/", fields=[("X-Api-Key", f"client {number}")])
                             for _ in range(each)))
        statuses.extend([client.response().status for _ in range(each)])

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    return statuses


# Python's threads tell the time of an arrival late by this much, on a busy machine.
LATE = 0.5

ROUTE = "session = header:X-Api-Key | ip\n"


# ---- pace --------------------------------------------------------------------------------------

@test("pace: no window in a real nginx's access log holds more, and all are answered")
def pace_at_nginx(t):
    nginx = Nginx(t, "location / { return 200; }", "log_format pace '$msec';\naccess_log paced pace;")
    sluice = t.sluice(to(nginx.address, upstream="pace = 50 per 1s", route=ROUTE))
    with Lateness() as lateness:
        began = time.monotonic()
        equal(all_answered(t, sluice, 20, 10), [200] * 200, "statuses")
        took = time.monotonic() - began
        kept_waiting = kept_waiting_seconds(nginx.process.pid) + kept_waiting_seconds(sluice.pid)
    # An answer comes before its line.
    path = os.path.join(nginx.folder, "paced")
    until(lambda: len(lines(path)) >= 200, "a line for each request in nginx's log")
    nginx.end()
    times = sorted(float(line) for line in lines(path))
    gaps = [b - a for a, b in zip(times, times[50:])]
    t.note(f"200 requests in {took:.2f} s; 51 of them took {min(gaps):.3f} s at least; a thread here "
           f"woke up to {lateness.worst * 1000:.1f} ms late, nginx and sluice were kept waiting for "
           f"{kept_waiting * 1000:.1f} ms")
    equal(len(times), 200, "lines in nginx's log")
    # nginx writes milliseconds, and what its loop's clock says: as late as it came to run, or sluice
    # to send. What that is more than the guard of 20 ms (a fiftieth of the window) is not sluice's doing.
    late = max(lateness.worst, kept_waiting)
    window = max(0.001, 0.999 - max(0, late - 0.02))
    true(most_in_window(times, window) <= 50, f"{most_in_window(times, window)} in {window:.3f} s")
    # Three windows, each with the guard, and then the rest: it does not dawdle either. What a slow machine sends later
    # than the guard allows is charged once more, so twice the windows are not too many.
    true(took < 2 * 3 * 1.02 + 1 + 10 * lateness.worst, f"{took} seconds")


@test("pace: a reload changes it, and what went still counts")
def pace_reload(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, upstream="pace = 20 per 2s", route=ROUTE))
    with Lateness() as lateness:
        equal(all_answered(t, sluice, 4, 5), [200] * 20, "statuses")
        # Another upstream by name of file, the same by name: timeouts changed, so it is made again.
        sluice.reload(to(origin, upstream="pace = 20 per 2s\nconnect_timeout = 7s", route=ROUTE))
        sluice.process.wait_output("reloaded", 1)
        equal(all_answered(t, sluice, 4, 5), [200] * 20, "statuses")
    times = arrivals(origin)
    # The first twenty may have come late, each by as much; the others after two seconds all the same.
    true(times[20] - times[0] > 2 - LATE - lateness.worst, f"the 21st came {times[20] - times[0]} s later")
    # Only the pace is changed: the upstream stays.
    sluice.reload(to(origin, upstream="pace = 5 per 500ms\nconnect_timeout = 7s", route=ROUTE))
    sluice.process.wait_output("reloaded", 2)
    began = time.monotonic()
    equal(all_answered(t, sluice, 4, 5), [200] * 20, "statuses")
    true(time.monotonic() - began > 1.5, "20 at 5 per 500ms were served too soon")


# ---- lanes -------------------------------------------------------------------------------------

def order_of(t, listener, plans=""):
    """Three requests queued behind a first: normal, urgent, and least urgent; who came when."""
    gate = t.event()

    def handler(x):
        x.read_body()
        if x.request.target == "/first":
            gate.wait(DEADLINE_SECONDS)
        x.reply(200)

    origin = t.origin(handler)
    sluice = t.sluice(plans, to(origin, route="host = api.test\nordering = strict\n" + ROUTE),
                      listener=listener)
    wanted = [("/first", None), ("/plain", None), ("/urgent", "i, u=1"), ("/least", "u=7")]
    clients = [t.client(sluice) for _ in wanted]
    for client in clients:
        equal(client.ask("/", host="nowhere.test").status, 404, "status of a first request")
    barrier = Barrier(t, sluice, clients)
    for client, (target, priority) in zip(clients, wanted):
        fields = [("X-Api-Key", "one")] + ([("Priority", priority)] if priority else [])
        client.request(target, fields=fields)
        barrier.passed_by(client)
    gate.set()
    for client in clients:
        equal(client.response().status, 200, "status")
    return origin.targets()


@test("trust_priority: who is urgent goes first, unless not trusted or of a plan of the normal lane")
def priority(t):
    as_it_came = ["/first", "/plain", "/urgent", "/least"]
    plans = "[plans]\nkey = header:X-Api-Key\n[plan default]\nlane = {}\n"
    equal(order_of(t, "trust_priority = on"), ["/first", "/urgent", "/plain", "/least"], "trusted")
    equal(order_of(t, ""), as_it_came, "not trusted")
    equal(order_of(t, "trust_priority = on", plans.format("normal")), as_it_came, "normal plan")
    equal(order_of(t, "trust_priority = on", plans.format("high")), as_it_came, "high plan")


# ---- delays ------------------------------------------------------------------------------------

@test("on_exceed = delay: who waits for its limit has no place at the upstream meanwhile")
def delayed(t):
    origin = t.origin()
    limit = "[limit slow]\nkey = header:X-Api-Key\nrate = 1 per 4s\non_exceed = delay 1m\n"
    sluice = t.sluice(limit, to(origin, upstream="max_in_flight = 1",
                                route=ROUTE + "ordering = strict\nlimits = slow"))
    slow = t.client(sluice)
    began = time.monotonic()
    slow.send(b"".join(request_bytes(f"/slow/{n}", fields=[("X-Api-Key", "slow")]) for n in range(3)))
    equal(slow.response().status, 200, "status of the first")
    for number in range(20):
        equal(t.client(sluice).ask(f"/{number}", fields=[("X-Api-Key", f"other {number}")]).status, 200)
    others = time.monotonic() - began
    equal([slow.response().status for _ in range(2)], [200] * 2, "statuses")
    took = time.monotonic() - began
    t.note(f"20 others were served within {others:.2f} s, the third of the slow one after {took:.2f} s")
    true(took >= 8, "the limit held")
    equal([x for x in origin.targets() if "slow" in x], [f"/slow/{n}" for n in range(3)], "order")
    # All the others went while the second slow one waited.
    true(origin.targets().index("/slow/1") >= 21, f"{origin.targets()}")


# ---- idle sessions -----------------------------------------------------------------------------

def switches(pid):
    """Context switches of all its threads: each wake-up is one at least."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as status:
            total += sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)
    return total


@test("idle sessions wake nobody, however many")
def idle(t):
    if SANITIZER:
        t.skip("a sanitizer's own thread wakes up")
    count = 5000
    sluice = t.sluice(to(t.origin(), upstream="keepalive_timeout = 1h",
                         route=ROUTE + "session_idle_timeout = 10m"))
    client = t.client(sluice)
    for first in range(0, count, 10):
        client.send(b"".join(request_bytes("/", fields=[("X-Api-Key", str(first + n))]) for n in range(10)))
        for _ in range(10):
            equal(client.response().status, 200, "status")
    leave(sluice, client)

    def quiet():
        before = switches(sluice.pid)
        time.sleep(2)
        return switches(sluice.pid) == before
    # What the last request and the closing left to be done may take a moment, on a busy machine more than a second
    # after the last wake-up; then there is silence.
    until(quiet, "two seconds without any wake-up")


# ---- reload ------------------------------------------------------------------------------------

@test("what a reload's limits replace is freed once every worker has taken the new ones")
def collected(t):
    origin = t.origin()

    def sections(amount):
        return (f"[limit many]\nkey = ip\nrate = {amount} per 1h\n"
                + to(origin, upstream=f"pace = {amount} per 1s", route=ROUTE + "limits = many"))

    sluice = t.sluice(sections(100000), settings="log_level = debug")
    ended = threading.Event()

    def load():
        client = t.client(sluice)
        while not ended.is_set():
            equal(client.ask("/").status, 200, "status")

    threads = [threading.Thread(target=load, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, 6):
        sluice.reload(sections(100000 + number * 1000))
        sluice.process.wait_output("the memory of the previous limits is freed", number)
    ended.set()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)


main()
