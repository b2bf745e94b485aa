"""upstream_affinity = session: a session has a connection to a server to itself, for servers whose
login lives in the connection. The origin here tells which connection each request came by."""
import threading

from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS, until
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.wire import quiet

ROUTE = "host = api.test\nsession = header:X-Api-Key | ip\nupstream_affinity = session\n"


def as_(key):
    return [("X-Api-Key", key)]


class Logins:
    """An origin whose login lives in the connection: POST /login, then GET /whoami there."""

    def __init__(self, t, **options):
        self.t = t
        self.users = {}  # connection: who logged in
        self.gates = {}
        self.origin = t.origin(self._handle, **options)

    def gate(self, target):
        return self.gates.setdefault(target, self.t.event())

    def _handle(self, x):
        x.read_body()
        path = x.request.target.split("?")[0]
        if path in self.gates:
            self.gates[path].wait(DEADLINE_SECONDS)
        if path == "/login":
            self.users[x.connection] = x.request.get("X-Api-Key")
        elif path == "/drop":
            x.close()
            return
        elif path == "/last":
            x.reply(200, b"", [("Connection", "close")])
            x.close()
            return
        user = self.users.get(x.connection)
        x.reply(200 if user else 401, (user or "nobody").encode(),
                [("X-Connection", str(x.connection))])

    def connection_of(self, target):
        return [x.connection for x in self.origin.requests if x.request.target == target]


def ask(client, text, key):
    method, target = text.split()
    client.request(target, method, as_(key), b"" if method == "POST" else None)
    return client.response(method)


# ---- one session, one connection ---------------------------------------------------------------

