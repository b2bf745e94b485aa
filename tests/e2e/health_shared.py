"""health_shared: one node of the fleet at a time makes an upstream's health checks; the others learn what it finds."""
import signal
import threading
import time

from lib.admin import Admin, value
from lib.fleet import PATIENT
from lib.process import BINARY, run, until
from lib.redis import Redis
from lib.sluice import to
from lib.successor import Successor
from lib.tap import equal, main, test, true

INTERVAL = 0.2
LEASE = 3


class Server:
    """An origin that answers /up as it is told, and /held when it is let go. `script`: the answers of the next probes,
    one each."""

    def __init__(self, t):
        self.lock = threading.Lock()
        self.status, self.script, self.go = 200, [], t.event()
        self.origin = t.origin(self._handle)

    def __str__(self):
        return str(self.origin)

    def _handle(self, x):
        x.read_body()
        if x.request.target == "/held":
            self.go.wait(60)
        if not x.request.target.startswith("/up"):
            x.reply(200, str(self).encode())
            return
        with self.lock:
            step = self.script.pop(0) if self.script else self.status
        if callable(step):
            step = step()
        try:
            x.reply(step)
        except OSError:
            pass  # who probed is gone

    def probes(self, path="/up"):
        return self.origin.targets().count(path)

    def wait_probes(self, more, path="/up"):
        end = self.probes(path) + more
        self.origin.wait(lambda: self.probes(path) >= end, f"{more} more probes")


class Fleet:
    def __init__(self, t, count=3, servers=2, lease=f"{LEASE}s", path="/up", more="", workers=2, settings=""):
        self.t, self.lease, self.more = t, lease, more
        self.redis = Redis(t)
        self.servers = [Server(t) for _ in range(servers)]
        self.nodes = []
        for i in range(count):
            node = t.sluice(self.sections(i, path), workers=workers, settings=settings.format(i))
            node.admin = Admin(f"unix:{t.path(f'admin{i}')}")
            node.admin_section = f"[admin]\nbind = unix:{t.path(f'admin{i}')}\n"
            self.nodes.append(node)

    def sections(self, i, path="/up", servers=None, shared="on"):
        return (f"[fleet]\nstore = {self.redis.url}\nnode = node{i}\n{PATIENT}lease = {self.lease}\n"
                f"[admin]\nbind = unix:{self.t.path(f'admin{i}')}\n"
                + to(*(servers or self.servers), upstream=f"health_path = {path}\nhealth_interval = 200ms\n"
                     f"health_timeout = 3s\nhealth_shared = {shared}\n{self.more}"))

    def wait_one(self, nodes=None):
        """Until one of the nodes probes and the others follow it: its index."""
        nodes = nodes or self.nodes

        def settled():
            shown = [health(node) for node in nodes]
            probers = {h["prober"] for h in shown}
            roles = sorted(h["role"] for h in shown)
            return roles == ["follower"] * (len(nodes) - 1) + ["prober"] and len(probers) == 1 and probers.pop()
        return int(until(settled, "one probes, the others follow")[4:])


def upstream(node):
    status, answer = node.admin.json("/api/v1/upstreams")
    equal(status, 200, answer)
    return answer["upstreams"][0]


def health(node):
    return upstream(node)["health"]


def check(node, server):
    """What is known of it there, if anything is."""
    shown, = (s for s in upstream(node)["servers"] if s["address"] == str(server))
    return shown["check"]


def is_up(node, server):
    found = check(node, server)
    return found and found["up"]


def wait_all(nodes, server, up):
    for node in nodes:
        until(lambda: is_up(node, server) == up, f"{server} is {'up' if up else 'down'} at all nodes")


def counts(nodes):
    return [health(node)["probes"] for node in nodes]


def kill(node):
    node.process.kill()
    node.ended = True


def calls(store):
    """How often the store's functions were called."""
    lines = store.ask("INFO", "commandstats").decode().splitlines()
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines if line.startswith("cmdstat_fcall:"))


def never_down(nodes):
    for node in nodes:
        true("unhealthy" not in node.log(), node.log())


