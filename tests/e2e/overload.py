"""An upstream that is offered more than it can take: who is shed, and the bound that finds itself."""
import threading
import time

from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS
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
    answers, origin, sluice = held_back(t, "shed_target = 200ms\nshed_interval = 100ms", 0.5)
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
    connections, others = 10, []

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
    return sorted(waits), sum(others)


@test("twice as many as the upstream can take: with shedding, those served are served in time")
def fresh(t):
    t.note("offered 200 a second for 2 s, at an upstream that takes less than 100 a second")
    most = {}
    for name, upstream in (("none", ""), ("200ms", "shed_target = 200ms\nshed_interval = 50ms")):
        waits, others = offer(t, upstream)
        most[name] = waits[-1]
        t.note(f"shed_target {name:>5}: served {len(waits):3}, shed {others:3}, their wait: median "
               f"{waits[len(waits) // 2] * 1000:5.0f} ms, 99 % {waits[len(waits) * 99 // 100] * 1000:5.0f} ms, "
               f"most {waits[-1] * 1000:5.0f} ms")
        equal(others == 0, not upstream, "some were shed")
    true(most["none"] > 0.8, "the load was no overload")
    true(most["200ms"] < 0.2 + LATE, f"a served one waited {most['200ms']:.3f} s")


main()
