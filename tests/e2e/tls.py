"""TLS towards clients: Python's ssl, curl and openssl s_client, broken handshakes, and files that change."""
import os
import random
import signal
import socket
import ssl
import subprocess
import time

from lib import websocket
from lib.peers import find
from lib.process import BINARY, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.tls import ask, connect, context, make_certificate, read_response, with_tls
from lib.wire import Stream

SEED = int(os.environ.get("SLUICE_E2E_SEED", "0")) or random.randrange(1 << 30)


@group("a request over TLS")
def requests(t):
    origin = t.origin()
    certificate = make_certificate(t, "api.pem", ["api.test"])
    sluice = with_tls(t, origin, [certificate], settings="forwarded = on")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with t.point(f"{version.name}, verified, several on one connection"):
            stream = connect(t, sluice, certificate=certificate, version=version)
            equal(stream.selected_alpn_protocol(), "http/1.1", "protocol")
            for _ in range(3):
                equal(ask(stream)[0], 200, "status")
    with t.point("the fields for the server say https"):
        seen = origin.last()
        equal(seen.all("X-Forwarded-Proto"), ["https"], "X-Forwarded-Proto")
        equal(seen.all("X-Forwarded-Port"), ["443"], "X-Forwarded-Port")
        true("proto=https" in seen.get("Forwarded"), "Forwarded")
    with t.point("older versions, and clients of other protocols only, are refused"):
        for options in ({"version": ssl.TLSVersion.TLSv1_1}, {"protocols": ["h2"]}):
            try:
                connect(t, sluice, made=context(**options))
                raise AssertionError("the handshake succeeded")
            except ssl.SSLError:
                pass
    with t.point("a pipeline of a hundred requests in one record"):
        stream = connect(t, sluice)
        stream.sendall(b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n" * 100)
        got = b""
        while got.count(b"HTTP/1.1 200") < 100:
            piece = stream.recv(65536)
            true(piece, "more responses")
            got += piece


@group("large bodies over TLS")
def bodies(t):
    t.note(f"seed {SEED}")
    blob = random.Random(SEED).randbytes(3_000_000)

    def handler(x):
        body = x.read_body()
        x.reply(body=blob if x.request.method == "GET" else body)

    origin = t.origin(handler)
    sluice = with_tls(t, origin, [make_certificate(t, "api.pem", ["api.test"])])
    with t.point("down, to a client that reads slowly, and then the connection's end"):
        stream = connect(t, sluice)
        stream.sendall(b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
        got = b""
        until(lambda: origin.targets(), "the origin has answered")
        while True:
            piece = stream.recv(10000)
            if not piece:
                break
            got += piece
        equal(got.partition(b"\r\n\r\n")[2] == blob, True, "the body is whole")
    with t.point("up and down"):
        stream = connect(t, sluice)
        status, body = upload(stream, blob)
        equal((status, body == blob), (200, True), "the echo")
    with t.point("a drain lets a slow client have all of it"):
        stream = connect(t, sluice)
        stream.sendall(b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
        first = stream.recv(10000)
        sluice.terminate()
        got = first
        while True:
            piece = stream.recv(10000)
            if not piece:
                break
            got += piece
        equal(got.partition(b"\r\n\r\n")[2] == blob, True, "the body is whole")
        equal(sluice.wait(), 0, "exit status")


def upload(stream, blob):
    stream.sendall(f"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: {len(blob)}\r\n\r\n".encode())
    stream.sendall(blob)
    return read_response(stream)


@test("a tunnel over TLS carries bytes both ways until one side ends")
def tunnels(t):
    def switch(x):
        x.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
        while data := x.stream.read_some():
            x.send(data)
        x.close()

    t.note(f"seed {SEED}")
    draw = random.Random(SEED)
    sluice = with_tls(t, t.origin(switch), [make_certificate(t, "api.pem", ["api.test"])])
    stream = connect(t, sluice)
    stream.sendall(b"GET /socket HTTP/1.1\r\nHost: api.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    head = b""
    while b"\r\n\r\n" not in head:
        head += stream.recv(1)
    true(head.startswith(b"HTTP/1.1 101 "), head)
    for _ in range(200):
        sent, got = draw.randbytes(draw.randrange(1, 40000)), b""
        stream.sendall(sent)
        while len(got) < len(sent):
            got += stream.recv(65536)
        equal(got == sent, True, "the echo")
    stream.unwrap().close()


@test("WebSockets whose messages are read, over TLS, up to their close")
def sockets(t):
    sluice = t.sluice(to(t.origin(websocket.server()), route="websocket = messages"),
                      listener=f"certificate = {make_certificate(t, 'api.pem', ['api.test'])}")
    stream = Stream(connect(t, sluice))
    stream.send(websocket.request_bytes("/socket", fields=websocket.handshake_fields()))
    equal(stream.read_head().status, 101, "status")
    socket_ = websocket.Socket(stream, masks=True)
    draw = random.Random(SEED)
    for size in (0, 1, 125, 126, 65535, 65536, 200_000):
        text = "".join(draw.choices("abc", k=size))
        socket_.send(text)
        equal(socket_.message() == text, True, f"the echo of {size} bytes")
    socket_.close()


@test("events of a stream leave as they come, each at once")
def events(t):
    sent = []

    def stream_events(x):
        x.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for number in range(5):
            until(lambda number=number: len(sent) == number, "the event before was read")
            x.send(b"data: %d\n\n" % number)
        x.close()

    sluice = with_tls(t, t.origin(stream_events), [make_certificate(t, "api.pem", ["api.test"])])
    stream = Stream(connect(t, sluice))
    stream.send(b"GET /events HTTP/1.1\r\nHost: api.test\r\n\r\n")
    equal(stream.read_head().get("Content-Type"), "text/event-stream", "type")
    for number in range(5):
        stream.read_through(b"data: %d\n\n" % number)
        sent.append(number)


@group("names select certificates")
def names(t):
    origin = t.origin()
    paths = [make_certificate(t, f"{n}.pem", each) for n, each in enumerate(
        (["first.test"], ["*.wild.test", "wild.test"], ["exact.wild.test"]))]
    sluice = with_tls(t, origin, paths)
    for asked, expected in (("first.test", 0), ("a.wild.test", 1), ("wild.test", 1), ("exact.wild.test", 2)):
        with t.point(asked):
            equal(ask(connect(t, sluice, asked, certificate=paths[expected]), host=asked)[0], 200, "status")
    with t.point("the first one for a name that none has, and for none"):
        for asked in ("unknown.test", None):
            stream = connect(t, sluice, asked)
            with open(paths[0], encoding="ascii") as file:
                expected = ssl.PEM_cert_to_DER_cert(file.read().split("-----END CERTIFICATE-----")[0] +
                                                    "-----END CERTIFICATE-----\n")
            equal(stream.getpeercert(True) == expected, True, "the first certificate")


@group("unknown_names = refuse")
def unknown_names(t):
    certificate = make_certificate(t, "a.pem", ["first.test", "*.wild.test"])
    sluice = with_tls(t, t.origin(), [certificate], listener="unknown_names = refuse")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for name in ("first.test", "a.wild.test"):
            with t.point(f"{version.name}: {name} is served"):
                equal(ask(connect(t, sluice, name, version=version), host=name)[0], 200, "status")
        for name in ("other.test", "wild.test", None):
            with t.point(f"{version.name}: {name} gets the alert"):
                try:
                    connect(t, sluice, name, version=version)
                    raise AssertionError("the handshake succeeded")
                except ssl.SSLError as error:
                    equal(error.reason, "TLSV1_UNRECOGNIZED_NAME", "the alert")


@group("groups, and keys with a password")
def groups_and_passwords(t):
    origin = t.origin()
    certificate = make_certificate(t, "a.pem", ["api.test"])
    with t.point("tls_groups"):
        sluice = with_tls(t, origin, [certificate], listener="tls_groups = P-384")
        for group_name, good in (("P-384", True), ("X25519", False)):
            done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{sluice.port.number}", "-groups", group_name],
                                  input="", capture_output=True, text=True, timeout=60, check=False)
            equal("Cipher is (NONE)" not in done.stdout, good, group_name)
    with t.point("one that OpenSSL does not have is an error, by its name"):
        ini = t.file("bad.ini", f"[listener m]\nbind = 127.0.0.1:1\ncertificate = {certificate}\ntls_groups = X\n"
                     "[upstream o]\nserver = 127.0.0.1:9\n[route r]\nupstream = o\n")
        done = subprocess.run([BINARY, "check", "-c", ini], capture_output=True, text=True, timeout=60, check=False)
        equal((done.returncode, "tls_groups" in done.stderr), (1, True), done.stderr)
    key, password = t.path("sealed.key"), t.file("password", "sesame\n")
    subprocess.run(["openssl", "pkey", "-in", certificate, "-aes256", "-passout", "pass:sesame", "-out", key], check=True)
    lines = f"certificate_key = {key}\n"
    with t.point("an encrypted key"):
        sluice = with_tls(t, origin, [certificate], listener=lines + f"certificate_password = file:{password}")
        equal(ask(connect(t, sluice))[0], 200, "status")
    for what, more in (("no password", ""), ("a wrong one", f"certificate_password = file:{t.file('wrong', 'x')}")):
        with t.point(f"{what} is an error that names the key"):
            ini = t.file("bad.ini", f"[listener m]\nbind = 127.0.0.1:1\ncertificate = {certificate}\n{lines}{more}\n"
                         "[upstream o]\nserver = 127.0.0.1:9\n[route r]\nupstream = o\n")
            done = subprocess.run([BINARY, "check", "-c", ini], capture_output=True, text=True, timeout=60, check=False)
            equal((done.returncode, f"{key}: can't use the key" in done.stderr), (1, True), done.stderr)
    with t.point("a key that others can read has a warning"):
        for mode, warns in ((0o600, False), (0o640, False), (0o644, True), (0o660, True)):
            os.chmod(certificate, mode)
            ini = t.file("mode.ini", f"[listener m]\nbind = 127.0.0.1:1\ncertificate = {certificate}\n"
                         "[upstream o]\nserver = 127.0.0.1:9\n[route r]\nupstream = o\n")
            done = subprocess.run([BINARY, "check", "-c", ini], capture_output=True, text=True, timeout=60, check=False)
            equal((done.returncode, f"a private key and the mode {mode:04o}" in done.stderr), (0, warns), done.stderr)


@group("curl and openssl s_client")
def peers(t):
    origin = t.origin()
    certificate = make_certificate(t, "api.pem", ["api.test"])
    sluice = with_tls(t, origin, [certificate])
    port = sluice.port.number
    resolve = ["--resolve", f"api.test:{port}:127.0.0.1", "--cacert", certificate]
    for options in (["--tls-max", "1.2"], ["--tlsv1.3"], ["--http1.1"]):
        with t.point("curl " + " ".join(options)):
            if not find("curl"):
                t.skip("curl is not installed")
            done = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{num_connects}", *options, *resolve,
                                   f"https://api.test:{port}/a", f"https://api.test:{port}/b"],
                                  capture_output=True, text=True, timeout=60, check=False)
            equal(done.returncode, 0, "curl: " + done.stderr)
            true(done.stdout.startswith("200 1"), done.stdout)
    for version in ("-tls1_2", "-tls1_3"):
        with t.point(f"openssl s_client {version} resumes its session"):
            session = t.path("session" + version)
            for which, expected in ((["-sess_out", session], "New, "), (["-sess_in", session], "Reused, ")):
                done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", "api.test",
                                       version, *which, "-CAfile", certificate, "-ign_eof"],
                                      input="GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n",
                                      capture_output=True, text=True, timeout=60, check=False)
                true(expected in done.stdout, f"{expected}in {done.stdout}")
                true("HTTP/1.1 200" in done.stdout, "a response")
                true("Verify return code: 0" in done.stdout, "verified")


