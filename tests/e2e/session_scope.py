"""session_scope = fleet: one node at a time owns a client's session, and the others forward to it."""
import random
import signal
import threading
import time

from lib.client import Client
from lib.hop import Asker, FakeOwner, proof
from lib.owners import SECRET, Fleet
from lib.process import Lateness, until
from lib.raw_server import RawServer
from lib.tap import SEED, equal, main, test, true
from lib.wire import Ended

LEASE = 5  # seconds: longer than a busy machine stands still, where a test needs that it lasts


def ask(client, who="ann", path="/", method="GET", body=None, fields=()):
    return client.ask(path, method=method, fields=[("X-Client", who), *fields], body=body)


def owner(node):
    """Of its only session."""
    sessions = node.admin.json("/api/v1/sessions")[1]["sessions"]
    return sessions[0]["owner"] if sessions else None


def fences(origin):
    return [int(x.request.get("Sluice-Fence")) for x in origin.requests]


def grows(numbers):
    return all(a <= b for a, b in zip(numbers, numbers[1:]))


class Gate:
    """An origin's handler: requests for /held wait until it is opened, and the answers to /part end in the middle then."""

    def __init__(self):
        self.open = threading.Event()

    def __call__(self, x):
        x.read_body()
        if x.request.target.startswith("/held"):
            self.open.wait(60)
        if x.request.target == "/part":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            self.open.wait(60)
            x.close()
            return
        try:
            x.reply(200, x.request.target.encode())
        except OSError:
            pass  # the peer that asked is gone


def session_key(fleet):
    """A connection to the store, and the key of the only session that a node owns or has owned."""
    redis = fleet.redis.connect()
    key, = [k for k in redis.ask("KEYS", "*") if redis.ask("TYPE", k) == b"hash" and redis.ask("HEXISTS", k, "fence")]
    return redis, key


def arrived(origin, target):
    return [x for x in origin.requests if x.request.target == target]


def answer_of(client):
    """Its status; None: cut off."""
    try:
        return client.response().status
    except (Ended, OSError):
        return None


@test("the first node that a client asks owns its session; the others forward to it, and all is as if they had not",
      workers=[1])
def forwards(t):
    gate = Gate()
    fleet = Fleet(t, origin=t.origin(gate), route="owner_idle = 1h\n")
    for i in (1, 0, 2, 0):
        answer = ask(fleet.client(i), path=f"/a%20b?{i}", method="POST", body=b"of %d" % i,
                     fields=[("X-Forwarded-For", "192.0.2.1"), ("Cookie", "x=y")])
        equal((answer.status, answer.body), (200, b"/a%%20b?%d" % i), answer)
    requests = [x.request for x in fleet.origin.requests]
    equal([r.target for r in requests], ["/a%20b?1", "/a%20b?0", "/a%20b?2", "/a%20b?0"], "as they were sent")
    equal([r.body for r in requests], [b"of 1", b"of 0", b"of 2", b"of 0"], "with their bodies")
    for r in requests:
        equal((r.get("X-Forwarded-For"), r.get("X-Real-IP"), r.get("Host"), r.get("Cookie"), r.get("Sluice-Hop")),
              ("127.0.0.1", "127.0.0.1", "api.test", "x=y", None), r.fields)
        equal(r.get("X-Forwarded-Proto"), "http", r.fields)
    equal(len(set(fences(fleet.origin))), 1, "one ownership")
    held = fleet.client(2)
    held.request("/held", fields=[("X-Client", "ann")])
    until(lambda: arrived(fleet.origin, "/held"), "it has come")
    equal((owner(fleet.nodes[1]), owner(fleet.nodes[2])), ("node1", "node1"), "both know it")
    gate.open.set()
    equal(held.response().status, 200, "and it is answered")


@test("send_proxy tells the server the client's address for what was forwarded, and nothing of the link", workers=[1])
def proxied(t):
    server = RawServer(t)
    fleet = Fleet(t, count=2, origin=server.address, route="owner_idle = 1h\n", upstream="send_proxy = v1\n")
    for i in (0, 1):
        equal(ask(fleet.client(i)).status, 200, "status")
    here, forwarded = (header.decode().split() for header, _, _ in server.seen)
    equal((here[2:4], here[5]), (["127.0.0.1", "127.0.0.1"], str(fleet.nodes[0].port.number)), here)
    equal(forwarded[2:], ["127.0.0.1", "0.0.0.0", "0", "0"], forwarded)


