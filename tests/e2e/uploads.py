"""Refused uploads: the answer reaches a client that is still sending, and what such clients hold is bounded."""
import os
import signal
import socket
import time

from lib import wire
from lib.client import request_bytes
from lib.process import SANITIZER, open_files, resident_bytes, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true

MIB = 1 << 20
HEAD = b"POST /upload HTTP/1.1\r\nHost: api.test\r\n"
NONE_LEFT = "[limit none]\nrate = 1 per 1h\n"


def refusing(t, **options):
    """A sluice whose one admitted request was made: all others get 429, and do not reach the origin."""
    origin = t.origin()
    sluice = t.sluice(NONE_LEFT, to(origin, route="limits = none"), **options)
    equal(t.client(sluice).ask("/first").status, 200, "status of the first")
    return sluice


def answered_before_the_rest(client):
    """Waits until the answer is here, unread: what the client sends from now on may cost it."""
    until(lambda: not wire.quiet(client, 0), "the answer")


@group("the answer survives what the client sends behind it")
def behind(t):
    sluice = refusing(t)

    with t.point("three chunks after the answer has come, 20 times"):
        for _ in range(20):
            client = t.client(sluice)
            client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            answered_before_the_rest(client)
            for _ in range(3):
                client.send(b"400\r\n" + b"x" * 1024 + b"\r\n")
                time.sleep(0.001)  # a reset needs a moment to get here
            client.send(b"0\r\n\r\n")
            answer = client.response()
            equal((answer.status, answer.get("Connection")), (429, "close"))
            client.expect_end()

    for title, head, piece in (("by length", b"Content-Length: %d\r\n\r\n" % (100 * MIB), b"x" * MIB),
                               ("chunked", b"Transfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + b"x" * MIB + b"\r\n")):
        with t.point(f"100 MiB {title}, all sent before the answer is read"):
            client = t.client(sluice)
            client.send(HEAD + head)
            for _ in range(100):
                client.send(piece)
            equal(client.response().status, 429, "status")
            client.expect_end()

    with t.point("a body by chunks that are none"):
        client = t.client(sluice)
        client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        answered_before_the_rest(client)
        for _ in range(8):
            client.send(b"no chunk" * 1000)
            time.sleep(0.001)
        equal(client.response().status, 429, "status")

    with t.point("a request that is none, with more behind it"):
        client = t.client(sluice)
        client.send(b"POST /upload HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: h\r\n\r\n")
        answered_before_the_rest(client)
        for _ in range(8):
            client.send(b"x" * 1000)
            time.sleep(0.001)
        equal(client.response().status, 400, "status")


@group("a refused body that has arrived costs no connection")
def arrived(t):
    sluice = refusing(t)
    chunks, behind = b"5;a=b\r\nhello\r\n", request_bytes("/behind")

    def refused(data, status=429):
        client = t.client(sluice)
        client.send(data)
        answer = client.response()
        equal(answer.status, status, "status")
        return client, answer

    for title, data in (("by length", b"Content-Length: 5\r\n\r\nhello"),
                        ("chunked", b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"),
                        ("chunked, with trailers", b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nA: b\r\n\r\n"),
                        ("chunked and empty", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")):
        with t.point(f"{title}: the connection continues, with what is behind it"):
            client, answer = refused(HEAD + data + behind)
            equal(answer.get("Connection"), None, "Connection")
            equal(client.response().status, 429, "status of the one behind it")
            equal(client.ask("/again").status, 429, "status of a third")
    for title, data in (("has not all arrived", chunks + b"0\r\n"), ("is malformed", b"5\r\nhello!\r\n0\r\n\r\n")):
        with t.point(f"chunked, and it {title}: the connection is closed, and nothing in it is a request"):
            client, _ = refused(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + data + (behind if "malformed" in title else b""))
            client.expect_end()


@group("a body that grows too long on its way, with more behind it")
def too_long(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, route="max_body_size = 1000"))

    with t.point("413, 20 times"):
        for _ in range(20):
            client = t.client(sluice)
            client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1000\r\n" + b"x" * 0x1000 + b"\r\n")
            answered_before_the_rest(client)
            for _ in range(3):
                client.send(b"400\r\n" + b"x" * 1024 + b"\r\n")
                time.sleep(0.001)
            equal(client.response().status, 413, "status")
            client.expect_end()


@group("lingering is bounded")
def bounded(t):
    sluice = refusing(t, listener="linger_timeout = 60s\nlinger_size = 4M\nmax_lingering = 40")

    def refused(body=b"x"):
        """An upload that was refused and stays."""
        client = t.client(sluice)
        client.send(HEAD + b"Content-Length: 1000000000\r\n\r\n" + body)
        equal(client.response().status, 429, "status")
        return client

    with t.point("in bytes: at 4 MiB the connection is cut"):
        client = refused()
        with_more = 0
        try:
            while with_more < 512 * MIB:
                client.send(b"x" * MIB)
                with_more += MIB
        except wire.Ended:
            pass
        true(with_more < 64 * MIB, f"{with_more} bytes were taken")

    before_files, before_bytes = open_files(sluice.pid), resident_bytes(sluice.pid)
    with t.point("in number: of 400 clients that stay, the oldest give way"):
        clients = [refused() for _ in range(400)]
        held = open_files(sluice.pid) - before_files
        true(held <= 40 + 2, f"{held} connections are held")
        growth = resident_bytes(sluice.pid) - before_bytes
        t.note(f"400 refused uploads: {held} connections held, resident memory grew by {growth // 1024} kB")
        true(SANITIZER or growth < 2 * MIB, f"resident memory grew by {growth} bytes")
        dead = sum(is_cut(client) for client in clients)
        true(dead >= 360, f"only {dead} of 400 were cut")
        true(not is_cut(clients[-1]), "the newest was cut")

    with t.point("and others are served meanwhile"):
        equal(t.client(sluice).ask("/other").status, 429, "status")


def is_cut(client):
    """Does the peer answer what is sent with a reset?"""
    try:
        for _ in range(3):
            client.socket.send(b"x")
            time.sleep(0.001)
    except OSError:
        return True
    return client.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


@test("a client that is too slow does not linger long, however it goes on", workers=[1])
def slow(t):
    sluice = t.sluice(to(t.origin()), listener="header_timeout = 100ms\nbody_timeout = 100ms\nlinger_timeout = 1h")
    for begun in (b"GET / HTTP/1.1\r\nHost: api", HEAD + b"Transfer-Encoding: chunked\r\n\r\n5"):
        client = t.client(sluice)
        client.send(begun)
        equal(client.response().status, 408, "status")
        until(lambda: is_cut(client), "the end of lingering")


@test("clients that linger make room for others where max_connections is reached")
def room(t):
    sluice = refusing(t, listener="max_connections = 8\nlinger_timeout = 60s")
    stay = []
    for _ in range(40):
        client = t.client(sluice)
        client.send(HEAD + b"Content-Length: 1000000000\r\n\r\nx")
        equal(client.response().status, 429, "status")
        stay.append(client)
    equal(t.client(sluice).ask("/other").status, 429, "status")


def lingering(t, timeout, **rest):
    """A client whose upload was refused, and which goes on."""
    sluice = refusing(t, listener=f"linger_timeout = {timeout}", **rest)
    client = t.client(sluice)
    client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    equal(client.response().status, 429, "status")
    return sluice, client


@test("lingering ends, whatever the client sends, when sluice was held up meanwhile, too")
def held_up(t):
    sluice, client = lingering(t, "300ms")
    sluice.process.stop()
    time.sleep(0.6)
    sluice.process.signal(signal.SIGCONT)
    until(lambda: is_cut(client), "the end of lingering")


@test("lingering ends after linger_timeout, whatever the client sends, and in a drain")
def in_time(t):
    _, client = lingering(t, "300ms")
    until(lambda: is_cut(client), "the end of lingering")

    quiet, client = lingering(t, "60s", settings="shutdown_timeout = 30s")
    quiet.terminate()
    began = time.monotonic()
    equal(quiet.wait(), 0, "exit status")
    true(time.monotonic() - began < 14, "the drain waited for a client that is silent")


main()