def client_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = context().wrap_bio(incoming, outgoing, server_hostname="api.test")
    try:
        made.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


@group("broken handshakes")
def broken(t):
    origin = t.origin()
    certificate = make_certificate(t, "api.pem", ["api.test"])
    sluice = with_tls(t, origin, [certificate], listener="handshake_timeout = 1s")
    hello = client_hello()
    with t.point("cut at each byte of the first message, by an end and by a reset"):
        for cut in range(len(hello)):
            plain = socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30)
            plain.sendall(hello[:cut])
            if cut % 2:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            plain.close()
        equal(ask(connect(t, sluice))[0], 200, "status")
    with t.point("cut within the client's second message"):
        for cut in range(0, 200, 3):
            plain = socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            made = context().wrap_bio(incoming, outgoing, server_hostname="api.test")
            while True:
                try:
                    made.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    plain.sendall(outgoing.read())
                    incoming.write(plain.recv(65536))
            plain.sendall(outgoing.read()[:cut])
            plain.close()
        equal(ask(connect(t, sluice))[0], 200, "status")
    with t.point("one byte at a time is a handshake"):
        plain = socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30)
        t.defer(plain.close)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        made = context().wrap_bio(incoming, outgoing, server_hostname="api.test")
        for _ in range(20):
            try:
                made.do_handshake()
                break
            except ssl.SSLWantReadError:
                pass
            for byte in outgoing.read():
                plain.sendall(bytes([byte]))
            incoming.write(plain.recv(65536))
        made.write(b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
        for byte in outgoing.read():
            plain.sendall(bytes([byte]))
        got = b""
        while b"200" not in got:
            try:
                got += made.read()
            except ssl.SSLWantReadError:
                incoming.write(plain.recv(65536))
    with t.point("silence, and half of a message, end after handshake_timeout"):
        for sends in (b"", hello[:50]):
            plain = socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30)
            plain.sendall(sends)
            began = time.monotonic()
            equal(plain.recv(100), b"", "an end")
            true(time.monotonic() - began > 0.9, "not before its time")
            plain.close()
    with t.point("random bytes"):
        t.note(f"seed {SEED}")
        draw = random.Random(SEED)
        for _ in range(100):
            plain = socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30)
            try:
                plain.sendall(bytes([22, 3, draw.choice((1, 3))]) + draw.randbytes(draw.randrange(1, 400)))
            except OSError:
                pass
            plain.close()
        equal(ask(connect(t, sluice))[0], 200, "status")
    with t.point("HTTP without TLS is answered 400"):
        for request in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n",
                        b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100000):
            plain = Stream(socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30))
            t.defer(plain.close)
            plain.send(request)
            answer = plain.read_to_end()
            true(answer.startswith(b"HTTP/1.1 400 "), answer)
            true(b"HTTPS" in answer, answer)
        equal(origin.targets().count("/x"), 0, "requests of them that the origin saw")


