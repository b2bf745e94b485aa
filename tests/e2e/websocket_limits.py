"""Messages of WebSockets are charged, ordered, counted and logged as requests are."""
import json
import os
import re
import time

from lib import websocket as ws
from lib.admin import value, with_admin
from lib.gateway import Backend
from lib.one_budget import OneBudget
from lib.process import until
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.websocket import open_socket, server

KEY = [("X-Api-Key", "caller")]


def route(more, limits="", messages="l"):
    lines = [f"limits = {limits}" if limits else "", "session = header:X-Api-Key",
             "websocket = messages", f"message_limits = {messages}" if messages else "", more]
    return "\n".join(lines)


def limit(rate, name="l", more=""):
    return f"[limit {name}]\nkey = header:X-Api-Key | ip\nrate = {rate}\n{more}\n"


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as text:
        return text.read()


def retry_after_ms(said):
    """Of a close frame's (code, reason)."""
    code, reason = said
    equal(code, 1008, f"closed with {said}")
    return int(re.fullmatch(r"retry-after-ms=(\d+)", reason).group(1))


# ---- a message over its limit ----------------------------------------------------------------------

@test("close: 1008 names the time to retry; the server gets the admitted messages only")
def close_over(t):
    log = ws.Log()
    origin = t.origin(server(log=log))
    sluice = t.sluice(limit("3 per 1m"), to(origin, route=route("on_message_exceed = close")))
    socket = open_socket(t, sluice, fields=KEY)
    began = time.monotonic()
    for n in range(3):
        socket.send(f"message {n}")
        equal(socket.message(), f"message {n}")
    socket.send("too many")
    wait_ms = retry_after_ms(socket.closed_with())
    true(60000 - (time.monotonic() - began) * 1000 - 50 <= wait_ms <= 60000, f"{wait_ms} ms")
    equal(log.wait_for(4), ["message 0", "message 1", "message 2", ("close", 1001, f"retry-after-ms={wait_ms}")])
    socket = open_socket(t, sluice, fields=[("X-Api-Key", "another")])
    socket.send("mine")
    equal(socket.message(), "mine")


@test("drop: with a notice, and the next that fits is passed on")
def drop_over(t):
    log = ws.Log()
    origin = t.origin(server(log=log))
    sluice = t.sluice(limit("2 per 2s"), to(origin, route=route(
        'on_message_exceed = drop\nmessage_notice = {"error":"slow down"}')))
    socket = open_socket(t, sluice, fields=KEY)
    socket.stream.send(b"".join(socket.bytes_of(ws.TEXT, b"message %d" % n) for n in range(5)))
    # A notice need not wait for the server's answers.
    equal(sorted(socket.message() for _ in range(5)),
          ["message 0", "message 1", *3 * ['{"error":"slow down"}']])

    def passes():
        socket.send("again")
        return socket.message() == "again"
    until(passes, "one fits again", pause=0.1)
    equal(socket.close()[0], 1000)
    equal(log.all()[:3], ["message 0", "message 1", "again"])


@test("delay: the client is held back, each message arrives when it fits")
def delay_over(t):
    log = ws.Log()
    origin = t.origin(server(log=log))
    sluice = t.sluice(limit("2 per 1s"), to(origin, route=route("on_message_exceed = delay")))
    socket = open_socket(t, sluice, fields=KEY)
    began = time.monotonic()
    for n in range(6):
        socket.send(f"message {n}")
    equal([socket.message() for _ in range(6)], [f"message {n}" for n in range(6)])
    fifth = log.times()[4] - began
    true(fifth >= 1.9, f"the fifth of 2 per 1 s came after {fifth} s")


@test("delay TIME: a message that would wait longer closes the socket with 1008")
def delay_bounded(t):
    origin = t.origin(server())
    sluice = t.sluice(limit("1 per 1h"), to(origin, route=route("on_message_exceed = delay 2s")))
    socket = open_socket(t, sluice, fields=KEY)
    socket.send("one")
    equal(socket.message(), "one")
    socket.send("two")
    true(retry_after_ms(socket.closed_with()) > 3590000, "the wait")


