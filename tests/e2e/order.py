"""Order: the requests of one client reach the upstream in the order in which sluice received them,
whichever connections and workers they came by."""
import os
import threading
import time

from lib.client import request_bytes
from lib.held import ROUTE, Held, ask, scene
from lib.origin import AccountOrigin
from lib.process import DEADLINE_SECONDS, SANITIZER
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
            ended.wait()
            x.send(b"0\r\n\r\n")
        else:
            x.reply(200)

    sluice = t.sluice(to(t.origin(handler), route=ROUTE.format("writes").replace("1m", "1h")))
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
    sluice = t.sluice(to(held.origin, upstream="max_in_flight = 3", route=ROUTE.format("none")))
    client = t.client(sluice)
    barrier = Barrier(t, sluice, [client])
    client.send(request_bytes("/slow") + request_bytes("/write", "POST"))
    held.here("/slow")
    barrier.passed_by(client)
    leave(sluice, client, "reset")
    # Two places are free: the read keeps its own, the write had none.
    clients = [t.client(sluice) for _ in range(2)]
    for number, one in enumerate(clients):
        ask(one, f"GET /{number}")
    held.here("/0", "/1")
    held.let("/slow", "/0", "/1")
    for one in clients:
        equal(one.response().status, 200, "status")
    equal(held.origin.targets().count("/write"), 0, "the write was sent")


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
