"""TLS sessions that are resumed, by whichever worker, process or node; and the sizes of records."""
import os
import random
import signal
import socket
import ssl
import time

from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, true
from lib.tls import ask, connect, context, make_certificate, with_tls


def begin(t, sluice, made):
    """A session whose ticket has come."""
    stream = connect(t, sluice, made=made)
    ask(stream)
    session = stream.session
    stream.close()
    return session


def resumes(t, sluice, made, session):
    plain = socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30)
    t.defer(plain.close)
    stream = made.wrap_socket(plain, server_hostname="api.test", session=session)
    t.defer(stream.close)
    equal(ask(stream)[0], 200, "status")
    return stream.session_reused


@group("sessions are resumed")
def sessions(t):
    origin = t.origin()
    certificate = make_certificate(t, "api.pem", ["api.test"])
    secret = "file:" + t.file("secret", "0123456789abcdef0123456789abcdef")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        sluice = with_tls(t, origin, [certificate], workers=4)
        made = context(certificate, version)
        with t.point(f"{version.name}: by all workers"):
            session = begin(t, sluice, made)
            true(all(resumes(t, sluice, made, session) for _ in range(8)), "resumed")
        with t.point(f"{version.name}: after a reload and a new certificate"):
            make_certificate(t, "api.pem", ["api.test"])
            before = sluice.log().count("reloaded")
            sluice.process.signal(signal.SIGHUP)
            until(lambda before=before: sluice.log().count("reloaded") > before, "the reload")
            made.load_verify_locations(certificate)
            true(resumes(t, sluice, made, session), "resumed")
        with t.point(f"{version.name}: by the process after an upgrade"):
            old = sluice.pid
            sluice.process.signal(signal.SIGUSR2)
            sluice.process.wait_output("has taken over")
            sluice.process.wait_output("the process before this one has ended")
            true(resumes(t, sluice, made, session), "resumed")
            successor = int(sluice.log().split(" has taken over")[0].rsplit(" ", 1)[1])
            true(successor != old, "another process")
            os.kill(successor, signal.SIGTERM)
            sluice.process.wait_output("sluice has stopped", 2)
            sluice.wait()
        with t.point(f"{version.name}: by another node with the fleet's secret, and by no other"):
            nodes = []
            for has_secret in (True, True, False):
                free = socket.socket()
                free.bind(("127.0.0.1", 0))
                address = f"127.0.0.1:{free.getsockname()[1]}"
                free.close()
                fleet = f"[fleet]\nstore = redis://127.0.0.1:1\nbind = {address}\nsecret = {secret}\n" if has_secret else ""
                nodes.append(t.sluice(to(origin) + fleet, listener=f"certificate = {certificate}"))
            session = begin(t, nodes[0], made)
            equal([resumes(t, node, made, session) for node in nodes], [True, True, False], "resumed")


def record_sizes(raw):
    """The lengths of the records of application data."""
    sizes, at = [], 0
    while at + 5 <= len(raw):
        length = int.from_bytes(raw[at + 3:at + 5], "big")
        if raw[at] == 23:
            sizes.append(length)
        at += 5 + length
    return sizes


@group("records begin small and grow")
def records(t):
    blob = random.Random(1).randbytes(200_000)
    origin = t.origin(lambda x: x.reply(body=blob if x.request.target == "/large" else b"x" * 1000))
    sluice = with_tls(t, origin, [make_certificate(t, "api.pem", ["api.test"])])
    plain = socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30)
    t.defer(plain.close)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    stream = context(version=ssl.TLSVersion.TLSv1_2).wrap_bio(incoming, outgoing, server_hostname="api.test")
    raw = bytearray()

    def turn(call):
        while True:
            try:
                return call()
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                piece = plain.recv(65536)
                raw.extend(piece)
                incoming.write(piece)

    def fetch(path, least):
        raw.clear()
        stream.write(f"GET {path} HTTP/1.1\r\nHost: api.test\r\n\r\n".encode())
        got = b""
        while len(got) < least:
            got += turn(lambda: stream.read(65536))
        return record_sizes(raw)

    turn(stream.do_handshake)
    with t.point("a large response"):
        sizes = fetch("/large", len(blob))
        true(max(sizes[:8]) < 1460, sizes)
        true(max(sizes) > 16000, sizes)
        true(len(sizes) < 40, sizes)
    with t.point("the next one right behind it does not begin small again"):
        true(max(fetch("/large", len(blob))[:3]) > 16000, "sizes")
    with t.point("a short one is one record"):
        equal(len(fetch("/short", 1000)), 1, "records")
    with t.point("after a pause they are small again"):
        time.sleep(1.2)  # the pause itself is the subject
        true(max(fetch("/large", len(blob))[:8]) < 1460, "sizes")


main()