@test("a limit in bytes is charged the length of messages")
def bytes_over(t):
    origin = t.origin(server())
    sluice = t.sluice(limit("1000B per 1h"), to(origin, route=route("on_message_exceed = close")))
    socket = open_socket(t, sluice, fields=KEY)
    for _ in range(2):
        socket.send(b"x" * 600)
        equal(socket.message(), b"x" * 600)
    socket.send(b"x")
    retry_after_ms(socket.closed_with())


@test("a limit in bytes is charged for messages, and not once more at the socket's end")
def bytes_once(t):
    origin = t.origin(server(lambda socket, message: socket.send(b"y" * 500)))
    sluice, admin = with_admin(t, limit("1000B per 1h") + to(origin, route=route("", limits="l")))
    socket = open_socket(t, sluice, fields=KEY)
    for _ in range(3):
        socket.send(b"x" * 100)
        equal(socket.message(), b"y" * 500)
    equal(socket.close()[0], 1000)
    until(lambda: value(admin.ask("/metrics")[2].decode(), "sluice_sockets_closed_total", route="origin") == 1, "the end", pause=0.05)
    equal(admin.json("/api/v1/callers?key=caller")[1]["limits"][0]["used"], 300)


@test("after a reload from close to drop, a socket with compressed messages is still closed")
def drop_compressed(t):
    log = ws.Log()
    deflate = [("Sec-WebSocket-Extensions", "permessage-deflate")]
    origin = t.origin(server(log=log, fields=deflate))
    sections = limit("1 per 1h") + to(origin, route=route("on_message_exceed = close"))
    sluice = t.sluice(sections)
    socket = open_socket(t, sluice, fields=KEY + deflate)
    sluice.reload(sections.replace("= close", "= drop\nmessage_notice = no"))
    until(lambda: "reloaded" in sluice.log(), "the reload")
    socket.send_frame(ws.BINARY, b"one", rsv=4)
    equal(socket.read().payload, b"one")
    socket.send_frame(ws.BINARY, b"two", rsv=4)
    retry_after_ms(socket.closed_with())
    equal(log.wait_for(2)[0], b"one")


# ---- one budget -----------------------------------------------------------------------------------

@test("the handshake is charged once to limits, and one limit is one budget for both")
def one_budget(t):
    origin = t.origin(server())
    sluice = t.sluice(limit("4 per 1h"), to(origin, route=route("on_message_exceed = close", limits="l")))
    socket = open_socket(t, sluice, fields=KEY)
    socket.send("one")
    equal(socket.message(), "one")
    equal(t.client(sluice).ask("/", fields=KEY).status, 200)
    socket.send("two")
    equal(socket.message(), "two")
    equal(t.client(sluice).ask("/", fields=KEY).status, 429)
    socket.send("three")
    retry_after_ms(socket.closed_with())
    client = t.client(sluice)
    client.request("/", fields=ws.handshake_fields(KEY))
    equal(client.response().status, 429, "a further handshake")


@test("no window holds more than the limit when half is spent by requests and half by messages")
def bound(t):
    log, budget = ws.Log(), OneBudget(t, quota=40, window=2)
    messages = server(lambda socket, message: (log.add(message), socket.send("ok")))

    def handler(x):
        if x.request.get("Upgrade") is None:
            log.add(x.request.get("X-Number"))
        messages(x)

    budget.spend(t.sluice(budget.sections(t.origin(handler), "messages")), log, clients=8)


@test("max_sockets bounds the sockets of a caller, and one that ends makes room")
def sockets_bound(t):
    origin = t.origin(server())
    sluice = t.sluice(limit("1000 per 1s"), "[limit s]\nkey = header:X-Api-Key\nconcurrency = 2\n",
                      to(origin, route=route("max_sockets = s", limits="l")))

    def handshake():
        client = t.client(sluice)
        client.request("/", fields=ws.handshake_fields(KEY))
        return client.response_head()

    sockets = [open_socket(t, sluice, fields=KEY) for _ in range(2)]
    equal(handshake().status, 429)
    equal(t.client(sluice).ask("/", fields=KEY).status, 200, "a request is no socket")
    open_socket(t, sluice, fields=[("X-Api-Key", "another")])
    equal(sockets[0].close()[0], 1000)
    until(lambda: handshake().status == 101, "there is room again")


