"""Limits of connections: opened in a window and open at once, by address, before TLS; exact, shown and reset as others."""
import socket
import threading

from lib.admin import command, value as sample, with_admin
from lib.process import until
from lib.sluice import to
from lib.successor import Successor
from lib.tap import equal, group, main, test, true
from lib.tls import context, make_certificate
from lib.wire import Stream

OPEN = "[limit open]\nunit = connections\nkey = ip\nconcurrency = {}\n"
RATE = "[limit knocks]\nunit = connections\nkey = ip/24\nrate = {}\n"
GET = b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"


class Reset:
    """A connection that was reset before connect(2) returned."""

    def recv(self, _size):
        raise ConnectionResetError

    sendall = recv

    def close(self):
        pass


def knock(sluice, source="127.0.0.1"):
    """A connection from that address."""
    try:
        return socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30, source_address=(source, 0))
    except ConnectionResetError:
        return Reset()


def is_served(connection):
    """Whether a request gets 200; else the connection was refused: "reset" or "closed"."""
    try:
        connection.sendall(GET)
        head = connection.recv(4096)
    except (ConnectionResetError, BrokenPipeError):
        return "reset"
    return head.startswith(b"HTTP/1.1 200") or "closed"


def served(t, sluice, count, source="127.0.0.1"):
    """So many, one after another; those that are served stay open."""
    found = []
    for _ in range(count):
        connection = knock(sluice, source)
        if is_served(connection) is True:
            found.append(connection)
            t.defer(connection.close)
        else:
            connection.close()
    return found


@group("open at once")
def at_once(t):
    sluice, admin = with_admin(t, OPEN.format(3) + to(t.origin()), listener="limits = open")
    with t.point("the bound is exact, for each address, and a place goes back"):
        # The start of this test has connected from 127.0.0.1 as well, and has left.
        until(lambda: len(mine := served(t, sluice, 3, "127.0.0.2")) == 3 or [each.close() for each in mine] and False,
              "three")
        equal(served(t, sluice, 5, "127.0.0.2"), [], "more of that address")
        others = served(t, sluice, 3, "127.0.0.3")
        equal(len(others), 3, "of another")
        equal(is_served(knock(sluice, "127.0.0.3")), "reset", "the fourth")
        others[0].close()
        until(lambda: is_served(knock(sluice, "127.0.0.3")) is True, "its place")
    with t.point("refused ones are counted, at the limit and in the log"):
        _, text = admin.metrics()
        true(sample(text, "sluice_limit_verdicts_total", limit="open", verdict="refuse") >= 6, text)
        true("connection from 127.0.0.2 refused by limit open" in sluice.log(), sluice.log())
    with t.point("callers shows them"):
        first = admin.json("/api/v1/callers?sort=refused")[1]["callers"][0]
        equal((first["limit"], first["address"], first["quota"], first["used"]), ("open", "127.0.0.2", 3, 3), "caller")
        text = command("callers", "--admin", admin.address)
        true("open" in text and "127.0.0.2" in text, text)


