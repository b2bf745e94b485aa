"""session_scope = fleet and WebSockets whose messages are read: the node that owns a session reads them, whichever node
they come to, and they are in one order with the session's requests."""
import random
import signal
import threading

from lib.gateway import Backend
from lib.owners import Fleet
from lib.process import until
from lib.tap import SEED, equal, main, test, true
from lib.websocket import Log, accept, frame, handshake_fields, open_socket
from lib.websocket import CLOSE, TEXT
from lib.wire import Ended

MESSAGES = "websocket = messages\nowner_idle = 1h\n"
GATEWAY = "websocket = gateway\nowner_idle = 1h\n"


class Server:
    """Of WebSockets and requests: what came, in its order. Requests for /held wait until it is opened; those of `behind`
    for the message that was sent before, which no answer follows: it is read by another thread."""

    def __init__(self, behind=None):
        self.behind = behind or {}
        self.log, self.open, self.fences = Log(), threading.Event(), []
        self.handshakes = []

    def __call__(self, x):
        self.fences.append(int(x.request.get("Sluice-Fence")))
        if x.request.get("Upgrade") is None:
            x.read_body()
            before = self.behind.get(x.request.target)
            if before:
                until(lambda: before in self.log.all(), f"{before} has come")
            self.log.add(x.request.target)
            if x.request.target.startswith("/held"):
                self.open.wait(120)
            try:
                x.reply(200)
            except OSError:
                pass
            return
        self.handshakes.append(x.request)
        socket = accept(x)
        try:
            while True:
                read = socket.read()
                if read.opcode == CLOSE:
                    self.log.add(("close", *read.closes_with))
                    x.stream.try_send(frame(CLOSE, read.payload))
                    break
                if read.opcode == TEXT:
                    self.log.add(read.payload.decode())
                    socket.send(read.payload.decode())
        except Ended:
            self.log.add("gone")
        x.close()


def who(name):
    return [("X-Client", name)]


def ask(fleet, i, target="/", name="ann"):
    return fleet.client(i).ask(target, method="POST", fields=who(name), body=b"")


def start(fleet, i, target, name="ann"):
    client = fleet.client(i)
    client.request(target, "POST", who(name), b"")
    return client


def socket_at(fleet, i, name="ann", **options):
    return open_socket(fleet.t, fleet.nodes[i], fields=who(name), **options)


def queued(fleet, i=0):
    return sum(s["queued_normal"] + s["queued_high"] for s in fleet.nodes[i].admin.json("/api/v1/sessions")[1]["sessions"])


def until_queued(fleet, count):
    until(lambda: queued(fleet) == count, f"{count} are in the owner's queue")


def sockets_of(fleet, i):
    return fleet.nodes[i].admin.json("/api/v1/sockets")[1]["sockets"]


def interleave(fleet, log, ends):
    """What sockets and requests bring, at whichever node, comes in the order of its arrival at the owner."""
    held = start(fleet, 0, "/held")
    until(lambda: "/held" in log.all(), "it has come")
    ends[1].send("one")
    until_queued(fleet, 1)
    second = start(fleet, 2, "/two")
    until_queued(fleet, 2)
    ends[0].send("three")
    until_queued(fleet, 3)
    fourth = start(fleet, 0, "/four")
    until_queued(fleet, 4)
    ends[2].send("five")
    until_queued(fleet, 5)
    return held, second, fourth


@test("messages: those of sockets at three nodes, and requests, are in one order")
def order(t):
    server = Server(behind={"/two": "one", "/four": "three"})
    fleet = Fleet(t, origin=t.origin(server), route=MESSAGES, workers=t.workers)
    equal(ask(fleet, 0, "/first").status, 200, "node 0 owns it")
    ends = [socket_at(fleet, i) for i in range(3)]
    requests = interleave(fleet, server.log, ends)
    server.open.set()
    for request in requests:
        equal(request.response().status, 200, "served")
    for end, text in zip(ends, ("three", "one", "five")):
        equal(end.message(), text, "and back")
    equal(server.log.all(), ["/first", "/held", "one", "/two", "three", "/four", "five"], "in the order of arrival")
    equal(len(set(server.fences)), 1, "one owner; handshakes say so, too")
    for end in ends:
        equal(end.close(1000, "bye"), (1000, "bye"), "closed by both")


