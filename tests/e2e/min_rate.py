"""min_rate: clients that send or take a body too slowly are cut, others and streams are not."""
import json
import threading
import time

from lib.admin import value, with_admin
from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS, until
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.wire import Ended

GRACE = 0.3
GRACE_INI = f"min_rate_grace = {int(GRACE * 1000)}ms"
BIG = 40 << 20  # more than the systems between server and client keep
OK = b"HTTP/1.1 200 OK\r\n"


class Setup:
    """sluice with an access log and an [admin] before an origin."""

    def __init__(self, t, route, handler=None, **more):
        self.path = t.path("access.log")
        self.origin = t.origin(handler)
        self.sluice, self.admin = with_admin(
            t, to(self.origin, route=route),
            settings=f"access_log = file:{self.path}\naccess_log_format = json", **more)

    def counted(self, body):
        return value(self.admin.metrics()[1], "sluice_slow_clients_total", body=body) or 0

    def lines(self):
        with open(self.path, encoding="utf-8") as text:
            return [json.loads(line) for line in text]

    def wait_outcome(self, target, outcome):
        def found():
            return [line for line in self.lines() if line["target"] == target]
        until(found, f"a line for {target}")
        equal(found()[0].get("outcome"), outcome, f"outcome of {target}")


class Drip:
    """Does something every few ms, on a thread of its own, until it can't or the test is over."""

    def __init__(self, t, act, every=0.02):
        self.over = threading.Event()
        self.ended = threading.Event()
        self.act, self.every = act, every
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        t.defer(self.stop)

    def run(self):
        while not self.over.wait(self.every):
            try:
                self.act()
            except (OSError, Ended):
                break
        self.ended.set()

    def stop(self):
        self.over.set()
        self.thread.join()


def sip(client):
    """Takes some bytes of what is there."""
    if not client.socket.recv(500):
        raise Ended("the end")


def send_big(x):
    x.read_body()
    if x.request.target == "/small":
        x.reply(200, b"small")
        return
    try:
        x.send(OK + b"Content-Length: %d\r\n\r\n" % BIG)
        for _ in range(BIG >> 16):
            x.send(bytes(1 << 16))
    except OSError:
        pass  # its client was cut


def ask_slowly(t, setup, target="/big"):
    client = t.client(setup.sluice, receive_buffer=4096)
    client.request(target)
    return client


@test("an upload that drips gets 408, in time, and says why in log and metrics")
def drips_up(t):
    for buffering in ("", "request_buffering = off"):
        setup = Setup(t, f"min_rate = 10k\n{GRACE_INI}\n{buffering}")
        client = t.client(setup.sluice)
        began = time.monotonic()
        client.send(request_bytes("/up", "POST", [("Content-Length", "100000")]))
        Drip(t, lambda c=client: c.send(b"x"))
        equal(client.response_head().status, 408, "status")
        true(time.monotonic() - began >= GRACE, "it has the grace")
        setup.wait_outcome("/up", "request below min_rate")
        equal([setup.counted("request"), setup.counted("response")], [1, 0], "counted")


@test("no min_rate: an upload that drips goes on")
def drips_on(t):
    setup = Setup(t, "")
    client = t.client(setup.sluice)
    client.send(request_bytes("/up", "POST", [("Content-Length", "50")]))
    for _ in range(50):
        client.send(b"x")
        time.sleep(3 * GRACE / 50)
    equal(client.response().status, 200, "status")
    equal([setup.counted("request"), setup.counted("response")], [0, 0], "counted")


@test("an upload that is as fast as it must be goes on for longer than the grace")
def fast_enough(t):
    setup = Setup(t, "min_rate = 100\nmin_rate_grace = 2s")
    client = t.client(setup.sluice)
    client.send(request_bytes("/up", "POST", [("Content-Length", "5000")]))
    for _ in range(50):
        client.send(bytes(100))
        time.sleep(3 * 2 / 50)
    equal(client.response().status, 200, "status")


@test("each body of a connection has the grace of its own")
def each_its_own(t):
    setup = Setup(t, "min_rate = 1000\nmin_rate_grace = 5s")
    client = t.client(setup.sluice)
    for _ in range(6):
        client.send(request_bytes("/up", "POST", [("Content-Length", "2")]) + b"x")
        time.sleep(1)
        client.send(b"y")
        equal(client.response().status, 200, "status")


