#!/usr/bin/env python3
"""The operator's API for WebSockets: finds them by their properties, sends to them and ends them, on any worker."""
import base64
import json
import re
import threading
import time

from lib import websocket as ws
from lib.admin import command, value, with_admin
from lib.gateway import Backend
from lib.process import until
from lib.sluice import to
from lib.successor import Successor
from lib.tap import equal, group, main, test, true
from lib.websocket import open_socket, server
from lib.wire import Ended

ID = re.compile("[0-9a-f]{24}")
MESSAGES = "websocket = messages\nping_interval = 0s\n"
NOTHING = "0" * 24


def two_routes(origin):
    """One route for orders, with sessions by key, and one for chats."""
    return (f"[limit seen]\nkey = header:X-Api-Key\nrate = 100k per 1s\n"
            f"[upstream origin]\nserver = {origin}\n"
            f"[route shop]\npath = /shop\nupstream = origin\nlimits = seen\nsession = header:X-Api-Key\nordering = strict\n{MESSAGES}"
            f"socket_type = order\n[route chat]\nupstream = origin\nlimits = seen\n{MESSAGES}")


def begun(t, route="", origin=None, **more):
    """(sluice, admin) in front of an origin that echoes."""
    return with_admin(t, to(t.origin(origin or server()), route=MESSAGES + route), **more)


def listed(admin, query=""):
    status, answer = admin.json("/api/v1/sockets" + query)
    equal(status, 200, answer)
    return answer["sockets"]


def run(admin, whom, operation, body=None, status=200, query="", **more):
    content = b"" if body is None else json.dumps(body).encode()
    found, answer = admin.json(f"/api/v1/sockets/{whom}/{operation}{query}", "POST", body=content, **more)
    equal(found, status, answer)
    return answer


def only(admin):
    (one,) = listed(admin)
    return one["id"]


def opened(t, admin, sluice, count, **more):
    before = len(listed(admin, "?count=1000"))
    sockets = [open_socket(t, sluice, **more) for _ in range(count)]
    until(lambda: len(listed(admin, "?count=1000")) == before + count, "all are listed")
    return sockets


def was_cut(socket):
    try:
        socket.read_frame()
    except Ended:
        return True
    return False


# ---- finding ----------------------------------------------------------------------------------

@group("lists", workers=[4])
def lists(t):
    sluice, admin = with_admin(t, two_routes(t.origin(server())))
    orders = {key: open_socket(t, sluice, target="/shop", fields=[("X-Api-Key", key)]) for key in ("ann", "bob")}
    orders["ann"].send("twelve bytes")
    equal(orders["ann"].message(), "twelve bytes")
    until(lambda: len(listed(admin)) == 2, "both are listed")
    chats = opened(t, admin, sluice, 60)
    everyone = listed(admin)
    with t.point("each has an id of its own, a type, a caller and its traffic"):
        equal(len({one["id"] for one in everyone}), 62)
        true(all(ID.fullmatch(one["id"]) for one in everyone), everyone)
        (ann,) = [one for one in everyone if one["messages_received"] == 1]
        equal({name: ann[name] for name in ("type", "route", "state", "address", "bytes_received", "messages_sent", "bytes_sent",
                                            "refused", "delayed", "queued", "queued_bytes")},
              {"type": "order", "route": "shop", "state": "open", "address": "127.0.0.1", "bytes_received": 12,
               "messages_sent": 1, "bytes_sent": 12, "refused": 0, "delayed": 0, "queued": 0, "queued_bytes": 0})
        equal(admin.json(f"/api/v1/sockets/{ann['id']}")[1]["id"], ann["id"])
    with t.point("over several workers"):
        true(len({one["id"][:14] for one in everyone}) > 1, everyone)
    sessions = {one["id"] for one in admin.json("/api/v1/sessions")[1]["sessions"]}
    with t.point("by type, route, caller, session and address"):
        (bob,) = [one for one in listed(admin, "?type=order") if one["id"] != ann["id"]]
        equal(len(listed(admin, "?type=chat")), 60)
        equal(len(listed(admin, "?type=chat&route=shop")), 0)
        equal(listed(admin, f"?caller={bob['caller']}")[0]["id"], bob["id"])
        true(ann["session"] in sessions and bob["session"] in sessions, sessions)
        equal([one["id"] for one in listed(admin, f"?session={ann['session']}")], [ann["id"]])
        equal(len(listed(admin, "?address=127.0.0.0/8&type=order")), 2)
        equal(len(listed(admin, "?address=10.0.0.1")), 0)
    with t.point("by age and idle time"):
        equal(len(listed(admin, "?max_age=1h&min_age=0")), 62)
        equal(len(listed(admin, "?min_age=1h")), 0)
        equal(len(listed(admin, "?min_idle=1h&type=order")), 0)
        equal(len(listed(admin, "?max_idle=1h&type=order")), 2)
    with t.point("page by page"):
        pages, after = [], ""
        while after is not None:
            _, answer = admin.json(f"/api/v1/sockets?count=7{after and '&after=' + after}")
            true(len(answer["sockets"]) <= 7, answer)
            pages += [one["id"] for one in answer["sockets"]]
            after = answer["next"]
        equal(sorted(pages), sorted(one["id"] for one in everyone))
    with t.point("invalid terms, values and ids are refused"):
        for query in ("colour=red", "caller=1", "min_age=soon", "address=here", "count=0", "count=1001", "type=", "session=zz"):
            equal(admin.json("/api/v1/sockets?" + query)[0], 400, query)
        for one in (NOTHING, "x", ann["id"][:-1], ann["id"].upper().replace("0", "A"), ann["id"] + "0", ann["id"][:12] + "ff" + "0" * 10):
            equal(admin.json("/api/v1/sockets/" + one)[0], 404, one)
    with t.point("those that have closed are gone"):
        for chat in chats:
            chat.close()
        until(lambda: len(listed(admin)) == 2, "two are left")


