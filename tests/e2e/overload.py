"""An upstream that is offered more than it can take: who is shed, and the bound that finds itself."""
import threading
import time

from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS, Lateness, kept_waiting_seconds
from lib.sluice import to
from lib.tap import equal, main, test, true

ROUTE = "host = api.test\nsession = header:X-Api-Key | ip\n"
# Python's threads tell the time of an arrival late by this much, on a busy machine.
LATE = 0.5


# ---- shedding ----------------------------------------------------------------------------------

def held_back(t, upstream, pause, count=6):
    """Requests of one client each, one at the origin, the others waiting for so long; the answers."""
    gate = t.event()

    def handler(x):
        gate.wait(DEADLINE_SECONDS)
        x.reply(200)

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream="max_in_flight = 1\n" + upstream, route=ROUTE))
    clients = [t.client(sluice) for _ in range(count)]
    for number, client in enumerate(clients):
        client.request("/", fields=[("X-Api-Key", str(number))])
        if number == 0:
            origin.wait_requests(1)
    time.sleep(pause)
    gate.set()
    return [client.response() for client in clients], origin, sluice


@test("shed_target: who waited longer under overload gets 503 at its turn, and the fresh are served")
def shed(t):
    answers, origin, sluice = held_back(t, "shed_target = 200ms\nshed_interval = 100ms", 2.5)
    equal([a.status for a in answers], [200] + [503] * 5, "statuses")
    for answer in answers[1:]:
        equal(answer.get("Content-Type"), "application/problem+json", "type")
        true(int(answer.get("Retry-After")) >= 1, "Retry-After")
    equal(len(origin.requests), 1, "requests at the origin")
    equal(t.client(sluice).ask("/").status, 200, "one that comes now")


@test("shed_target: who waited less is served, and all are without it")
def not_shed(t):
    for upstream in ("shed_target = 1h", "shed_target = 200ms\nshed_interval = 1h", ""):
        answers, _, _ = held_back(t, upstream, 0.5)
        equal([a.status for a in answers], [200] * 6, f"statuses with {upstream!r}")


