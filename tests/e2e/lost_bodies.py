"""A saved body that can't be read back, or written, is a loss: no message is taken for whole."""
import errno

from lib.client import request_bytes
from lib.failing import PREAD, PWRITE, Failing
from lib.process import temporary_files, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.wire import Ended, Malformed, chunked

BODY = b"".join(b"%07d " % n for n in range(25_000))  # 200 kB
LARGE = b"".join(b"%07d " % n for n in range(2_000_000))  # 16 MB, more than the kernel's buffers


def requests(body):
    """Name, fields and bytes of each framing. The client waits for a 100, so that its body comes behind its head."""
    expect = ("Expect", "100-continue")
    return (("chunked", [("Transfer-Encoding", "chunked"), expect], chunked(body)),
            ("with a length", [("Content-Length", str(len(body))), expect], body))


def begin_upload(client, fields, body):
    client.send(request_bytes("/up", "POST", fields))
    equal(client.read_head().status, 100, "interim status")
    client.send(body)


class Server:
    """Notes whether bodies came whole; GET /hold waits."""

    def __init__(self, t):
        self.goes_on, self.whole, self.cut = t.event(), [], []
        self.origin = t.origin(self.serve)

    def serve(self, x):
        if x.request.target == "/hold":
            self.goes_on.wait()
        try:
            x.read_body()
        except (Ended, Malformed):
            self.cut.append(x.request.target)
            raise
        if x.request.method == "POST":
            self.whole.append(x.request.target)
        x.reply(200, x.request.body or b"small")


@group("a request's saved body that fails while it is read in")
def lost_at_once(t):
    for what, call in (("can't be read back", PREAD), ("can't be written", PWRITE)):
        for size in (3000, len(BODY)):
            for name, fields, body in requests(BODY[:size]):
                with t.point(f"{size} bytes {name}, {what}"):
                    server, failing = Server(t), Failing(t)
                    sluice = t.sluice(to(server.origin), settings="buffering_memory = 0",
                                      environment=failing.environment)
                    failing.fail(call, errno.EIO)
                    client = t.client(sluice)
                    begin_upload(client, fields, body)
                    equal(client.response("POST").status, 503, "status")
                    failing.stop(call)
                    equal((server.whole, server.cut), ([], []), "at the server")
                    equal(t.client(sluice).ask("/up", "POST", body=BODY).body, BODY, "another one")


@group("a request's saved body that can't be read back when its turn has come")
def lost_at_its_turn(t):
    for name, fields, body in requests(BODY):
        with t.point(name):
            server, failing = Server(t), Failing(t)
            sluice = t.sluice(to(server.origin, upstream="max_in_flight = 1", route="request_buffering = 16k file 10M"),
                              environment=failing.environment)
            holder, client = t.client(sluice), t.client(sluice)
            holder.request("/hold")
            server.origin.wait_requests(1)
            begin_upload(client, fields, body)
            until(lambda: temporary_files(sluice) > 0, "a file")
            failing.fail(PREAD, errno.EIO)
            server.goes_on.set()
            equal(holder.response().body, b"small", "the one before")
            equal(client.response("POST").status, 503, "status")
            failing.stop(PREAD)
            until(lambda: server.cut == ["/up"], "the server knows that it has not all")
            equal(server.whole, [], "whole at the server")
            equal(t.client(sluice).ask("/up", "POST", body=BODY).body, BODY, "another one")


def read_large(reader):
    """What comes of the body of LARGE, and whether the connection ended by a reset."""
    head, got = reader.response_head(), b""
    equal(head.status, 200, "status")
    try:
        while True:
            some = reader.read_some()
            if not some:
                return head, got, False
            got += some
    except Ended as ended:
        return head, got, "reset" in str(ended).lower()


def lose_response(t, head, version, behind, at_once):
    """A reader that takes nothing until something of its response is lost."""
    sent, failing = t.event(), Failing(t)

    def serve(x):
        if x.request.target == "/small":
            x.reply(200, b"small")
            return
        try:
            x.send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + LARGE)
        except Ended:
            true(at_once, "the server's connection is cut")
        x.close()
        sent.set()

    sluice = t.sluice(to(t.origin(serve), route="response_buffering = 16k file 100M"),
                      settings="buffering_memory = 0" if at_once else "", environment=failing.environment)
    if at_once:
        failing.fail(PREAD, errno.EIO, 1)
    reader = t.client(sluice, receive_buffer=4096)
    reader.send(request_bytes("/large", version=version) + request_bytes("/small") * behind)
    sent.wait()
    if not at_once:
        until(lambda: temporary_files(sluice) > 0, "a file")
        failing.fail(PREAD, errno.EIO, 1)
    _, got, was_reset = read_large(reader)
    equal(failing.left(PREAD), 0, "reads that are still to fail")
    true(LARGE.startswith(got) and len(got) < len(LARGE), "the body's beginning, and no more")
    true(head or was_reset, "a reset where only the end tells")
    equal(t.client(sluice).ask("/small").body, b"small", "another client")


@group("a response's saved body that can't be read back, once")
def lost_response(t):
    for when, at_once in (("while it is kept", True), ("when it is taken", False)):
        for name, head, version in (("with a length", b"Content-Length: %d\r\n" % len(LARGE), "1.1"),
                                    ("until the close", b"", "1.0")):
            for behind in (0, 1):
                with t.point(f"{when}, {name}, {behind} requests behind it"):
                    lose_response(t, head, version, behind, at_once)


main()
