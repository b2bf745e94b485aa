"""The operator's interface over https: curl, Python's ssl and the commands, which send no token to anybody else."""
import json
import os
import socket
import ssl
import threading
import time

from lib import process
from lib.peers import curl
from lib.process import Port, Process, BINARY, until
from lib.sluice import to
from lib.successor import Successor
from lib.tap import equal, group, main, test, true
from lib.tls import context, exchange, make_certificate


def with_https(t, certificate, more="", **options):
    """(sluice, its admin address)"""
    port = Port(socket.AF_INET)
    t.defer(port.release)
    token = t.file("admin.token", "secret-token-of-the-operator\n")
    os.chmod(token, 0o600)
    options.setdefault("settings", f"pid_file = {t.path('pid')}\n")
    sluice = t.sluice(to(t.origin()), f"[admin]\nbind = 127.0.0.1:{port.number}\ntoken = file:{token}\n"
                      f"certificate = {certificate}\n{more}", **options)
    sluice.process.wait_output("sluice is ready")
    return sluice, f"127.0.0.1:{port.number}"


def run(*words, **environment):
    return process.run([BINARY, *words], environment=environment)


@group("https")
def https(t):
    certificate = make_certificate(t, "admin.pem", ["admin.test", "IP:127.0.0.1"])
    sluice, address = with_https(t, certificate)
    port = address.rsplit(":", 1)[1]
    with t.point("curl verifies it by its name, also with a page's Host"):
        for host in ("admin.test", "127.0.0.1"):
            status, output = curl("--cacert", certificate, "--resolve", f"admin.test:{port}:127.0.0.1",
                                  "-H", "Authorization: Bearer secret-token-of-the-operator",
                                  f"https://{host}:{port}/api/v1/status")
            true(status == 0 and json.loads(output), output)
    with t.point("TLS 1.2 and 1.3, and nothing below"):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as plain:
                stream = context(certificate, version=version).wrap_socket(plain, server_hostname="admin.test")
                stream.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                true(stream.recv(100).startswith(b"HTTP/1.1 200"), version)
        try:
            with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as plain:
                context(version=ssl.TLSVersion.TLSv1_1).wrap_socket(plain)
            raise AssertionError("TLS 1.1 was accepted")
        except (ssl.SSLError, OSError):
            pass
    with t.point("http is not spoken there"):
        status, _ = curl(f"http://{address}/healthz")
        true(status != 0, "an answer to http")
    with t.point("commands, by the configuration's certificate"):
        status, output = run("limits", "-c", sluice.ini_path, "--json")
        equal(status, 0, output)
    with t.point("commands, by --ca, and not without"):
        words = ("limits", "--admin", f"https://127.0.0.1:{port}", "--json")
        status, output = run(*words, "--ca", certificate, SLUICE_TOKEN="secret-token-of-the-operator")
        equal(status, 0, output)
        status, output = run(*words, SLUICE_TOKEN="secret-token-of-the-operator")
        true(status == 3 and "certificate" in output.lower(), output)


def rests(pid, name):
    """Whether no thread of that name has run while we slept; None: the kernel does not count it."""
    def ran():
        found = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as comm:
                if not comm.read().startswith(name):
                    continue
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as counts:
                found.append(counts.read().split()[0])
        return found
    try:
        before = ran()
    except FileNotFoundError:
        return None
    time.sleep(0.3)
    return bool(before) and ran() == before


@test("a client that stops within its handshake costs nothing, and keeps nobody else waiting", workers=[1])
def stopped_handshakes(t):
    certificate = make_certificate(t, "admin.pem", ["admin.test", "IP:127.0.0.1"])
    sluice, address = with_https(t, certificate)
    hello = ssl.MemoryBIO()
    try:
        context(certificate).wrap_bio(ssl.MemoryBIO(), hello, server_hostname="admin.test").do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = hello.read()
    for size in (3, 40, len(hello)):
        stopped = socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])), timeout=30)
        t.defer(stopped.close)
        stopped.sendall(hello[:size])
        status, output = run("limits", "-c", sluice.ini_path, "--json")
        equal(status, 0, output)
        if rests(sluice.pid, "MHD") is None:
            t.skip("no schedstat")
        until(lambda: rests(sluice.pid, "MHD"), f"rest, with {size} bytes of a hello", seconds=10)
        stopped.close()


class Impostor:
    """Speaks TLS with another certificate, and keeps what it is sent."""

    def __init__(self, t, address, certificate):
        self.seen = b""
        self.asked = threading.Event()
        self.made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.made.load_cert_chain(certificate)
        self.socket = socket.create_server(address)
        t.defer(self.socket.close)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                plain, _ = self.socket.accept()
            except OSError:
                return
            self.asked.set()
            try:
                with self.made.wrap_socket(plain, server_side=True) as stream:
                    stream.settimeout(5)
                    self.seen += stream.recv(4096)
            except OSError:
                plain.close()