def offer(t, upstream, per_second=200, seconds=2, service=0.01):
    """More than an origin of one at a time can take; (waits of those served, count of the others)."""
    waits = []

    def handler(x):
        waits.append(x.arrived - float(x.request.get("X-Sent")))
        time.sleep(service)
        x.reply(200)

    sluice = t.sluice(to(t.origin(handler), upstream="max_in_flight = 1\n" + upstream, route=ROUTE),
                      listener="pipeline_depth = 1000")
    connections, others = 100, []  # none waits behind another one of its connection

    def one(number):
        client = t.client(sluice)
        count = per_second * seconds // connections

        def read():
            others.append(sum(client.response().status != 200 for _ in range(count)))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        began = time.monotonic()
        for n in range(count):
            time.sleep(max(0, began + (n + number / connections) * connections / per_second
                           - time.monotonic()))
            client.send(request_bytes("/", fields=[("X-Api-Key", str(number)),
                                                   ("X-Sent", repr(time.monotonic()))]))
        reader.join(DEADLINE_SECONDS)

    threads = [threading.Thread(target=one, args=(n,), daemon=True) for n in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    equal(len(waits) + sum(others), per_second * seconds, "answers")
    return sorted(waits), sum(others), kept_waiting_seconds(sluice.pid)


@test("twice as many as the upstream can take: with shedding, those served are served in time")
def fresh(t):
    t.note("offered 200 a second for 2 s, at an upstream that takes less than 100 a second")
    most = {}
    for name, upstream in (("none", ""), ("200ms", "shed_target = 200ms\nshed_interval = 50ms")):
        with Lateness() as lateness:
            waits, others, kept_waiting = offer(t, upstream)
        most[name] = waits[-1]
        t.note(f"shed_target {name:>5}: served {len(waits):3}, shed {others:3}, their wait: median "
               f"{waits[len(waits) // 2] * 1000:5.0f} ms, 99 % {waits[len(waits) * 99 // 100] * 1000:5.0f} ms, "
               f"most {waits[-1] * 1000:5.0f} ms")
        equal(others == 0, not upstream, "some were shed")
    true(most["none"] > 0.8, "the load was no overload")
    late = LATE + 2 * lateness.worst + kept_waiting
    true(most["200ms"] < 0.2 + late, f"a served one waited {most['200ms']:.3f} s")


# ---- max_in_flight = auto ----------------------------------------------------------------------

CAPACITY = 10      # requests that the origin works on at once; more wait there
SERVICE = 0.02     # seconds for each
ASKING = 50        # clients that ask again and again
SECONDS = 6


class Busy:
    """An origin that is as fast for ten at once as for one, and slower beyond."""

    def __init__(self, t):
        self.places = threading.Semaphore(CAPACITY)
        self.lock = threading.Lock()
        self.here = 0
        self.seen = []  # (time, how many were here when one came, its latency)
        self.origin = t.origin(self._handle)

    def _handle(self, x):
        with self.lock:
            self.here += 1
            here = self.here
        with self.places:
            time.sleep(SERVICE)
        with self.lock:
            self.here -= 1
            self.seen.append((x.arrived, here, time.monotonic() - x.arrived))
        x.reply(200)


def ask_for(t, upstream, seconds=SECONDS):
    """Many clients for so long. In the second half: (mean, most) at the origin, mean latency there."""
    busy = Busy(t)
    sluice = t.sluice(to(busy.origin, upstream=upstream, route=ROUTE))
    began = time.monotonic()

    def one(number):
        client = t.client(sluice)
        while time.monotonic() < began + seconds:
            equal(client.ask("/", fields=[("X-Api-Key", str(number))]).status, 200, "status")

    threads = [threading.Thread(target=one, args=(n,), daemon=True) for n in range(ASKING)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    late = [(here, latency) for at, here, latency in busy.seen if at > began + seconds / 2]
    mean = sum(here for here, _ in late) / len(late)
    latency = sum(latency for _, latency in late) / len(late)
    t.note(f"{upstream.replace(chr(10), ', ') or 'no bound':75} at the origin {mean:4.1f}, at most "
           f"{max(here for here, _ in late):2}; {latency * 1000:3.0f} ms; {len(late) / seconds * 2:3.0f}/s")
    return mean, max(here for _, here, _ in busy.seen), latency, len(late)


@test("max_in_flight = auto: finds the region in which the upstream is not slower yet", workers=[4])
def auto(t):
    t.note(f"{ASKING} clients at an origin that works on {CAPACITY} at once, {SERVICE * 1000:.0f} ms each")
    none, _, none_latency, none_count = ask_for(t, "")
    mean, _, latency, count = ask_for(t, "max_in_flight = auto\nmax_in_flight_floor = 2")
    true(none > 0.7 * ASKING, f"the control had {none} at the origin: no overload")
    # The rule settles where bound = 1.25 * capacity + sqrt(bound): at 17.
    true(CAPACITY * 0.7 < mean < CAPACITY * 3, f"{mean} at the origin")
    true(latency < none_latency * 0.8, f"{latency} s with it, {none_latency} s without")
    true(count > none_count * 0.6, f"{count} served with it, {none_count} without")


@test("max_in_flight = auto: never over its ceiling, nor under its floor", workers=[4])
def auto_bounds(t):
    _, most, _, _ = ask_for(t, "max_in_flight = auto\nmax_in_flight_floor = 1\nmax_in_flight_ceiling = 6", 2)
    true(most <= 6, f"{most} at the origin")
    _, most, _, _ = ask_for(t, "max_in_flight = auto\nmax_in_flight_floor = 30\nmax_in_flight_ceiling = 40", 3)
    true(30 <= most <= 40, f"{most} at the origin")


main()