@test("ids of another process are not known to this one", workers=[1])
def other_processes(t):
    origin = server()
    ids = set()
    for _ in range(2):
        sluice, admin = begun(t, origin=origin)
        socket = open_socket(t, sluice)
        until(lambda admin=admin: len(listed(admin)) == 1, "it is listed")
        for one in ids:
            equal(admin.json("/api/v1/sockets/" + one)[0], 404)
        ids.add(only(admin))
        socket.close()
    equal(len(ids), 2)


# ---- sending ----------------------------------------------------------------------------------

@group("sending", workers=[4])
def sending(t):
    sluice, admin = begun(t)
    (one,) = opened(t, admin, sluice, 1)
    id = only(admin)
    with t.point("text and binary to one"):
        equal(run(admin, id, "post", {"text": "grüße"}), {"found": 1, "queued": 1, "dropped": 0, "gone": 0})
        equal(one.message(), "grüße")
        run(admin, id, "send", {"binary": base64.b64encode(bytes(range(256))).decode()})
        equal(one.message(), bytes(range(256)))
        run(admin, id, "post", {"text": ""})
        equal(one.message(), "")
    with t.point("wait=sent answers when it is written"):
        equal(run(admin, id, "post", {"text": "now"}, query="?wait=sent"), {"found": 1, "sent": 1, "queued": 0, "dropped": 0, "gone": 0})
        equal(one.message(), "now")
    with t.point("invalid messages, and messages to no socket, are refused"):
        for body in ({}, {"text": 1}, {"text": "a", "binary": "YQ=="}, {"binary": "YQ"}, {"binary": "Y!=="}, {"binary": "YR=="}, [], {"text": "a", "x": 1}):
            run(admin, id, "post", body, status=400)
        equal(admin.json(f"/api/v1/sockets/{id}/post", "POST", body=b'{"text": "\xff"}')[0], 400)
        equal(admin.json(f"/api/v1/sockets/{id}/post", "POST", body=b'{"text": "\\ud800"}')[0], 400)
        run(admin, NOTHING, "post", {"text": "a"}, status=404)
        run(admin, "all", "post", {"text": "a"}, query="?type=none", status=404)
        run(admin, id, "shout", {"text": "a"}, status=404)
        for query in ("?wait=read", "?timeout=1s", "?wait=sent&timeout=2m", "?wait=sent&timeout=0", "?colour=red"):
            run(admin, id, "post", {"text": "a"}, query=query, status=400)
        run(admin, id, "close", query="?wait=sent", status=400)
        for query in ("?wait=closed&timeout=2m", "?timeout=1s"):
            run(admin, id, "close", query=query, status=400)
        run(admin, id, "post", {"text": "a"}, query="?wait=closed", status=400)
    with t.point("to all that fit, of all workers"):
        others = opened(t, admin, sluice, 150)
        equal(run(admin, "all", "post", {"text": "to all"}, query="?type=origin&wait=sent"),
              {"found": 151, "sent": 151, "queued": 0, "dropped": 0, "gone": 0})
        for socket in [one, *others]:
            equal(socket.message(), "to all")
    with t.point("and is counted"):
        until(lambda: value(admin.metrics()[1], "sluice_socket_sends_total", route="origin", result="written") == 155, "all are counted")
        text = admin.metrics()[1]
        equal(value(text, "sluice_socket_queue_bytes"), 0.0)
        equal(value(text, "sluice_sockets"), 151.0)


