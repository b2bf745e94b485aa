"""session_scope = fleet and changes of a node: an upgrade of its binary, another address, another secret. No request is
lost, sent out of its order or refused by that."""
import random
import re
import socket
import threading

from lib.hop import Asker
from lib.owners import SECRET, Fleet
from lib.process import Port, until
from lib.successor import Successor
from lib.tap import SEED, equal, main, test, true
from lib.websocket import accept, open_socket
from lib.websocket import CLOSE
from lib.wire import Ended

ORDERS = 25
WAITS = "queue_timeout = 2m\n"


class Log:
    """An origin: requests of each client, in their order, one at a time. Those for /held wait until it is opened."""

    def __init__(self):
        self.lock, self.open = threading.Lock(), threading.Event()
        self.came, self.inside, self.together = {}, {}, []

    def __call__(self, x):
        who, fence = x.request.get("X-Client"), int(x.request.get("Sluice-Fence"))
        with self.lock:
            if self.inside.get(who):
                self.together.append(who)
            self.inside[who] = True
            self.came.setdefault(who, []).append((x.request.target, fence))
        x.read_body()
        if x.request.target == "/held":
            self.open.wait(120)
        with self.lock:
            self.inside[who] = False
        try:
            x.reply(200)
        except OSError:
            pass

    def targets(self, who="ann"):
        with self.lock:
            return [target for target, _ in self.came.get(who, [])]

    def fences(self, who="ann"):
        with self.lock:
            return [fence for _, fence in self.came.get(who, [])]


def grows(numbers):
    return all(a <= b for a, b in zip(numbers, numbers[1:]))


def fleet_with_pids(t, log, count=3, route=WAITS, **options):
    """Nodes with a pid file each: their upgrades can be told."""
    return Fleet(t, count=count, origin=t.origin(log), route=route + "owner_idle = 1h\n",
                 settings="shutdown_timeout = 60s\n", **options)


def upgrade(t, fleet, i):
    node = fleet.nodes[i]
    successor = Successor(t, node, node.pid_file)
    until(lambda: "has taken over" in node.log(), "the old process knows")
    return successor


def order(fleet, i, target, name="ann"):
    client = fleet.client(i)
    client.request(target, "POST", [("X-Client", name)], b"x")
    return client


@test("an upgrade of the owner: what comes meanwhile, at it and at others, waits behind what the old process has")
def waits(t):
    log = Log()
    fleet = fleet_with_pids(t, log, workers=t.workers)
    held = order(fleet, 0, "/held")
    until(lambda: log.targets() == ["/held"], "it has come")
    queued = order(fleet, 0, "/queued")
    until(lambda: sum(s["queued_normal"] for s in fleet.nodes[0].admin.json("/api/v1/sessions")[1]["sessions"]) == 1,
          "in its queue")
    successor = upgrade(t, fleet, 0)
    later = [order(fleet, 0, "/later"), order(fleet, 1, "/later"), order(fleet, 2, "/later")]
    for i in (1, 2):
        until(lambda: fleet.nodes[i].admin.json("/api/v1/sessions")[1]["sessions"], "it forwards its own")
    equal(log.targets(), ["/held"], "nothing passes it")
    log.open.set()
    for client in [held, queued, *later]:
        equal(client.response().status, 200, "served")
    equal(log.targets(), ["/held", "/queued"] + ["/later"] * 3, "in their order")
    true(grows(log.fences()) and len(set(log.fences())) == 2, log.fences())
    equal(successor.end_both(), 0, "both have ended well")


def place(fleet, who, rng, answers):
    for number in range(ORDERS):
        client = fleet.client(rng.randrange(3))
        answer = client.ask(f"/{number}", "POST", [("X-Client", who)], b"order")
        answers.append(200 if answer.status == 200 else (number, answer.status, answer.body))
        client.close()