@test("a hundred threads at once: exactly the rate is admitted, over all workers", workers=[1, 4])
def rate(t):
    sluice = t.sluice(RATE.format("40 per 1h") + to(t.origin()), listener="limits = knocks")
    counts, lock = {"served": 0}, threading.Lock()

    def run():
        for _ in range(2):
            connection = knock(sluice, "127.0.1.9")
            if is_served(connection) is True:
                with lock:
                    counts["served"] += 1
            connection.close()
    threads = [threading.Thread(target=run, daemon=True) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(counts["served"], 40, "connections served")


@group("callers and reset")
def shown(t):
    sluice, admin = with_admin(t, RATE.format("2 per 1h") + to(t.origin()), listener="limits = knocks")
    with t.point("a caller's use, by its address"):
        equal(len(served(t, sluice, 4, "127.0.3.1")), 2, "admitted")
        line = command("callers", "127.0.3.1", "--limit", "knocks", "--admin", admin.address).splitlines()[1]
        equal(line.split()[:4], ["knocks", "2", "0", "2"], "a line")
    with t.point("explain, for a listener"):
        for address, verdict in (("127.0.3.7", "refuse"), ("127.0.4.1", "admit")):
            status, answer = admin.json(f"/api/v1/explain?path=/&listener=main&address={address}")
            equal((status, answer["outcome"], answer["connection"]["outcome"]), (200, "admit", verdict), address)
            equal([(x["limit"], x["quota"]) for x in answer["connection"]["limits"]], [("knocks", 2)], "limits")
            text = command("explain", "/", "--listener", "main", "--address", address, "--admin", admin.address)
            true(f"connection: {verdict}\n" in text and "knocks" in text, text)
        equal(admin.json("/api/v1/explain?path=/&listener=none")[0], 400, "no such listener")
    with t.point("reset lets it in again"):
        equal(command("reset", "127.0.3.1", "--limit", "knocks", "--admin", admin.address), "reset: knocks\n", "output")
        equal(len(served(t, sluice, 4, "127.0.3.2")), 2, "admitted after the reset, of the same network")


@group("how it is refused")
def refusals(t):
    certificate = make_certificate(t, "api.pem", ["api.test"])
    for words, expected in (("", "reset"), ("refuse_by = close\n", "closed")):
        with t.point(f"by default, or as told: {expected}"):
            sluice = t.sluice(RATE.format("1 per 1h") + words + to(t.origin()), listener="limits = knocks")
            equal(len(served(t, sluice, 1, "127.0.4.1")), 1, "the first")
            connection = knock(sluice, "127.0.4.1")
            try:
                equal((connection.recv(1), expected), (b"", "closed"), "its end")
            except ConnectionResetError:
                equal("reset", expected, "its end")
    with t.point("before a handshake of TLS has cost anything"):
        sluice, admin = with_admin(t, RATE.format("3 per 1h") + to(t.origin()),
                                   listener=f"limits = knocks\ncertificate = {certificate}")
        for number in range(6):
            try:
                connection = knock(sluice, "127.0.5.1")
                connection.sendall(b"")
                stream = context(certificate).wrap_socket(connection, server_hostname="api.test")
                stream.sendall(GET)
                equal(Stream(stream).read_head().status, 200, "status")
                true(number < 3, "admitted")
                stream.close()
            except OSError:
                true(number >= 3, "refused")
        equal(sample(admin.metrics()[1], "sluice_handshakes_total", result="done"), 3, "handshakes")


@test("with PROXY protocol, the header's address is limited, not the proxy's")
def behind_proxy(t):
    sluice = t.sluice(OPEN.format(2) + to(t.origin()),
                      listener="limits = open\ntrusted_proxies = 127.0.0.1\nproxy_protocol = required")

    def ask(client):
        connection = knock(sluice)
        t.defer(connection.close)
        connection.sendall(f"PROXY TCP4 {client} 198.51.100.1 1 2\r\n".encode())
        return is_served(connection)
    for client, expected in (("192.0.2.1", True), ("192.0.2.1", True), ("192.0.2.1", "reset"), ("192.0.2.2", True),
                             ("192.0.2.2", True), ("192.0.2.2", "reset")):
        equal(ask(client), expected, client)


def switch(x):
    """An echo behind 101, for any other path 200."""
    if x.request.target != "/socket":
        x.reply()
        return
    x.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
    while data := x.stream.read_some():
        x.send(data)
    x.close()


def open_tunnel(t, sluice, source):
    tunnel = knock(sluice, source)
    t.defer(tunnel.close)
    tunnel.sendall(b"GET /socket HTTP/1.1\r\nHost: api.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    equal(Stream(tunnel).read_head().status, 101, "status")
    return tunnel


@test("an upgrade knows the places that the old process's connections have", workers=[1])
def upgraded(t):
    pid_file = t.path("pid")
    sluice = t.sluice(OPEN.format(2) + to(t.origin(switch)), listener="limits = open", settings=f"pid_file = {pid_file}")
    tunnels = [open_tunnel(t, sluice, "127.0.11.1") for _ in range(2)]
    successor = Successor(t, sluice, pid_file)
    equal(is_served(knock(sluice, "127.0.11.1")), "reset", "a third one, at the new process")
    equal(is_served(knock(sluice, "127.0.11.2")), True, "another address")
    tunnels[0].close()
    until(lambda: is_served(knock(sluice, "127.0.11.1")) is True, "the place of the first")
    tunnels[1].close()
    equal(successor.end_both(), 0, "exit status of the old process")


@test("a tunnel and an HTTP/2 connection keep their place until they end")
def places(t):
    sluice = t.sluice(OPEN.format(1) + to(t.origin(switch)), listener="limits = open\nprotocols = h2, http/1.1")
    tunnel = open_tunnel(t, sluice, "127.0.6.1")
    equal(is_served(knock(sluice, "127.0.6.1")), "reset", "a second one")
    tunnel.close()

    def preface():
        connection = knock(sluice, "127.0.6.1")
        t.defer(connection.close)
        try:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            return connection if connection.recv(9)[3:4] == b"\4" else None
        except (ConnectionResetError, BrokenPipeError):
            return None
    held = []
    until(lambda: held.append(preface()) or held[-1], "the tunnel's place")
    equal(preface(), None, "a second one")


@group("conditions, shadow and changes")
def conditions(t):
    origin = t.origin()
    with t.point("when: networks that are exempt"):
        sluice = t.sluice(OPEN.format(1) + "when = !office\n[match office]\nall = ip in 127.0.7.0/24\n" + to(origin),
                          listener="limits = open")
        equal(len(served(t, sluice, 3, "127.0.7.1")), 3, "of the office")
        equal(len(served(t, sluice, 3, "127.0.8.1")), 1, "of others")
    with t.point("shadow: counted, never refused"):
        sluice, admin = with_admin(t, OPEN.format(1) + "mode = shadow\n" + to(origin), listener="limits = open")
        equal(len(served(t, sluice, 3, "127.0.9.1")), 3, "served")
        _, text = admin.metrics()
        equal(sample(text, "sluice_limit_verdicts_total", limit="open", verdict="shadow_refuse"), 2,
              [line for line in text.splitlines() if "limit_verdicts" in line])
    with t.point("a reload that raises the limit knows who is there"):
        sluice, admin = with_admin(t, OPEN.format(2) + to(origin), listener="limits = open")
        equal(len(served(t, sluice, 3, "127.0.10.1")), 2, "before")
        sluice.reload(sluice.sections.replace("concurrency = 2", "concurrency = 4"))
        more = []
        until(lambda: more.extend(served(t, sluice, 3, "127.0.10.1")) or len(more) == 2, "two more")
        equal(served(t, sluice, 3, "127.0.10.1"), [], "and no others")


main()
