"""websocket = gateway: messages are charged, ordered, counted and ended as those of websocket = messages."""
import re
import threading
import time

from lib import websocket as ws
from lib.admin import value, with_admin
from lib.client import request_bytes
from lib.gateway import Backend
from lib.one_budget import OneBudget
from lib.process import until
from lib.sluice import to
from lib.successor import Successor
from lib.tap import equal, main, test, true
from lib.websocket import open_socket

KEY = [("X-Api-Key", "caller")]
GONE = ("DISCONNECT", None)


def route(more="", limits="", messages="l"):
    lines = [f"limits = {limits}" if limits else "", "session = header:X-Api-Key",
             "websocket = gateway", f"message_limits = {messages}" if messages else "", more]
    return "\n".join(lines)


def limit(rate, name="l"):
    return f"[limit {name}]\nkey = header:X-Api-Key | ip\nrate = {rate}\n"


class Held(Backend):
    """Answers `slow` messages when they are released."""

    def __init__(self):
        super().__init__(before=self.hold)
        self.release = threading.Event()
        self.arrived = threading.Event()

    def hold(self, call):
        if call.events and call.events[0][1] == b"slow":
            self.arrived.set()
            self.release.wait(120)


def messages_of(backend):
    return [what for what in backend.log.all() if isinstance(what, str)]


# ---- memory that others fill -----------------------------------------------------------------------

@test("unfinished uploads that fill buffering_memory close no socket, and refuse no handshake")
def uploads_of_others(t):
    backend = Backend()
    sluice, admin = with_admin(t, to(
        t.origin(backend), route="websocket = gateway\nrequest_buffering = 100k"),
        settings="buffering_memory = 1M\nbuffering_disk = 0")
    socket = open_socket(t, sluice)
    socket.send("before")
    equal(socket.message(), "before")
    uploads = [t.client(sluice) for _ in range(24)]
    for upload in uploads:
        upload.send(request_bytes("/upload", method="POST", fields=[("Content-Length", "70000")]) + b"x" * 65000)
    until(lambda: value(admin.metrics()[1], "sluice_buffering_refused_total", bound="memory"), "the memory is full")
    for size in (10, 60000):
        socket.send("y" * size)
        equal(socket.message(), "y" * size)
    other = open_socket(t, sluice)
    other.send("welcome")
    equal(other.message(), "welcome")


@test("buffering_memory = 0 and buffering_disk = 0: a gateway's handshakes and messages need neither")
def no_buffering(t):
    sluice = t.sluice(to(t.origin(Backend()), route="websocket = gateway"),
                      settings="buffering_memory = 0\nbuffering_disk = 0")
    socket = open_socket(t, sluice)
    for size in (10, 60000):
        socket.send("y" * size)
        equal(socket.message(), "y" * size)


# ---- limits --------------------------------------------------------------------------------------

@test("cost = response:FIELD: what an answer says is charged for the messages that it answers")
def cost_of_answers(t):
    backend = Held()
    hold = backend.before

    def before(call):
        hold(call)
        call.fields.append(("X-Cost", "10"))
    backend.before = before
    sluice, admin = with_admin(t, limit("1000 per 1h") + to(
        t.origin(backend), route=route("cost = response:X-Cost")))

    def used():
        return admin.json("/api/v1/callers?key=caller")[1]["limits"][0]["used"]
    socket = open_socket(t, sluice, fields=KEY)
    socket.send("slow")
    backend.arrived.wait(120)
    for n in range(5):
        socket.send(f"message {n}")
    socket.send_frame(ws.PING, b"")
    equal(socket.read_frame().opcode, ws.PONG)
    equal(used(), 1)  # those that wait are charged when they leave
    backend.release.set()
    equal([socket.message() for _ in range(6)], ["slow", *(f"message {n}" for n in range(5))])
    equal(backend.batches.all()[1:], [["slow"], [f"message {n}" for n in range(5)]])
    until(lambda: used() == 20, "two answers are charged")