@group("certificates are read again on SIGHUP")
def reloads(t):
    origin = t.origin()
    old = make_certificate(t, "old.pem", ["api.test"])
    new = make_certificate(t, "new.pem", ["api.test"])
    used = t.path("used.pem")

    def use(text):
        with open(used + ".tmp", "w", encoding="ascii") as out:
            out.write(text)
        os.rename(used + ".tmp", used)

    def text_of(path):
        with open(path, encoding="ascii") as file:
            return file.read()

    use(text_of(old))
    sluice = with_tls(t, origin, [used])
    open_one = connect(t, sluice, certificate=old)

    def reload(expected):
        count = sluice.log().count(expected)
        sluice.process.signal(signal.SIGHUP)
        until(lambda: sluice.log().count(expected) > count, expected)

    with t.point("a new pair is for new connections, and the old ones go on"):
        use(text_of(new))
        reload("reloaded")
        equal(ask(connect(t, sluice, certificate=new))[0], 200, "status")
        equal(ask(open_one)[0], 200, "status of the connection from before")
    for what, text in (("of another key", text_of(old).split("-----BEGIN PRIVATE KEY-----")[0] +
                        "-----BEGIN PRIVATE KEY-----" + text_of(new).split("-----BEGIN PRIVATE KEY-----")[1]),
                       ("that is no PEM", "nonsense")):
        with t.point(f"a pair {what} keeps that of before, and the log names the file"):
            use(text)
            reload("it keeps the certificates that it had before")
            true(used in sluice.log(), "the file's name")
            equal(ask(connect(t, sluice, certificate=new))[0], 200, "status")
    with t.point("`sluice check` names a broken pair"):
        done = subprocess.run([*sluice.command, "check", "-c", sluice.ini_path], capture_output=True, text=True,
                              timeout=60, check=False)
        equal(done.returncode, 1, "exit status")
        true(used in done.stderr, done.stderr)


@test("a broken pair keeps sluice from starting")
def no_start(t):
    path = t.file("bad.pem", "nonsense")
    ini = t.file("bad.ini", "[listener main]\nbind = unix:" + t.path("s") + f"\ncertificate = {path}\n"
                 "[upstream o]\nserver = 127.0.0.1:9\n[route r]\nupstream = o\n")
    done = subprocess.run([BINARY, "run", "-c", ini], capture_output=True, text=True, timeout=60, check=False)
    equal(done.returncode, 1, "exit status")
    true("bad.pem: can't read the certificate" in done.stdout + done.stderr, done.stdout + done.stderr)


main()
