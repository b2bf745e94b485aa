"""Bounds of a queue: depth, bytes and times, what is left of a client that leaves, and bodies that wait."""
import json
import threading
import time

from lib.client import request_bytes
from lib.held import ROUTE, Held, ask, scene
from lib.problem import problem
from lib.process import DEADLINE_SECONDS
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.wire import quiet
from lib.workers import Barrier, leave


@test("queue_depth: what is beyond gets 503 with Retry-After, what is within is served")
def queue_depth(t):
    held, clients, _ = scene(t, "strict\nqueue_depth = 3", [f"POST /{n}" for n in range(6)])
    for client in clients[4:]:
        answer = client.response()
        problem(answer, 503)
        true(int(answer.get("Retry-After")) >= 1, "Retry-After")
    held.let(*[f"/{n}" for n in range(6)])
    for client in clients[:4]:
        equal(client.response().status, 200, "status")
    equal(held.origin.targets(), ["/0", "/1", "/2", "/3"], "targets")


def head_of(kilobytes):
    return "x" * 1000 + "".join(f"\r\nX-{n}: {'y' * 990}" for n in range(kilobytes - 1))


@test("Retry-After of a full queue is what it takes to drain, by its own rate")
def drain_rate(t):
    def handler(x):
        x.read_body()
        time.sleep(0.05)
        x.reply(200)

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, route=ROUTE.format("strict") + "queue_depth = 20"),
                      listener="pipeline_depth = 100")
    client, other = t.client(sluice), t.client(sluice)
    fields = [("X-Api-Key", "one")]
    client.send(b"".join(request_bytes("/", "POST", fields) for _ in range(21)))
    for _ in range(15):  # so many were served, at the rate that it learns
        equal(client.response().status, 200, "status")
    client.send(b"".join(request_bytes("/", "POST", fields) for _ in range(15)))
    origin.wait_requests(17)
    answers = []
    while not answers or answers[-1].status == 200:
        other.request("/", "POST", fields)
        if quiet(other, 0.01):
            other = t.client(sluice)  # that one waits in the queue
        else:
            answers.append(other.response())
    times = sorted(x.arrived for x in origin.requests)
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]
    told_ms = json.loads(answers[-1].body)["retry-after-ms"]
    told = told_ms / 1000
    # The rate is that of the last ones; on a busy machine these may be slower or faster than all.
    t.note(f"20 queued, one each {min(gaps) * 1000:.0f} to {max(gaps) * 1000:.0f} ms: told {told:.2f} s")
    true(10 * min(gaps) < told < 40 * max(gaps), f"told {told} s")
    equal(answers[-1].get("Retry-After"), str(-(-told_ms // 1000)), "whole seconds, rounded up")


@test("queue_bytes: what a session's waiting requests hold in memory is bounded, heads and bodies")
def queue_bytes(t):
    held = Held(t)
    sluice = t.sluice(to(held.origin, route=ROUTE.format("strict") + "queue_bytes = 64k"),
                      listener="max_header_size = 64k", settings="buffer_size = 16k")
    clients = [t.client(sluice) for _ in range(12)]
    for client in clients:
        client.ask("/", host="nowhere.test")
    barrier = Barrier(t, sluice, clients)

    def send(client, number, key, kilobytes=1, body=None):
        client.request(f"/{number}", "POST", [("X-Api-Key", key), ("X-Big", head_of(kilobytes))], body)
        barrier.passed_by(client)

    send(clients[0], 0, "one")
    held.here("/0")
    # Small ones: a few kilobytes each.
    for number in range(1, 4):
        send(clients[number], number, "one")
    # One of 30 kB, and no room for another beside it; nor for one with a body, whose block counts.
    send(clients[4], 4, "one", 30)
    send(clients[5], 5, "one", 30)
    send(clients[6], 6, "one", 1, b"z" * 15000)
    for client in clients[5:7]:
        answer = client.response()
        problem(answer, 503)
        true(int(answer.get("Retry-After")) >= 1, "Retry-After")
    # Another client has its own bound, and what goes at once is not counted.
    held.let("/7")
    send(clients[7], 7, "two", 60)
    equal(clients[7].response().status, 200, "status of another session's")
    held.let("/0", "/1", "/2", "/3", "/4")
    for client in clients[:5]:
        equal(client.response().status, 200, "status")
    # What went has made room.
    held.let("/8", "/9")
    send(clients[8], 8, "one", 30)
    send(clients[9], 9, "one", 30)
    for client in clients[8:10]:
        equal(client.response().status, 200, "status")


@test("queue_total_bytes: over all sessions")
def queue_total_bytes(t):
    held = Held(t)
    sluice = t.sluice(to(held.origin, upstream="max_in_flight = 1", route=ROUTE.format("writes")),
                      listener="max_header_size = 64k", settings="queue_total_bytes = 110k")
    clients = [t.client(sluice) for _ in range(8)]
    for client in clients:
        client.ask("/", host="nowhere.test")
    barrier = Barrier(t, sluice, clients)
    for number, client in enumerate(clients):
        client.request(f"/{number}", fields=[("X-Api-Key", f"client {number}"), ("X-Big", head_of(20))])
        barrier.passed_by(client)
    # The first went on; four of more than 20 kB wait; the rest had no room.
    for client in clients[5:]:
        answer = client.response()
        problem(answer, 503)
        true(int(answer.get("Retry-After")) >= 1, "Retry-After")
    held.let(*[f"/{n}" for n in range(8)])
    for client in clients[:5]:
        equal(client.response().status, 200, "status")


@test("queue_timeout: 503, and never sent on; the others go on")
def queue_timeout(t):
    held, clients, sluice = scene(t, "strict\nqueue_timeout = 300ms", ["POST /1", "POST /2", "POST /3"])
    held.here("/1")
    for client in clients[1:]:
        problem(client.response(), 503)
    held.let("/1")
    equal(clients[0].response().status, 200, "status")
    held.let("/4")
    after = t.client(sluice)
    ask(after, "POST /4")
    equal(after.response().status, 200, "status")
    equal(held.origin.targets(), ["/1", "/4"], "targets")


@test("queue_timeout: times that are over in the moment in which it is their turn")
def timeout_and_turn(t):
    # Each is answered once, one way or the other, and nothing is left behind: the leak sanitizer
    # looks at the end.
    sluice = t.sluice(to(t.origin(), upstream="max_in_flight = 2",
                         route=ROUTE.format("none") + "queue_timeout = 1ms"))
    statuses, lock = {}, threading.Lock()

    def one(number):
        client = t.client(sluice)
        for _ in range(20):
            client.send(b"".join(request_bytes("/", fields=[("X-Api-Key", str(number % 4))])
                                 for _ in range(10)))
            for _ in range(10):
                status = client.response().status
                with lock:
                    statuses[status] = statuses.get(status, 0) + 1

    threads = [threading.Thread(target=one, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    t.note(f"{statuses}")
    equal(sum(statuses.values()), 8 * 200, "answers")
    true(set(statuses) == {200, 503}, "both happened")


@test("clients that leave the queue are never sent on, the rest keep their order")
def leaving(t):
    held, clients, sluice = scene(t, "strict", [f"POST /{n}" for n in range(10)])
    held.here("/0")
    for n in (1, 4, 5, 9):
        leave(sluice, clients[n], "close" if n % 2 else "reset")
    held.let(*[f"/{n}" for n in range(10)])
    for n in (0, 2, 3, 6, 7, 8):
        equal(clients[n].response().status, 200, "status")
    equal(held.origin.targets(), [f"/{n}" for n in (0, 2, 3, 6, 7, 8)], "targets")


@test("a queued body is not read before its turn, however much the client sends")
def queued_body(t):
    held, clients, sluice = scene(t, "strict", ["POST /1"])
    held.here("/1")
    second = t.client(sluice)
    second.socket.settimeout(0.5)
    head = b"POST /2 HTTP/1.1\r\nHost: api.test\r\nX-Api-Key: one\r\nContent-Length: 100000000\r\n\r\n"
    second.socket.sendall(head)
    sent = 0
    try:
        while sent < 100_000_000:
            sent += second.socket.send(b"x" * 100_000)
    except TimeoutError:
        pass
    t.note(f"{sent / 1e6:.1f} MB were taken of 100 while it was queued")
    # What is kept of it, and what the systems of both keep: tcp_rmem lets up to 32 MB be.
    true(sent < 75_000_000, "the body was swallowed")
    second.socket.settimeout(DEADLINE_SECONDS)
    held.let("/1", "/2")
    second.send(b"x" * (100_000_000 - sent))
    equal(second.response().status, 200, "status")


main()
