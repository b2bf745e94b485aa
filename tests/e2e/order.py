"""Order: the requests of one client reach the upstream in the order in which sluice received them,
whichever connections and workers they came by, and in bounded queues."""
import json
import os
import threading
import time

from lib.client import request_bytes
from lib.origin import AccountOrigin
from lib.process import DEADLINE_SECONDS, SANITIZER, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.wire import quiet
from lib.workers import Barrier, leave

MANY = 400
COUNT = 500 if SANITIZER else 2000


def operation(number, with_body=False):
    """Deposits and withdrawals by turns; a withdrawal fails unless its deposit came first."""
    kind = "withdraw" if number % 2 else "deposit"
    fields = [("X-Sequence", str(number)), ("X-Amount", str(number // 2 + 1)), ("X-Api-Key", "one client")]
    return request_bytes(f"/{kind}", "POST", fields, b"amount=%d" % number if with_body else b"")


def in_order(account, answers):
    equal(account.sequence(), list(range(COUNT)), "order at the origin")
    equal(set(answers), {200}, "statuses")
    equal(account.balance, 0, "balance in the end")


ROUTE = "host = api.test\nsession = header:X-Api-Key | ip\nordering = {}\nread_hold = 1m\n"


@group(f"{COUNT} deposits and withdrawals pipelined on one connection")
def one_connection(t):
    for ordering in ("writes", "strict"):
        for with_body in (False, True):
            with t.point(f"ordering = {ordering}, {'with' if with_body else 'without'} bodies"):
                account = AccountOrigin()
                t.defer(account.end)
                client = t.client(t.sluice(to(account, route=ROUTE.format(ordering))))
                data = b"".join(operation(n, with_body) for n in range(COUNT))
                sender = threading.Thread(target=client.send, args=(data,), daemon=True)
                sender.start()
                in_order(account, [client.response().status for _ in range(COUNT)])


@group(f"{COUNT} deposits and withdrawals over 8 connections of one client")
def many_connections(t):
    for ordering in ("writes", "strict"):
        with t.point(f"ordering = {ordering}"):
            account = AccountOrigin()
            t.defer(account.end)
            sluice = t.sluice(to(account, route=ROUTE.format(ordering)))
            clients = [t.client(sluice) for _ in range(8)]
            for client in clients:
                equal(client.ask("/", host="nowhere.test").status, 404, "status of a first request")
            barrier = Barrier(t, sluice, clients)
            workers = len(set(barrier.worker.values()))
            waiting, answers = {client: 0 for client in clients}, []
            for number in range(COUNT):
                client = t.random.choice(clients)
                # No more on a connection than sluice reads without answering (pipeline_depth).
                while waiting[client] >= 8:
                    answers.append(client.response().status)
                    waiting[client] -= 1
                client.send(operation(number))
                waiting[client] += 1
                # Nobody waits for answers, only for sluice to have received it before the next.
                barrier.passed_by(client)
            for client, count in waiting.items():
                answers += [client.response().status for _ in range(count)]
            t.note(f"the 8 connections were of {workers} workers")
            in_order(account, answers)


@test(f"{COUNT} in order although the origin closes its connections again and again")
def closing_origin(t):
    account = AccountOrigin(closes_every=37)
    t.defer(account.end)
    client = t.client(t.sluice(to(account, route=ROUTE.format("writes"))))
    data = b"".join(operation(n, True) for n in range(COUNT))
    threading.Thread(target=client.send, args=(data,), daemon=True).start()
    in_order(account, [client.response().status for _ in range(COUNT)])


# ---- what waits for what -----------------------------------------------------------------------

class Held:
    """An origin whose answers are given one by one; knows what was unanswered when each came."""

    def __init__(self, t):
        self.t = t
        self.gates = {}
        self.unanswered = []
        self.seen = {}  # target: what was unanswered when it arrived
        self.lock = threading.Lock()
        self.origin = t.origin(self._handle)

    def gate(self, target):
        with self.lock:
            return self.gates.setdefault(target, self.t.event())

    def _handle(self, x):
        x.read_body()
        target = x.request.target
        with self.lock:
            self.seen[target] = set(self.unanswered)
            self.unanswered.append(target)
        self.gate(target).wait(DEADLINE_SECONDS)
        with self.lock:
            self.unanswered.remove(target)
        x.reply(200, target.encode())

    def here(self, *targets):
        self.origin.wait(lambda: set(targets) <= set(self.origin.targets()), f"{targets}")

    def let(self, *targets):
        for target in targets:
            self.gate(target).set()


def ask(client, text, key="one"):
    method, target = text.split()
    client.request(target, method, [("X-Api-Key", key)], body=b"x" if method == "POST" else None)


def scene(t, ordering, texts, more=""):
    """The requests, each on a connection of its own, received by sluice in this order."""
    held = Held(t)
    sluice = t.sluice(to(held.origin, route=ROUTE.format(ordering) + more))
    clients = [t.client(sluice) for _ in texts]
    for client in clients:
        client.ask("/", host="nowhere.test")
    barrier = Barrier(t, sluice, clients)
    for client, text in zip(clients, texts):
        ask(client, text)
        barrier.passed_by(client)
    return held, clients, sluice


@test("writes: reads overlap")
def reads_overlap(t):
    held, clients, _ = scene(t, "writes", ["GET /1", "HEAD /2", "OPTIONS /3", "GET /4"])
    held.here("/1", "/2", "/3", "/4")  # all at once, none was answered
    held.let("/1", "/2", "/3", "/4")
    equal(clients[0].response().status, 200, "status")


@test("writes: a write waits for all before it, and all after it wait for it")
def write_is_a_barrier(t):
    held, clients, _ = scene(t, "writes", ["GET /1", "GET /2", "POST /3", "GET /4", "GET /5", "POST /6"])
    held.here("/1", "/2")
    true(quiet(clients[2], 0.1), "the write was answered")
    held.let("/1")
    clients[0].response()
    true(quiet(clients[2], 0.1), "the write was answered")
    held.let("/2")
    held.here("/3")
    true(quiet(clients[3], 0.1), "a read behind the write was answered")
    held.let("/3")
    held.here("/4", "/5")
    held.let("/4", "/5")
    held.here("/6")
    held.let("/6")
    for client in clients[1:]:
        equal(client.response().status, 200, "status")
    for target, together in (("/3", set()), ("/6", set())):
        equal(held.seen[target], together, f"unanswered when {target} came")
    true(held.seen["/4"] <= {"/5"} and held.seen["/5"] <= {"/4"}, f"{held.seen}")


@test("writes: a write waits for the head of a read's response, not for its end")
def stream(t):
    ended = t.event()

    def handler(x):
        x.read_body()
        if x.request.target == "/events":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            ended.wait(DEADLINE_SECONDS)
            x.send(b"0\r\n\r\n")
        else:
            x.reply(200)

    sluice = t.sluice(to(t.origin(handler), route=ROUTE.format("writes")))
    reader, writer = t.client(sluice), t.client(sluice)
    ask(reader, "GET /events")
    reader.response_head()
    ask(writer, "POST /1")
    equal(writer.response().status, 200, "status of the write")
    ended.set()


@test("writes: a read that says nothing holds a write back for read_hold, and then no more")
def read_hold(t):
    held = Held(t)
    sluice = t.sluice(to(held.origin, route=ROUTE.format("writes").replace("1m", "300ms")))
    reader, writer = t.client(sluice), t.client(sluice)
    began = time.monotonic()
    ask(reader, "GET /poll")
    held.here("/poll")
    held.let("/write")
    ask(writer, "POST /write")
    equal(writer.response().status, 200, "status of the write")
    true(time.monotonic() - began >= 0.3, "it waited for read_hold")
    equal(held.seen["/write"], {"/poll"}, "unanswered when the write came")
    held.let("/poll")
    equal(reader.response().status, 200, "status of the read")


@test("by default who is known by address only is not ordered, who shows a key is")
def default_ordering(t):
    for session in ("", "session = header:X-Api-Key | ip\n", "session = cookie:sid | ip\n"):
        held = Held(t)
        sluice = t.sluice(to(held.origin, route="host = api.test\n" + session))
        clients = [t.client(sluice) for _ in range(5)]
        clients[0].request("/1", "POST", body=b"x")
        clients[1].request("/2", "POST", body=b"x")
        held.here("/1", "/2")  # together
        barrier = Barrier(t, sluice, clients)
        fields = [("X-Api-Key", "one"), ("Cookie", "sid=one")]
        for number, client in enumerate(clients[2:4], 3):
            client.request(f"/{number}", "POST", fields, b"x")
            barrier.passed_by(client)
        held.let("/1", "/2", "/4")
        if session:
            held.here("/3")
            true(quiet(clients[3], 0.1), "the second write with a key was answered")
            held.let("/3")
            held.here("/4")
            true("/3" not in held.seen["/4"], "the first was complete")
        held.let("/3")
        for client in clients[:4]:
            equal(client.response().status, 200, "status")


@test(f"{MANY} POSTs at once behind one address, without a key: all are at the server at once, none is lost")
def one_address(t):
    all_there = threading.Barrier(MANY)

    def handler(x):
        x.read_body()
        all_there.wait(DEADLINE_SECONDS)
        x.reply(200)

    sluice = t.sluice(to(t.origin(handler)))
    clients = [t.client(sluice) for _ in range(MANY)]
    for client in clients:
        client.request("/", "POST", body=b"amount=1")
    equal([client.response().status for client in clients], [200] * MANY, "statuses")


@test("strict: one at a time, reads too")
def strict(t):
    held, clients, _ = scene(t, "strict", ["GET /1", "GET /2", "POST /3", "GET /4"])
    for number, client in enumerate(clients, 1):
        held.here(f"/{number}")
        true(quiet(client, 0.05), "answered before its time")
        held.let(f"/{number}")
        equal(client.response().body, b"/%d" % number, "body")
    equal(held.seen, {f"/{n}": set() for n in range(1, 5)}, "unanswered at each arrival")


@test("none: nothing waits")
def none(t):
    held, clients, _ = scene(t, "none", ["POST /1", "POST /2", "GET /3", "POST /4"])
    held.here("/1", "/2", "/3", "/4")
    held.let("/4", "/3", "/2", "/1")
    for client in clients:
        equal(client.response().status, 200, "status")


@test("clients do not wait for each other")
def other_clients(t):
    held, _, sluice = scene(t, "strict", ["POST /1", "POST /2"])
    held.here("/1")
    for number in range(5):
        client = t.client(sluice)
        held.let(f"/other-{number}")
        ask(client, f"POST /other-{number}", key=f"other {number}")
        equal(client.response().status, 200, "status")
    true("/2" not in held.origin.targets(), "the second of the held client was sent on")


@test("the next one goes when the response is complete, not when it begins")
def complete_response(t):
    gate = t.event()
    state = {}

    def handler(x):
        x.read_body()
        if x.request.target == "/1":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
            gate.wait(DEADLINE_SECONDS)
            state["complete"] = True
            x.send(b"world")
        else:
            state["seen"] = state.get("complete", False)
            x.reply(200, b"x")

    sluice = t.sluice(to(t.origin(handler), route=ROUTE.format("writes")))
    first, second = t.client(sluice), t.client(sluice)
    ask(first, "POST /1")
    first.response_head()
    equal(first.read_exactly(5), b"hello", "the first half")
    ask(second, "POST /2")
    true(quiet(second, 0.2), "the second was answered")
    gate.set()
    equal(second.response().status, 200, "status")
    equal(state["seen"], True, "the first was complete when the second came")


# ---- bounds ------------------------------------------------------------------------------------

def overflowed(answer):
    equal((answer.status, answer.get("Content-Type")), (503, "application/problem+json"))
    body = json.loads(answer.body)
    equal(body["status"], 503, "status in the body")
    true(body["title"] and body["detail"], f"{body}")


@test("queue_depth: what is beyond gets 503 with Retry-After, what is within is served")
def queue_depth(t):
    held, clients, _ = scene(t, "strict\nqueue_depth = 3", [f"POST /{n}" for n in range(6)])
    for client in clients[4:]:
        answer = client.response()
        overflowed(answer)
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
        overflowed(answer)
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
        overflowed(answer)
        true(int(answer.get("Retry-After")) >= 1, "Retry-After")
    held.let(*[f"/{n}" for n in range(8)])
    for client in clients[:5]:
        equal(client.response().status, 200, "status")


@test("queue_timeout: 503, and never sent on; the others go on")
def queue_timeout(t):
    held, clients, sluice = scene(t, "strict\nqueue_timeout = 300ms", ["POST /1", "POST /2", "POST /3"])
    held.here("/1")
    for client in clients[1:]:
        overflowed(client.response())
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


@test("a write whose answer stops halfway is given up after idle_timeout, and then the next one goes")
def stopped_halfway(t):
    over = t.event()

    def handler(x):
        x.read_body()
        if x.number > 0:
            x.reply(200, b"next")
            return
        x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        over.wait()

    sluice = t.sluice(to(t.origin(handler), upstream="max_in_flight = 1\nidle_timeout = 200ms",
                         route="queue_timeout = 5s"))
    client = t.client(sluice)
    client.request("/", "POST", body=b"x")
    true(client.read_to_any_end().endswith(b"half"), "its end")
    equal(t.client(sluice).ask("/", "POST", body=b"x").body, b"next")


@test("a write whose client left is followed to its end, and then the next one goes")
def followed(t):
    held, clients, sluice = scene(t, "writes", ["POST /1", "POST /2"])
    held.here("/1")
    leave(sluice, clients[0], "reset")
    true(quiet(clients[1], 0.1), "the second was answered before the first was done")
    began = time.monotonic()
    held.let("/1", "/2")
    equal(clients[1].response().status, 200, "status")
    # queue_timeout is 30 s, first_byte_timeout 60 s: neither had to free it.
    true(time.monotonic() - began < 20, "it took a timeout")
    equal(held.seen["/2"], set(), "unanswered when the second came")


@test("a write behind another request, its client gone, is never sent and holds no place",
      workers=[1])
def left_behind(t):
    held = Held(t)
    sluice = t.sluice(to(held.origin, upstream="max_in_flight = 2", route=ROUTE.format("none")))
    client = t.client(sluice)
    barrier = Barrier(t, sluice, [client])
    client.send(request_bytes("/slow") + request_bytes("/write", "POST"))
    held.here("/slow")
    barrier.passed_by(client)
    leave(sluice, client, "reset")
    # Both places are free: the read was cut, the write had none.
    clients = [t.client(sluice) for _ in range(2)]
    for number, one in enumerate(clients):
        ask(one, f"GET /{number}")
    held.here("/0", "/1")
    held.let("/slow", "/0", "/1")
    for one in clients:
        equal(one.response().status, 200, "status")
    equal(held.origin.targets().count("/write"), 0, "the write was sent")


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


@test("what comes after an answer holds up nobody's next request: a log that nobody takes")
def after_send(t):
    path = t.path("access")
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR)  # it holds 64 KiB, and then a writer to it waits
    t.defer(lambda: os.close(pipe))
    sluice = t.sluice(to(t.origin(), route=ROUTE.format("strict")), settings=f"access_log = file:{path}")
    count = 1000
    fields = [("X-Api-Key", "one"), ("Referer", "r" * 300)]
    clients = [t.client(sluice) for _ in range(3)]
    answered = 0
    for _ in range(count // 30 + 1):
        for client in clients:
            client.send(b"".join(request_bytes("/", "POST", fields) for _ in range(10)))
        for client in clients:
            for _ in range(10):
                equal(client.response().status, 200, "status")
                answered += 1
    t.note(f"{answered} answered while the log thread was stuck")
    true(answered * 300 > 3 * 65536, "that is more than the pipe holds")
    written = threading.Thread(target=lambda: [os.read(pipe, 65536) for _ in iter(int, 1)], daemon=True)
    written.start()


@test("a session that was idle for long is as new as before")
def rolled(t):
    account = AccountOrigin()
    t.defer(account.end)
    client = t.client(t.sluice(to(account, route=ROUTE.format("strict") + "session_idle_timeout = 50ms")))
    for number in range(6):
        client.send(operation(number))
        equal(client.response().status, 200, "status")
        time.sleep(0.1)
    equal(account.sequence(), list(range(6)), "order")


main()