def talk(t, affinity, clients_each=4, sessions=5, rounds=40):
    """Sessions of several clients each, that log in and then ask who they are; the wrong answers
    and the connections that each session was served by."""
    logins = Logins(t)
    sluice = t.sluice(to(logins.origin, route=ROUTE.replace("affinity = session", f"affinity = {affinity}")))
    wrong, used, lock = [], {}, threading.Lock()

    def session(key):
        clients = [t.client(sluice) for _ in range(clients_each)]
        ask(clients[0], "POST /login", key)
        for number in range(rounds):
            batch = clients if number % 2 else clients[:1]
            for client in batch:
                client.request(f"/whoami?{number}", fields=as_(key))
            for client in batch:
                answer = client.response()
                with lock:
                    used.setdefault(key, set()).add(answer.get("X-Connection"))
                    if answer.body != key.encode():
                        wrong.append((key, number, answer.body))

    threads = [threading.Thread(target=session, args=(f"user-{n}",), daemon=True)
               for n in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    return wrong, used, logins.origin.connections


@test("each session's requests come by one connection, whatever workers they were received by")
def one_each(t):
    wrong, used, connections = talk(t, "session")
    equal(wrong, [], "answers under another login")
    equal({key: len(of) for key, of in used.items()}, {f"user-{n}": 1 for n in range(5)}, "connections")
    equal(len(set.union(*used.values())), 5, "sessions do not share connections")
    equal(connections, 5, "connections at the origin")


@test("the same without affinity finds wrong logins: the test can tell")
def control(t):
    wrong, used, _ = talk(t, "none")
    t.note(f"{len(wrong)} answers were under another login, or none")
    true(wrong, "all were right by chance")


@test("the session that holds a bounded server's only connection uses it for all that waits in it")
def bounded(t):
    logins = Logins(t)
    gate = logins.gate("/slow")
    route = ROUTE + "session_idle_timeout = 100ms\nqueue_timeout = 30s\n"
    sluice = t.sluice(to(f"{logins.origin} max_connections=1", route=route))
    first, others = t.client(sluice), [t.client(sluice) for _ in range(6)]
    first.request("/slow", fields=as_("one"))
    logins.origin.wait_requests(1)
    for number, client in enumerate(others):  # three sessions, two requests of each
        client.request(f"/{number}", fields=as_(f"user-{number // 2}"))
    gate.set()
    equal(first.response().status, 401, "the first")
    equal([client.response().status for client in others], [401] * 6, "those that waited")


@test("reads of such a session go one at a time, those of others beside them")
def one_at_a_time(t):
    logins = Logins(t)
    gate = logins.gate("/whoami")
    sluice = t.sluice(to(logins.origin, route=ROUTE))
    first, second, other = (t.client(sluice) for _ in range(3))
    ask(first, "POST /login", "one")
    first.request("/whoami?1", fields=as_("one"))
    logins.origin.wait_requests(2)
    second.request("/whoami?2", fields=as_("one"))
    ask(other, "POST /login", "two")
    true(quiet(second, 0.2), "answered")
    equal(len(logins.origin.requests), 3, "requests at the origin")
    gate.set()
    for client in (first, second):
        equal(client.response().body, b"one", "who it is")


# ---- the connection's end ----------------------------------------------------------------------

@test("the session's idle timer closes it, and the next request opens another")
def idle(t):
    logins = Logins(t)
    client = t.client(t.sluice(to(logins.origin, route=ROUTE + "session_idle_timeout = 200ms")))
    equal(ask(client, "POST /login", "one").status, 200, "status")
    logins.origin.wait_connections_gone()
    equal(ask(client, "GET /whoami", "one").status, 401, "status of a new session")
    logins.origin.wait_connections_gone()
    equal(logins.origin.connections, 2, "connections")


@test("keepalive keys are not for it: the session alone ends it")
def not_keepalive(t):
    logins = Logins(t)
    client = t.client(t.sluice(to(logins.origin, route=ROUTE, upstream=(
        "keepalive = 0\nkeepalive_timeout = 10ms\nkeepalive_requests = 2"))))
    ask(client, "POST /login", "one")
    for _ in range(5):
        equal(ask(client, "GET /whoami", "one").body, b"one", "who it is")
    true(quiet(client, 0.1), "closed")
    equal(ask(client, "GET /whoami", "one").body, b"one", "who it is")
    equal(logins.origin.connections, 1, "connections")


@test("closed by the server between two requests: another is opened, no request is lost")
def closed_between(t):
    logins = Logins(t)
    client = t.client(t.sluice(to(logins.origin, route=ROUTE)))
    ask(client, "POST /login", "one")
    for stream in list(logins.origin._streams):
        stream.finish_sending()
    # A POST, which is not sent twice: so it went by a new connection the first time.
    equal(ask(client, "POST /whoami", "one").status, 401, "status")
    equal(logins.connection_of("/whoami"), [1], "connections")
    # And one that the server says it will close.
    equal(ask(client, "POST /last", "one").status, 200, "status")
    equal(ask(client, "POST /whoami", "one").status, 401, "status")
    equal(logins.connection_of("/whoami"), [1, 2], "connections")


@test("closed by the server under a request: tried again when that is safe, as ever")
def closed_under(t):
    logins = Logins(t)
    client = t.client(t.sluice(to(logins.origin, route=ROUTE, upstream="retries = 1")))
    ask(client, "POST /login", "one")
    # On a connection that has served, an end without an answer may be a stale one: GET is sent
    # again, on a new one, where it fails for good.
    equal(ask(client, "GET /drop", "one").status, 502, "status")
    equal(logins.connection_of("/drop"), [0, 1], "connections")
    ask(client, "POST /login", "one")
    equal(ask(client, "POST /drop", "one").status, 502, "status")
    equal(logins.connection_of("/drop"), [0, 1, 2], "connections")
    ask(client, "POST /login", "one")
    equal(ask(client, "GET /whoami", "one").body, b"one", "who it is")


@test("a client that leaves its read does not end its session's login")
def left_read(t):
    logins = Logins(t)
    gate = logins.gate("/slow")
    sluice = t.sluice(to(logins.origin, route=ROUTE))
    first, second = t.client(sluice), t.client(sluice)
    ask(first, "POST /login", "one")
    first.request("/slow", fields=as_("one"))
    logins.origin.wait_requests(2)
    first.reset()
    second.request("/whoami", fields=as_("one"))
    true(quiet(second, 0.1), "answered before the first was done")
    gate.set()
    equal(second.response().body, b"one", "who it is")
    equal(logins.origin.connections, 1, "connections")


@test("but a read without an end is cut when its client leaves it, and does not hold its session")
def left_stream(t):
    logins = Logins(t)

    def endless(x):
        if x.request.target != "/events":
            handle(x)
            return
        x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        x.stream.read_some()  # until it is closed
        x.close()
    handle, logins.origin.handler = logins.origin.handler, endless
    sluice = t.sluice(to(logins.origin, route=ROUTE))
    first, second = t.client(sluice), t.client(sluice)
    ask(first, "POST /login", "one")
    first.request("/events", fields=as_("one"))
    equal(first.response_head().status, 200, "status")
    first.reset()
    equal(ask(second, "GET /whoami", "one").status, 401, "status on another connection")
    equal(logins.connection_of("/whoami"), [1], "connections")


@test("a tunnel takes it along, and the session opens another")
def tunnel(t):
    logins = Logins(t)

    def upgrading(x):
        if x.request.target != "/ws":
            handle(x)
            return
        x.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"
               + logins.users[x.connection].encode())
        x.stream.read_some()
        x.close()
    handle, logins.origin.handler = logins.origin.handler, upgrading
    sluice = t.sluice(to(logins.origin, route=ROUTE))
    client, second = t.client(sluice), t.client(sluice)
    ask(client, "POST /login", "one")
    client.request("/ws", fields=as_("one") + [("Upgrade", "websocket"), ("Connection", "upgrade")])
    equal(client.read_head().status, 101, "status")
    equal(client.read_exactly(3), b"one", "who the tunnel is")
    equal(ask(second, "GET /whoami", "one").status, 401, "status beside it")
    client.close()
    ask(second, "POST /login", "one")
    equal(ask(second, "GET /whoami", "one").body, b"one", "who it is")
    equal(logins.origin.connections, 2, "connections")


# ---- with the rest of sluice -------------------------------------------------------------------

