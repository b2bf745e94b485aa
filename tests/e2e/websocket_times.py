"""What a WebSocket whose messages are read may take its time for, and how it ends."""
import time

from lib import websocket as ws
from lib.gateway import Backend
from lib.process import until
from lib.sluice import to
from lib.successor import Successor
from lib.tap import equal, main, test, true
from lib.websocket import open_socket, server
from lib.wire import Ended


def route(more):
    return "websocket = messages\n" + more


def silent_after_close(x):
    """A server that answers nothing, a close frame neither."""
    socket = ws.accept(x)
    try:
        while True:
            socket.read_frame()
    except Ended:
        pass
    x.close()


@test("a silent client is sent pings; its pongs keep it, and do not reach the server")
def pings(t):
    log = ws.Log()
    origin = t.origin(server(log=log))
    sluice = t.sluice(to(origin, route=route("ping_interval = 100ms\nping_timeout = 20s")))
    socket = open_socket(t, sluice)
    payloads = set()
    for _ in range(5):
        read = socket.read_frame()
        equal(read.opcode, ws.PING)
        payloads.add(read.payload)
        socket.send_frame(ws.PONG, read.payload)
    equal(len(payloads), 5, "different pings")
    socket.send("still here")
    equal(socket.message(), "still here")
    equal(log.all(), ["still here"])


@test("a client that answers no ping is cut, and the server learns of it")
def ping_timeout(t):
    log = ws.Log()
    origin = t.origin(server(log=log))
    sluice = t.sluice(to(origin, route=route("ping_interval = 50ms\nping_timeout = 100ms")))
    socket = open_socket(t, sluice)
    equal(socket.read_frame().opcode, ws.PING)
    socket.stream.expect_end()
    equal(log.wait_for(1), ["gone"])


@test("a client that leaves while its message waits is gone at once, and its message does not arrive")
def leaves_while_it_waits(t):
    log = ws.Log()
    origin = t.origin(server(log=log))
    sluice = t.sluice("[limit l]\nkey = ip\nrate = 1 per 1h\n",
                      to(origin, route=route("message_limits = l\non_message_exceed = delay")))
    for message in ("passes", "waits and is alone"):
        socket = open_socket(t, sluice)
        if message == "passes":
            socket.send(message)
            equal(socket.message(), message)
        socket.send("waits")
        socket.send("waits behind it")
        socket.stream.close()
    equal(sorted(map(str, log.wait_for(3))), ["gone", "gone", "passes"])


@test("a client that is held back by its limit is not asked for pongs")
def no_ping_while_held_back(t):
    origin = t.origin(server())
    sluice = t.sluice("[limit l]\nrate = 1 per 5s\n" + to(origin, route=route(
        "message_limits = l\nping_interval = 2s\nping_timeout = 1m")))
    socket = open_socket(t, sluice)
    socket.stream.send(socket.bytes_of(ws.TEXT, b"one") + socket.bytes_of(ws.TEXT, b"two"))
    equal(socket.message(), "one")
    read = socket.read_frame()
    equal((read.opcode, read.payload), (ws.TEXT, b"two"))


@test("a socket without messages is closed with 1001, however often its client pongs")
def idle(t):
    origin = t.origin(server())
    sluice = t.sluice(to(origin, route=route("socket_idle_timeout = 300ms\nping_interval = 50ms")))
    began = time.monotonic()
    socket = open_socket(t, sluice)
    equal(socket.closed_with(), (1001, "idle"))
    true(time.monotonic() - began >= 0.25, "too early")


@test("a socket has a lifetime, less up to a tenth of its own")
def lifetime(t):
    origin = t.origin(server())
    sluice = t.sluice(to(origin, route=route("socket_lifetime = 2s")))
    began = time.monotonic()
    sockets = [open_socket(t, sluice) for _ in range(30)]
    ends = []
    for socket in sockets:
        equal(socket.closed_with(), (1001, "lifetime"))
        ends.append(time.monotonic() - began)
    true(ends[0] >= 1.75, f"ends after {ends}")


@test("a message that does not end is not waited for: 1008")
def message_timeout(t):
    origin = t.origin(server())
    sluice = t.sluice(to(origin, route=route("message_timeout = 200ms")))
    for data in (ws.frame(ws.TEXT, b"half", fin=False, mask=b"abcd"),
                 ws.frame(ws.TEXT, b"a whole frame that is cut", mask=b"abcd")[:-5]):
        socket = open_socket(t, sluice)
        socket.stream.send(data)
        equal(socket.closed_with(), (1008, "message timeout"))