@test("close: 1008 says when to come back; the backend gets what was admitted and no more")
def close_over(t):
    backend = Backend()
    sluice = t.sluice(limit("3 per 1h"), to(t.origin(backend), route=route("on_message_exceed = close")))
    socket = open_socket(t, sluice, fields=KEY)
    for n in range(3):
        socket.send(f"message {n}")
        equal(socket.message(), f"message {n}")
    socket.send("too many")
    code, reason = socket.closed_with()
    equal(code, 1008)
    true(re.fullmatch(r"retry-after-ms=\d+", reason), reason)
    equal(backend.log.wait_for(5)[1:], [f"message {n}" for n in range(3)] + [("CLOSE", b"\x03\xe9" + reason.encode())])


@test("drop: with a notice, each of a batch is judged for itself")
def drop_over(t):
    backend = Held()
    sluice, admin = with_admin(t, limit("3 per 1h") + to(t.origin(backend), route=route(
        "on_message_exceed = drop\nmessage_notice = no")))
    socket = open_socket(t, sluice, fields=KEY)
    socket.send("slow")
    backend.arrived.wait(120)
    for n in range(5):
        socket.send(f"message {n}")
    equal([socket.message() for _ in range(3)], ["no"] * 3)
    backend.release.set()
    equal([socket.message() for _ in range(3)], ["slow", "message 0", "message 1"])
    equal(messages_of(backend), ["slow", "message 0", "message 1"])
    equal(admin.json("/api/v1/callers?key=caller")[1]["limits"][0]["used"], 3)


@test("delay: the messages arrive in order, each when it fits")
def delay_over(t):
    backend = Backend()
    sluice = t.sluice(limit("2 per 1s"), to(t.origin(backend), route=route("on_message_exceed = delay")))
    socket = open_socket(t, sluice, fields=KEY)
    began = time.monotonic()
    for n in range(6):
        socket.send(f"message {n}")
    equal([socket.message() for _ in range(6)], [f"message {n}" for n in range(6)])
    fifth = backend.log.times()[1:][4] - began
    true(fifth >= 1.9, f"the fifth of 2 per 1 s came after {fifth} s")


@test("a limit in bytes is charged what the client's messages have, however they leave")
def bytes_once(t):
    backend = Held()
    sluice, admin = with_admin(t, limit("10000B per 1h") + to(t.origin(backend), route=route()))
    socket = open_socket(t, sluice, fields=KEY)
    socket.send("slow")
    backend.arrived.wait(120)
    for _ in range(3):
        socket.send(b"x" * 100)
    socket.send_frame(ws.PING, b"")
    equal(socket.read_frame().opcode, ws.PONG)
    backend.release.set()
    equal([socket.message() for _ in range(4)], ["slow"] + [b"x" * 100] * 3)
    equal(backend.batches.all()[2], [b"x" * 100] * 3)
    equal(socket.close()[0], 1000)
    until(lambda: admin.json("/api/v1/callers?key=caller")[1]["limits"][0]["used"] == 304, "304 bytes")


@test("the handshake is charged once to limits, and one limit is one budget for both")
def one_budget(t):
    sluice = t.sluice(limit("4 per 1h"), to(t.origin(Backend()), route=route("on_message_exceed = close", limits="l")))
    socket = open_socket(t, sluice, fields=KEY)
    socket.send("one")
    equal(socket.message(), "one")
    equal(t.client(sluice).ask("/", fields=KEY).status, 200)
    socket.send("two")
    equal(socket.message(), "two")
    equal(t.client(sluice).ask("/", fields=KEY).status, 429)
    socket.send("three")
    equal(socket.closed_with()[0], 1008)


@test("no window holds more than the limit when half is spent by requests and half by messages")
def bound(t):
    log, budget = ws.Log(), OneBudget(t, quota=40, window=2)

    def on_event(call, kind, content):
        if kind == "TEXT":
            log.add(content.decode())
            call.send("ok")
    gateway = Backend(on_event=on_event)

    def handler(x):
        if x.request.get("X-Number"):
            log.add(x.request.get("X-Number"))
        gateway(x)

    budget.spend(t.sluice(budget.sections(t.origin(handler), "gateway")), log, clients=6, seconds=5.0)


@test("max_sockets bounds the sockets of a caller, and one that ends makes room")
def sockets_bound(t):
    sluice = t.sluice("[limit s]\nkey = header:X-Api-Key\nconcurrency = 2\n",
                      to(t.origin(Backend()), route=route("max_sockets = s", messages="")))

    def status():
        client = t.client(sluice)
        client.request("/", fields=ws.handshake_fields(KEY))
        return client.response_head().status

    sockets = [open_socket(t, sluice, fields=KEY) for _ in range(2)]
    equal(status(), 429)
    equal(sockets[0].close()[0], 1000)
    until(lambda: status() == 101, "there is room again")


