"""Large bodies and many slow readers: every byte arrives, and sluice stays small."""
import os
import select

import hashlib
from lib.process import DEADLINE_SECONDS, SANITIZER, peak_resident_bytes, resident_bytes, until
from lib.sluice import to
from lib.tap import equal, main, test, true

OK = b"HTTP/1.1 200 OK\r\n"
MIB = 1 << 20
# 1 GiB by SLUICE_E2E_BODY_MIB=1024; what must not grow with the size shows with less as well.
BIG_MIB = int(os.environ.get("SLUICE_E2E_BODY_MIB") or (32 if SANITIZER else 256))


def post_head(fields, target="/", host="api.test"):
    return f"POST {target} HTTP/1.1\r\nHost: {host}\r\n".encode() + fields + b"\r\n"


# With the default request_buffering sluice says 100 itself: slow_clients.py.
UNBUFFERED = "request_buffering = off\n"
BLOCK = bytes(range(256)) * 4096  # 1 MiB


def send_big(stream, stalled):
    """Sends BIG_MIB blocks; sets `stalled` when the other side takes nothing for a while."""
    digest = hashlib.sha256()
    for number in range(BIG_MIB):
        block = number.to_bytes(8, "big") + BLOCK[8:]
        digest.update(block)
        left = memoryview(block)
        while left:
            if not stalled.is_set() and not select.select([], [stream.socket], [], 0.5)[1]:
                stalled.set()
            left = left[stream.socket.send(left):]
    return digest.hexdigest()


def take_big(pieces):
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest(), size


def bounded(t, sluice, before):
    growth = peak_resident_bytes(sluice.pid) - before
    t.note(f"{BIG_MIB} MiB: resident memory grew by {growth / MIB:.1f} MiB at its peak")
    if not SANITIZER:
        true(growth < 8 * MIB, f"resident memory grew by {growth / MIB:.1f} MiB")


@test(f"{BIG_MIB} MiB down to a slow reader: every byte, within 8 MiB of memory")
def big_download(t):
    stalled, sent = t.event(), {}

    def handler(x):
        x.read_body()
        if x.request.target == "/big":
            x.send(OK + b"Content-Length: %d\r\n\r\n" % (BIG_MIB * MIB))
            sent["digest"] = send_big(x.stream, stalled)
        else:
            x.reply(200, b"x")

    sluice = t.sluice(to(t.origin(handler), route="response_buffering = off"))
    client = t.client(sluice)
    client.ask("/warm")
    before = resident_bytes(sluice.pid)
    client.request("/big")
    head = client.response_head()
    # It reads nothing more until the origin can't send any more: sluice must not swallow it all.
    true(stalled.wait(DEADLINE_SECONDS), "the origin was never held back")
    digest, size = take_big(client.body_pieces(head))
    until(lambda: "digest" in sent, "the origin to note what it sent")
    equal((size, digest), (BIG_MIB * MIB, sent["digest"]), "the body")
    bounded(t, sluice, before)


@test(f"{BIG_MIB} MiB up to a slow reader: every byte, within 8 MiB of memory")
def big_upload(t):
    stalled, got = t.event(), {}

    def handler(x):
        if x.request.target == "/big":
            stalled.wait(DEADLINE_SECONDS)
            got["body"] = take_big(x.body_pieces())
        x.read_body()
        x.reply(200, b"x")

    sluice = t.sluice(to(t.origin(handler), route=UNBUFFERED))
    client = t.client(sluice)
    client.ask("/warm")
    before = resident_bytes(sluice.pid)
    client.send(post_head(b"Content-Length: %d\r\n" % (BIG_MIB * MIB), "/big"))
    digest = send_big(client, stalled)
    true(stalled.is_set(), "the client was never held back")
    equal(client.response().status, 200, "status")
    equal(got["body"], (digest, BIG_MIB * MIB), "the body")
    bounded(t, sluice, before)


@test("100 slow readers at once: each holds a bounded part of sluice's memory")
def many_slow_readers(t):
    stalls = [t.event() for _ in range(100)]

    def handler(x):
        x.read_body()
        if x.request.target == "/warm":
            x.reply(200, b"x")
            return
        x.send(OK + b"Content-Length: %d\r\n\r\n" % (64 * MIB))
        stalled = stalls[int(x.request.target[1:])]
        while True:
            if not stalled.is_set() and not select.select([], [x.stream.socket], [], 0.5)[1]:
                stalled.set()
            x.send(BLOCK)

    sluice = t.sluice(to(t.origin(handler), route="response_buffering = off"))
    t.client(sluice).ask("/warm")
    before = resident_bytes(sluice.pid)
    clients = [t.client(sluice, receive_buffer=4096) for _ in stalls]
    for number, client in enumerate(clients):
        client.request(f"/{number}")
    for stalled in stalls:
        true(stalled.wait(DEADLINE_SECONDS), "an origin was never held back")
    growth = peak_resident_bytes(sluice.pid) - before
    t.note(f"100 held-back downloads: resident memory grew by {growth / MIB:.1f} MiB")
    if not SANITIZER:
        true(growth < 100 * MIB / 4, f"resident memory grew by {growth / MIB:.1f} MiB for 100 readers")


main()