def slow(t, sluice, admin, full=True):
    """(a socket that reads nothing, its id), with a message of 8 MB before all that follows."""
    socket = open_socket(t, sluice, receive_buffer=4096)
    until(lambda: len(listed(admin)) == 1, "it is listed")
    id = only(admin)
    if full:
        for _ in range(8):
            run(admin, id, "post", {"text": "f" * 1000_000})

        def stays():
            waiting = listed(admin)[0]["queued"]
            time.sleep(0.3)  # while its system takes what it has room for
            return waiting > 0 and listed(admin)[0]["queued"] == waiting
        until(stays, "something waits, and nothing more is taken")
    return socket, id


def after_the_filling(socket):
    while (message := socket.message())[0] == "f":
        pass
    return message


@test("send goes before what was posted, post behind it", workers=[1])
def order(t):
    sluice, admin = begun(t, "socket_queue_bytes = 20M")
    socket, id = slow(t, sluice, admin)
    run(admin, id, "post", {"text": "posted"})
    run(admin, id, "send", {"text": "sent 1"})
    run(admin, id, "send", {"text": "sent 2"})
    waiting = listed(admin)[0]["queued"] - 3  # fewer than when they came, if its system has taken more since
    got = []
    while len(got) < 11:
        got.append(socket.message()[:6])
    rest = [one for one in got if one[0] != "f"]
    equal(rest, ["sent 1", "sent 2", "posted"])
    true(got.index("sent 1") < 10 - waiting + 1, got)  # before all but what was being written
    equal(got[-1], "posted")
    until(lambda: listed(admin)[0]["queued"] == 0, "nothing waits")


@test("wait=sent is bounded, and says what still waits", workers=[1])
def waiting(t):
    sluice, admin = begun(t, "socket_queue_bytes = 20M")
    socket, id = slow(t, sluice, admin)
    equal(run(admin, id, "post", {"text": "late"}, query="?wait=sent&timeout=50ms"), {"found": 1, "sent": 0, "queued": 1, "dropped": 0, "gone": 0})
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(run(admin, id, "post", {"text": "end"}, query="?wait=sent&timeout=30s")))
    waiter.start()
    equal(after_the_filling(socket), "late")
    equal(socket.message(), "end")
    waiter.join()
    equal(answers, [{"found": 1, "sent": 1, "queued": 0, "dropped": 0, "gone": 0}])
    with_gone = threading.Thread(target=lambda: answers.append(run(admin, "all", "post", {"text": "g" * 900_000}, query="?wait=sent&timeout=30s")))
    for _ in range(8):
        run(admin, id, "post", {"text": "f" * 1000_000})
    with_gone.start()
    until(lambda: listed(admin)[0]["queued_bytes"] % 1000_000 > 900_000, "it waits")
    run(admin, id, "abort")
    with_gone.join()
    equal(answers[1:], [{"found": 1, "sent": 0, "queued": 0, "dropped": 0, "gone": 1}])