# ---- order ----------------------------------------------------------------------------------------

@test("a message waits for the write before it, and a write for the message before it")
def order(t):
    log, release, arrived = ws.Log(), t.event(), t.event()

    def handler(x):
        if x.request.get("Upgrade") is not None:
            server(log=log)(x)
            return
        x.read_body()
        log.add(x.request.target)
        if x.request.target == "/slow":
            arrived.set()
            release.wait()
        x.reply(200, b"done")

    origin = t.origin(handler)
    sluice = t.sluice(limit("1000 per 1s"), to(origin, route=route("", limits="l")))
    socket = open_socket(t, sluice, fields=KEY)
    slow, behind, other = t.client(sluice), t.client(sluice), t.client(sluice)
    slow.request("/slow", "POST", KEY, b"x")
    arrived.wait()
    socket.send("behind the slow one")
    other.ask("/other", "POST", [("X-Api-Key", "another")], b"x")  # so that the message is surely read
    socket.send_frame(ws.PING, b"held back as well")
    behind.request("/behind", "POST", KEY, b"x")
    equal(log.all(), ["/slow", "/other"])
    release.set()
    equal(slow.response().status, 200)
    equal(socket.message(), "behind the slow one")
    equal(behind.response().status, 200)
    found = log.all()
    equal(found[:2], ["/slow", "/other"])
    equal(sorted(found[2:]), ["/behind", "behind the slow one"])


@test("messages that wait for their limit keep their place before later writes")
def order_of_delayed(t):
    log = ws.Log()

    def handler(x):
        if x.request.get("Upgrade") is None:
            log.add(x.request.target)
            x.read_body()
            x.reply(200, b"done")
        else:
            server(log=log)(x)

    # A message is over when it is written, so two connections to the origin tell no order: the time does.
    origin = t.origin(handler)
    sluice, admin = with_admin(t, limit("1 per 1s") + limit("1000 per 1s", "m") + to(origin, route=route("", limits="m")))
    socket = open_socket(t, sluice, fields=KEY)
    began = time.monotonic()
    socket.send("first")
    equal(socket.message(), "first")
    socket.send("delayed")

    def accepted():
        return admin.json("/api/v1/sessions")[1]["sessions"][0]["accepted"]
    until(lambda: accepted() == 3, "handshake and messages have their places")
    client = t.client(sluice)
    equal(client.ask("/later", "POST", KEY, b"x").status, 200)
    equal(socket.message(), "delayed")
    later = dict(zip(log.all(), log.times()))["/later"] - began
    true(later >= 0.999, f"the write came after {later:.3f} s")


@test("a client that leaves by a reset while its message waits leaves its socket and its place")
def reset_of_delayed(t):
    for mode, answer in (("messages", server()), ("gateway\ngateway_waiting = 1", Backend())):
        origin = t.origin(answer)
        sluice, admin = with_admin(
            t, limit("1 per 1h") + "[limit open]\nkey = header:X-Api-Key\nconcurrency = 1\n" +
            to(origin, route=f"websocket = {mode}\nmessage_limits = l\nmax_sockets = open\n"
               "ping_interval = 0s"))
        socket = open_socket(t, sluice, fields=KEY)
        socket.send("first")
        equal(socket.message(), "first")
        for _ in range(4):
            socket.send("waits an hour")

        def sockets():
            return admin.json("/api/v1/sockets")[1]["sockets"]
        # The client is not read any more: what it sends after that stays in its connection.
        until(lambda: sockets()[0]["messages_received"] > 1, "messages wait")
        socket.stream.reset()
        until(lambda: not sockets(), f"{mode}: its socket has ended")
        open_socket(t, sluice, fields=KEY)


# ---- what an operator sees ------------------------------------------------------------------------

