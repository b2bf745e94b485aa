"""A session that drains, closes or is aborted takes its WebSockets along."""
import threading

from lib import websocket as ws
from lib.admin import with_admin
from lib.process import until
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.websocket import open_socket, server
from lib.wire import Ended

KEY = [("X-Api-Key", "caller")]
ROUTE = "session = header:X-Api-Key\nordering = strict\nwebsocket = messages\n"


class Held:
    """An origin that answers `slow` messages and POSTs when they are released, and logs all that comes."""

    def __init__(self):
        self.log = ws.Log()
        self.release = threading.Event()
        self.sockets = server(self.on_message, log=self.log)

    def on_message(self, socket, message):
        if message == "slow":
            self.release.wait(120)
        socket.send("answer to " + message)

    def __call__(self, x):
        if x.request.get("Upgrade"):
            self.sockets(x)
            return
        x.read_body()
        self.log.add("request")
        self.release.wait(120)
        x.reply(200, b"done")


def begun(t, more=""):
    """(origin, sluice, admin, a socket that is open, its session)"""
    held = Held()
    sluice, admin = with_admin(t, to(t.origin(held), route=ROUTE + more))
    socket = open_socket(t, sluice, fields=KEY)
    (session,) = admin.json("/api/v1/sessions")[1]["sessions"]
    return held, sluice, admin, socket, session["id"]


def end(admin, session, operation):
    equal(admin.json(f"/api/v1/sessions/{session}/{operation}", "POST")[0], 200)


def gone(admin):
    until(lambda: admin.json("/api/v1/sessions")[1]["total"] == 0, "the session is gone")


def begin_post(t, sluice, held):
    """A request that the origin has, and does not answer yet."""
    client = t.client(sluice)
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nX-Api-Key: caller\r\nContent-Length: 0\r\n\r\n")
    equal(held.log.wait_for(1), ["request"])
    return client


def ends_idle(t, operation):
    held, _, admin, socket, session = begun(t)
    end(admin, session, operation)
    equal(socket.closed_with(), (1001, "session closed"))
    equal(held.log.wait_for(1), [("close", 1001, "session closed")])
    gone(admin)


@test("a drain of the session closes its idle socket: 1001 on both sides")
def drained(t):
    ends_idle(t, "drain")


@test("so does a close")
def closed(t):
    ends_idle(t, "close")


@test("an abort cuts it")
def aborted(t):
    _, _, admin, socket, session = begun(t)
    end(admin, session, "abort")
    try:
        socket.read_frame()
    except Ended:
        gone(admin)
        return
    raise AssertionError("it was not cut")


@test("what the server still answers reaches the client before the close frame")
def answered(t):
    for operation in ("drain", "close"):
        held, _, admin, socket, session = begun(t)
        socket.send("slow")
        held.log.wait_for(1)
        end(admin, session, operation)
        held.release.set()
        equal(socket.message(), "answer to slow")
        equal(socket.closed_with(), (1001, "session closed"))
        equal(held.log.wait_for(2), ["slow", ("close", 1001, "session closed")])
        gone(admin)


@test("a drain lets a message that waits have its turn; a close refuses it")
def queued(t):
    for operation, last in (("drain", ["queued"]), ("close", [])):
        held, sluice, admin, socket, session = begun(t)
        client = begin_post(t, sluice, held)
        socket.send("queued")
        until(lambda: admin.json("/api/v1/sessions")[1]["sessions"][0]["queued_normal"] == 1, "it is queued")
        end(admin, session, operation)
        held.release.set()
        equal(client.response().status, 200)
        if last:
            equal(socket.message(), "answer to queued")
        equal(socket.closed_with(), (1001, "session closed"))
        equal(held.log.wait_for(len(last) + 2), ["request", *last, ("close", 1001, "session closed")])
        gone(admin)


@test("what the client sends later is not passed on")
def too_late(t):
    held, _, admin, socket, session = begun(t)
    socket.send("slow")
    held.log.wait_for(1)
    end(admin, session, "drain")
    socket.send("late")
    held.release.set()
    equal(socket.message(), "answer to slow")
    equal(socket.closed_with(), (1001, "session closed"))
    equal(held.log.wait_for(2), ["slow", ("close", 1001, "session closed")])


@test("a server that answers no close frame keeps the socket for close_timeout only")
def unanswered(t):
    def handler(x):
        socket = ws.accept(x)
        try:
            while True:
                socket.read_frame()
        except Ended:
            pass
        x.close()

    sluice, admin = with_admin(t, to(t.origin(handler), route=ROUTE + "close_timeout = 300ms"))
    socket = open_socket(t, sluice, fields=KEY)
    (session,) = admin.json("/api/v1/sessions")[1]["sessions"]
    end(admin, session["id"], "drain")
    equal(socket.closed_with(), (1001, "session closed"))
    gone(admin)


@test("a socket that opens while its session drains is closed as well")
def opened_late(t):
    release = threading.Event()
    log = ws.Log()

    def handler(x):
        log.add("handshake")
        release.wait(120)
        accepted(x)

    accepted = server(log=log)
    sluice, admin = with_admin(t, to(t.origin(handler), route=ROUTE))
    opened = []
    thread = threading.Thread(target=lambda: opened.append(open_socket(t, sluice, fields=KEY)))
    thread.start()
    equal(log.wait_for(1), ["handshake"])
    (session,) = admin.json("/api/v1/sessions")[1]["sessions"]
    end(admin, session["id"], "drain")
    release.set()
    thread.join()
    true(opened, "it is open")
    equal(opened[0].closed_with(), (1001, "session closed"))
    gone(admin)


if __name__ == "__main__":
    main()