@test("wait=closed answers when those that were found are listed no more, or says how many are", workers=[4])
def waiting_for_ends(t):
    sluice, admin = begun(t, "close_timeout = 1m")
    for operation in ("close", "drain"):
        sockets = opened(t, admin, sluice, 40)
        answers = []
        ends = threading.Thread(target=lambda: answers.append(run(admin, "all", operation, query="?wait=closed&timeout=1m")))
        ends.start()
        until(lambda: all(one["state"] != "open" for one in listed(admin)), "all end")
        for one in sockets[1:]:
            one.closed_with()
        until(lambda: len(listed(admin)) == 1, "the others have ended")
        equal(run(admin, "all", operation, query="?wait=closed&timeout=20ms"), {"found": 1, "ending": 1, "gone": 0})
        equal(answers, [], operation)
        sockets[0].closed_with()
        ends.join()
        equal(answers, [{"found": 40, "ending": 0, "gone": 40}], operation)
        equal(listed(admin), [], operation)
    sockets = opened(t, admin, sluice, 40)
    equal(run(admin, "all", "abort", query="?wait=closed"), {"found": 40, "ending": 0, "gone": 40})
    true(all(was_cut(one) for one in sockets), "they are reset")
    opened(t, admin, sluice, 1)
    equal(json.loads(command("sockets", "abort", "all", "--wait", "1m", "--json", "-c", sluice.ini_path)),
          {"found": 1, "ending": 0, "gone": 1})
    (first,) = opened(t, admin, sluice, 1)
    answers = []
    ends = threading.Thread(target=lambda: answers.append(run(admin, "all", "close", query="?wait=closed&timeout=1m")))
    ends.start()
    until(lambda: listed(admin)[0]["state"] == "closing", "it closes")
    opened(t, admin, sluice, 1)
    first.closed_with()
    ends.join()
    equal(answers, [{"found": 1, "ending": 0, "gone": 1}], "one that has opened since is not waited for")


@group("a slow reader", workers=[4])
def slow_readers(t):
    for action, bound in (("close", "socket_queue_messages = 10\nsocket_queue_bytes = 20M"), ("close", "socket_queue_bytes = 3M"),
                          ("drop", "socket_queue_messages = 10\nsocket_queue_bytes = 20M")):
        sluice, admin = begun(t, f"{bound}\non_socket_queue_full = {action}\nclose_timeout = 1m")
        socket, id = slow(t, sluice, admin, full=False)
        fast = [open_socket(t, sluice) for _ in range(20)]
        until(lambda admin=admin: len(listed(admin)) == 21, "all are listed")
        rounds = 30
        for i in range(rounds):
            run(admin, "all", "post", {"text": f"{i:03}" + "f" * 500_000})
            for one in fast:  # what one does not read delays none
                equal(one.message()[:3], f"{i:03}")
        text = admin.metrics()[1]
        if action == "close":
            with t.point(f"is closed with 1013 ({bound.split()[0]})"):
                got = []
                while (frame := socket.read()).opcode == ws.TEXT:
                    got.append(frame.payload[:3])
                equal(frame.closes_with, (1013, "slow reader"))
                equal(got, [b"%03d" % i for i in range(len(got))])
                equal(value(text, "sluice_sockets_slow_total", route="origin"), 1.0)
        else:
            with t.point("or loses the oldest of what waits"):
                run(admin, id, "post", {"text": "last"})
                got = []
                while not got or got[-1] != "last":
                    got.append(socket.message())
                numbers = [int(one[:3]) for one in got[:-1]]
                equal(numbers, sorted(numbers))
                true(numbers[0] == 0 and len(numbers) < rounds, numbers)
                equal(numbers[-8:], list(range(rounds - 8, rounds)))
                until(lambda: value(admin.metrics()[1], "sluice_socket_sends_total", route="origin", result="dropped") == rounds + 1 - len(got),
                      "the others are counted")