@test("metrics count messages, bytes and sockets by route")
def metrics(t):
    origin = t.origin(server())
    sluice, admin = with_admin(t, limit("2 per 1h") + to(origin, route=route("on_message_exceed = drop")))
    socket = open_socket(t, sluice, fields=KEY)
    for _ in range(5):
        socket.send("12345")
    equal([socket.message() for _ in range(2)], 2 * ["12345"])
    equal(socket.close()[0], 1000)

    def counted():
        text = admin.ask("/metrics")[2].decode()
        return {name: int(value) for name, value in re.findall(
            r'^(sluice_(?:\w*message|sockets)\w*_total\{[^}]*route="origin"[^}]*\}) (\d+)$', text, re.M)}
    until(lambda: counted().get('sluice_sockets_closed_total{route="origin"}') == 1, "the socket is closed")
    found = counted()
    for name, value in (('sluice_sockets_opened_total{route="origin"}', 1),
                        ('sluice_messages_total{route="origin",verdict="admit"}', 2),
                        ('sluice_messages_total{route="origin",verdict="refuse"}', 3),
                        ('sluice_server_messages_total{route="origin"}', 2),
                        ('sluice_message_bytes_total{route="origin",from="client"}', 10),
                        ('sluice_message_bytes_total{route="origin",from="server"}', 10)):
        equal(found.get(name), value, f"{name} of {found}")


@test("log_messages: a line a message, with its verdict; the socket has its own at the end")
def logged(t):
    origin = t.origin(server())
    path = t.path("access.log")
    settings = f"access_log = file:{path}\naccess_log_format = json"
    sluice = t.sluice(limit("1 per 1h"), to(origin, route=route("on_message_exceed = drop\nlog_messages = on")),
                      settings=settings)
    socket = open_socket(t, sluice, "/chat?token=secret", KEY)
    socket.send("12345")
    equal(socket.message(), "12345")
    socket.send("123")
    equal(socket.close()[0], 1000)
    until(lambda: read(path).count("\n") == 3, "three lines")
    lines = [json.loads(line) for line in read(path).splitlines()]
    equal([(line["method"], line["target"], line["status"], line["request_bytes"], line["verdict"], line["limit"])
           for line in lines[:2]],
          [("MESSAGE", "/chat", 200, 5, "admit", "l"), ("MESSAGE", "/chat", 429, 0, "refuse", "l")])
    names = ("method", "status", "messages_received", "request_bytes", "messages_sent", "response_bytes")
    equal([lines[2][name] for name in names], ["GET", 101, 2, 8, 1, 5])


@test("the line of a socket says its messages and their bytes in the combined format, too")
def logged_combined(t):
    origin = t.origin(server())
    path = t.path("access.log")
    sluice = t.sluice(to(origin, route=route("", messages="")), settings=f"access_log = file:{path}")
    socket = open_socket(t, sluice)
    socket.send("12345")
    equal(socket.message(), "12345")
    equal(socket.close()[0], 1000)
    until(lambda: read(path).count("\n") == 1, "its line")
    true(' 101 5 "-"' in read(path), read(path))
    true(" messages_received=1 bytes_received=5 messages_sent=1" in read(path), read(path))


@test("a reload changes the limits of open sockets, and leaves them open")
def reload(t):
    origin = t.origin(server())
    sections = to(origin, route=route("on_message_exceed = drop\nmessage_notice = no"))
    sluice = t.sluice(limit("1 per 1h"), sections)
    socket = open_socket(t, sluice, fields=KEY)
    for message, answer in (("one", "one"), ("two", "no")):
        socket.send(message)
        equal(socket.message(), answer)
    sluice.reload(limit("3 per 1h") + sections)
    until(lambda: "reloaded" in sluice.log(), "the reload")

    def passes():
        socket.send("more")
        return socket.message() == "more"
    until(passes, "the new limit", pause=0.05)
    sluice.reload(limit("3 per 1h") + sections.replace("message_limits = l\n", ""))
    until(lambda: sluice.log().count("reloaded") >= 2, "the reload")
    until(lambda: [passes() for _ in range(20)] == 20 * [True], "no limit at all")


if __name__ == "__main__":
    main()
