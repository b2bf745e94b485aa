"""Clients that leave: a silent event stream ends with its client, and what waits for its turn is not sent."""
import signal

from lib.client import request_bytes
from lib.owners import Fleet
from lib.process import DEADLINE_SECONDS, until
from lib.sluice import to
from lib.tap import equal, group, main, test
from lib.wire import chunked
from lib.workers import leave, server_inode

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
STREAMS = (("chunked", EVENTS + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"data: 1\n\n")[:-5]),
           ("until the close", EVENTS + b"\r\ndata: 1\n\n"))
VERSIONS = (("1.1", "1.1", []), ("1.1, the last request", "1.1", [("Connection", "close")]), ("1.0", "1.0", []))
HOWS = ("close", "reset", "finish_sending")


class Server:
    """Event streams that say one thing and are silent then. GET /hold waits."""

    def __init__(self, t, stream=STREAMS[0][1]):
        self.stream, self.lets_go = stream, t.event()
        self.origin = t.origin(self.serve)

    def serve(self, x):
        x.read_body()
        if x.request.target == "/late":
            self.lets_go.wait(DEADLINE_SECONDS)
        if x.request.target in ("/events", "/late"):
            x.send(self.stream)
            x.stream.socket.settimeout(None)  # it is silent for as long as it takes
            x.stream.read_to_any_end()
            x.close()
            return
        if x.request.target == "/hold":
            self.lets_go.wait(DEADLINE_SECONDS)
        x.reply(200, b"small")


def open_events(t, sluice, version="1.1", fields=(), method="GET"):
    client = t.client(sluice)
    client.request("/events", method, fields, version=version)
    head = client.response_head()
    if head.status == 200:
        client.read_through(b"data: 1\n\n")
    return client, head.status


@group("a silent event stream whose client leaves: its server's connection is closed, its place is free")
def event_streams(t):
    server = Server(t)
    sluice = t.sluice("[limit streams]\nkey = ip\nconcurrency = 1\n"
                      + to(server.origin, upstream="max_streams = 1\nidle_timeout = 1h", route="limits = streams"))
    for framing, server.stream in STREAMS:
        for name, version, fields in VERSIONS:
            for how in HOWS:
                for method in ("GET", "POST"):
                    with t.point(f"{framing}, {method}, HTTP/{name}, {how}"):
                        client, status = open_events(t, sluice, version, fields, method)
                        equal(status, 200, "status")
                        leave(sluice, client, how)
                        server.origin.wait_connections_gone()


def together(t, sluice, sent, how):
    """What a client sends, and its end, come in one wake."""
    client = t.client(sluice)
    server_inode(sluice, client)  # it is accepted
    sluice.process.stop()
    try:
        client.send(sent)
        getattr(client, how)()
    finally:
        sluice.process.signal(signal.SIGCONT)
    return client


@group("the same where the client's request and its end come together")
def event_streams_at_once(t):
    server = Server(t)
    sluice = t.sluice(to(server.origin, upstream="idle_timeout = 1h\nkeepalive = 0"))
    for name, version, fields in VERSIONS:
        for how in HOWS:
            with t.point(f"HTTP/{name}, {how}"):
                count = len(server.origin.requests)
                together(t, sluice, request_bytes("/events", fields=fields, version=version), how)
                if how != "reset":
                    server.origin.wait_requests(count + 1)
                server.origin.wait_connections_gone()
                equal(t.client(sluice).ask("/small", fields=[("Connection", "close")]).status, 200, "another")


@group("the same where the client has left before the stream begins")
def event_streams_left_before(t):
    server = Server(t)
    sluice = t.sluice(to(server.origin, upstream="idle_timeout = 1h"))
    for method in ("GET", "POST"):
        for name, version, fields in VERSIONS:
            for how in HOWS:
                with t.point(f"{method}, HTTP/{name}, {how}"):
                    server.lets_go.clear()
                    count = len(server.origin.requests)
                    client = t.client(sluice)
                    client.request("/late", method, fields, version=version)
                    server.origin.wait_requests(count + 1)
                    if how == "reset":
                        leave(sluice, client, how)
                    else:
                        getattr(client, how)()
                    server.lets_go.set()
                    server.origin.wait_connections_gone()