@test("a session that is not used moves to the node where its client is", workers=[1])
def moves(t):
    gate = Gate()
    fleet = Fleet(t, count=2, route="owner_idle = 200ms\n", origin=t.origin(gate))
    equal(ask(fleet.client(0)).status, 200, "by node 0")
    redis, key = session_key(fleet)
    until(lambda: redis.ask("HGET", key, "session") == b"", "node 0 gives it up")
    client = fleet.client(1)
    client.request("/held", fields=[("X-Client", "ann")])
    until(lambda: arrived(fleet.origin, "/held"), "it has come")
    equal(owner(fleet.nodes[1]), "node1", "the owner")
    gate.open.set()
    equal(client.response().status, 200, "served")
    before, after = fences(fleet.origin)
    true(before < after, f"{before}, then {after}")


@test("a store that has lost its last writes: what a node takes again there has a new fence", workers=[1])
def lost_writes(t):
    gate = Gate()
    fleet = Fleet(t, count=2, lease="60s", route="owner_idle = 200ms\n", origin=t.origin(gate))
    held = fleet.client(0)
    held.request("/held", fields=[("X-Client", "ann")])
    until(lambda: arrived(fleet.origin, "/held"), "node 0 owns it, and does not give it up")
    redis, key = session_key(fleet)
    old = redis.ask("DUMP", key)
    true(redis.ask("HGET", key, "session").split(b"/")[1] == b"node0", "it is kept so")
    gate.open.set()
    equal(held.response().status, 200, "the request that kept it")
    until(lambda: redis.ask("HGET", key, "session") == b"", "node 0 gives it up")
    equal(ask(fleet.client(1)).status, 200, "node 1 owns it")
    until(lambda: redis.ask("HGET", key, "session") == b"", "node 1 gives it up")
    redis.ask("RESTORE", key, 600_000, old, "REPLACE")
    time.sleep(0.3)  # as long as node 0 may believe that it is node 1's
    equal(ask(fleet.client(0)).status, 200, "node 0 takes it again")
    numbers = fences(fleet.origin)
    true(grows(numbers) and len(set(numbers)) == 3, numbers)


@test("session_elsewhere = refuse: 409 with Retry-After", workers=[1])
def refuses(t):
    gate = Gate()
    fleet = Fleet(t, count=2, route="session_elsewhere = refuse\nowner_idle = 1500ms\n", origin=t.origin(gate))
    held = fleet.client(0)
    held.request("/held", fields=[("X-Client", "ann")])
    until(lambda: arrived(fleet.origin, "/held"), "it has come")
    answer = ask(fleet.client(1))
    equal((answer.status, answer.get("Retry-After")), (409, "2"), answer.fields)
    equal(ask(fleet.client(1), who="bob").status, 200, "another's session")
    gate.open.set()
    equal(held.response().status, 200, "the owner's own")


@test("one client at three nodes at random: one request at a time at the server, each node's in their order")
def order(t):
    rng = random.Random(SEED)
    lock, inside, most, seen = threading.Lock(), [0], [0], []

    def serve(x):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            seen.append(x.request.target)
        x.read_body()
        with lock:
            inside[0] -= 1
        x.reply(200)
    fleet = Fleet(t, origin=t.origin(serve), route="owner_idle = 100ms\n", workers=t.workers)
    clients = [[fleet.client(i) for _ in range(2)] for i in range(3)]
    sent = []
    for number in range(240):
        i, j = rng.randrange(3), rng.randrange(2)
        sent.append((i, j, f"/{i}/{j}/{number}"))
    for i, j, target in sent:
        clients[i][j].request(target, "POST", [("X-Client", "ann")], b"")
        if rng.random() < 0.05:
            time.sleep(rng.random() / 5)  # now and then it is idle, and moves
    for i, j, target in sent:
        equal(clients[i][j].response().status, 200, target)
    equal(most[0], 1, "one at a time")
    for i in range(3):
        for j in range(2):
            mine = [target for a, b, target in sent if (a, b) == (i, j)]
            equal([target for target in seen if target.startswith(f"/{i}/{j}/")], mine, "in their order")
    true(grows(fences(fleet.origin)), "no owner follows a later one")


@test("one client that waits for each answer: its order at the server, whichever nodes it reaches")
def waits(t):
    """Of requests that are outstanding at several nodes at once, nothing is promised (docs/fleet/sessions.md)."""
    rng = random.Random(SEED)
    fleet = Fleet(t, route="owner_idle = 100ms\n", workers=t.workers)
    clients = [[fleet.client(i) for _ in range(2)] for i in range(3)]
    sent = [f"/{number}" for number in range(150)]
    for target in sent:
        client = clients[rng.randrange(3)][rng.randrange(2)]
        client.request(target, rng.choice(["POST", "GET"]), [("X-Client", "ann")], b"")
        equal(client.response().status, 200, target)
        if rng.random() < 0.05:
            time.sleep(rng.random() / 5)  # now and then it is idle, and moves
    equal([x.request.target for x in fleet.origin.requests], sent, "in their order")