@test("close_timeout: a peer that answers no close frame is cut")
def close_timeout(t):
    origin = t.origin(silent_after_close)
    socket = open_socket(t, t.sluice(to(origin, route=route("close_timeout = 200ms"))))
    socket.send_close(1000)  # which the server does not answer
    socket.stream.expect_end()
    socket = open_socket(t, t.sluice(to(origin, route=route("close_timeout = 200ms\nsocket_idle_timeout = 200ms"))))
    equal(socket.read().closes_with, (1001, "idle"))  # which the client does not answer
    socket.stream.expect_end()


@test("a server that takes no messages does not keep them waiting: 1011")
def server_stalls(t):
    done = t.event()

    def stalls(x):
        ws.accept(x)
        done.wait()

    origin = t.origin(stalls)
    sluice = t.sluice(to(origin, route=route("message_timeout = 8s\nmax_message_size = 16M")))
    socket = open_socket(t, sluice)
    for _ in range(3):
        socket.stream.try_send(socket.bytes_of(ws.BINARY, b"x" * 15000000))
    equal(socket.closed_with(), (1011, "server takes no message"))


@test("a drain closes all sockets with 1001, and the process ends well")
def drain(t):
    origin = t.origin(server())
    sluice = t.sluice(to(origin, route=route("")), settings="shutdown_timeout = 12s")
    sockets = [open_socket(t, sluice) for _ in range(20)]
    sluice.terminate()
    for socket in sockets:
        equal(socket.closed_with(), (1001, "going away"))
    equal(sluice.wait(), 0)


@test("a message that waits for its limit longer than a drain lasts is given up, and the process ends well")
def waits_in_drain(t):
    log = ws.Log()
    sluice = t.sluice("[limit l]\nkey = ip\nrate = 1 per 1h\n" +
                      to(t.origin(server(log=log)), route=route("message_limits = l\non_message_exceed = delay")),
                      settings="shutdown_timeout = 16s")
    socket = open_socket(t, sluice)
    for text in ("first", "waits an hour"):
        socket.send(text)
    equal(socket.message(), "first")
    sluice.terminate()
    equal(socket.closed_with(), (1001, "going away"))
    equal(sluice.wait(), 0, "exit status")
    equal(log.all(), ["first", ("close", 1001, "going away")])


@test("messages pass while a drain waits for the socket's end")
def works_in_drain(t):
    origin = t.origin(server())
    sluice = t.sluice(to(origin, route=route("")), settings="shutdown_timeout = 30s\nlame_duck = 4s")
    socket = open_socket(t, sluice)
    sluice.terminate()
    until(lambda: "lame duck" in sluice.log(), "the lame duck")
    socket.send("still")
    equal(socket.message(), "still")
    until(lambda: "draining" in sluice.log(), "the drain")
    true(socket.close()[0] in (1000, 1001), "closed by the client, or by the drain meanwhile")
    equal(sluice.wait(), 0)


@test("a client that does not answer a drain's close frame is cut in its time, and the process ends well")
def cut_at_the_end(t):
    backend, drained = Backend(), []
    for mode, origin in (("messages", server()), ("gateway", backend)):
        for limit in ("1h", "5s"):
            sluice = t.sluice(to(t.origin(origin), route=f"websocket = {mode}\nclose_timeout = {limit}"),
                              settings="shutdown_timeout = 20s")  # of which a sixteenth is left at the end
            drained.append((sluice, [open_socket(t, sluice) for _ in range(5)]))
    for sluice, _ in drained:
        sluice.terminate()
    for sluice, sockets in drained:
        for socket in sockets:
            equal(socket.read().closes_with, (1001, "going away"))
    for sluice, _ in drained:
        equal(sluice.wait(), 0, f"exit status of {sluice.ini()}")
    equal(sum(isinstance(what, tuple) and what[0] in ("CLOSE", "DISCONNECT") for what in backend.log.all()), 10)


@test("an upgrade of the binary leaves sockets with the old process")
def upgrade(t):
    origin = t.origin(server())
    path = t.path("sluice.pid")
    sluice = t.sluice(to(origin, route=route("")), settings=f"pid_file = {path}\nshutdown_timeout = 1m")
    socket = open_socket(t, sluice)
    successor = Successor(t, sluice, path)
    socket.send("still here")
    equal(socket.message(), "still here")
    other = open_socket(t, sluice)
    other.send("with the new one")
    equal(other.message(), "with the new one")
    other.stream.close()
    socket.close()
    equal(successor.end_both(), 0)


if __name__ == "__main__":
    main()