@test("one node probes; what it finds is so on all, with its name; N nodes send what one would")
def one_probes(t):
    fleet = Fleet(t, lease="10s", workers=t.workers)
    first, second = fleet.servers
    while True:  # a node that was held up beyond the lease is followed by another, and it is measured again
        prober = fleet.wait_one()
        fence, before, at_server = health(fleet.nodes[prober])["fence"], counts(fleet.nodes), first.probes()
        begun = time.monotonic()
        first.wait_probes(20)
        spent, after, probed = time.monotonic() - begun, counts(fleet.nodes), first.probes() - at_server
        if {health(node)["fence"] for node in fleet.nodes} == {fence}:
            break
    sent = [b - a for a, b in zip(before, after)]
    t.note(f"3 nodes, 2 servers, every {INTERVAL} s for {spent:.1f} s: probes by node {sent}, {probed} at the first "
           f"server; each for itself would be {3 * probed}")
    equal([n for i, n in enumerate(sent) if i != prober], [0, 0], "of those that follow")
    true(sent[prober] >= 20, sent)

    first.status = 500
    wait_all(fleet.nodes, first, False)
    follower = fleet.nodes[(prober + 1) % 3]
    found = check(follower, first)
    equal((found["by"], found["saw"]), (f"node{prober}", "its answer was not 2xx or 3xx"), "who saw what")
    equal(check(fleet.nodes[prober], first)["by"], None, "itself")
    follower.process.wait_output(f"is unhealthy: its answer was not 2xx or 3xx (probed by node{prober})")
    for node in fleet.nodes:
        client = t.client(node)
        equal({client.ask("/").body for _ in range(6)}, {str(second).encode()}, "who serves")
    text = follower.admin.metrics()[1]
    equal(value(text, "sluice_health_shared", upstream="origin", prober=f"node{prober}"), 1, text)
    equal(value(text, "sluice_health_prober", upstream="origin", prober=f"node{prober}"), 0, text)
    true(0 <= value(text, "sluice_health_age_seconds", upstream="origin", prober=f"node{prober}") < 60, text)
    equal(value(text, "sluice_health_probes_total", upstream="origin"), counts([follower])[0], text)
    status, output = run([BINARY, "upstreams", "-c", follower.ini_path])
    equal(status, 0, output)
    true(f"health checks: by node node{prober}; published " in output, output)
    first.status = 200
    wait_all(fleet.nodes, first, True)


@test("the prober is killed: after its lease another probes; until then what was known stays", workers=[1])
def killed(t):
    fleet = Fleet(t)
    first, second = fleet.servers
    prober = fleet.wait_one()
    first.status = 500
    wait_all(fleet.nodes, first, False)
    kill(fleet.nodes[prober])
    begun = time.monotonic()
    rest = [node for node in fleet.nodes if not node.ended]
    seen = []

    def taken_over():
        seen.extend(is_up(node, server) for node in rest for server in (first, second))
        return "prober" in [health(node)["role"] for node in rest]
    until(taken_over, "another one probes")
    t.note(f"taken over {time.monotonic() - begun:.1f} s after the kill; the lease is {LEASE} s")
    equal(set(seen[::2]), {False}, "what was down stays down")
    equal(set(seen[1::2]), {True}, "what was up stays up")
    heir = fleet.wait_one(rest)
    true(heir != prober, "another")
    second.status = 500
    first.status = 200
    wait_all(rest, first, True)
    wait_all(rest, second, False)


@test("a prober that stood still returns: what it sees late does not count, and it follows", workers=[1])
def paused(t):
    fleet = Fleet(t)
    first = fleet.servers[0]
    prober = fleet.wait_one()
    held, go = threading.Event(), t.event()

    def hold():
        held.set()
        go.wait(60)
        return 500
    with first.lock:
        first.script = [500, hold]  # it would be down by the second
    true(held.wait(60), "a probe is held")
    old = fleet.nodes[prober]
    old.process.stop()
    go.set()
    rest = [node for node in fleet.nodes if node is not old]
    until(lambda: "prober" in [health(node)["role"] for node in rest], "another one probes")
    heir = fleet.wait_one(rest)
    first.wait_probes(3)
    fence = health(fleet.nodes[heir])["fence"]
    old.process.signal(signal.SIGCONT)
    until(lambda: health(old)["role"] == "follower" and health(old)["prober"] == f"node{heir}", "it follows")
    wait_all(fleet.nodes, first, True)
    first.wait_probes(5)
    true(health(old)["fence"] >= fence, "the lock is the heir's")
    never_down(fleet.nodes)