@test("an owner that is killed: what it had is answered 502 when its lease is over, what comes meanwhile is served then",
      workers=[1])
def killed(t):
    gate = Gate()
    fleet = Fleet(t, lease=f"{LEASE}s", origin=t.origin(gate), route="owner_idle = 1h\n")
    equal(ask(fleet.client(0)).status, 200, "node 0 owns it")
    lost = fleet.client(1)
    lost.request("/held", "POST", [("X-Client", "ann")], b"x")
    until(lambda: arrived(fleet.origin, "/held"), "it has come")
    fleet.nodes[0].process.signal(signal.SIGKILL)
    fleet.nodes[0].ended = True
    begun = time.monotonic()
    waits = [fleet.client(1), fleet.client(2)]
    for client in waits:
        client.request("/next", "POST", [("X-Client", "ann")], b"x")
    equal(lost.response().status, 502, "nobody knows whether it was done")
    for client in waits:
        equal(client.response().status, 200, "by the new owner")
    took = time.monotonic() - begun
    t.note(f"taken over {took:.2f} s after the kill, with a lease of {LEASE} s")
    true(took < LEASE + 1 + 15, "the lease, a second, and what a slow machine takes")
    equal([x.request.target for x in fleet.origin.requests], ["/", "/held", "/next", "/next"], "nothing twice")
    true(grows(fences(fleet.origin)) and len(set(fences(fleet.origin))) == 2, fences(fleet.origin))
    gate.open.set()


@test("an owner that stands still and returns: its session is over, and nothing that it had queued is sent", workers=[1])
def paused(t):
    gate = Gate()
    fleet = Fleet(t, lease=f"{LEASE}s", origin=t.origin(gate))
    first = fleet.client(0)
    first.request("/held", "POST", [("X-Client", "ann")], b"x")
    until(lambda: arrived(fleet.origin, "/held"), "it has come")
    queued = [fleet.client(0) for _ in range(3)]
    for client in queued:
        client.request("/queued", "POST", [("X-Client", "ann")], b"x")
    forwarded = fleet.client(1)
    forwarded.request("/queued", "POST", [("X-Client", "ann")], b"x")
    until(lambda: sum(s["queued_normal"] for s in fleet.nodes[0].admin.json("/api/v1/sessions")[1]["sessions"]) == 4,
          "all are in its queue")
    fleet.nodes[0].process.stop()
    after = fleet.client(2)
    after.request("/after", "POST", [("X-Client", "ann")], b"x")
    equal(after.response().status, 200, "by the new owner")
    equal(forwarded.response().status, 502, "it was forwarded to the one that stands still")
    gate.open.set()  # the answer to the first is there when it returns
    fleet.nodes[0].process.signal(signal.SIGCONT)
    for client in queued:
        equal(client.response().status, 503, "its session is over")
    true(answer_of(first) in (200, 503, None), "it was sent before")
    equal(ask(fleet.client(0), path="/new").status, 200, "forwarded to the new owner")
    equal([x.request.target for x in fleet.origin.requests], ["/held", "/after", "/new"], "none was sent")
    true(grows(fences(fleet.origin)), fences(fleet.origin))


def stands_still(t, target, leaves, upstream=""):
    """The owner stops for good while it has a request of node 1, which takes over. What the next request is answered."""
    gate = Gate()
    fleet = Fleet(t, count=2, lease=f"{LEASE}s", origin=t.origin(gate), upstream=upstream,
                  route="owner_idle = 1h\nqueue_timeout = 2m\n")
    equal(ask(fleet.client(0)).status, 200, "node 0 owns it")
    client = fleet.client(1)
    client.request(target, "POST", [("X-Client", "ann")], b"x")
    if target == "/part":
        equal(client.response_head().status, 200, "its answer begins")
    until(lambda: arrived(fleet.origin, target), "it has come")
    fleet.nodes[0].process.stop()
    if leaves:
        client.close()
    try:
        return ask(fleet.client(1), path="/next", method="POST", body=b"x").status
    finally:
        gate.open.set()
        fleet.nodes[0].process.signal(signal.SIGCONT)


@test("an owner that stands still for good: a client that has left its request there is served at the next one",
      workers=[1])
def stands_still_without_client(t):
    equal(stands_still(t, "/held", leaves=True), 200, "the next one")