@test("messages hold places of max_in_flight as requests do, and wait for them in turn")
def in_flight(t):
    backend = Held()
    origin = t.origin(backend)
    sluice = t.sluice(to(origin, upstream="max_in_flight = 1", route=route(messages="")))
    one = open_socket(t, sluice, fields=[("X-Api-Key", "one")])
    two = open_socket(t, sluice, fields=[("X-Api-Key", "two")])
    one.send("slow")
    backend.arrived.wait(120)
    two.send("quick")
    two.send_frame(ws.PING, b"")
    equal(two.read_frame().opcode, ws.PONG)
    equal(len(origin.requests), 3)
    backend.release.set()
    equal(two.message(), "quick")
    equal(one.message(), "slow")
    equal(messages_of(backend), ["slow", "quick"])


@test("metrics count messages and sockets, and no event of the gateway's own")
def metrics(t):
    backend = Backend(on_open=lambda call: call.fields.append(("Keep-Alive-Interval", "1")))
    sluice, admin = with_admin(t, limit("2 per 1h") + to(t.origin(backend), route=route("on_message_exceed = drop")))
    socket = open_socket(t, sluice, fields=KEY)
    for _ in range(3):
        socket.send("12345")
    equal([socket.message() for _ in range(2)], ["12345"] * 2)
    backend.batches.wait_for(4)  # one without events is among them
    socket.stream.reset()

    def counted(name, **labels):
        return value(admin.ask("/metrics")[2].decode(), name, route="origin", **labels)
    until(lambda: counted("sluice_sockets_closed_total") == 1, "the end", pause=0.05)
    equal(counted("sluice_messages_total", verdict="admit"), 2)
    equal(counted("sluice_messages_total", verdict="refuse"), 1)
    until(lambda: GONE in backend.log.all(), "the backend hears of it")


# ---- ends ----------------------------------------------------------------------------------------

def with_session(t):
    backend = Held()
    sluice, admin = with_admin(t, to(t.origin(backend), route=route("ordering = strict", messages="")))
    socket = open_socket(t, sluice, fields=KEY)
    (session,) = admin.json("/api/v1/sessions")[1]["sessions"]
    return backend, sluice, admin, socket, session["id"]


@test("a session that drains or closes ends its idle socket: CLOSE with 1001 to the backend, 1001 to the client")
def session_ends(t):
    for operation in ("drain", "close"):
        backend, _, admin, socket, session = with_session(t)
        equal(admin.json(f"/api/v1/sessions/{session}/{operation}", "POST")[0], 200)
        equal(socket.closed_with()[0], 1001)
        equal(backend.log.wait_for(2)[1], ("CLOSE", b"\x03\xe9session closed"))


@test("a drain lets what is under way be answered first")
def session_drains(t):
    backend, _, admin, socket, session = with_session(t)
    socket.send("slow")
    backend.arrived.wait(120)
    socket.send("waits")
    socket.send_frame(ws.PING, b"")
    equal(socket.read_frame().opcode, ws.PONG)
    equal(admin.json(f"/api/v1/sessions/{session}/drain", "POST")[0], 200)
    backend.release.set()
    equal([socket.message(), socket.message()], ["slow", "waits"])
    equal(socket.closed_with()[0], 1001)
    equal(backend.log.all()[1:], ["slow", "waits", ("CLOSE", b"\x03\xe9session closed")])


@test("an abort cuts the socket, and the backend gets DISCONNECT")
def session_aborted(t):
    backend, _, admin, socket, session = with_session(t)
    equal(admin.json(f"/api/v1/sessions/{session}/abort", "POST")[0], 200)
    socket.stream.read_to_any_end()
    equal(backend.log.wait_for(2)[1], GONE)


@test("a server that ends: 1001 to each client, CLOSE to the backend, and then it is gone")
def drain(t):
    backend = Backend()
    sluice = t.sluice(to(t.origin(backend), route=route(messages="")), settings="shutdown_timeout = 12s")
    sockets = [open_socket(t, sluice, fields=KEY) for _ in range(5)]
    sluice.terminate()
    equal({socket.closed_with()[0] for socket in sockets}, {1001})
    equal(sluice.wait(), 0)
    equal(backend.log.all()[5:], [("CLOSE", b"\x03\xe9going away")] * 5)


