"""Pipelined requests: one that waits for those before it on its connection holds nothing that they,
or anybody else, may need: no place at the upstream, none of its session's."""
import itertools
import threading
import time

from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.workers import Barrier

# The first of a caller passes its limit, the next is delayed.
LIMIT = "[limit slow]\nkey = header:X-Slow\nrate = 1 per 100ms\non_exceed = delay 30s\n"
QUEUE_TIMEOUT = "queue_timeout = 5s\n"


def get(target, slow=None, method="GET", key="one", priority="u=3"):
    """Requests of the same `slow` delay each other."""
    fields = [("X-Api-Key", key), ("X-Slow", slow or target), ("Priority", priority)]
    return request_bytes(target, method, fields, b"x" if method == "POST" else None)


def proxy(t, origin, upstream, route, listener=""):
    return t.sluice(LIMIT, to(origin, upstream=upstream,
                              route="host = api.test\nsession = header:X-Api-Key\nlimits = slow\n"
                              + QUEUE_TIMEOUT + route), listener=listener)


@test("a delayed request and one behind it end, with one place at the upstream")
def delayed_first(t):
    sluice = proxy(t, t.origin(), "max_in_flight = 1", "ordering = none")
    client = t.client(sluice)
    for number in range(3):
        client.send(get(f"/a{number}", "a") + get(f"/b{number}"))
        equal([client.response().status for _ in range(2)], [200, 200], f"statuses of round {number}")


@test("a slow answer holds its own place, not those of the requests behind it")
def one_place(t):
    gate = t.event()

    def handler(x):
        if x.request.target == "/slow":
            gate.wait(DEADLINE_SECONDS)
        x.reply(200, x.request.target.encode())

    origin = t.origin(handler)
    sluice = proxy(t, origin, "max_in_flight = 2", "ordering = none\nsession_in_flight = 2")
    client, other = t.client(sluice), t.client(sluice)
    client.send(get("/slow") + get("/1") + get("/2") + get("/3"))
    origin.wait(lambda: origin.targets() == ["/slow"], "the slow one")
    # The other place, of upstream and session, is free all the time.
    for number in range(5):
        other.send(get(f"/other/{number}"))
        equal(other.response().status, 200, "status of the other connection's")
    equal(origin.targets(), ["/slow"] + [f"/other/{n}" for n in range(5)], "what the origin has seen")
    gate.set()
    equal([client.response().body for _ in range(4)], [b"/slow", b"/1", b"/2", b"/3"], "answers")


@test("the order of a session is that of its requests, though those behind others have no place yet")
def order_is_kept(t):
    gate = t.event()

    def handler(x):
        x.read_body()
        if x.request.target == "/1":
            gate.wait(DEADLINE_SECONDS)
        x.reply(200)

    origin = t.origin(handler)
    sluice = proxy(t, origin, "", "ordering = strict")
    pipelining, other = t.client(sluice), t.client(sluice)
    barrier = Barrier(t, sluice, [pipelining, other])
    pipelining.send(get("/1") + get("/2", method="POST"))
    barrier.passed_by(pipelining)
    other.send(get("/3", method="POST"))
    barrier.passed_by(other)
    gate.set()
    equal([pipelining.response().status for _ in range(2)], [200, 200], "statuses")
    equal(other.response().status, 200, "status")
    equal(origin.targets(), ["/1", "/2", "/3"], "order")


def schedule(t, sluice, seed):
    """Two connections of two clients, with pipelined requests; all must be answered."""
    random, answers, clients = t.random, [], []
    for number in range(2):
        data, count = b"", random.randint(2, 5)
        for n in range(count):
            data += get(f"/{seed}/{number}/{n}", random.choice([None, None, f"{seed}-0", f"{seed}-1"]),
                        random.choice(["GET", "GET", "POST"]), random.choice(["one", "one", "two"]),
                        random.choice(["u=1", "u=3", "u=7"]))
        client = t.client(sluice)
        clients.append((client, count))
        client.send(data)
    for client, count in clients:
        answers += [client.response().status for _ in range(count)]
        client.close()
    return answers


@test("pipelining x delay x bounds x ordering x priorities: all are answered, none by a timeout")
def all_are_answered(t):
    origin = t.origin()
    walked = 0
    for places, own, ordering in itertools.product((1, 2), (0, 1), ("none", "writes", "strict")):
        bound = f"session_in_flight = {own}\n" if own else ""
        sluice = proxy(t, origin, f"max_in_flight = {places}", f"ordering = {ordering}\n{bound}",
                       listener="trust_priority = on")
        results, threads = [], []
        for seed in range(6):
            thread = threading.Thread(target=lambda n=seed: results.append(schedule(t, sluice, n)), daemon=True)
            threads.append(thread)
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
        equal(len(results), 6, f"{places} {own} {ordering}: schedules that ended")
        statuses = sorted(status for answers in results for status in answers)
        true(set(statuses) == {200}, f"{places} {own} {ordering}: {statuses}")
        walked += len(statuses)
        sluice.end()
    t.note(f"{walked} requests")


def lines_in(path):
    with open(path, "rb") as log:
        return log.read().count(b"\n")


def logged(path, count):
    """Has sluice given so many responses to the system? Not when its client takes no more."""
    end = time.monotonic() + 3
    while lines_in(path) < count and time.monotonic() < end:
        time.sleep(0.002)
    return lines_in(path) >= count


@test("a request behind a response that its client does not take is sent when that is taken")
def not_sent(t):
    def handler(x):
        x.read_body()
        if x.request.target == "/never":
            x.stream.read_to_any_end()
        else:
            x.reply(200, b"late" if x.request.target == "/late" else b"x" * 12_000)

    log = t.path("access.log")
    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream="first_byte_timeout = 5s\nmax_fails = 0"),
                      settings=f"access_log = file:{log}")
    client = t.client(sluice, receive_buffer=4096)
    sent = 0
    while sent == 0 or logged(log, sent):
        client.send(request_bytes(f"/{sent}"))
        sent += 1
        origin.wait_requests(sent)
    client.send(request_bytes("/late", "POST", body=b"body"))
    equal(t.client(sluice).ask("/never").status, 504, "status when first_byte_timeout has passed")
    equal(origin.targets().count("/late"), 0, "requests behind a response that is not read")
    equal([client.response().status for _ in range(sent)], [200] * sent, "statuses before it")
    equal(client.response().body, b"late", "the response of the last")


main()