@test("an owner that stands still for good in the middle of an answer: it is cut when a server would be", workers=[1])
def stands_still_in_an_answer(t):
    equal(stands_still(t, "/part", leaves=False, upstream="idle_timeout = 1s\n"), 200, "the next one is served")


@test("what clients say of hops and fences is not believed, nor passed on", workers=[1])
def forged(t):
    fleet = Fleet(t, count=2)
    fields = [("Sluice-Fence", "99999999999999999999"), ("Sluice-Hop", "1 main 192.0.2.9 7 7"), ("sluice_fence", "1"),
              ("SLUICE-HOP", "elsewhere")]
    for i in (0, 1):
        equal(ask(fleet.client(i), fields=fields).status, 200, "served")
    for x in fleet.origin.requests:
        names = [name.lower() for name, _ in x.request.fields]
        equal((names.count("sluice-fence"), names.count("sluice-hop"), names.count("sluice_fence")), (1, 0, 0), names)
        equal((x.request.get("X-Real-IP"), x.request.get("Sluice-Fence") != fields[0][1]), ("127.0.0.1", True), names)


@test("the internal listener serves nobody without the secret", workers=[1])
def secrets(t):
    fleet = Fleet(t, count=2, secrets={1: "another one"}, route="queue_timeout = 5s\nowner_idle = 1h\n")
    stranger = t.client(fleet.nodes[0])
    stranger.socket.close()
    for fields in ([], [("Sluice-Hop", "1 main 192.0.2.9 7 7")], [("Sluice-Hop", "hello")],
                   [("Sluice-Hop", "proof x")], [("Sluice-Hop", f"hello {'0' * 31}")]):
        client = Client(f"127.0.0.1:{fleet.nodes[0].internal}")
        equal(ask(client, fields=fields).status, 403, fields)
    stranger = Asker(fleet.nodes[0].internal, "another one").welcome
    equal((stranger.status, stranger.get("Sluice-Hop")), (403, None), "nothing is proven to it")
    equal(Asker(fleet.nodes[0].internal, SECRET).welcome.status, 200, "with it")
    equal(ask(fleet.client(0)).status, 200, "its own")
    equal(ask(fleet.client(1)).status, 503, "it can't be forwarded")
    equal(len(fleet.origin.requests), 1, "nothing else was served")


@test("a connection that has proven nothing can prove nothing when a reload takes the secret away", workers=[1])
def no_secret(t):
    fleet = Fleet(t, count=1, route="session_scope = node\n")
    node = fleet.nodes[0]
    client, nonce = Client(f"127.0.0.1:{node.internal}"), "0" * 32
    theirs = client.ask("/", fields=[("Sluice-Hop", f"hello {nonce}")]).get("Sluice-Hop").split(" ")[1]
    node.reload("".join(line for line in node.sections.splitlines(True)
                        if not line.startswith((f"bind = 127.0.0.1:{node.internal}", "secret =", "lease ="))))
    until(lambda: not connects(node.internal), "the listener is gone")
    client.request("/", fields=[("Sluice-Hop", "proof " + proof("", "asker", nonce, theirs))])
    true(answer_of(client) in (403, None), "not a node of the fleet")


def connects(port):
    try:
        Client(f"127.0.0.1:{port}").close()
        return True
    except OSError:
        return False


@test("a reload with another secret ends what was proven by the one before", workers=[1])
def other_secret(t):
    fleet = Fleet(t, count=1, route="owner_idle = 1h\n")
    equal(ask(fleet.client(0)).status, 200, "it owns the session")
    fence, = fences(fleet.origin)
    proxy, node = fleet.nodes[0], Asker(fleet.nodes[0].internal, SECRET)
    for times in (1, 2):
        proxy.reload(proxy.sections)
        until(lambda: proxy.log().count(": reloaded") == times, "the same secret")
        node.forward("/", "ann", 5, fence)
        equal(node.response().status, 200, "served")
    with open(proxy.secret_file, "w", encoding="ascii") as out:
        out.write("the next one")
    proxy.reload(proxy.sections)
    until(lambda: proxy.log().count(": reloaded") == 3, "another one")
    node.forward("/", "ann", 5, fence)
    answer = node.response()
    equal((answer.status, answer.get("Sluice-Hop"), answer.get("Connection")), (421, "closing", "close"), answer.fields)
    equal(len(fleet.origin.requests), 3, "not served")
    node = Asker(proxy.internal, "the next one")
    node.forward("/", "ann", 5, fence)
    equal(node.response().status, 200, "with that it is")