@test("what all queues hold is bounded: further messages get 503", workers=[4])
def all_together(t):
    sluice, admin = begun(t, "socket_queue_bytes = 100M\nsocket_queue_messages = 1000", settings="socket_queue_total_bytes = 3M")
    socket, id = slow(t, sluice, admin, full=False)
    refused = 0
    for _ in range(40):
        status, _ = admin.json(f"/api/v1/sockets/{id}/post", "POST", body=json.dumps({"text": "f" * 900_000}).encode())
        refused += status == 503
        if refused:
            break
    equal(refused, 1)
    held = value(admin.metrics()[1], "sluice_socket_queue_bytes")
    true(2_000_000 < held <= 3 << 20, held)
    run(admin, id, "abort")
    until(lambda: value(admin.metrics()[1], "sluice_socket_queue_bytes") == 0, "nothing is held")


@test("what all sockets hold of unfinished messages is bounded: one too many is closed with 1013", workers=[4])
def unfinished(t):
    sluice, admin = begun(t, "max_message_size = 8M", settings="socket_gather_total_bytes = 3M")

    def gathered():
        return value(admin.metrics()[1], "sluice_socket_gathered_bytes")

    first, second = open_socket(t, sluice), open_socket(t, sluice)
    half = b"h" * 1_200_000
    first.send_frame(ws.BINARY, half, fin=False)
    until(lambda: gathered() >= len(half), "the first is counted")
    second.send_frame(ws.BINARY, 2 * half, fin=False)
    equal(second.closed_with(), (1013, "too many unfinished messages"))
    first.send_frame(ws.CONTINUATION, b"end")
    equal(first.message(), half + b"end")
    until(lambda: gathered() == 0, "nothing is held")


# ---- ending -----------------------------------------------------------------------------------

@group("ending", workers=[4])
def ending(t):
    log = ws.Log()
    sluice, admin = begun(t, "close_timeout = 4s", origin=server(log=log))

    def one():
        (socket,) = opened(t, admin, sluice, 1)
        return socket, only(admin)

    with t.point("close: code and reason go both ways, and the peers' answers are awaited"):
        socket, id = one()
        equal(run(admin, id, "close", {"code": 4000, "reason": "maß voll"}), {"found": 1, "ending": 1, "gone": 0})
        equal(listed(admin)[0]["state"], "closing")
        equal(run(admin, id, "close"), {"found": 1, "ending": 0, "gone": 1})
        equal(run(admin, id, "post", {"text": "late"}), {"found": 1, "queued": 0, "dropped": 0, "gone": 1})
        equal(socket.closed_with(), (4000, "maß voll"))
        equal(log.wait_for(1), [("close", 4000, "maß voll")])
        until(lambda: not listed(admin), "it is gone")
    with t.point("without a code it is 1000"):
        socket, id = one()
        run(admin, id, "close")
        equal(socket.closed_with(), (1000, ""))
        until(lambda: not listed(admin), "it is gone")
    with t.point("a peer that does not answer has close_timeout"):
        socket, id = one()
        run(admin, id, "close", {"code": 1001})
        until(lambda: not listed(admin), "it is gone")
    with t.point("a client that leaves instead of answering does not delay the end"):
        socket, id = one()
        run(admin, id, "close", {"code": 1001})
        socket.stream.close()
        until(lambda: not listed(admin) and value(admin.metrics()[1], "sluice_sockets") == 0, "none is open")
    with t.point("codes that a close frame must not have are refused"):
        socket, id = one()
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65536 + 1000, -64536, 1 << 40, "1000", 1000.0, True):
            run(admin, id, "close", {"code": code}, status=400)
        for body in ({"reason": "x" * 124}, {"reason": "ß" * 62}, {"reason": 1}, {"why": "x"}, []):
            run(admin, id, "close", body, status=400)
        equal(listed(admin)[0]["state"], "open")
    with t.point("abort cuts it"):
        run(admin, id, "abort")
        true(was_cut(socket), "it was cut")
        run(admin, id, "abort", status=404)


@test("drain: what waits both ways is delivered, new messages are not taken, then 1001", workers=[1, 4])
def drained(t):
    gate, log = t.event(), ws.Log()

    def answer(socket, message):
        log.add(message)
        gate.wait(120)
        socket.send("answer to " + message)

    sluice, admin = begun(t, origin=server(answer))
    (socket,) = opened(t, admin, sluice, 1)
    id = only(admin)
    socket.send("before")
    log.wait_for(1)
    run(admin, id, "drain")
    equal(listed(admin)[0]["state"], "draining")
    run(admin, id, "post", {"text": "posted"})
    equal(socket.message(), "posted")
    socket.send("too late")
    gate.set()
    equal(socket.message(), "answer to before")
    equal(socket.closed_with(), (1001, "drained"))
    equal(log.all(), ["before"])
    until(lambda: not listed(admin), "it is gone")