@test("no token for whoever has another certificate", workers=[1])
def impostor(t):
    own = make_certificate(t, "admin.pem", ["127.0.0.1", "IP:127.0.0.1"])
    other = make_certificate(t, "other.pem", ["127.0.0.1", "IP:127.0.0.1"])
    token = t.file("admin.token", "secret-token-of-the-operator\n")
    port = Port(socket.AF_INET)
    number = port.number
    port.release()
    fake = Impostor(t, ("127.0.0.1", number), other)
    ini = t.file("client.ini", f"[admin]\nbind = 127.0.0.1:{number}\ntoken = file:{token}\ncertificate = {own}\n")
    for words in (("-c", ini), ("--admin", f"https://127.0.0.1:{number}", "--ca", own, "--token-file", token),
                  ("--admin", f"https://127.0.0.1:{number}", "--token-file", token)):
        status, output = run("limits", *words)
        equal(status, 3, output)
    true(fake.asked.is_set(), "it was asked")
    equal(fake.seen, b"", "what it got")


def presented(address, name="admin.test"):
    """The certificate that a new connection gets."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as plain:
        with context().wrap_socket(plain, server_hostname=name) as stream:
            return stream.getpeercert(True)


def der_of(path):
    with open(path, encoding="ascii") as file:
        return ssl.PEM_cert_to_DER_cert(file.read().split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n")


def replace(path, text):
    with open(path + ".tmp", "w", encoding="ascii") as out:
        out.write(text)
    os.rename(path + ".tmp", path)


def text_of(path):
    with open(path, encoding="ascii") as file:
        return file.read()


@test("a certificate that changes is read again, by the watch and by a reload; a broken one leaves the old one in use",
      workers=[1])
def renewed(t):
    first, second, third = (make_certificate(t, f"{n}.pem", ["admin.test", "IP:127.0.0.1"]) for n in ("a", "b", "c"))
    used = t.path("used.pem")
    replace(used, text_of(first))
    sluice, address = with_https(t, used)
    plain = socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])), timeout=30)
    t.defer(plain.close)
    held = context(first).wrap_socket(plain, server_hostname="admin.test")
    t.defer(held.close)
    replace(used, text_of(second))

    def is_second():
        """Whether it is; the connection from before continues, and is not idle."""
        equal(exchange(held, "/healthz", "localhost").status, 200, "its answer")
        return presented(address) == der_of(second)
    until(is_second, "the second, by the watch")
    true(is_second(), "behind the change, too")
    equal(run("limits", "-c", sluice.ini_path, "--json")[0], 0, "commands, by the new one")
    replace(used, "nonsense\n")
    until(lambda: "it keeps the certificate that it had before" in sluice.log(), "the line")
    equal(presented(address), der_of(second), "the second still")
    sluice.reload(None)
    until(lambda: "reloaded" in sluice.log(), "a reload")
    equal(presented(address), der_of(second), "the second still")
    os.unlink(used)
    until(lambda: f"{used}: No such file" in sluice.log(), "the other line")
    # The request for the reload is on a connection of the daemon of libmicrohttpd that leaves its socket by it.
    known = t.file("known.pem", text_of(second) + text_of(third))
    replace(used, text_of(third))
    status, output = run("reload", "--admin", f"https://{address}", "--ca", known, SLUICE_TOKEN="secret-token-of-the-operator")
    equal(status, 0, output)
    until(lambda: presented(address) == der_of(third), "the third")
    equal(sluice.log().count("[admin]: its certificate has changed and is in use"), 2, "lines")
    successor = Successor(t, sluice, t.path("pid"))
    until(lambda: "has taken over" in sluice.log(), "an upgrade hands over the socket that the last one has")
    equal(presented(address), der_of(third), "by the new process")
    replace(used, text_of(first))
    until(lambda: presented(address) == der_of(first), "and it reads it again, too")
    held.close()
    equal(successor.end_both(), 0, "both have ended well")


@test("many changes leave no connection, thread or descriptor behind", workers=[1])
def many_renewals(t):
    files = [make_certificate(t, f"{n}.pem", ["admin.test"]) for n in ("a", "b")]
    used = t.path("used.pem")
    replace(used, text_of(files[0]))
    sluice, address = with_https(t, used)

    def count(what):
        return len(os.listdir(f"/proc/{sluice.pid}/{what}"))
    equal(presented(address), der_of(files[0]), "the first")
    before = {what: count(what) for what in ("task", "fd")}
    for number in range(1, 9):
        replace(used, text_of(files[number % 2]))
        until(lambda: presented(address) == der_of(files[number % 2]), "the next")

    def has_ended():
        sluice.reload(None)
        return count("task") <= before["task"] and count("fd") <= before["fd"]
    until(has_ended, "what was left has ended")


@test("a certificate that can't be used keeps sluice from starting", workers=[1])
def broken(t):
    good, other = make_certificate(t, "a.pem", ["a.test"]), make_certificate(t, "b.pem", ["b.test"])
    text = t.file("text.pem", "no certificate\n")
    for lines, why in ((f"certificate = {t.path('none.pem')}", "No such file"),
                       (f"certificate = {text}", "are certificate and key PEM"),
                       (f"certificate = {good}\ncertificate_key = {other}.key", "are certificate and key PEM")):
        port = Port(socket.AF_INET)
        t.defer(port.release)
        listener = Port(socket.AF_INET)
        t.defer(listener.release)
        ini = t.file("broken.ini", f"[listener l]\nbind = 127.0.0.1:{listener.number}\n[admin]\n"
                     f"bind = 127.0.0.1:{port.number}\n{lines}\n" + to(t.origin()))
        child = Process([BINARY, "run", "-c", ini], "broken")
        t.defer(child.kill)
        child.wait_output(why)
        equal(child.wait(), 1, "exit status")


main()