@test("gateway: those of sockets at three nodes, and requests, are in one order, and each request says whose it is")
def gateway_order(t):
    opened = threading.Event()

    def before(call):
        if call.x.request.target == "/held":
            opened.wait(120)
    backend = Backend(before=before)

    def serve(x):
        if x.request.target == "/held":
            backend.log.add("/held")
            x.read_body()
            opened.wait(120)
            x.reply(200)
        elif x.request.get("Connection-Id"):
            backend(x)
        else:
            x.read_body()
            backend.log.add(x.request.target)
            x.reply(200)
    fleet = Fleet(t, origin=t.origin(serve), route=GATEWAY, workers=t.workers)
    equal(ask(fleet, 0, "/first").status, 200, "node 0 owns it")
    ends = [socket_at(fleet, i, local=f"127.0.0.{i + 2}") for i in range(3)]
    requests = interleave(fleet, backend.log, ends)
    opened.set()
    for request in requests:
        equal(request.response().status, 200, "served")
    for end, text in zip(ends, ("three", "one", "five")):
        equal(end.message(), text, "and back")
    came = [what for what in backend.log.all() if isinstance(what, str)]
    equal(came, ["/first", "/held", "one", "/two", "three", "/four", "five"], "in the order of arrival")
    for end in ends:
        equal(end.close(1000, "bye"), (1000, "bye"), "closed by both")
    requests = [x.request for x in fleet.origin.requests]
    equal(len({r.get("Sluice-Fence") for r in requests}), 1, "one owner")
    events = [r for r in requests if r.get("Connection-Id")]
    equal(len(events), 9, "OPEN, TEXT and CLOSE of each")
    addresses = {r.get("Connection-Id"): r.get("X-Real-IP") for r in events}
    equal(sorted(addresses.values()), ["127.0.0.2", "127.0.0.3", "127.0.0.4"], "each client's own")
    for r in events:
        equal((r.get("X-Real-IP"), r.get("X-Forwarded-For"), r.get("Sluice-Hop"), r.get("X-Forwarded-Proto")),
              (addresses[r.get("Connection-Id")],) * 2 + (None, "http"), r.fields)


@test("messages and requests at random nodes: each connection's in its order, each once")
def random_order(t):
    rng = random.Random(SEED)
    server = Server()
    fleet = Fleet(t, origin=t.origin(server), route=MESSAGES, workers=t.workers)
    ends = [socket_at(fleet, i % 3) for i in range(4)]
    clients = [fleet.client(i % 3) for i in range(3)]
    sent, answers = {}, {}
    for number in range(150):
        if rng.random() < 0.5:
            j = rng.randrange(len(ends))
            ends[j].send(f"s{j} {number}")
            sent.setdefault(f"s{j}", []).append(f"s{j} {number}")
        else:
            j = rng.randrange(len(clients))
            clients[j].request(f"/c{j}/{number}", "POST", who("ann"), b"")
            sent.setdefault(f"/c{j}", []).append(f"/c{j}/{number}")
            answers[j] = answers.get(j, 0) + 1
    for j, count in answers.items():
        for _ in range(count):
            equal(clients[j].response().status, 200, "served")
    for j, end in enumerate(ends):
        for text in sent.get(f"s{j}", []):
            equal(end.message(), text, "and back")
    came = server.log.all()
    equal(len(came), 150, "each once")
    for begin, mine in sent.items():
        equal([what for what in came if what.startswith(begin)], mine, "in its order")