@test("a server that reads slowly is not the client's fault")
def slow_server(t):
    go = t.event()

    def handler(x):
        go.wait(DEADLINE_SECONDS)
        x.read_body()
        x.reply(200)

    setup = Setup(t, "min_rate = 100k\nmin_rate_grace = 3s\nrequest_buffering = off", handler)
    client = t.client(setup.sluice)
    client.send(request_bytes("/up", "POST", [("Content-Length", str(BIG))]))
    sender = threading.Thread(target=lambda: client.send(bytes(BIG)))
    sender.start()
    setup.origin.wait_requests(1)
    time.sleep(3.5)  # more than the grace
    go.set()
    sender.join()
    equal(client.response().status, 200, "status")
    equal(setup.counted("request"), 0, "counted")


@test("a client that waits for the server's 100 (Continue) is not at fault, and one that stops behind it is")
def late_continue(t):
    go = t.event()

    def handler(x):
        go.wait(DEADLINE_SECONDS)
        x.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        x.read_body()
        x.reply(200)

    setup = Setup(t, "min_rate = 1M\nmin_rate_grace = 3s\nrequest_buffering = off", handler)
    clients = [t.client(setup.sluice) for _ in range(2)]
    for client in clients:
        client.send(request_bytes("/up", "POST", [("Content-Length", "5"), ("Expect", "100-continue")]))
    setup.origin.wait_requests(2)
    time.sleep(3.5)  # more than the grace
    go.set()
    for client in clients:
        equal(client.read_head().status, 100, "status")
    clients[0].send(b"12345")
    equal(clients[0].response().status, 200, "status")
    equal(clients[1].response_head().status, 408, "status of the one that stopped")


@test("a response that is taken in drips is cut, its memory and file are free, and log and metrics say why")
def drips_down(t):
    for buffering in ("", "response_buffering = off"):
        setup = Setup(t, f"min_rate = 1M\n{GRACE_INI}\n{buffering}", send_big)
        client = ask_slowly(t, setup)
        drip = Drip(t, lambda c=client: sip(c))
        true(drip.ended.wait(DEADLINE_SECONDS), "it was not cut")
        setup.wait_outcome("/big", "response below min_rate")
        equal([setup.counted("request"), setup.counted("response")], [0, 1], "counted")
        equal(t.client(setup.sluice).ask("/small").body, b"small", "another client")


@test("a reader that takes lumps often enough gets every byte")
def lumps(t):
    setup = Setup(t, "min_rate = 100k\nmin_rate_grace = 4s", send_big)
    client = ask_slowly(t, setup)
    head = client.response_head()
    pieces, count = client.body_pieces(head), 0
    for piece in pieces:
        count += len(piece)
        if count < BIG >> 4:  # for longer than the grace
            time.sleep(0.01)
    equal(count, BIG, "bytes")
    equal(setup.counted("response"), 0, "counted")


@test("no min_rate: a reader that drips is not cut")
def drips_down_on(t):
    setup = Setup(t, "", send_big)
    client = ask_slowly(t, setup)
    drip = Drip(t, lambda: sip(client))
    time.sleep(4 * GRACE)
    true(not drip.ended.is_set(), "it was cut")


@test("event streams and upgraded connections have no rate")
def streams(t):
    sent = threading.Semaphore(0)

    def handler(x):
        x.read_body()
        if x.request.target == "/events":
            x.send(OK + b"Content-Type: text/event-stream\r\n\r\n")
        else:
            x.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        try:
            for _ in range(BIG >> 16):
                x.send(b"data: 1\n" * (1 << 13))
        except OSError:
            return
        sent.release()
        x.close()

    setup = Setup(t, f"min_rate = 1M\n{GRACE_INI}", handler)
    for target, fields in (("/events", [("Connection", "close")]), ("/socket", [("Upgrade", "websocket"),
                                                         ("Connection", "Upgrade")])):
        client = t.client(setup.sluice, receive_buffer=4096)
        client.request(target, fields=fields)
        true(client.read_head().status in (101, 200), "status")
        time.sleep(4 * GRACE)
        count = len(client.read_to_end())
        true(count >= BIG, f"{count} bytes")
    equal([setup.counted("request"), setup.counted("response")], [0, 0], "counted")


main()