@test("upgrades of all nodes under load: no request is lost, refused or out of its order")
def load(t):
    log = Log()
    fleet = fleet_with_pids(t, log, workers=t.workers)
    answers = {f"account{i}": [] for i in range(12)}
    threads = [threading.Thread(target=place, args=(fleet, who, random.Random(f"{SEED}{who}"), mine))
               for who, mine in answers.items()]
    for thread in threads:
        thread.start()
    successors = [upgrade(t, fleet, i) for i in range(3)]
    for thread in threads:
        thread.join()
    for who, mine in answers.items():
        equal(mine, [200] * ORDERS, who)
        equal(log.targets(who), [f"/{number}" for number in range(ORDERS)], "each once, in their order")
        true(grows(log.fences(who)), log.fences(who))
    equal(log.together, [], "one at a time")
    t.note(f"{sum(len(set(log.fences(who))) for who in answers)} ownerships of {len(answers)} sessions")
    for successor in successors:
        equal(successor.end_both(), 0, "both have ended well")


@test("what ends says so on idle connections of other nodes first: no request of theirs is lost on one", workers=[1])
def says_so(t):
    log = Log()
    fleet = fleet_with_pids(t, log, count=1)
    node = fleet.nodes[0]
    held = order(fleet, 0, "/held")
    until(lambda: log.targets() == ["/held"], "it has come")
    asker = Asker(node.internal, SECRET)
    node.terminate()
    head = asker.response()
    equal((head.status, head.get("Sluice-Hop")), (421, "closing"), head.fields)
    asker.forward("/late", "ann", 5, log.fences()[0])
    asker.read_to_end()
    log.open.set()
    equal(held.response().status, 200, "served")
    equal((node.wait(), log.targets()), (0, ["/held"]), "it has ended, and has served nothing else")


@test("an upgrade ends the tunnels and event streams of owned sessions, which would be waited for", workers=[1])
def ends(t):
    def serve(x):
        if x.request.get("Upgrade"):
            x.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            x.stream.read_to_any_end()
        elif x.request.target == "/events":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                   b"3\r\n:1\n\r\n")
            x.stream.read_to_any_end()
        else:
            x.read_body()
            x.reply(200)
    fleet = fleet_with_pids(t, serve, count=2, route=WAITS + "ordering = none\n")
    tunnel = fleet.client(1)
    tunnel.request("/", fields=[("X-Client", "ann"), ("Connection", "upgrade"), ("Upgrade", "websocket")])
    equal(tunnel.response_head().status, 101, "node 1 owns it")
    events = fleet.client(0)
    events.request("/events", fields=[("X-Client", "ann")])
    equal(events.response_head().status, 200, "by way of node 0")
    successor = upgrade(t, fleet, 1)
    tunnel.read_to_any_end()
    events.read_to_any_end()
    for i in (0, 1):
        equal(order(fleet, i, "/").response().status, 200, "by the new process")
    equal(successor.end_both(), 0, "both have ended well")


def echo(x):
    if x.request.get("Upgrade") is None:
        x.read_body()
        x.reply(200)
        return
    socket = accept(x)
    try:
        while True:
            read = socket.read()
            socket.send_frame(read.opcode, read.payload)
            if read.opcode == CLOSE:
                break
    except Ended:
        pass
    x.close()


@test("an upgrade closes the sockets of owned sessions with 1001, and their clients come again", workers=[1])
def sockets(t):
    fleet = fleet_with_pids(t, echo, count=2, route=WAITS + "websocket = messages\n")
    ends = [open_socket(t, fleet.nodes[i], fields=[("X-Client", "ann")]) for i in (0, 1)]
    successor = upgrade(t, fleet, 0)
    for end in ends:
        equal(end.closed_with()[0], 1001, "going away")
    again = [open_socket(t, fleet.nodes[i], fields=[("X-Client", "ann")]) for i in (0, 1)]
    for end in again:
        end.send("new")
        equal(end.message(), "new", "by the new process")
        equal(end.close(1000, "bye"), (1000, "bye"), "closed by both")
    equal(successor.end_both(), 0, "both have ended well")