@test("a socket is listed at the owner, with its client's address, and nowhere else", workers=[1])
def listed(t):
    server = Server()
    fleet = Fleet(t, count=2, origin=t.origin(server), route=MESSAGES)
    equal(ask(fleet, 0).status, 200, "node 0 owns it")
    end = socket_at(fleet, 1, local="127.0.0.9")
    until(lambda: sockets_of(fleet, 0), "it is listed")
    one, = sockets_of(fleet, 0)
    equal((one["address"], one["state"]), ("127.0.0.9", "open"), one)
    equal(sockets_of(fleet, 1), [], "a tunnel there")
    equal(server.handshakes[0].get("X-Real-IP"), "127.0.0.9", "the server knows it, too")
    equal(fleet.nodes[0].admin.json(f"/api/v1/sockets/{one['id']}/close", "POST")[0], 200, "closed by an operator")
    true(end.closed_with()[0] in (1000, 1001), "the client hears of it")
    until(lambda: sockets_of(fleet, 0) == [], "gone")


@test("session_elsewhere = refuse: a handshake at another node gets 409", workers=[1])
def refuses(t):
    server = Server()
    fleet = Fleet(t, count=2, origin=t.origin(server), route=MESSAGES + "session_elsewhere = refuse\n")
    end = socket_at(fleet, 0)
    answer = fleet.client(1).ask("/", fields=handshake_fields(who("ann")))
    equal(answer.status, 409, answer)
    end.send("still there")
    equal(end.message(), "still there", "the owner's own")


def limited(t, scope):
    server = Server()
    more = "" if scope == "node" else "scope = fleet\nfleet = exact\nstore_down = refuse\n"
    fleet = Fleet(t, count=2, origin=t.origin(server),
                  route=MESSAGES + "message_limits = texts\nmax_sockets = two\non_message_exceed = close\n",
                  more=f"[limit texts]\nkey = header:X-Client\nrate = 4 per 1h\n{more}"
                       "[limit two]\nkey = header:X-Client\nconcurrency = 2\n")
    ends = [socket_at(fleet, i) for i in range(2)]
    equal(fleet.client(1).ask("/", fields=handshake_fields(who("ann"))).status, 429, "two sockets, wherever they came")
    for number in range(4):
        ends[number % 2].send(f"{number}")
        equal(ends[number % 2].message(), f"{number}", "four of both together, each charged once")
    ends[1].send("one more")
    equal(ends[1].closed_with()[0], 1008, "that is one too many")
    equal(server.log.all()[:4], ["0", "1", "2", "3"], "it was not passed on")
    equal("one more" in server.log.all(), False, "it was not passed on")


@test("max_sockets and message_limits of scope = node are charged by the owner, once", workers=[1])
def limits_of_node(t):
    limited(t, "node")


@test("max_sockets and message_limits of scope = fleet are charged by the owner, once", workers=[1])
def limits_of_fleet(t):
    limited(t, "fleet")


def grows(numbers):
    return all(a <= b for a, b in zip(numbers, numbers[1:]))


@test("an owner that is killed: its clients' sockets are closed, and come again at the next owner")
def killed(t):
    server = Server()
    fleet = Fleet(t, origin=t.origin(server), route=MESSAGES + "queue_timeout = 1m\n", lease="5s", workers=t.workers)
    equal(ask(fleet, 0).status, 200, "node 0 owns it")
    relayed = socket_at(fleet, 1)
    relayed.send("one")
    equal(relayed.message(), "one", "by way of node 1")
    fleet.nodes[0].process.signal(signal.SIGKILL)
    fleet.nodes[0].ended = True
    relayed.stream.read_to_any_end()
    again = socket_at(fleet, 1)
    other = socket_at(fleet, 2)
    again.send("two")
    equal(again.message(), "two", "by the next owner")
    other.send("three")
    equal(other.message(), "three", "which the third node knows")
    texts = [what for what in server.log.all() if isinstance(what, str) and what != "gone"]
    equal(texts, ["/", "one", "two", "three"], "each once")
    true(grows(server.fences) and len(set(server.fences)) == 2, server.fences)


