"""WebSockets whose messages are read: passed on as they came, whatever their frames were."""
import os
import time

from lib import websocket as ws
from lib.admin import with_admin
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, member, test, true
from lib.websocket import open_socket, server

MESSAGES = "websocket = messages"


@group("messages go both ways")
def both_ways(t):
    log = ws.Log()
    origin = t.origin(server(log=log))
    sluice = t.sluice(to(origin, route=MESSAGES))
    socket = open_socket(t, sluice)

    with t.point("texts and binaries of all lengths, as they were"):
        for size in (0, 1, 125, 126, 4096, 65535, 65536, 300000):
            socket.send("å" * (size // 2))
            equal(socket.message(), "å" * (size // 2), f"text of {size}")
            data = os.urandom(size)
            socket.send(data)
            equal(socket.message(), data, f"binary of {size}")
    with t.point("fragments are one message, control frames between them pass"):
        socket.send_frame(ws.TEXT, "blå".encode()[:3], fin=False)
        socket.send_frame(ws.PING, b"between")
        socket.send_frame(ws.CONTINUATION, b"", fin=False)
        socket.send_frame(ws.CONTINUATION, "blå".encode()[3:] + b"!")
        pong = socket.read_frame()
        equal((pong.opcode, pong.payload), (ws.PONG, b"between"))
        equal(socket.message(), "blå!")
    with t.point("messages in one segment, and cut into single bytes"):
        texts = [f"message {n}" for n in range(100)]
        socket.stream.send(b"".join(socket.bytes_of(ws.TEXT, text.encode()) for text in texts))
        equal([socket.message() for _ in texts], texts)
        socket.stream.send_bytewise(socket.bytes_of(ws.TEXT, b"in single bytes"))
        equal(socket.message(), "in single bytes")
    with t.point("a close frame goes to the server and back"):
        equal(socket.close(4001, "bye"), (4001, "bye"))
        equal(log.all()[-1], ("close", 4001, "bye"))


@test("what is sent with the handshake, and with its answer, is not lost")
def early(t):
    origin = t.origin(server(on_open=lambda socket: socket.send("welcome")))
    sluice = t.sluice(to(origin, route=MESSAGES))
    early_frame = ws.frame(ws.TEXT, b"early", mask=b"abcd")
    socket = open_socket(t, sluice, more=early_frame)
    equal([socket.message(), socket.message()], ["welcome", "early"])


@test("each frame to the server has a mask of its own")
def masks(t):
    sockets = []
    origin = t.origin(server(on_open=sockets.append))
    sluice = t.sluice(to(origin, route=MESSAGES))
    socket = open_socket(t, sluice)
    for _ in range(20):
        socket.stream.send(ws.frame(ws.TEXT, b"same", mask=b"\0\0\0\0"))
        equal(socket.message(), "same")
    equal(len(set(sockets[0].keys)), 20, "different keys")


@test("the server's fragments and pings reach the client, and its pongs the server")
def from_server(t):
    pongs = []

    def on_message(socket, message):
        socket.send_frame(ws.TEXT, b"one ", fin=False)
        socket.send_frame(ws.PING, b"ping")
        socket.send_frame(ws.CONTINUATION, b"x" * 100000, fin=False)
        socket.send_frame(ws.CONTINUATION, b"", fin=True)
        read = socket.read_frame()
        pongs.append((read.opcode, read.payload))
        socket.send("after")

    origin = t.origin(server(on_message))
    sluice = t.sluice(to(origin, route=MESSAGES))
    socket = open_socket(t, sluice)
    socket.send("go")
    equal(socket.message(), "one " + "x" * 100000)
    equal(socket.message(), "after")
    equal(pongs, [(ws.PONG, b"ping")])


@test("the server closes: its close frame reaches the client, and the answer the server")
def server_closes(t):
    log = ws.Log()
    origin = t.origin(server(lambda socket, message: socket.send_close(4002, "enough"), log=log))
    sluice = t.sluice(to(origin, route=MESSAGES))
    socket = open_socket(t, sluice)
    socket.send("go")
    equal(socket.closed_with(), (4002, "enough"))
    equal(log.wait_for(2)[-1], ("close", 4002, "enough"))


@test("the server closes, and its client answers with what breaks the rules: the server gets 1001, and the socket ends")
def broken_answer(t):
    log = ws.Log()
    origin = t.origin(server(lambda socket, message: socket.send_close(4002, "enough"), log=log))
    sluice, admin = with_admin(t, to(origin, route=MESSAGES))
    for count, data in enumerate((ws.frame(3, b"x", mask=b"abcd"), ws.frame(ws.PONG, b"x", mask=b"abcd") * 400), 1):
        socket = open_socket(t, sluice)
        socket.send("go")
        equal(socket.read().closes_with, (4002, "enough"))
        socket.stream.try_send(data)
        equal(log.wait_for(2 * count)[-1][:2], ("close", 1001))
        socket.stream.read_to_any_end()
        socket.stream.close()
        until(lambda: admin.json("/api/v1/sockets")[1]["sockets"] == [], "the socket's end")


@test("the server is gone without a close frame: the client gets 1011")
def server_gone(t):
    def on_message(socket, message):
        if message == "cut":
            socket.stream.reset()
        else:
            socket.stream.close()
        raise ws.Ended("gone")

    origin = t.origin(server(on_message))
    sluice = t.sluice(to(origin, route=MESSAGES))
    for message in ("cut", "end"):
        socket = open_socket(t, sluice)
        socket.send(message)
        equal(socket.closed_with(), (1011, "server gone"), message)


@test("the server hangs up when the client closes: the client gets a close frame nevertheless")
def hung_up(t):
    def handler(x):
        socket = ws.accept(x)
        equal(socket.read().closes_with, (1000, "bye"))
        x.close()

    sluice = t.sluice(to(t.origin(handler), route=MESSAGES))
    socket = open_socket(t, sluice)
    equal(socket.close(1000, "bye"), (None, ""))


@test("the client is gone without a close frame: the server gets 1001")
def client_gone(t):
    log = ws.Log()
    origin = t.origin(server(log=log))
    sluice = t.sluice(to(origin, route=MESSAGES))
    socket = open_socket(t, sluice)
    socket.send("hello")
    equal(socket.message(), "hello")
    socket.stream.finish_sending()
    equal(log.wait_for(2)[1], ("close", 1001, "client gone"))
    socket.stream.expect_end()
    socket = open_socket(t, sluice)
    socket.send("hello")
    equal(socket.message(), "hello")
    socket.stream.reset()
    member(log.wait_for(4)[3], [("close", 1001, "client gone"), "gone"])


@group("what breaks the rules of RFC 6455 closes the socket")
def broken(t):
    log = ws.Log()
    origin = t.origin(server(log=log))
    sluice = t.sluice(to(origin, route=MESSAGES + "\nmax_message_size = 1000"))
    key = b"\1\2\3\4"
    for what, data, code in (
            ("a frame that is not masked", ws.frame(ws.TEXT, b"x"), 1002),
            ("a reserved bit", ws.frame(ws.TEXT, b"x", rsv=4, mask=key), 1002),
            ("an unknown opcode", ws.frame(3, b"x", mask=key), 1002),
            ("a continuation of nothing", ws.frame(0, b"x", mask=key), 1002),
            ("a message within a message",
             ws.frame(1, b"x", fin=False, mask=key) + ws.frame(1, b"x", mask=key), 1002),
            ("a divided ping", ws.frame(ws.PING, b"x", fin=False, mask=key), 1002),
            ("a long ping", ws.frame(ws.PING, b"x" * 126, mask=key), 1002),
            ("a length that is not the shortest", b"\x82\xfe\0\5" + key + b"hello", 1002),
            ("a close code that is none", ws.frame(ws.CLOSE, b"\x03\xed", mask=key), 1002),
            ("text that is not UTF-8", ws.frame(ws.TEXT, b"\xc3\x28", mask=key), 1007),
            ("text that ends within a character", ws.frame(ws.TEXT, b"\xc3", mask=key), 1007),
            ("a close reason that is not UTF-8", ws.frame(ws.CLOSE, b"\x03\xe8\xff", mask=key), 1007),
            ("a message that is too big", ws.frame(ws.BINARY, b"x" * 1001, mask=key), 1009),
            ("fragments that are together",
             ws.frame(2, b"x" * 600, fin=False, mask=key) + ws.frame(0, b"x" * 401, mask=key), 1009),
            ("a length of exabytes", b"\x82\xff\x7f" + b"\xff" * 7 + key + b"x", 1009)):
        with t.point(what):
            socket = open_socket(t, sluice)
            before = len(log.all())
            socket.stream.send(data)
            equal(socket.closed_with()[0], code)
            equal(log.wait_for(before + 1)[before][:2], ("close", 1001))
    with t.point("the largest message passes"):
        socket = open_socket(t, sluice)
        socket.send(b"x" * 1000)
        equal(socket.message(), b"x" * 1000)


@test("too many control frames close the socket with 1008")
def flood(t):
    origin = t.origin(server())
    sluice = t.sluice(to(origin, route=MESSAGES))
    for data in (ws.frame(ws.PONG, b"x", mask=b"abcd") * 400,
                 ws.frame(ws.TEXT, fin=False, mask=b"abcd") +
                 ws.frame(ws.CONTINUATION, fin=False, mask=b"abcd") * 400):
        socket = open_socket(t, sluice)
        socket.stream.try_send(data)
        equal(socket.read().closes_with, (1008, "too many control frames"))


@group("permessage-deflate")
def deflate(t):
    log = ws.Log()
    agreed = [("Sec-WebSocket-Extensions", "permessage-deflate; server_no_context_takeover")]
    origin = t.origin(server(log=log, fields=agreed))
    sluice = t.sluice(to(origin, route=MESSAGES))
    asked = [("Sec-WebSocket-Extensions", "x-other; a=1, permessage-deflate; client_max_window_bits"),
             ("Sec-WebSocket-Extensions", "x-more")]
    with t.point("compressed messages pass as they are; nothing else is offered"):
        socket = open_socket(t, sluice, fields=asked)
        equal(socket.answer.get("Sec-WebSocket-Extensions"), agreed[0][1])
        equal(origin.requests[-1].request.all("Sec-WebSocket-Extensions"),
              ["permessage-deflate; client_max_window_bits"])
        socket.send_frame(ws.TEXT, b"\xf2\x48\xcd\xc9\xc9\x07\x00", rsv=4)
        read = socket.read()
        equal((read.rsv, read.payload), (4, b"\xf2\x48\xcd\xc9\xc9\x07\x00"))
        socket.send("plain")
        equal(socket.message(), "plain")
    with t.point("an extension that was not offered is a bad gateway"):
        client = t.client(sluice)
        equal(client.ask("/", fields=ws.handshake_fields()).status, 502)
    with t.point("where messages are dropped none is offered"):
        plain = t.origin(server())
        sluice = t.sluice(to(plain, route=MESSAGES + "\non_message_exceed = drop"))
        socket = open_socket(t, sluice, fields=asked)
        equal(plain.requests[-1].request.get("Sec-WebSocket-Extensions"), None)
        equal(socket.answer.get("Sec-WebSocket-Extensions"), None)


@group("what a handshake must say")
def handshakes(t):
    origin = t.origin(server())
    sluice = t.sluice(to(origin, route=MESSAGES + """
websocket_origin = https://app.test, https://*.example.test
websocket_protocols = chat, v1.example"""))

    def status(fields=(), **options):
        client = t.client(sluice)
        client.request("/", fields=ws.handshake_fields(fields, **options))
        return client.response_head()

    with t.point("another version gets 426 with the one that is spoken"):
        answer = status(version="8")
        equal((answer.status, answer.get("Sec-WebSocket-Version")), (426, "13"))
    with t.point("origins"):
        for origin_field, expected in (("https://app.test", 101), ("HTTPS://APP.test", 101),
                                       ("https://a.example.test", 101), ("https://example.test", 403),
                                       ("https://.example.test.evil", 403), ("http://app.test", 403),
                                       ("https://app.test:8443", 403), ("null", 403)):
            equal(status([("Origin", origin_field)]).status, expected, origin_field)
        equal(status().status, 101, "without one")
    with t.point("subprotocols"):
        for asked, seen in (("chat", "chat"), ("other, chat, more", "chat"), ("v1.example, chat", "v1.example,chat")):
            equal(status([("Sec-WebSocket-Protocol", asked)]).status, 101, asked)
            equal(origin.requests[-1].request.get("Sec-WebSocket-Protocol"), seen)
        equal(status([("Sec-WebSocket-Protocol", "other, Chat")]).status, 403)
    with t.point("a request that is no handshake is served as any"):
        equal(t.client(sluice).ask("/").body, b"plain")


@test("a handshake that the server refuses is answered as it says")
def refused(t):
    origin = t.origin(lambda x: (x.read_body(), x.reply(401, b"who?")))
    sluice = t.sluice(to(origin, route=MESSAGES))
    client = t.client(sluice)
    for _ in range(2):
        answer = client.ask("/", fields=ws.handshake_fields())
        equal((answer.status, answer.body), (401, b"who?"))


@test("a client that does not take what comes holds its server back, and loses nothing")
def backpressure(t):
    sent = []

    def on_message(socket, message):
        for n in range(200):
            socket.send_frame(ws.BINARY, bytes([n]) * 100000)
            sent.append(n)

    origin = t.origin(server(on_message))
    sluice = t.sluice(to(origin, route=MESSAGES))
    socket = open_socket(t, sluice, receive_buffer=8192)
    socket.send("go")
    until(lambda: len(sent) > 3, "the server sends")
    last = -1
    while len(sent) != last:  # until it cannot
        last = len(sent)
        time.sleep(0.2)
    true(last < 200, f"all of {last} messages were taken at once")
    for n in range(200):
        equal(socket.message(), bytes([n]) * 100000)


if __name__ == "__main__":
    main()