@test("drain under load loses nothing: both ends have counted the same", workers=[4])
def drained_under_load(t):
    log = ws.Log()
    sluice, admin = begun(t, origin=server(log=log))
    count = 24
    sockets = opened(t, admin, sluice, count)
    accepted, answered = [0] * count, [0] * count

    def live(i):
        socket = sockets[i]
        try:
            while True:
                socket.send(f"{i}:{accepted[i]}")
                accepted[i] += 1
                read = socket.read()
                while read.opcode == ws.TEXT and read.payload == b"posted":
                    read = socket.read()
                if read.opcode == ws.CLOSE:
                    equal(read.closes_with, (1001, "drained"))
                    accepted[i] -= 1  # the one that came too late
                    socket.stream.try_send(socket.bytes_of(ws.CLOSE, read.payload))
                    return
                equal(read.payload.decode(), f"{i}:{answered[i]}")
                answered[i] += 1
        except Ended as ended:
            raise AssertionError(f"socket {i} was cut") from ended

    failures = []

    def guarded(i):
        try:
            live(i)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    log.wait_for(count * 10)
    equal(run(admin, "all", "post", {"text": "posted"})["queued"], count)
    equal(run(admin, "all", "drain"), {"found": count, "ending": count, "gone": 0})
    for thread in threads:
        thread.join()
    equal(failures, [])
    until(lambda: not listed(admin), "all are gone")
    came = [what for what in log.all() if isinstance(what, str)]
    equal(sorted(came), sorted(f"{i}:{n}" for i in range(count) for n in range(answered[i])))


@test("a drain of sluice ends what a drain of a socket waits for: a message's limit, a client that reads nothing", workers=[1])
def drained_twice(t):
    limited = "[limit l]\nkey = ip\nrate = 1 per 1h\n"
    sluice, admin = with_admin(t, limited + to(t.origin(server()), route=MESSAGES + "message_limits = l\nsocket_queue_bytes = 20M\nclose_timeout = 200ms"),
                               settings="shutdown_timeout = 16s")
    (waits,) = opened(t, admin, sluice, 1)
    for text in ("first", "waits an hour"):
        waits.send(text)
    equal(waits.message(), "first")
    run(admin, only(admin), "drain")
    reads_nothing = open_socket(t, sluice, receive_buffer=4096)
    until(lambda: len(listed(admin)) == 2, "both are listed")
    (id,) = [one["id"] for one in listed(admin) if one["state"] == "open"]
    for _ in range(8):
        run(admin, id, "post", {"text": "f" * 1000_000})
    run(admin, id, "drain")
    sluice.terminate()
    equal(waits.closed_with(), (1001, "drained"))
    equal(sluice.wait(), 0, "exit status")
    reads_nothing.stream.close()


@test("hundreds are ended at once, while others pass messages", workers=[4])
def many(t):
    sluice, admin = with_admin(t, two_routes(t.origin(server())))
    doomed = opened(t, admin, sluice, 300)
    alive = open_socket(t, sluice, target="/shop", fields=[("X-Api-Key", "ann")])
    equal(run(admin, "all", "close", {"code": 3333}, query="?type=chat"), {"found": 300, "ending": 300, "gone": 0})
    alive.send("hello")
    equal(alive.message(), "hello")
    for socket in doomed:
        equal(socket.closed_with()[0], 3333)
    until(lambda: len(listed(admin)) == 1, "one is left")