def pause(t, route, server, log):
    """Node 0 has two sockets, of which one came by node 1, and a message of each waits behind a request; then it
    stands still, and another node owns the session."""
    fleet = Fleet(t, origin=t.origin(server), route=route + "queue_timeout = 1m\n", lease="5s", workers=t.workers)
    own, relayed = socket_at(fleet, 0), socket_at(fleet, 1)
    held = start(fleet, 0, "/held")
    until(lambda: "/held" in log.all(), "it has come")
    own.send("queued")
    until_queued(fleet, 1)
    relayed.send("queued")
    until_queued(fleet, 2)
    fleet.nodes[0].process.stop()
    equal(ask(fleet, 2, "/after").status, 200, "by the new owner")
    relayed.stream.read_to_any_end()  # node 1 knows that the owner is another one
    return fleet, own, held


@test("messages: an owner that stands still and returns closes its sockets with 1012, and passes nothing on")
def paused(t):
    server = Server()
    fleet, own, _ = pause(t, MESSAGES, server, server.log)
    server.open.set()
    fleet.nodes[0].process.signal(signal.SIGCONT)
    equal(own.closed_with(), (1012, "session over"), "come again")
    until(lambda: server.log.all().count("gone") == 2, "its servers are cut off")
    again = socket_at(fleet, 0)
    again.send("new")
    equal(again.message(), "new", "by the owner")
    texts = [what for what in server.log.all() if what != "gone"]
    equal(texts, ["/held", "/after", "new"], "nothing of what it had queued")
    true(grows(server.fences), server.fences)


@test("gateway: an owner that stands still and returns closes its sockets with 1012, and sends nothing more")
def gateway_paused(t):
    opened = threading.Event()
    backend = Backend()

    def serve(x):
        if x.request.get("Connection-Id"):
            backend(x)
            return
        x.read_body()
        backend.log.add(x.request.target)
        if x.request.target == "/held":
            opened.wait(120)
        try:
            x.reply(200)
        except OSError:
            pass
    fleet, own, _ = pause(t, GATEWAY, serve, backend.log)
    opened.set()
    fleet.nodes[0].process.signal(signal.SIGCONT)
    equal(own.closed_with(), (1012, "session over"), "come again")
    again = socket_at(fleet, 0)
    again.send("new")
    equal(again.message(), "new", "by the owner")
    until(lambda: sockets_of(fleet, 0) == [], "the old ones are gone")
    came = [what for what in backend.log.all() if what != ("OPEN", None)]
    equal(came, ["/held", "/after", "new"], "neither what it had queued, nor of its end")
    fences = [int(x.request.get("Sluice-Fence")) for x in fleet.origin.requests]
    true(grows(fences), fences)


@test("an owner that is stopped closes the sockets of all nodes with 1001; the next owner serves them")
def drained(t):
    server = Server()
    fleet = Fleet(t, count=2, origin=t.origin(server), route=MESSAGES + "queue_timeout = 1m\n",
                  settings="shutdown_timeout = 16s\n", workers=t.workers)
    ends = [socket_at(fleet, i % 2) for i in range(6)]  # of several workers
    fleet.nodes[0].terminate()
    equal([end.closed_with()[0] for end in ends], [1001] * 6, "going away")
    again = socket_at(fleet, 1)
    again.send("new")
    equal(again.message(), "new", "by the next owner")
    equal(fleet.nodes[0].wait(), 0, "it has stopped")
    true(grows(server.fences) and len(set(server.fences)) == 2, server.fences)


@test("a client that leaves without a close frame is gone at the owner", workers=[1])
def leaves(t):
    server = Server()
    fleet = Fleet(t, count=2, origin=t.origin(server), route=MESSAGES)
    equal(ask(fleet, 0).status, 200, "node 0 owns it")
    end = socket_at(fleet, 1)
    end.send("one")
    equal(end.message(), "one", "it is open")
    end.stream.close()
    until(lambda: sockets_of(fleet, 0) == [], "gone at the owner")
    until(lambda: ("close", 1001, "client gone") in server.log.all() or "gone" in server.log.all(), "and at the server")


main()