@test("a reload that changes bind: sessions move to the new address as soon as nothing of them is under way", workers=[1])
def bind(t):
    log = Log()
    fleet = fleet_with_pids(t, log, count=2, lease="5m")
    node = fleet.nodes[0]
    held = order(fleet, 0, "/held")
    until(lambda: log.targets() == ["/held"], "node 0 owns it")
    port = Port()
    node.reload(node.sections.replace(f"bind = 127.0.0.1:{node.internal}", f"bind = 127.0.0.1:{port.number}"))
    until(lambda: "reloaded" in node.log(), "it has the new one")
    log.open.set()
    equal(held.response().status, 200, "it goes on")
    for i in (1, 0, 1):
        equal(order(fleet, i, "/next").response().status, 200, "without the lease's end")
    true(grows(log.fences()) and len(set(log.fences())) == 2, log.fences())


@test("a reload that changes bind closes the sockets of the owner's sessions with 1001, and others serve them again",
      workers=[1])
def bind_with_sockets(t):
    fleet = fleet_with_pids(t, echo, count=2, lease="5m", route=WAITS + "websocket = messages\n")
    node = fleet.nodes[0]
    ends = [open_socket(t, fleet.nodes[i], fields=[("X-Client", "ann")]) for i in (0, 1)]
    port = Port()
    node.reload(node.sections.replace(f"bind = 127.0.0.1:{node.internal}", f"bind = 127.0.0.1:{port.number}"))
    for end in ends:
        equal(end.closed_with()[0], 1001, "its session moves")
    for i in (1, 0):
        equal(order(fleet, i, "/").response().status, 200, "without the lease's end")
    again = open_socket(t, fleet.nodes[1], fields=[("X-Client", "ann")])
    again.send("new")
    equal(again.message(), "new", "and sockets, too")


@test("a reload that takes bind away: the node's sessions move, and its sockets of them are closed with 1001", workers=[1])
def unbound(t):
    fleet = fleet_with_pids(t, echo, count=2, lease="5m", route=WAITS + "websocket = messages\n")
    node = fleet.nodes[0]
    end = open_socket(t, node, fields=[("X-Client", "ann")])
    before = node.sections
    node.reload(re.sub(f"bind = 127.0.0.1:{node.internal}\n|(secret|lease|session_scope) = .*\n", "", before))
    equal(end.closed_with()[0], 1001, "its session moves")
    equal(order(fleet, 1, "/").response().status, 200, "without the lease's end")
    equal(order(fleet, 0, "/").response().status, 200, "for itself from now on")
    node.reload(before)
    until(lambda: node.log().count("reloaded") == 2, "it is back")
    again = open_socket(t, node, fields=[("X-Client", "ann")])
    again.send("new")
    equal(again.message(), "new", "and takes part")


@test("a reload that fails changes nothing", workers=[1])
def failed(t):
    log = Log()
    fleet = fleet_with_pids(t, log, count=2, lease="5m")
    node = fleet.nodes[0]
    equal(order(fleet, 0, "/").response().status, 200, "node 0 owns it")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        node.reload(node.sections.replace(f"bind = 127.0.0.1:{node.internal}",
                                          f"bind = 127.0.0.1:{taken.getsockname()[1]}"))
        until(lambda: "can't listen on" in node.log(), "the address is another's")
    for i in (0, 1, 0):
        equal(order(fleet, i, "/").response().status, 200, "as before")
    equal(len(set(log.fences())), 1, "by the same owner")


@test("another secret: nodes that have it and nodes that do not yet wait for each other", workers=[1])
def secret(t):
    log = Log()
    fleet = fleet_with_pids(t, log, count=2)
    equal(order(fleet, 0, "/").response().status, 200, "node 0 owns it")
    with open(fleet.nodes[0].secret_file, "w", encoding="ascii") as out:
        out.write("the next one")
    fleet.nodes[0].reload(fleet.nodes[0].sections)
    until(lambda: "reloaded" in fleet.nodes[0].log(), "node 0 has it")
    waiting = order(fleet, 1, "/waits")
    until(lambda: "it has another secret" in fleet.nodes[1].log(), "it says so")
    with open(fleet.nodes[1].secret_file, "w", encoding="ascii") as out:
        out.write("the next one")
    fleet.nodes[1].reload(fleet.nodes[1].sections)
    equal(waiting.response().status, 200, "as soon as both have it")


main()