@group("a gateway's sockets", workers=[4])
def gateways(t):
    def opens(call):
        call.fields += [("Set-Meta-User", call.x.request.get("X-User")), ("Set-Meta-Level", "gold")]

    backend = Backend(on_open=opens)
    sluice, admin = with_admin(t, to(t.origin(backend), route="websocket = gateway\nsocket_type = live\nping_interval = 0s\n"))
    users = {name: open_socket(t, sluice, fields=[("X-User", name)]) for name in ("ann", "bob", "eve")}
    until(lambda: len(listed(admin, "?meta.level=gold")) == 3, "their values are set")
    with t.point("are found by the values that the backend has set, and by their Connection-Id"):
        (ann,) = listed(admin, "?meta.user=ann&type=live")
        equal(ann["meta"], {"User": "ann", "Level": "gold"})
        equal([one["id"] for one in listed(admin, f"?connection={ann['connection']}")], [ann["id"]])
        equal(listed(admin, "?meta.user=zoe") + listed(admin, "?meta.user=ann&meta.level=iron") + listed(admin, "?connection=x"), [])
        equal(admin.json("/api/v1/sockets?meta.=x")[0], 400)
        equal(admin.json("/api/v1/sockets?" + "&".join(f"meta.n{n}=x" for n in range(5)))[0], 400)
    with t.point("are sent to"):
        run(admin, "all", "post", {"text": "to bob"}, query="?meta.user=bob&wait=sent")
        equal(users["bob"].message(), "to bob")
    with t.point("close with a code, which the backend learns"):
        run(admin, ann["id"], "close", {"code": 4001, "reason": "enough"})
        equal(users["ann"].closed_with(), (4001, "enough"))
    with t.point("are drained: what the backend answers is delivered"):
        users["bob"].send("last words")
        run(admin, "all", "drain", query="?meta.user=bob")
        got = []
        while (read := users["bob"].read()).opcode == ws.TEXT:
            got.append(read.payload)
        equal(read.closes_with, (1001, "drained"))
        true(got in ([], [b"last words"]), got)
        equal(len(got), backend.log.all().count("last words"))
        users["bob"].send_close(1001)
    with t.point("and aborted"):
        run(admin, "all", "abort")
        true(was_cut(users["eve"]), "it was cut")
        until(lambda: not listed(admin), "all are gone")


# ---- around it --------------------------------------------------------------------------------

@group("sluice sockets", workers=[4])
def commands(t):
    sluice, admin = with_admin(t, two_routes(t.origin(server())))
    order = open_socket(t, sluice, target="/shop", fields=[("X-Api-Key", "ann")])
    (chat,) = opened(t, admin, sluice, 1)

    def sockets(*words, status=0):
        return command("sockets", *words, "-c", sluice.ini_path, status=status)

    def listing(*words):
        return json.loads(sockets(*words, "--json"))["sockets"]

    ids = {one["type"]: one["id"] for one in listing()}
    with t.point("lists them, as a table and as JSON, found by terms and page by page"):
        equal(set(ids), {"order", "chat"})
        table = sockets()
        true(all(id in table for id in ids.values()) and "CALLER" in table, table)
        equal([one["type"] for one in listing("--find", "type=order", "--find", "max_age=1h")], ["order"])
        first = sockets("--count", "1")
        true("there are more: --after " in first, first)
        after = first.split("--after ")[1].strip()
        equal({after, listing("--count", "1", "--after", after)[0]["id"]}, set(ids.values()))
        true(ids["chat"] in sockets(ids["chat"]), "one of them")
    with t.point("post and send"):
        sockets("post", ids["chat"], "hello")
        equal(chat.message(), "hello")
        sockets("send", "all", "--find", "type=order", "YWJj", "--binary", "--wait", "5s")
        equal(order.message(), b"abc")
    with t.point("close, drain and abort"):
        sockets("close", ids["order"], "--code", "4000", "--reason", "enough")
        equal(order.closed_with(), (4000, "enough"))
        sockets("drain", ids["chat"])
        equal(chat.closed_with(), (1001, "drained"))
        until(lambda: not listed(admin), "both are gone")
        (chat,) = opened(t, admin, sluice, 1)
        sockets("abort", "all")
        true(was_cut(chat), "it was cut")
    with t.point("exit status 1 for no such socket, 2 for a wrong command line"):
        for words in (("post", ids["chat"], "x"), ("close", "all"), (NOTHING,), ("abort", NOTHING)):
            sockets(*words, status=1)
        for words in (("post", "x"), ("shout", "x", "y"), ("close", "x", "y"), ("--find", "type"), ("--code", "1000"),
                      ("abort", "all", "--code", "1000"), ("close", "all", "--binary"), ("close", "all", "--code", "x"),
                      ("post", "all", "x", "--count", "3"), ("--wait", "1s"), ("--hash", "x")):
            sockets(*words, status=2)
        sockets("close", "all", "--code", "-64536", status=1)
    with t.point("an invalid code is answered with the valid ones, by the command and by the API"):
        valid = "1000 to 1003, 1007 to 1014 or 3000 to 4999"
        true(valid in sockets("close", "all", "--code", "x", status=2), "sluice sockets says so")
        true(valid in sockets("close", "all", "--code", "999", status=1), "and the API")