@test("what a node says of one request, it does not say of the next", workers=[1])
def says_once(t):
    fleet = Fleet(t, count=1)
    node = Asker(fleet.nodes[0].internal, SECRET)
    node.send(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n")
    answer = node.response()
    equal((answer.status, answer.get("Sluice-Hop")), (400, None), answer.fields)


@test("requests of several clients on one connection between nodes: each is of its client's address", workers=[1])
def clients_of_one_connection(t):
    fleet = Fleet(t, count=1, route="owner_idle = 1h\n")
    equal(ask(fleet.client(0)).status, 200, "it owns the session")
    fence, = fences(fleet.origin)
    node = Asker(fleet.nodes[0].internal, SECRET)
    peers = ("192.0.2.7", "192.0.2.77", "192.0.2.8", "192.0.2.7", "192.0.2.7", "2001:db8::1", "2001:db8::1", "0.20.255.100", "unix",
             "192.0.2.7")
    for peer in peers:
        node.forward("/", "ann", 5, fence, peer=peer)
        equal(node.response().status, 200, peer)
    seen = [x.request for x in fleet.origin.requests[1:]]
    addresses = [peer if peer != "unix" else None for peer in peers]
    equal([r.get("X-Forwarded-For") for r in seen], addresses, "X-Forwarded-For")
    equal([r.get("X-Real-IP") for r in seen], addresses, "X-Real-IP")
    proxy = fleet.nodes[0]
    proxy.listener += "\ntrusted_proxies = 192.0.2.7"
    proxy.reload(proxy.sections)
    proxy.process.wait_output(": reloaded")
    for fields, expected in (([], "192.0.2.7"), ([("X-Forwarded-For", "203.0.113.9")], "203.0.113.9, 192.0.2.7")):
        node.request("/", fields=[("X-Client", "ann"), ("Sluice-Hop", f"1 main 192.0.2.7 7 5 {fence}"), *fields])
        equal(node.response().status, 200, "behind a reload")
        equal(fleet.origin.requests[-1].request.get("X-Forwarded-For"), expected, "that has made it trusted")


@test("one hop at most: a node that is not the owner says so, and what was given up comes too late", workers=[1])
def hops(t):
    gate = Gate()
    fleet = Fleet(t, count=2, origin=t.origin(gate), route="owner_idle = 1h\n")
    held = fleet.client(0)
    held.request("/held", fields=[("X-Client", "ann")])
    until(lambda: arrived(fleet.origin, "/held"), "node 0 owns it")
    fence, = fences(fleet.origin)
    node = Asker(fleet.nodes[1].internal, SECRET)
    node.forward("/", "ann", 5, fence)
    answer = node.response()
    equal((answer.status, answer.get("Sluice-Hop")), (421, "elsewhere"), answer.fields)
    gate.open.set()
    equal(held.response().status, 200, "the first")
    node = Asker(fleet.nodes[0].internal, SECRET)
    for mark, of, expected in ((5, fence, (200, None)), (8, fence, (200, None)), (7, fence, (421, "stale")),
                               (9, fence - 1, (421, "elsewhere")), (8, fence, (200, None))):
        node.forward(f"/{mark}", "ann", mark, of)
        answer = node.response()
        equal((answer.status, answer.get("Sluice-Hop")), expected, mark)
    node.forward("/other", "ann", 1, fence, instance=8)
    equal(node.response().status, 200, "another node")
    for instance in range(20, 30):
        node.forward("/others", "ann", 1, fence, instance=instance)
        equal(node.response().status, 200, "one more")
    node.forward("/late", "ann", 7, fence)
    equal(node.response().get("Sluice-Hop"), "stale", "however many others came meanwhile")
    node.forward("/nobody", "bob", 9, fence)
    equal(node.response().get("Sluice-Hop"), "elsewhere", "it does not become an owner by that")
    equal([x.request.get("X-Real-IP") for x in fleet.origin.requests[1:]], ["192.0.2.7"] * 14, "its client's address")
    for field in ("1 main", "1 none 192.0.2.7 7 9 9", "1 main x 7 9 9", "2 main 192.0.2.7 7 9 9",
                  "1 main 192.0.2.7 7 9 9 9 9", "1 main 192.0.2.7 7 9 -9"):
        node = Asker(fleet.nodes[0].internal, SECRET)
        answer = node.ask("/", fields=[("X-Client", "ann"), ("Sluice-Hop", field)])
        equal((answer.status, answer.get("Sluice-Hop")), (421, "unknown"), field)


def timers(port):
    """Of the connections to this port of 127.0.0.1, at both ends: 2 where the kernel asks a silent peer now and then."""
    with open("/proc/net/tcp", encoding="ascii") as lines:
        rows = [line.split() for line in lines.read().splitlines()[1:]]
    return [int(row[5].split(":")[0], 16) for row in rows
            if row[3] == "01" and f"0100007F:{port:04X}" in (row[1], row[2])]


@test("a connection between two nodes is found out when the other one is gone without a word", workers=[1])
def keeps_alive(t):
    fleet = Fleet(t, count=2, route="owner_idle = 1h\n")
    for i in (0, 1):
        equal(ask(fleet.client(i)).status, 200, "node 0 owns it")
    until(lambda: timers(fleet.nodes[0].internal) == [2, 2], "both ends")


@test("a connection to the owner that is cut: 502 for what had left, and what comes after it keeps its order",
      workers=[1])
def cut(t):
    seen = []

    def serve(x):
        x.read_body()
        seen.append((x.request.target, x.request.get("Sluice-Hop").split(" ")[4]))
        if x.request.target == "/cut":
            x.close()
        elif x.request.target == "/refused" and len(seen) < 5:
            x.reply(421, fields=[("Sluice-Hop", "elsewhere")])
        else:
            x.reply(200, b"owner")
    fleet = Fleet(t, count=1)
    other = FakeOwner(SECRET, serve)
    t.defer(other.end)
    equal(ask(fleet.client(0)).status, 200, "its session has a name")
    steal(fleet, f"aaaa/other/{other.address}")
    answer = ask(fleet.client(0), path="/a", method="POST", body=b"x")
    equal((answer.status, answer.body), (200, b"owner"), "by the other")
    equal(ask(fleet.client(0), path="/cut", method="POST", body=b"x").status, 502, "it had left")
    equal(ask(fleet.client(0), path="/b", method="POST", body=b"x").status, 200, "the connection is made again")
    equal(ask(fleet.client(0), path="/refused", method="POST", body=b"x").status, 200, "sent again: it went nowhere")
    equal([target for target, _ in seen], ["/a", "/cut", "/b", "/refused", "/refused"], "in order")
    true(int(seen[1][1]) < int(seen[2][1]), "the mark has grown")
    equal(len(fleet.origin.requests), 1, "none was served here")


@test("what had left for the owner of a client that is gone by now does not come behind what follows", workers=[1])
def cut_later(t):
    seen, arrived_there, is_left = [], threading.Event(), threading.Event()

    def serve(x):
        x.read_body()
        seen.append((x.request.target, int(x.request.get("Sluice-Hop").split(" ")[4])))
        if x.request.target == "/left":
            arrived_there.set()
            is_left.wait(60)
            x.close()
        else:
            x.reply(200, b"owner")
    fleet = Fleet(t, count=1, workers=1)
    other = FakeOwner(SECRET, serve)
    t.defer(other.end)
    equal(ask(fleet.client(0)).status, 200, "its session has a name")
    steal(fleet, f"aaaa/other/{other.address}")
    client = fleet.client(0)
    client.request("/left", method="POST", body=b"x", fields=[("X-Client", "ann")])
    true(arrived_there.wait(60), "it has left")
    client.close()
    for _ in range(3):
        equal(ask(fleet.client(0), who="bob").status, 200, "the node has seen that")
    is_left.set()
    equal(ask(fleet.client(0), path="/next", method="POST", body=b"x").status, 200, "the next")
    equal([target for target, _ in seen], ["/left", "/next"], "in order")
    true(seen[0][1] < seen[1][1], "the mark has grown")


def steal(fleet, node, lease_ms=60000):
    """The only session becomes another's, as by that one's taking it."""
    redis = fleet.redis.connect()
    key, = [k for k in redis.ask("KEYS", "*") if redis.ask("TYPE", k) == b"hash" and redis.ask("HEXISTS", k, "fence")]
    until(lambda: redis.ask("HGET", key, "session") == b"", "it is given up")
    now = redis.ask("TIME")
    fence = int(redis.ask("HGET", key, "fence")) + 1
    redis.ask("HSET", key, "session", node, "fence", fence, "ends", int(now[0]) * 1000 + lease_ms)
    redis.ask("PERSIST", key)


class Accounts:
    """A bank's books: each order is written down in the order of arrival."""

    def __init__(self):
        self.lock, self.book = threading.Lock(), {}

    def __call__(self, x):
        x.read_body()
        who, number = x.request.get("X-Client"), int(x.request.target[1:])
        with self.lock:
            self.book.setdefault(who, []).append((number, int(x.request.get("Sluice-Fence"))))
        try:
            x.reply(200, b"%d" % number)
        except OSError:
            pass


ORDERS = 12


def place_orders(fleet, who, rng, known, began):
    """One after the other, each at a node at random; what it was answered."""
    for number in range(ORDERS):
        node = fleet.nodes[rng.randrange(3)]
        try:
            client = Client(node.address)
            answer = ask(client, who, f"/{number}", "POST", b"order")
            known[number] = answer.status
            client.socket.close()
        except (OSError, Ended):
            known[number] = None  # its node is gone
        began()


@test("a bank of 40 accounts at three nodes, of which one is killed and one stands still: nothing twice, all in order",
      workers=[1])
def bank(t):
    accounts, lock, placed = Accounts(), threading.Lock(), [0]
    fleet = Fleet(t, lease="2s", origin=t.origin(accounts), route="queue_timeout = 20s\n")
    known = {f"account{i}": [None] * ORDERS for i in range(40)}

    def began():
        with lock:
            placed[0] += 1
            count = placed[0]
        if count == 100:
            fleet.nodes[1].process.signal(signal.SIGSTOP)
            returns.start()
        elif count == 300:
            fleet.nodes[2].process.signal(signal.SIGKILL)
            fleet.nodes[2].ended = True

    returns = threading.Timer(4, lambda: fleet.nodes[1].process.signal(signal.SIGCONT))  # behind its lease
    threads = [threading.Thread(target=place_orders, args=(fleet, who, random.Random(f"{SEED}{who}"), known[who], began))
               for who in known]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    returns.join()
    counts = {}
    for who, answers in known.items():
        book = accounts.book.get(who, [])
        numbers = [number for number, _ in book]
        equal(numbers, sorted(set(numbers)), f"{who}: each once, and in order")
        true(grows([fence for _, fence in book]), f"{who}: {book}")
        for number, answer in enumerate(answers):
            counts[answer] = counts.get(answer, 0) + 1
            true(answer != 200 or number in numbers, f"{who}: {number} was answered 200")
            true(answer != 503 or number not in numbers, f"{who}: {number} was answered 503, and done")
    t.note(f"answers {counts}")
    true(counts.get(200, 0) > 200 and set(counts) <= {200, 502, 503, None}, counts)


@test("a WebSocket is use: its session stays where it is as long as it is open", workers=[1])
def tunnels(t):
    def serve(x):
        if x.request.get("Upgrade"):
            x.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            x.send(x.stream.read_some())
        else:
            x.reply(200)
    fleet = Fleet(t, count=2, route="owner_idle = 100ms\nordering = none\n", origin=t.origin(serve), lease="4s")
    equal(ask(fleet.client(0)).status, 200, "node 0 owns it, as long as it is not idle")
    socket = fleet.client(1)
    socket.request("/", fields=[("X-Client", "ann"), ("Connection", "upgrade"), ("Upgrade", "websocket")])
    equal(socket.response_head().status, 101, "by way of node 1")
    socket.send(b"ping")
    equal(socket.read_exactly(4), b"ping", "both ways")
    time.sleep(4.5)  # longer than owner_idle and the lease
    for i in (0, 1):
        equal(ask(fleet.client(i)).status, 200, "served")
    equal(len(set(fences(fleet.origin)[1:])), 1, "by the same owner")


@test("limits are judged once, by the owner; its answers are passed on as they are", workers=[1])
def limits(t):
    limit = "limits = burst\n"
    fleet = Fleet(t, count=2, route="owner_idle = 1h\nresponse_header_set = X-Set: once\n" + limit,
                  more="[limit burst]\nkey = header:X-Client\nrate = 4 per 1h\n")
    answers = [ask(fleet.client(i % 2)) for i in range(6)]
    equal([a.status for a in answers], [200] * 4 + [429] * 2, "four of all nodes together")
    for answer in answers:
        names = [name.lower() for name, _ in answer.fields]
        equal((names.count("ratelimit"), names.count("x-set"), names.count("date"), names.count("sluice-hop")),
              (1, 1, 1, 0), answer.fields)
    true(int(answers[5].get("Retry-After")) > 3000, answers[5].fields)


@test("a node that is stopped gives its sessions up at once", workers=[1])
def stopped(t):
    fleet = Fleet(t, count=2, lease="5m", route="owner_idle = 1h\n")
    equal(ask(fleet.client(0)).status, 200, "node 0 owns it")
    equal(ask(fleet.client(1)).status, 200, "and node 1 knows")
    fleet.nodes[0].terminate()
    equal(fleet.nodes[0].wait(), 0, "it has stopped")
    equal(ask(fleet.client(1)).status, 200, "by the next")
    true(grows(fences(fleet.origin)) and len(set(fences(fleet.origin))) == 2, fences(fleet.origin))


@test("the store is away: an owner goes on until its lease is over", workers=[1])
def store_away(t):
    fleet = Fleet(t, count=1, lease=f"{LEASE}s", route="owner_idle = 1h\n")
    equal(ask(fleet.client(0)).status, 200, "its own")
    fleet.redis.kill()
    equal(ask(fleet.client(0)).status, 200, "with the lease in hand")
    equal(ask(fleet.client(0), who="bob").status, 503, "a session that nobody owns")
    begun = time.monotonic()

    def is_over():
        status = ask(fleet.client(0)).status
        true(status in (200, 503), status)
        return status == 503
    until(is_over, "the lease is over")
    true(time.monotonic() - begun < LEASE + 15, "the lease, and what a slow machine takes")


@test("an upload ends with the lease: no more of it is sent", workers=[1])
def upload(t):
    got, cuts = [], []

    def serve(x):
        if x.request.method != "POST":
            x.reply(200)
            return
        try:
            while True:
                got.append(x.stream.read_exactly(1))
        except (Ended, OSError) as end:
            cuts.append(end)
            x.close()
    fleet = Fleet(t, count=1, lease=f"{LEASE}s", route="request_buffering = off\nordering = none\n", origin=t.origin(serve))
    client = fleet.client(0)
    client.send(b"POST / HTTP/1.1\r\nHost: api.test\r\nX-Client: ann\r\nContent-Length: 1000\r\n\r\na")
    until(lambda: got, "its beginning has come")
    client.send(b"b")
    until(lambda: len(got) == 2, "it is passed on")
    fleet.redis.kill()
    until(lambda: ask(fleet.client(0)).status == 503, "the lease is over")
    client.send(b"c")
    equal(client.response().status, 502, "nobody knows what the server made of it")
    until(lambda: cuts, "it is cut off")
    equal(got, [b"a", b"b"], "nothing more has come")


@test("what the server's system has not taken when the lease ends never arrives", workers=[1])
def untaken(t):
    begun, reads, ends = [], threading.Event(), {}

    def serve(x):
        target = x.request.target
        begun.append(target)
        reads.wait(60)
        try:
            x.read_body()
            ends[target] = "whole"
        except (Ended, OSError):
            ends[target] = "cut"
        x.close()
    fleet = Fleet(t, count=1, lease=f"{LEASE}s", origin=t.origin(serve))
    body = b"x" * 1000000  # more than the server's system takes of what is not read
    late, left = fleet.client(0), fleet.client(0)
    late.request("/late", "POST", [("X-Client", "ann")], body)
    left.request("/left", "POST", [("X-Client", "bob")], body)
    until(lambda: len(begun) == 2, "both have come")
    left.close()
    fleet.redis.kill()
    equal(late.response().status, 502, "nobody knows what the server made of it")
    until(lambda: ask(fleet.client(0), who="bob").status == 503, "the lease is over")
    over = time.monotonic()
    with Lateness() as lateness:  # each worker cuts its own, in what the node keeps of the store's lease
        until(lambda: all(x.stream.was_reset() for x in fleet.origin.requests), "the server knows that both are cut")
    took = time.monotonic() - over
    true(took < 1 + 2 * lateness.worst, f"cut {took:.2f} s later")
    reads.set()
    until(lambda: len(ends) == 2, "both have been read")
    equal(ends, {"/late": "cut", "/left": "cut"})


@test("what the server's system has not taken when the owner is killed never arrives", workers=[1])
def untaken_of_the_dead(t):
    begun, reads, ends = [], threading.Event(), []

    def serve(x):
        begun.append(x.request.target)
        if x.request.target == "/late":
            reads.wait(60)
            try:
                x.read_body()
                ends.append("whole")
            except (Ended, OSError):
                ends.append("cut")
            x.close()
            return
        x.read_body()
        x.reply(200)
    fleet = Fleet(t, lease=f"{LEASE}s", origin=t.origin(serve))
    late = fleet.client(0)
    late.request("/late", "POST", [("X-Client", "ann")], b"x" * 1000000)
    until(lambda: begun, "its beginning has come")
    fleet.nodes[0].process.signal(signal.SIGKILL)
    fleet.nodes[0].ended = True
    equal(ask(fleet.client(1), path="/next", method="POST", body=b"x").status, 200, "by the new owner")
    reads.set()
    until(lambda: ends, "it has been read")
    equal(ends, ["cut"], "the server does not get what is left of it")


main()