@test("a prober that is told to stop gives the lock up at once", workers=[1])
def stops(t):
    fleet = Fleet(t, count=2, lease="10m")
    prober = fleet.wait_one()
    fleet.nodes[prober].terminate()
    equal(fleet.nodes[prober].wait(), 0, "its end")
    until(lambda: health(fleet.nodes[1 - prober])["role"] == "prober", "the other probes, long before the lease's end")


@test("the store is killed: each node probes for itself and no server is down by that; back, one probes",
      workers=[1, 4])
def store_away(t):
    fleet = Fleet(t, workers=t.workers)
    first = fleet.servers[0]
    fleet.wait_one()
    wait_all(fleet.nodes, first, True)
    fleet.redis.kill()
    begun = time.monotonic()
    for node in fleet.nodes:
        until(lambda: health(node)["role"] == "alone", "each for itself")
        true(health(node)["store"] == "away", health(node))
        node.process.wait_output("the store is away; this node probes its servers for itself")
    t.note(f"all probe for themselves {time.monotonic() - begun:.1f} s after the store's end")
    before = counts(fleet.nodes)
    until(lambda: all(b > a + 3 for a, b in zip(before, counts(fleet.nodes))), "probes of each")
    true(all(is_up(node, server) for node in fleet.nodes for server in fleet.servers), "all are up")
    never_down(fleet.nodes)
    equal(value(fleet.nodes[0].admin.metrics()[1], "sluice_health_shared", upstream="origin", prober=health(
        fleet.nodes[0])["prober"]), 0, "metric")
    first.status = 500
    wait_all(fleet.nodes, first, False)
    equal({check(node, first)["by"] for node in fleet.nodes}, {None}, "each has seen it")
    fleet.redis.start()
    fleet.wait_one()
    first.status = 200
    wait_all(fleet.nodes, first, True)


@test("the store stands still: each node probes for itself and no server is down by that; it goes on, one probes",
      workers=[1])
def store_stands_still(t):
    fleet = Fleet(t)
    fleet.wait_one()
    for server in fleet.servers:
        wait_all(fleet.nodes, server, True)
    fleet.redis.stop()
    for node in fleet.nodes:
        until(lambda: health(node)["role"] == "alone", "each for itself")
    before = counts(fleet.nodes)
    until(lambda: all(b > a + 3 for a, b in zip(before, counts(fleet.nodes))), "probes of each")
    true(all(is_up(node, server) for node in fleet.nodes for server in fleet.servers), "all are up")
    never_down(fleet.nodes)
    fleet.redis.go_on()
    fleet.wait_one()
    never_down(fleet.nodes)


@test("whatever someone writes into the lock, nodes live, no server is down by it, and one probes again", workers=[1])
def hostile_store(t):
    fleet = Fleet(t)
    first = fleet.servers[0]
    fleet.wait_one()
    wait_all(fleet.nodes, first, True)
    store = fleet.redis.connect()
    key, = (k for k in store.ask("KEYS", "*probe:health:*"))
    fence = store.ask("HGET", key, "fence")
    head = b"1 %s 99999 3000\n" % fence
    values = [b"", b"1", b"\0" * 60000, b"1 99999999999999999999999 1 1\n", head, head + b"down 1 1 1 1 1",
              head + b"down 0 0 0 18446744073709551615 18446744073709551615 x x\n",
              head + b"down 0 0 0 1 1 x x\n" * 3000, head + b"\xff\xfe\x1b[2J\n"]
    for session in (b"evil/1", b"\xff\x1b[2J", b'"/' + b"x" * 120, b"x" * 4000, b"two words"):
        for value_ in values:
            number = store.ask("HGET", key, "fence")
            store.ask("HSET", key, "session", session, "ends", 4102444800000, "value", value_.replace(fence, number))
            asked = calls(store)
            until(lambda: calls(store) >= asked + 2 * len(fleet.nodes), "each has seen it")
            if value_ is values[0]:  # a name may have anything in it
                status, output = run([BINARY, "upstreams", "-c", fleet.nodes[0].ini_path])
                true(status == 0 and "\x1b" not in output, output)
                fleet.nodes[0].admin.metrics()
    never_down(fleet.nodes)
    store.ask("DEL", key)
    fleet.wait_one()
    never_down(fleet.nodes)


