"""Slow clients: what they do not send or take in time holds no place at an upstream, and every byte
arrives in the end."""
import hashlib
import threading

from lib.admin import value, with_admin
from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS, SANITIZER, temporary_files, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.workers import Barrier

MIB = 1024 * 1024
OK = b"HTTP/1.1 200 OK\r\n"
PLACES = 4
BIG = (24 if SANITIZER else 40) * MIB
BLOCK = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(2048))  # 64 KiB that never repeat


def content(size):
    """The bytes of every big body."""
    return (BLOCK * (size // len(BLOCK) + 1))[:size]


def more_than_the_kernel_takes():
    """A size: more than socket buffers hold between a server, sluice and a client that reads nothing.
    How much of their bounds they use depends on how busy the machine is."""
    with open("/proc/sys/net/ipv4/tcp_rmem") as read, open("/proc/sys/net/ipv4/tcp_wmem") as write:
        most = int(read.read().split()[2]) + 2 * int(write.read().split()[2])
    return min(most, 128 * MIB) + MIB


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


# ---- uploads -----------------------------------------------------------------------------------

def begin_upload(t, sluice, size, fields=(), sent=1, method="POST"):
    """A client that has sent the head of an upload and so many bytes of its body."""
    client = t.client(sluice)
    client.send(request_bytes("/up", method, [("Content-Length", str(size)), *fields]) +
                content(size)[:sent])
    return client


@group(f"{PLACES} uploads of which one byte has come, {PLACES} places: others are served")
def slow_uploads(t):
    for name, upstream, fields in (
            ("max_in_flight", f"max_in_flight = {PLACES}", []),
            ("max_in_flight, and clients that ask for a 100", f"max_in_flight = {PLACES}",
             [("Expect", "100-continue")])):
        with t.point(name):
            origin = t.origin()
            sluice = t.sluice(to(origin, upstream=upstream))
            clients = [begin_upload(t, sluice, 1000, fields, 0 if fields else 1)
                       for _ in range(PLACES)]
            if fields:
                for client in clients:
                    equal(client.read_head().status, 100, "interim status")
                    client.send(content(1))
            for _ in range(3):
                equal(t.client(sluice).ask("/small").status, 200, "another client")
            equal(origin.targets().count("/up"), 0, "uploads at the server")
            for client in clients:
                client.send(content(1000)[1:])
                equal(client.response().body, content(1000), "the body")
            equal([x.request.get("Expect") for x in origin.requests], [None] * (PLACES + 3), "Expect")


@group("uploads in pieces arrive as they were sent, whatever is kept of them")
def pieces(t):
    origin = t.origin()
    for route in ("", "request_buffering = off", "request_buffering = 4k",
                  "request_buffering = 4k file 100k", "request_buffering = 64k file 1M"):
        sluice = t.sluice(to(origin, route=route))
        for size in (1, 3000, 50_000, 3_000_000):
            with t.point(f"{route or 'the defaults'}, {size} bytes"):
                body = content(size)
                client = begin_upload(t, sluice, size, method="PUT")
                client.send(body[1:size // 2 + 1])
                client.send(body[size // 2 + 1:] + request_bytes("/next"))
                true(client.response().body == body, "by length")
                equal(client.response().body, b"", "the next request's")
                client.send(b"POST /chunked HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n"
                            b"Trailer: Digest\r\n\r\n1\r\n" + body[:1] + b"\r\n")
                for at in range(1, size, 70_000):
                    piece = body[at:at + 70_000]
                    client.send(b"%x;a=b\r\n%s\r\n" % (len(piece), piece))
                client.send(b"0\r\nDigest: last\r\n\r\n" + request_bytes("/next"))
                true(client.response().body == body, "in chunks")
                equal(client.response().body, b"", "the next request's")
                chunked = [x.request for x in origin.requests if x.request.target == "/chunked"][-1]
                equal(chunked.framing, "chunked", "framing")
                equal(chunked.trailers, [("Digest", "last")], "trailers")
        equal(temporary_files(sluice), 0, "files")


@test("an upload longer than what is kept of it takes its place when that is full")
def longer(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, upstream="max_in_flight = 1",
                         route="request_buffering = 64k file 1M"))
    client = begin_upload(t, sluice, 2 * MIB, sent=MIB)
    equal(t.client(sluice).ask("/small").status, 200, "another client")
    equal(origin.targets(), ["/small"], "at the server")
    until(lambda: temporary_files(sluice) > 0, "a file")
    client.send(content(2 * MIB)[MIB:MIB + 200_000])
    origin.wait_requests(2)
    client.send(content(2 * MIB)[MIB + 200_000:])
    true(client.response().body == content(2 * MIB), "the body")
    until(lambda: temporary_files(sluice) == 0, "the file to be gone")


@test("a body that is too long, broken or cut while it is gathered never comes to the server")
def refused(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, route="max_body_size = 1000\nrequest_buffering = 4k file 1M"),
                      listener="body_timeout = 3s")
    head = b"POST /up HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n"
    for what, status in ((b"3e9\r\n" + content(1001) + b"\r\n", 413), (b"3\r\nabcd\r\n", 400),
                         (b"3\r\nabc\r\n", 408)):
        client = t.client(sluice)
        client.send(head)
        client.send(what)
        equal(client.response().status, status, "status")
    for leave in ("close", "reset"):
        client = begin_upload(t, sluice, 900)
        getattr(client, leave)()
    equal(t.client(sluice).ask("/small").status, 200, "another client")
    equal(origin.targets(), ["/small"], "at the server")
    equal(temporary_files(sluice), 0, "files")


@test("an idempotent upload in pieces is sent again when its kept connection turns out dead")
def sent_again(t):
    def handler(x):
        if x.request.target == "/small":
            x.reply(200)
            return
        x.read_body()
        if x.connection == 0:
            x.close()
        else:
            x.reply(200, x.request.body)

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream="retries = 1"), workers=1)
    equal(t.client(sluice).ask("/small").status, 200, "the first")
    client = begin_upload(t, sluice, 5000, method="PUT")
    client.send(content(5000)[1:])
    equal(client.response().body, content(5000), "the body")
    equal(origin.connections, 2, "connections")


@test("an upload keeps its place in its session's order while it comes")
def upload_order(t):
    origin = t.origin()
    key = [("X-Api-Key", "one")]
    sluice = t.sluice(to(origin, route="host = api.test\nsession = header:X-Api-Key\nordering = writes"))
    upload = begin_upload(t, sluice, 10, key)
    Barrier(t, sluice, [upload]).passed_by(upload)
    reader = t.client(sluice)
    reader.request("/read", fields=key)
    equal(t.client(sluice).ask("/small", fields=[("X-Api-Key", "other")]).status, 200, "another's")
    equal(origin.targets(), ["/small"], "at the server")
    upload.send(content(10)[1:])
    equal(upload.response().status, 200, "the upload")
    equal(reader.response().status, 200, "the read")
    equal(origin.targets(), ["/small", "/up", "/read"], "at the server")


# ---- metrics -----------------------------------------------------------------------------------

def kept(admin, **labels):
    return value(admin.metrics()[1], "sluice_buffered_bytes", **labels)


@test("metrics: what is kept of requests and responses, in memory and in files")
def metrics(t):
    server = Server(t)
    sluice, admin = with_admin(t, to(server.origin, upstream="max_in_flight = 4"))
    reader = ask_big(t, sluice)
    server.wait_sent(1)
    upload = begin_upload(t, sluice, 400_000, sent=300_000)
    for body in ("request", "response"):
        for where, least in (("memory", 1), ("file", MIB)):
            until(lambda b=body, w=where, n=least: kept(admin, body=b, **{"in": w}) >= n,
                  f"bytes of the {body} in a {where}")
    equal(value(admin.metrics()[1], "sluice_buffering_files"), 2, "files")
    upload.send(content(400_000)[300_000:])
    equal(upload.response().status, 200, "the upload")
    read_big(reader)
    for body in ("request", "response"):
        for where in ("memory", "file"):
            until(lambda b=body, w=where: kept(admin, body=b, **{"in": w}) == 0, "none of it")
    text = admin.metrics()[1]
    equal(value(text, "sluice_buffering_files"), 0, "files")
    equal([value(text, "sluice_buffers_filled_total", body=b) for b in ("request", "response")],
          [0, 0], "filled")
    equal([value(text, "sluice_buffering_refused_total", bound=b)
           for b in ("memory", "disk", "files")], [0, 0, 0], "refused")


@test("metrics: bodies longer than what is kept, and bounds of all that were reached, once a body")
def metrics_bounds(t):
    for settings, bound in (("buffering_memory = 0", "memory"), ("buffering_disk = 0", "disk")):
        origin = t.origin()
        sluice, admin = with_admin(
            t, to(origin, route="request_buffering = 8k file 64k"), settings=settings)
        upload = begin_upload(t, sluice, 400_000, sent=1)
        for at in range(1, 400_000, 40_000):
            upload.send(content(400_000)[at:at + 40_000])
        true(upload.response().body == content(400_000), "the body")
        text = admin.metrics()[1]
        for name in ("memory", "disk"):
            equal(value(text, "sluice_buffering_refused_total", bound=name), int(name == bound), name)
        equal(value(text, "sluice_buffers_filled_total", body="request"), int(bound == "memory"),
              "filled")


# ---- event streams -----------------------------------------------------------------------------

class Events:
    """Event streams under /events, one event each at once, another when `go` is set; else small."""

    def __init__(self, t):
        self.go = t.event()
        self.origin = t.origin(self.serve)

    def serve(self, x):
        x.read_body()
        if x.request.target != "/events":
            x.reply(200, b"small")
            return
        x.send(OK + b"Content-Type: Text/Event-Stream; charset=utf-8\r\n"
               b"Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
        self.go.wait(DEADLINE_SECONDS)
        x.send(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")


def open_events(t, sluice):
    client = t.client(sluice)
    client.request("/events")
    head = client.response_head()
    return client, head, client.body_pieces(head) if head.status == 200 else None


@test("event streams hold no place: of the upstream, nor of its server")
def event_streams(t):
    for options in ({"upstream": "max_in_flight = 1"}, {"server": " max_in_flight=1"}):
        events = Events(t)
        sluice = t.sluice(to(f"{events.origin}{options.get('server', '')}",
                             upstream=options.get("upstream", "")))
        streams = [open_events(t, sluice) for _ in range(3)]
        for _, _, pieces in streams:
            equal(next(pieces), b"data: 1\n\n", "the first event")
        for _ in range(3):
            equal(t.client(sluice).ask("/small").status, 200, "another client")
        events.go.set()
        for client, _, pieces in streams:
            equal(b"".join(pieces), b"data: 2\n\n", "the second")
            equal(client.ask("/small").status, 200, "the same connection")


@test("max_streams: one more gets 503, and one that has ended makes room")
def max_streams(t):
    events = Events(t)
    sluice = t.sluice(to(events.origin, upstream="max_in_flight = 4\nmax_streams = 2"))
    first, _, _ = open_events(t, sluice)
    open_events(t, sluice)
    for _ in range(3):
        client, head, _ = open_events(t, sluice)
        equal(head.status, 503, "status of one more")
        true(head.get("Retry-After"), "Retry-After")
        client.read_body(head)
        equal(client.ask("/small").status, 200, "the same connection")
    first.reset()  # one that only closed its half may still read
    until(lambda: open_events(t, sluice)[1].status == 200, "room for another")
    equal(open_events(t, sluice)[1].status, 503, "status of one more")


# ---- readers -----------------------------------------------------------------------------------

@test(f"{PLACES} slow readers of {BIG // MIB} MiB, {PLACES} places: others are served, and the readers get every byte")
def slow_readers(t):
    server = Server(t)
    sluice = t.sluice(to(server.origin, upstream=f"max_in_flight = {PLACES}"))
    readers = [ask_big(t, sluice) for _ in range(PLACES)]
    server.wait_sent(PLACES)
    for _ in range(3):
        equal(t.client(sluice).ask("/small").status, 200, "another client")
    until(lambda: temporary_files(sluice) > 0, "a file")
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
        is_taken = server.done.acquire(timeout=0.3)
        if not is_taken:
            late += 1  # the server waits for the reader: too much, or it is slow
            if late == 3:
                break
        for _ in range(2):
            equal(t.client(sluice).ask("/small").status, 200, "another client")
        equal(read_big(reader, size).trailers, [("Digest", "last")], f"trailers behind {size} bytes")
        if not is_taken:
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
        until(lambda: temporary_files(sluice) > 0, "a file")
        if number % 2:
            reader.reset()
        else:
            reader.close()
        until(lambda: temporary_files(sluice) == 0, "the file to be gone")
    equal(t.client(sluice).ask("/small").status, 200, "another client")


@group("no room for what a slow reader does not take: the server waits, and every byte arrives")
def no_room(t):
    server, size = Server(t), more_than_the_kernel_takes()
    for name, settings, route in (
            ("off", "", "response_buffering = off"),
            ("memory only", "", "response_buffering = 64k"),
            ("no disk", "buffering_disk = 0", ""),
            ("a folder that is not there", "buffering_folder = /nowhere", ""),
            ("neither memory nor disk", "buffering_disk = 0\nbuffering_memory = 0", "")):
        with t.point(name):
            sluice = t.sluice(to(server.origin, route=route), settings=settings)
            for target in ("/length", "/chunked"):
                reader = ask_big(t, sluice, target, size)
                equal(server.done.acquire(timeout=0.5), False, "the server could send all")
                read_big(reader, size)
                server.wait_sent(1)
            equal(temporary_files(sluice), 0, "files")


main()