@test("a token with role read may list, and change nothing", workers=[1])
def tokens(t):
    sluice, admin = begun(t, tokens="ann read reader\nbob write writer\n")
    socket = open_socket(t, sluice)
    until(lambda: len(admin.json("/api/v1/sockets", token="reader")[1]["sockets"]) == 1, "it is listed")
    id = admin.json("/api/v1/sockets", token="reader")[1]["sockets"][0]["id"]
    equal(admin.json("/api/v1/sockets")[0], 401)
    equal(admin.json(f"/api/v1/sockets/{id}", token="reader")[0], 200)
    for operation in ("post", "send", "close", "abort", "drain"):
        run(admin, id, operation, {"text": "x"} if operation in ("post", "send") else None, status=403, token="reader")
    run(admin, id, "post", {"text": "written"}, token="writer")
    equal(socket.message(), "written")


@test("a reload keeps sockets, their ids and their queues", workers=[4])
def reloaded(t):
    sluice, admin = begun(t, "socket_queue_bytes = 20M")
    socket, id = slow(t, sluice, admin)
    run(admin, id, "post", {"text": "before"})
    sluice.reload(sluice.sections.replace("socket_queue_bytes = 20M", "socket_queue_bytes = 20M\nsocket_type = other"))
    sluice.process.wait_output(": reloaded")
    run(admin, id, "post", {"text": "after"})
    equal(after_the_filling(socket), "before")
    equal(socket.message(), "after")
    equal(only(admin), id)


@test("an upgrade leaves sockets and their queues with the old process; the new one's ids are others", workers=[4])
def upgraded(t):
    path = t.path("sluice.pid")
    sluice, admin = begun(t, "socket_queue_bytes = 20M", settings=f"pid_file = {path}\nshutdown_timeout = 60s")
    socket, id = slow(t, sluice, admin)
    run(admin, id, "post", {"text": "before"})
    old = sluice.pid
    successor = Successor(t, sluice, path)
    until(lambda: admin.json("/api/v1/status")[1]["pid"] != old, "the new process answers")
    equal(listed(admin), [])
    run(admin, id, "post", {"text": "not here"}, status=404)
    other = open_socket(t, sluice)
    until(lambda: len(listed(admin)) == 1, "the new one's is listed")
    true(only(admin)[:12] != id[:12], "ids of two processes")
    run(admin, only(admin), "post", {"text": "news"})
    equal(other.message(), "news")
    equal(after_the_filling(socket), "before")  # nothing of its queue was lost
    other.stream.close()
    socket.close()
    equal(successor.end_both(), 0)


@test("sluice ends while requests wait for slow readers: they get 503", workers=[4])
def stopped(t):
    sluice, admin = begun(t, "socket_queue_bytes = 20M\nclose_timeout = 100ms", settings="shutdown_timeout = 16s")
    socket, id = slow(t, sluice, admin)
    before = listed(admin)[0]["queued"]
    statuses = []

    def wait():
        statuses.append(admin.json(f"/api/v1/sockets/{id}/post?wait=sent&timeout=1m", "POST", body=b'{"text": "never"}')[0])

    waiters = [threading.Thread(target=wait) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    until(lambda: listed(admin)[0]["queued"] == before + 3, "they wait")
    socket.stream.close()
    sluice.terminate()
    for waiter in waiters:
        waiter.join()
    equal(sluice.wait(), 0)
    true(set(statuses) <= {200, 503}, statuses)


main()