@test("the same by way of another node, which owns the session", workers=[1])
def event_stream_of_another_node(t):
    server = Server(t)
    fleet = Fleet(t, count=2, origin=server.origin, upstream="idle_timeout = 1h\n")
    for method in ("GET", "POST"):
        equal(fleet.client(1).ask("/small", fields=[("X-Client", "ann")]).status, 200, "node 1 owns it")
        for how in HOWS:
            client, status = open_events(t, fleet.nodes[0], fields=[("X-Client", "ann"), ("Connection", "close")],
                                         method=method)
            equal((status, open_streams(fleet) > 0), (200, True), "status, and that it is counted")
            getattr(client, how)()
            until(lambda: open_streams(fleet) == 0, f"{method}, {how}: the stream ends")


def open_streams(fleet):
    """How many streams are open at the servers, as the nodes count them."""
    upstreams = [upstream for node in fleet.nodes for upstream in node.admin.json("/api/v1/upstreams")[-1]["upstreams"]]
    return sum(server["streams"] for upstream in upstreams for server in upstream["servers"])


def requests():
    """Name, what is sent first, whether a 100 comes, and the rest."""
    for name, version, fields in VERSIONS:
        yield f"GET, HTTP/{name}", request_bytes("/w", "GET", fields, version=version), b""
        yield (f"POST, HTTP/{name}",
               request_bytes("/w", "POST", [*fields, ("Content-Length", "5")], version=version) + b"hello", b"")
    yield ("POST that asked for a 100", request_bytes("/w", "POST", [("Content-Length", "5"), ("Expect", "100-continue")]),
           b"hello")


WAITS = (("in the queue", "", "max_in_flight = 1", ""),
         ("for its limit", "[limit one]\nkey = ip\nrate = 1 per 1m\non_exceed = delay 5m\n", "", "limits = one"))


@group("a request that waits is not sent when its client has left")
def waiting(t):
    for place, sections, upstream, route in WAITS:
        server = Server(t)
        sluice = t.sluice(sections + to(server.origin, upstream=upstream, route=route))
        holder = t.client(sluice)
        holder.request("/hold")
        server.origin.wait_requests(1)
        for name, first, rest in requests():
            # A client of HTTP/1.0 that only closed its half can't be asked whether it has left.
            for how in ("reset",) if "1.0" in name else ("close", "reset"):
                with t.point(f"{place}: {name}, {how}"):
                    client = t.client(sluice)
                    client.send(first)
                    if rest:
                        equal(client.read_head().status, 100, "interim status")
                        client.send(rest)
                    leave(sluice, client, how)
                if rest:
                    continue
                with t.point(f"{place}: {name}, {how} at once"):
                    together(t, sluice, first, how)
        with t.point(f"{place}: none was sent"):
            until(lambda: clients_of(sluice) == 1, "all have left but one")  # pylint: disable=cell-var-from-loop
            server.lets_go.set()
            equal(holder.response().status, 200, "the one before")
            if upstream:
                equal(t.client(sluice).ask("/last").status, 200, "one behind")
            equal(set(server.origin.targets()) - {"/last"}, {"/hold"}, "targets")


@test("a client that closed its half, and has not left, gets its answer when its turn comes")
def half_closed(t):
    server = Server(t)
    sluice = t.sluice(to(server.origin, upstream="max_in_flight = 1"))
    holder = t.client(sluice)
    holder.request("/hold")
    server.origin.wait_requests(1)
    clients = []
    for _, first, rest in requests():
        client = t.client(sluice)
        client.send(first)
        if rest:
            equal(client.read_head().status, 100, "interim status")
            client.send(rest)
        client.finish_sending()
        clients.append(client)
    clients.append(together(t, sluice, request_bytes("/w"), "finish_sending"))
    server.lets_go.set()
    for client in clients:
        equal(client.response().status, 200, "status")


def clients_of(sluice):
    """How many connections of clients it has."""
    port = f":{int(str(sluice.address).rpartition(':')[2]):04X}"
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return sum(row[1].endswith(port) and row[3] in ("01", "08") and row[9] != "0" for row in rows)


main()
