"""GRIP with @fanoutio/grip from npm, as it comes, as the backend's library."""
import os

from lib import node, process
from lib.admin import Admin, value
from lib.peers import find
from lib.sluice import to
from lib.tap import equal, group, main
from lib.websocket import open_socket

KEY = "a secret that both have"


def backend(t, admin_port, key=KEY):
    """Its address."""
    script = os.path.join(node.install(t), "grip.mjs")
    return process.serve(t, [find("node"), script, f"http://127.0.0.1:{admin_port}/api/v1", key])


def chat(t, route="", **more):
    """(sluice, its operators' interface)"""
    port = process.Port()
    address = backend(t, port.number, **more)
    keys = f"grip_key = file:{t.file('grip.key', KEY)}"
    tokens = t.file("admin.token", "secret\n")
    t.defer(port.release)
    sluice = t.sluice(f"[admin]\nbind = 127.0.0.1:{port.number}\ntoken = file:{tokens}\n",
                      to(address, route="websocket = gateway\n" + route), settings=keys)
    return sluice, Admin(f"127.0.0.1:{port.number}", "secret")


@group("subscribing and publishing by @fanoutio/grip")
def grip(t):
    sluice, _ = chat(t)
    ann, bob = open_socket(t, sluice), open_socket(t, sluice)

    def ask(socket, text, answer):
        socket.send(text)
        equal(socket.message(), answer)

    with t.point("messages come back"):
        ask(ann, "hello", "hello")
        ask(bob, "hållo " * 10000, "hållo " * 10000)
    with t.point("what is published reaches those who joined"):
        for socket in (ann, bob):
            socket.send("/join room")
            ask(socket, "joined", "joined")
        ann.send("room: good morning")
        equal([socket.message() for socket in (ann, bob)], ["room: good morning"] * 2)
        bob.send("/bytes room")
        equal([socket.message() for socket in (ann, bob)], [b"\x00\xff\x01"] * 2)
    with t.point("and no socket that left"):
        bob.send("/leave room")
        ask(bob, "left", "left")
        ann.send("room: anybody?")
        equal(ann.message(), "room: anybody?")
        ask(bob, "still here", "still here")
    with t.point("its meta values are kept"):
        ask(ann, "/visits", "6")
    with t.point("a close that it publishes"):
        bob.send("/kick room 4009")
        equal(ann.closed_with(), (4009, ""))
        ask(bob, "alive", "alive")
    with t.point("a close of its own"):
        bob.send("/close")
        equal(bob.closed_with(), (4000, ""))
    with t.point("detached"):
        carl = open_socket(t, sluice)
        carl.send("/join other")
        carl.send("/detach")
        ask(open_socket(t, sluice), "hello", "hello")
        carl.send("lost")
        equal(carl.close(1000)[0], 1000)


@group("long polls and streams held by @fanoutio/grip", workers=[1])
def holds(t):
    sluice, admin = chat(t, route="grip_hold = on")

    def subscribed(count):
        process.until(lambda: value(admin.metrics()[1], "sluice_channel_subscriptions") == count, f"{count} subscriptions")

    poll, stream, author = (t.client(sluice) for _ in range(3))
    with t.point("a stream gets its beginning, and both what is published"):
        stream.request("/stream")
        stream.read_through(b"begins\n")
        poll.request("/poll")
        subscribed(2)
        equal(author.ask("/publish", "POST", body=b"it rains\n").status, 200)
        equal(poll.response().body, b"it rains\n")
        stream.read_through(b"it rains\n")
    with t.point("a poll on the same connection again, and more of the stream"):
        poll.request("/poll")
        subscribed(2)
        equal(author.ask("/publish", "POST", body=b"the sun shines\n").status, 200)
        equal(poll.response().body, b"the sun shines\n")
        stream.read_through(b"the sun shines\n")


@group("a backend with another key trusts no request")
def other_key(t):
    sluice, _ = chat(t, key="another secret")
    client = t.client(sluice)
    equal(client.ask("/", fields=[("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                                  ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]).status, 403)


if __name__ == "__main__":
    main()