@test("an upgrade of the prober: another process probes at once, long before the lease's end; no server is down by it",
      workers=[1])
def upgraded(t):
    fleet = Fleet(t, count=2, servers=1, lease="10m", settings=f"pid_file = {t.path('pid')}{{}}\nshutdown_timeout = 2m")
    prober = fleet.wait_one()
    old, other = fleet.nodes[prober], fleet.nodes[1 - prober]
    fence = health(other)["fence"]
    client = t.client(old)  # the old process stays until it is answered
    client.request("/held")
    fleet.servers[0].origin.wait(lambda: "/held" in fleet.servers[0].origin.targets(), "the request")
    successor = Successor(t, old, t.path(f"pid{prober}"))
    until(lambda: health(other)["fence"] > fence, "another session has the lock")
    true(old.process.running(), "the old process is still there")
    fleet.wait_one()
    first = fleet.servers[0]
    first.wait_probes(5)
    never_down(fleet.nodes)
    first.status = 500
    wait_all(fleet.nodes, first, False)
    first.go.set()
    equal(client.response().status, 200, "what the old process had")
    equal(successor.end_both(), 0, "the old process's end")


@test("a start without a store: each node probes for itself", workers=[1])
def start_without(t):
    fleet = Fleet(t, count=1)
    fleet.redis.kill()
    kill(fleet.nodes[0])
    node = t.sluice(fleet.sections(0))
    node.admin = fleet.nodes[0].admin
    until(lambda: health(node)["role"] == "alone", "for itself")
    wait_all([node], fleet.servers[0], True)
    fleet.redis.start()
    until(lambda: health(node)["role"] == "prober", "for the fleet")


@test("a reload that changes what is probed: nodes share with those that probe alike", workers=[1])
def reloaded(t):
    fleet = Fleet(t, lease="10s")
    first = fleet.servers[0]
    prober = fleet.wait_one()
    changed = fleet.nodes[prober]
    changed.reload(fleet.sections(prober, path="/up2"))
    rest = [node for node in fleet.nodes if node is not changed]
    fleet.wait_one(rest)
    until(lambda: health(changed)["role"] == "prober", "another lock")
    first.wait_probes(2, "/up2")
    for i, node in enumerate(fleet.nodes):
        if node is not changed:
            node.reload(fleet.sections(i, path="/up2"))
    equal(fleet.wait_one(), prober, "of all")

    def is_past():
        before = first.probes()  # one may still be on its way
        first.wait_probes(10, "/up2")
        return first.probes() == before
    until(is_past, "no probes of the path before")
    changed.reload(fleet.sections(prober, path="/up2", shared="off"))
    until(lambda: health(changed)["role"] == "unshared", "it is not shared any more")
    fleet.wait_one(rest)
    before = counts(fleet.nodes)
    until(lambda: counts([changed])[0] > before[prober] + 2, "it probes for itself")
    heir = fleet.wait_one(rest)
    last, = (node for node in rest if node is not fleet.nodes[heir])
    fleet.nodes[heir].reload(to(*fleet.servers) + fleet.nodes[heir].admin_section)
    until(lambda: health(last)["role"] == "prober", "one that has neither [fleet] nor checks gives the lock up")
    equal(health(fleet.nodes[heir]), None, "it has no checks")


@test("a server that the prober does not know is probed by the node that has it", workers=[1])
def unknown_server(t):
    fleet = Fleet(t, count=2, lease="10s")
    prober = fleet.wait_one()
    other, extra = 1 - prober, Server(t)
    node = fleet.nodes[other]
    node.reload(fleet.sections(other, servers=[*fleet.servers, extra]))
    extra.wait_probes(3)
    fleet.wait_one()
    equal(check(node, extra)["by"], None, "its own probe")
    equal(check(node, fleet.servers[0])["by"], f"node{prober}", "the prober's")
    extra.status = 500
    wait_all([node], extra, False)


main()
