"""Slow clients: what they do not send or take in time holds no place at an upstream, and every byte
arrives in the end."""
import hashlib
import os
import threading

from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS, SANITIZER, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true

MIB = 1024 * 1024
OK = b"HTTP/1.1 200 OK\r\n"
PLACES = 4
BIG = (8 if SANITIZER else 40) * MIB
BLOCK = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(2048))  # 64 KiB that never repeat


def content(size):
    """The bytes of every big body."""
    return (BLOCK * (size // len(BLOCK) + 1))[:size]


def temporary_files(sluice):
    """Files that sluice has open and no folder lists."""
    folder = f"/proc/{sluice.pid}/fd"
    found = 0
    for fd in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{fd}")
        except OSError:
            continue
        found += target.endswith("(deleted)")
    return found


def send_length(x, size):
    x.send(OK + b"Content-Length: %d\r\n\r\n" % size)
    x.send(content(size))


def send_chunked(x, size):
    x.send(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    body, at = content(size), 0
    while at < size:
        piece = body[at:at + 300000]
        at += len(piece)
        x.send(b"%x\r\n%s\r\n" % (len(piece), piece))
    x.send(b"0\r\nDigest: last\r\n\r\n")


def send_until_close(x, size):
    x.send(OK + b"\r\n" + content(size))
    x.close()


SENDERS = {"/length": send_length, "/chunked": send_chunked, "/close": send_until_close}


class Server:
    """Big responses under the names of SENDERS, as many bytes as X-Size says, and small ones."""

    def __init__(self, t):
        self.done = threading.Semaphore(0)  # big ones that were sent to their end
        self.origin = t.origin(self.serve)

    def serve(self, x):
        x.read_body()
        sender = SENDERS.get(x.request.target)
        if sender:
            sender(x, int(x.request.get("X-Size")))
            self.done.release()
        else:
            x.reply(200, b"small")

    def wait_sent(self, count):
        for _ in range(count):
            true(self.done.acquire(timeout=DEADLINE_SECONDS), "the server could not send all")


def ask_big(t, sluice, target="/length", size=BIG, version="1.1", method="GET"):
    """A client that has asked for a big response and reads none of it."""
    client = t.client(sluice, receive_buffer=4096)
    client.request(target, method, fields=[("X-Size", str(size))], version=version)
    return client


def read_big(client, size=BIG):
    """The head and body of a response that is there to be read now."""
    head = client.response_head()
    client.read_body(head)
    equal(len(head.body), size, "bytes of the body")
    true(head.body == content(size), "the body's bytes")
    return head


# ---- readers -----------------------------------------------------------------------------------

@test(f"{PLACES} slow readers of {BIG // MIB} MiB, {PLACES} places: others are served, and the readers get every byte")
def slow_readers(t):
    server = Server(t)
    sluice = t.sluice(to(server.origin, upstream=f"max_in_flight = {PLACES}"))
    readers = [ask_big(t, sluice) for _ in range(PLACES)]
    server.wait_sent(PLACES)
    for _ in range(3):
        equal(t.client(sluice).ask("/small").status, 200, "another client")
    true(temporary_files(sluice) > 0, "nothing is in a file")
    for reader in readers:
        read_big(reader)
        equal(reader.ask("/small").body, b"small", "the same connection")
    until(lambda: temporary_files(sluice) == 0, "the files to be gone")


@group("slow readers get all of a body, however it is framed")
def framings(t):
    server = Server(t)
    sluice = t.sluice(to(server.origin, upstream="max_in_flight = 1"))
    for target in SENDERS:
        for version in ("1.1", "1.0"):
            for size in (3 * MIB, 300000, 5 * MIB + 1):
                with t.point(f"{target[1:]} of {size} bytes to HTTP/{version}"):
                    reader = ask_big(t, sluice, target, size, version)
                    server.wait_sent(1)
                    equal(t.client(sluice).ask("/small").status, 200, "another client")
                    head = read_big(reader, size)
                    if target == "/chunked" and version == "1.1":
                        equal(head.trailers, [("Digest", "last")], "trailers")


@test("trailers arrive, though the server's connection serves others before the body's end is taken")
def late_trailers(t):
    server = Server(t)
    sluice = t.sluice(to(server.origin, route="response_buffering = off"), workers=1)
    late = 0
    for size in range(100000, 4 * MIB, 70000):
        reader = ask_big(t, sluice, "/chunked", size)
        if not server.done.acquire(timeout=0.3):
            late += 1  # the server waits for the reader: too much
            if late == 3:
                break
        for _ in range(2):
            equal(t.client(sluice).ask("/small").status, 200, "another client")
        equal(read_big(reader, size).trailers, [("Digest", "last")], f"trailers behind {size} bytes")
        if late:
            server.done.acquire(timeout=DEADLINE_SECONDS)


@test("a slow reader that pipelines holds no place and no connection for what is behind its response")
def pipelining(t):
    server = Server(t)
    sluice = t.sluice(to(server.origin, upstream="max_in_flight = 1"))
    reader = t.client(sluice, receive_buffer=4096)
    big = [("X-Size", str(BIG))]
    reader.send(request_bytes("/length", fields=big) + request_bytes("/length", fields=big) +
                request_bytes("/small"))
    server.wait_sent(1)
    for _ in range(3):
        equal(t.client(sluice).ask("/small").status, 200, "another client")
    equal(server.origin.targets().count("/length"), 1, "of the slow reader's at the server")
    read_big(reader)
    read_big(reader)
    equal(reader.response().body, b"small", "the last")


@test("readers that leave while their responses are kept: all of it is given back")
def leaving(t):
    server = Server(t)
    sluice = t.sluice(to(server.origin, upstream="max_in_flight = 1"),
                      settings=f"buffering_disk = {BIG // MIB + 1}M")
    for number in range(4):
        reader = ask_big(t, sluice)
        server.wait_sent(1)  # else what the one before it had would be missing
        true(temporary_files(sluice) > 0, "nothing is in a file")
        if number % 2:
            reader.reset()
        else:
            reader.close()
        until(lambda: temporary_files(sluice) == 0, "the file to be gone")
    equal(t.client(sluice).ask("/small").status, 200, "another client")


@group("no room for what a slow reader does not take: the server waits, and every byte arrives")
def no_room(t):
    server = Server(t)
    for name, settings, route in (
            ("off", "", "response_buffering = off"),
            ("memory only", "", "response_buffering = 64k"),
            ("no disk", "buffering_disk = 0", ""),
            ("a folder that is not there", "buffering_folder = /nowhere", ""),
            ("neither memory nor disk", "buffering_disk = 0\nbuffering_memory = 0", "")):
        with t.point(name):
            sluice = t.sluice(to(server.origin, route=route), settings=settings)
            for target in ("/length", "/chunked"):
                reader = ask_big(t, sluice, target)
                equal(server.done.acquire(timeout=0.5), False, "the server could send all")
                read_big(reader)
                server.wait_sent(1)
            equal(temporary_files(sluice), 0, "files")


main()