@test("it is nobody else's: other routes to the same server have their own")
def nobody_elses(t):
    logins = Logins(t)
    sluice = t.sluice(to(logins.origin, route=ROUTE)
                      + "[route open]\npath = /open\nupstream = origin\nhost = api.test\n")
    client = t.client(sluice)
    for number in range(3):
        equal(ask(client, "POST /login", "one").status, 200, "status")
        equal(ask(client, f"GET /open?{number}", "one").status, 401, "status")
        equal(ask(client, "GET /whoami", f"new {number}").status, 401, "status")
    equal(len(set(logins.connection_of("/login"))), 1, "connections of the session")
    open_ = {x.connection for x in logins.origin.requests if x.request.target.startswith("/open")}
    true(not open_ & set(logins.connection_of("/login") + logins.connection_of("/whoami")), "shared")


@test("a reload keeps it while its server stays, and closes it with that")
def reload(t):
    logins = Logins(t)

    def sections(more="", route=""):
        return to(logins.origin, route=ROUTE + route, upstream=more)

    sluice = t.sluice(sections(), settings="log_level = debug")
    client = t.client(sluice)
    ask(client, "POST /login", "one")
    sluice.reload(sections("max_in_flight = 7", "queue_depth = 17"))
    sluice.process.wait_output("the memory of the previous limits is freed", 1)
    equal(ask(client, "GET /whoami", "one").body, b"one", "who it is")
    sluice.reload(sections("connect_timeout = 7s\nretries = 1"))
    sluice.process.wait_output("the memory of the previous limits is freed", 2)
    equal(ask(client, "GET /whoami", "one").body, b"one", "who it is")
    sluice.reload(to(t.origin(), route=ROUTE))
    logins.origin.wait_connections_gone()
    sluice.reload(sections())
    sluice.process.wait_output("the memory of the previous limits is freed", 4)
    equal(ask(client, "GET /whoami", "one").status, 401, "status")
    equal(logins.origin.connections, 2, "connections")


@test("a drain finishes what was accepted on it")
def drain(t):
    logins = Logins(t)
    gate = logins.gate("/slow")
    sluice = t.sluice(to(logins.origin, route=ROUTE))
    client = t.client(sluice)
    ask(client, "POST /login", "one")
    client.send(b"".join(request_bytes(target, fields=as_("one"))
                         for target in ["/slow"] + ["/whoami"] * 5))
    logins.origin.wait_requests(2)
    probe = t.client(sluice)
    for _ in range(2):
        equal(probe.ask("/", host="nowhere.test").status, 404, "status")
    sluice.terminate()
    sluice.process.wait_output("draining")
    gate.set()
    for _ in range(6):
        equal(client.response().body, b"one", "who it is")
    equal(sluice.wait(), 0, "exit status")
    logins.origin.wait_connections_gone()


@test("a server that is ejected loses its sessions to another")
def left_out(t):
    logins = [Logins(t), Logins(t)]
    sick = threading.Event()

    def judged(which):
        handle = logins[which].origin.handler

        def handler(x):
            if x.request.target != "/health":
                handle(x)
            elif which == 0 and sick.is_set():
                x.reply(500)
            else:
                x.reply(200)
        logins[which].origin.handler = handler

    judged(0)
    judged(1)
    sluice = t.sluice(to(logins[0].origin, logins[1].origin, route=ROUTE, upstream=(
        "health_path = /health\nhealth_interval = 100ms\nhealth_timeout = 30s")))
    client = t.client(sluice)
    keys = [f"user {n}" for n in range(8)]
    for key in keys:
        ask(client, "POST /login", key)
    there = [len(one.connection_of("/login")) for one in logins]
    equal(min(there) > 0, True, f"both servers have sessions: {there}")
    sick.set()
    sluice.process.wait_output("unhealthy")
    for key in keys:
        ask(client, "GET /whoami", key)
    equal([len(one.connection_of("/whoami")) for one in logins], [0, 8], "requests since")
    statuses = [ask(client, "GET /whoami", key).status for key in keys]
    equal(sorted(statuses), [200] * there[1] + [401] * there[0], "statuses: those of the other stay in")


@test("a session's server at its max_in_flight: its other sessions wait there, and stay logged in")
def full(t):
    logins = [Logins(t), Logins(t)]
    gate = logins[0].gate("/slow")
    logins[1].gates["/slow"] = gate
    sluice = t.sluice(to(*[f"{one.origin} max_in_flight=1" for one in logins], route=ROUTE), workers=1)
    client, other = t.client(sluice), t.client(sluice)
    for key in ("a", "b", "c"):  # by turns: a and c at one server
        ask(client, "POST /login", key)
    client.request("/slow", fields=as_("a"))
    until(lambda: "/slow" in logins[0].origin.targets() + logins[1].origin.targets(), "the slow one")
    waits = t.client(sluice)
    waits.request("/whoami", fields=as_("c"))
    equal(ask(other, "GET /whoami", "b").body, b"b", "one of the other server")
    true(quiet(waits, 0.3), "the other session of that server waits")
    gate.set()
    equal(client.response().body, b"a", "who it is")
    equal(waits.response().body, b"c", "who it is")


main()