def wait_draining(admin):
    """Until the only socket has begun to end."""
    until(lambda: [one["state"] for one in admin.json("/api/v1/sockets")[1]["sockets"]] == ["draining"],
          "the socket drains", pause=0.05)


# With one worker, as the others would end, and the operator's API says of sockets no more then.
@test("a server that ends: messages under way are answered before 1001", workers=[1])
def drain_answers(t):
    backend = Held()
    sluice, admin = with_admin(
        t, to(t.origin(backend), route=route(messages="")), settings="shutdown_timeout = 20s")
    socket = open_socket(t, sluice, fields=KEY)
    socket.send("slow")
    backend.arrived.wait(120)
    socket.send("waits")
    socket.send_frame(ws.PING, b"")
    equal(socket.read_frame().opcode, ws.PONG)
    sluice.terminate()
    wait_draining(admin)
    backend.release.set()
    equal([socket.message(), socket.message()], ["slow", "waits"])
    equal(socket.closed_with(), (1001, "going away"))
    equal(sluice.wait(), 0)
    equal(backend.log.all()[1:], ["slow", "waits", ("CLOSE", b"\x03\xe9going away")])


@test("a socket whose lifetime ends: messages under way are answered before 1001")
def lifetime_answers(t):
    backend = Held()
    sluice, admin = with_admin(
        t, to(t.origin(backend), route=route("socket_lifetime = 6s", messages="")))
    socket = open_socket(t, sluice, fields=KEY)
    socket.send("slow")
    backend.arrived.wait(120)
    socket.send("waits")
    socket.send_frame(ws.PING, b"")
    equal(socket.read_frame().opcode, ws.PONG)
    wait_draining(admin)
    backend.release.set()
    equal([socket.message(), socket.message()], ["slow", "waits"])
    equal(socket.closed_with(), (1001, "lifetime"))
    equal(backend.log.wait_for(4)[1:], ["slow", "waits", ("CLOSE", b"\x03\xe9lifetime")])


@test("a reload changes the limits of open sockets, and leaves them open")
def reload(t):
    sections = to(t.origin(Backend()), route=route("on_message_exceed = drop\nmessage_notice = no"))
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
    sluice.reload(limit("3 per 1h") + sections.replace("websocket = gateway", "websocket = tunnel").replace(
        "message_limits = l\non_message_exceed = drop\nmessage_notice = no", ""))
    until(lambda: sluice.log().count("reloaded") >= 2, "the reload")
    socket.send("still a gateway's")
    true(socket.message() in ("still a gateway's", "no"), "an answer")
    equal(socket.close()[0], 1000)


@test("an upgrade of the binary leaves sockets with the old process until they end")
def upgrade(t):
    path = t.path("sluice.pid")
    backend = Backend()
    sluice = t.sluice(to(t.origin(backend), route=route(messages="")),
                      settings=f"pid_file = {path}\nshutdown_timeout = 1m")
    socket = open_socket(t, sluice)
    successor = Successor(t, sluice, path)
    socket.send("still here")
    equal(socket.message(), "still here")
    other = open_socket(t, sluice)
    other.send("with the new one")
    equal(other.message(), "with the new one")
    other.stream.reset()
    until(lambda: GONE in backend.log.all(), "the new one reports the end")
    socket.close()
    equal(successor.end_both(), 0)


@test("socket_idle_timeout closes with 1001; requests that keep a socket alive do not count")
def idle(t):
    backend = Backend(on_open=lambda call: call.fields.append(("Keep-Alive-Interval", "1")))
    sluice = t.sluice(to(t.origin(backend), route=route("socket_idle_timeout = 4s", messages="")))
    socket = open_socket(t, sluice)
    equal(socket.closed_with(), (1001, "idle"))
    until(lambda: backend.batches.all()[-1] == [("CLOSE", b"\x03\xe9idle")], "the close at the backend")
    requests = backend.batches.all()
    equal(requests[0], [("OPEN", None)])
    true(len(requests) > 2 and not any(requests[1:-1]), f"only keep-alive requests between: {requests}")


if __name__ == "__main__":
    main()
