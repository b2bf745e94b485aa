"""Queues seen from outside: an upstream's pace and bounds, lanes, fairness between clients,
sessions' affinity to a server, and what a reload changes of them."""
import threading
import time

from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS, SANITIZER
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.workers import Barrier

# Lateness of the test's own threads in telling when something arrived.
SLACK = 0.2 if SANITIZER else 0.05


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


ROUTE = "session = header:X-Api-Key | ip\n"


# ---- pace --------------------------------------------------------------------------------------

@test("pace: no window at the origin holds more, and all are answered")
def pace(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, upstream="pace = 50 per 1s", route=ROUTE))
    began = time.monotonic()
    equal(all_answered(t, sluice, 20, 8), [200] * 160, "statuses")
    took = time.monotonic() - began
    times = arrivals(origin)
    gaps = [b - a for a, b in zip(times, times[50:])]
    t.note(f"160 requests in {took:.2f} s; the shortest time that 51 took: {min(gaps):.3f} s")
    equal(len(times), 160, "requests at the origin")
    true(most_in_window(times, 1 - SLACK) <= 50, f"{most_in_window(times, 1 - SLACK)} in a window")
    # Three windows, with the guard of a fiftieth and then some: it does not dawdle either.
    true(took < 3.5 + 10 * SLACK, f"{took} seconds")


@test("pace: a reload changes it, and what went still counts")
def pace_reload(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, upstream="pace = 20 per 2s", route=ROUTE))
    equal(all_answered(t, sluice, 4, 5), [200] * 20, "statuses")
    # Another upstream by name of file, the same by name: timeouts changed, so it is made anew.
    sluice.reload(to(origin, upstream="pace = 20 per 2s\nconnect_timeout = 7s", route=ROUTE))
    sluice.process.wait_output("reloaded", 1)
    equal(all_answered(t, sluice, 4, 5), [200] * 20, "statuses")
    true(most_in_window(arrivals(origin), 2 - SLACK) <= 20, "a window holds more than 20")
    # Only the pace is changed: the upstream stays.
    sluice.reload(to(origin, upstream="pace = 5 per 500ms\nconnect_timeout = 7s", route=ROUTE))
    sluice.process.wait_output("reloaded", 2)
    before = len(origin.requests)
    equal(all_answered(t, sluice, 4, 5), [200] * 20, "statuses")
    true(most_in_window(arrivals(origin)[before:], 0.5 - SLACK) <= 5, "a window holds more than 5")


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
        sluice.process.wait_output("what the limits of before left is freed", number)
    ended.set()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)


main()
