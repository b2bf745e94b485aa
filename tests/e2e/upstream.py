"""Servers: how they are reached and chosen, kept, ejected and taken back; what a client
gets when they fail."""
import collections
import signal
import socket
import threading
import time

from lib import process
from lib.names import SilentNames
from lib.problem import problem
from lib.process import BINARY, DEADLINE_SECONDS, Port, Process, until
from lib.sluice import to
from lib.tap import equal, group, main, member, test, true
from lib.wire import quiet

OK = b"HTTP/1.1 200 OK\r\n"
ONE_TRY = "retries = 0\nmax_fails = 0\n"


def named(name):
    """A handler that says who answered."""
    def handler(x):
        x.read_body()
        x.reply(200, name.encode())
    return handler


# ---- failures ----------------------------------------------------------------------------------

@group("failures as clients see them")
def failures(t):
    refused = Port()
    t.defer(refused.release)
    never = t.event()

    def handler(x):
        target = x.request.target
        if target == "/silent":
            x.read_body()
            never.wait(DEADLINE_SECONDS)
        elif target == "/half":
            x.read_body()
            x.send(OK + b"Content-Length: 10\r\n\r\nhello")
            never.wait(DEADLINE_SECONDS)
        elif target == "/half-head":
            x.read_body()
            x.send(OK + b"Content-Le")
            never.wait(DEADLINE_SECONDS)
        elif target == "/deaf":
            never.wait(DEADLINE_SECONDS)
        else:
            x.read_body()
            x.reply(200, b"x")

    origin = t.origin(handler)
    sluice = t.sluice(f"""
[upstream refused]
server = 127.0.0.1:{refused.number}
[upstream slow]
server = {origin}
first_byte_timeout = 300ms
idle_timeout = 300ms
send_timeout = 300ms
{ONE_TRY}
[upstream unknown]
server = no-such-name.invalid:80
connect_timeout = 1s
[route refused]
host = refused.test
upstream = refused
[route slow]
host = slow.test
upstream = slow
ordering = none
[route unknown]
host = unknown.test
upstream = unknown
""")
    client = t.client(sluice)

    with t.point("nobody listens: 502, and the client's connection goes on"):
        for _ in range(5):
            problem(client.ask("/", host="refused.test"), 502)

    with t.point("the same for HEAD: no body"):
        answer = client.ask("/", "HEAD", host="refused.test")
        equal((answer.status, answer.body), (502, b""))
        problem(client.ask("/", host="refused.test"), 502)

    with t.point("the same for a POST whose body nobody took"):
        answer = t.client(sluice).ask("/", "POST", body=b"x" * 10_000, host="refused.test")
        problem(answer, 502)

    with t.point("a name that does not resolve: 502, 503 or 504"):
        answer = t.client(sluice).ask("/", host="unknown.test")
        member(answer.status, (502, 503, 504), "status")

    with t.point("no byte of a response within first_byte_timeout: 504"):
        problem(t.client(sluice).ask("/silent", host="slow.test"), 504)

    with t.point("no more of a head within a timeout: 504"):
        problem(t.client(sluice).ask("/half-head", host="slow.test"), 504)

    with t.point("a server that does not read within send_timeout: 504"):
        client = t.client(sluice)
        client.send(b"POST /deaf HTTP/1.1\r\nHost: slow.test\r\nContent-Length: 1000000000\r\n\r\n")
        sender = threading.Thread(target=lambda: client.try_send(b"x" * 100_000_000), daemon=True)
        sender.start()
        problem(client.response(), 504)

    with t.point("no more of a body within idle_timeout: cut, so that it can't seem whole"):
        client = t.client(sluice)
        client.request("/half", host="slow.test")
        client.expect_cut()

    with t.point("the server's connections of all those were closed"):
        never.set()
        t.client(sluice).ask("/", host="slow.test")
        origin.wait(lambda: origin.open_connections <= 1, "the end of the failed connections")


@test("a server that accepts nothing: 504 after connect_timeout")
def connect_timeout(t):
    # With its backlog full, Linux drops further SYNs: nobody answers, as from a dead machine.
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    t.defer(listener.close)
    for _ in range(8):
        filler = socket.socket()
        filler.setblocking(False)
        t.defer(filler.close)
        filler.connect_ex(listener.getsockname())
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    sluice = t.sluice(to(address, upstream="connect_timeout = 300ms\n" + ONE_TRY))
    problem(t.client(sluice).ask("/"), 504)


# ---- servers ejected and taken back -----------------------------------------------------------

@group("a server that is down")
def left_out(t):
    down = t.origin(named("down"), listen=False)
    up = t.origin(named("up"))
    sluice = t.sluice(to(down, up, upstream="fail_timeout = 100ms\nfail_timeout_max = 200ms\nmax_fails = 1"))
    client = t.client(sluice)

    with t.point("its requests go to another one, POSTs too: it never saw them"):
        for n in range(20):
            equal(client.ask(f"/{n}", "POST", body=b"x").body, b"up", "who answered")

    with t.point("when it comes back it is used again"):
        down.listen()
        until(lambda: client.ask("/").body == b"down", "the server that came back")


@test("a server that fails max_fails times is ejected, the other serves all")
def passive(t):
    def handler(x):
        x.read_body()
        x.close()

    bad, good = t.origin(handler), t.origin(named("good"))
    sluice = t.sluice(to(bad, good, upstream="max_fails = 2\nfail_timeout = 1h\nfail_timeout_max = 1h"))
    client = t.client(sluice)
    statuses = [client.ask("/", "POST", body=b"x").status for _ in range(30)]
    t.note(f"answers: {collections.Counter(statuses)}")
    true(statuses.count(502) == len(bad.requests), "each request it took and lost is a 502")
    equal(len(bad.requests), 2, "requests to the bad server")
    equal(statuses[-20:], [200] * 20, "the last answers")


@test("when all servers are down the answer is 502 or 503, at once")
def all_down(t):
    ports = [Port(), Port()]
    for port in ports:
        t.defer(port.release)
    sluice = t.sluice(to(*[f"127.0.0.1:{p.number}" for p in ports],
                         upstream="max_fails = 1\nfail_timeout = 1h\nfail_timeout_max = 1h"))
    client = t.client(sluice)
    for _ in range(10):
        answer = client.ask("/")
        member(answer.status, (502, 503), "status")
        problem(answer, answer.status)


@group("health checks")
def health(t):
    state = {"status": 200}

    def handler(x):
        x.read_body()
        if x.request.target == "/health?deep":
            x.reply(state["status"], b"")
        else:
            x.reply(200, b"checked")

    checked = t.origin(handler)
    other = t.origin(named("other"))
    sluice = t.sluice(to(checked, other, upstream="health_path = /health?deep\nhealth_interval = 100ms\n"
                         "health_timeout = 5s\nhealth_host = health.test\nfail_timeout = 100ms\n"
                         "fail_timeout_max = 100ms"))
    clients = [t.client(sluice) for _ in range(8)]

    def answers():
        return {client.ask("/").body for client in clients for _ in range(4)}

    with t.point("a probe is a GET of health_path with health_host"):
        checked.wait(lambda: "/health?deep" in checked.targets(), "a probe")
        probe = next(x.request for x in checked.requests if x.request.target == "/health?deep")
        equal((probe.method, probe.get("Host")), ("GET", "health.test"))

    with t.point("a server that passes is used"):
        until(lambda: answers() == {b"checked", b"other"}, "both in use")

    with t.point("a server that fails them is not"):
        state["status"] = 503
        until(lambda: answers() == {b"other"}, "only the other in use")
        for _ in range(5):
            equal(answers(), {b"other"}, "who answers")

    with t.point("when it passes again it is used again"):
        state["status"] = 200
        until(lambda: answers() == {b"checked", b"other"}, "both in use")


# ---- balance -----------------------------------------------------------------------------------

def counts(client, requests, **more):
    return collections.Counter(client.ask("/", **more).body.decode() for _ in range(requests))


@group("balance")
def balance(t):
    names = ("a", "b", "c")

    def fleet(options="", weights=(1, 1, 1), **more):
        servers = [f"{t.origin(named(n))} weight={w}" for n, w in zip(names, weights)]
        return t.sluice(to(*servers, upstream=options), **more)

    with t.point("round_robin: each the same share"):
        equal(counts(t.client(fleet()), 30), {"a": 10, "b": 10, "c": 10})

    with t.point("round_robin by weight"):
        equal(counts(t.client(fleet(weights=(4, 2, 1))), 70), {"a": 40, "b": 20, "c": 10})

    with t.point("hash: a key always to the same server, keys over all servers, about by weight"):
        client = t.client(fleet("balance = hash\nhash_key = header:X-Key", weights=(2, 1, 1)))
        seen = collections.Counter()
        for key in range(400):
            who = counts(client, 2, fields=[("X-Key", f"key {key}")])
            equal(len(who), 1, f"servers for key {key}")
            seen.update(who)
        t.note(f"shares of 800 by weights 2 1 1: {dict(seen)}")
        true(300 < seen["a"] < 500 and min(seen["b"], seen["c"]) > 100, f"shares {seen}")


@test("least_in_flight: a server that is busy gets nothing while another is free")
def least_in_flight(t):
    gate = t.event()

    def busy(x):
        x.read_body()
        gate.wait(DEADLINE_SECONDS)
        x.reply(200, b"busy")

    # Which of two free servers goes first is open: hold one request, see who has it.
    origins = [t.origin(busy), t.origin(busy)]
    sluice = t.sluice(to(*origins, upstream="balance = least_in_flight", route="ordering = none"))
    clients = [t.client(sluice) for _ in range(6)]
    for n, client in enumerate(clients):
        client.request(f"/{n}")
        until(lambda: sum(len(o.requests) for o in origins) == n + 1, f"request {n} at a server")
        true(abs(len(origins[0].requests) - len(origins[1].requests)) <= 1, "shares in flight")
    gate.set()
    for client in clients:
        equal(client.response().status, 200, "status")


# ---- addresses ---------------------------------------------------------------------------------

@group("addresses")
def addresses(t):
    for what, origin, server in (
            ("IPv6", t.origin(family=socket.AF_INET6), None),
            ("a unix socket", t.origin(path=t.path("origin.sock")), None),
            ("a name", (named_origin := t.origin()), f"localhost:{named_origin.port}")):
        with t.point(what):
            sluice = t.sluice(to(server or origin))
            client = t.client(sluice)
            for _ in range(3):
                equal(client.ask("/", "POST", body=b"hello").body, b"hello", "body")


@test("a name with several addresses of which some are dead: all is answered, and nothing is ejected")
def dead_address(t):
    hosts = t.file("hosts", "".join(f"127.0.0.{n} many.test\n" for n in (2, 3, 1, 4)))
    command = ["unshare", "-rm", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$0" "$@"']
    try:
        if process.run([*command, "true"])[0] != 0:
            t.skip("mount namespaces are not permitted")
    except FileNotFoundError:
        t.skip("there is no unshare")
    origin = t.origin()
    sluice = t.sluice(to(f"many.test:{origin.port}", upstream="keepalive = 0\nretries = 3\nmax_fails = 1"),
                      command=[*command, process.BINARY])
    clients = [t.client(sluice) for _ in range(4)]
    equal({client.ask(f"/{n}").status for n in range(20) for client in clients}, {200}, "statuses")
    true("ejected" not in sluice.log(), "the server was ejected")


@test("a name that can't be looked up: told with what that means, answered 502 or 503")
def no_address(t):
    name = "a" * 64 + ".test"  # a label has at most 63 bytes (RFC 1035): no network is needed to fail
    sluice = t.sluice(to(f"{name}:80"))
    warning = sluice.process.wait_output(f"server {name}:80: ")
    true(" warn " in warning and "; it has no address until its name resolves" in warning
         and "keeping its addresses" not in warning, warning)
    member(t.client(sluice).ask("/").status, (502, 503), "status")


@group("a signal that comes while the first names are looked up", workers=[2])
def signalled_at_start(t):
    names = SilentNames(t)
    if names.refused:
        t.skip(f"no name server can be played: {names.refused}")
    path = t.file("named.ini", "[listener main]\nbind = unix:" + t.path("socket") + "\n" + to("api.test:80"))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        with t.point(f"{number.name} is taken when there are workers"):
            names.forget_questions()
            child = Process([*names.command, BINARY, "run", "-c", path], number.name)
            t.defer(child.kill)
            names.wait_question()
            child.signal(number)
            if number == signal.SIGHUP:
                child.wait_output("reloaded")
                child.signal(signal.SIGTERM)
            equal(child.wait(), 0, child.output())


@test("look-ups that go on failing have one line", workers=[1])
def no_address_again(t):
    name = "a" * 64 + ".test"
    sluice = t.sluice(to(f"{name}:80", upstream="resolve_interval = 1s"), settings="log_level = debug")
    sluice.process.wait_output(f"server {name}:80: ")
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 3.5, "three more look-ups", pause=0.1)
    equal(sluice.log().count(f"server {name}:80: "), 1, "lines")


@test("failures have a line each ten seconds, and the last ones are counted when they end", workers=[2])
def failure_lines(t):
    free = Port()
    t.defer(free.release)
    sluice = t.sluice(to(f"127.0.0.1:{free.number}", upstream="max_fails = 0\nretries = 0"))
    client = t.client(sluice)
    for _ in range(30):
        equal(client.ask("/").status, 502, "status")
    sluice.process.wait_output("29 more failures since the last line")
    for _ in range(7):
        client.ask("/")
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status")
    sluice.process.wait_output("7 more failures since the last line")
    equal(sluice.log().count(f"server 127.0.0.1:{free.number}: "), 3, "lines")


# ---- kept connections and bounds ---------------------------------------------------------------

@group("kept connections")
def kept(t):
    origin = t.origin()
    for options, requests, expected in (("", 30, 1), ("keepalive = 0", 10, 10), ("keepalive_requests = 5", 20, 4)):
        with t.point(f"{options or 'by default'}: {requests} requests over {expected} connections"):
            before = origin.connections
            client = t.client(t.sluice(to(origin, upstream=options)))
            for n in range(requests):
                equal(client.ask(f"/{n}").status, 200, "status")
            equal(origin.connections - before, expected, "connections")

    with t.point("keepalive_timeout: an idle one is closed"):
        fresh = t.origin()
        t.client(t.sluice(to(fresh, upstream="keepalive_timeout = 100ms"))).ask("/")
        fresh.wait_connections_gone()

    with t.point("an origin's Connection: close is obeyed"):
        def closing(x):
            x.read_body()
            x.reply(200, b"x", fields=[("Connection", "close")])
            x.close()
        fresh = t.origin(closing)
        client = t.client(t.sluice(to(fresh)))
        for n in range(10):
            equal(client.ask(f"/{n}", "POST", body=b"x").status, 200, "status")
        equal(fresh.connections, 10, "connections")


def in_flight(t, options, bound, servers=1):
    """20 clients at once; how many were ever at the servers together."""
    gate, lock = t.event(), threading.Lock()
    now, most = [0], [0]

    def handler(x):
        x.read_body()
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        gate.wait(DEADLINE_SECONDS)
        with lock:
            now[0] -= 1
        x.reply(200, b"x")

    origins = [t.origin(handler) for _ in range(servers)]
    sluice = t.sluice(to(*[f"{o} {options[1]}" for o in origins], upstream=options[0],
                         route="session = header:X-Client"))
    clients = [t.client(sluice) for _ in range(20)]
    for n, client in enumerate(clients):
        client.request("/", "POST", body=b"x", fields=[("X-Client", str(n))])
    until(lambda: now[0] == bound, f"{bound} requests at the servers")
    true(quiet(clients[-1], 0.2), "an answer before the gate opened")
    equal(now[0], bound, "requests at the servers")
    gate.set()
    for client in clients:
        equal(client.response().status, 200, "status")
    true(most[0] <= bound, f"{most[0]} at once")


@test("max_in_flight of an upstream: never more, and no less")
def max_in_flight(t):
    in_flight(t, ("max_in_flight = 3", ""), 3)


@test("max_in_flight of each server: never more, and no less")
def max_in_flight_of_server(t):
    in_flight(t, ("", "max_in_flight=2"), 4, servers=2)


# ---- descriptors -------------------------------------------------------------------------------

def answers_of(clients, count):
    """The statuses of so many answers to each, all at once: one may wait until another has left."""
    statuses = set()

    def read(client):
        statuses.update(client.response().status for _ in range(count))
        client.close()

    threads = [threading.Thread(target=read, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
        true(not thread.is_alive(), "a client waits for ever")
    return statuses


@test("out of descriptors: what lacks one is 503, and no server is blamed", workers=[1])
def descriptors(t):
    origins = [t.origin() for _ in range(2)]
    sluice = t.sluice(to(*origins, upstream="max_fails = 1\nfail_timeout = 1m",
                         route="session = header:X-Api-Key\nupstream_affinity = session"), nofile=120)
    client = t.client(sluice)
    # Each session keeps a connection to a server.
    statuses = [client.ask("/", fields=[("X-Api-Key", str(n))]).status for n in range(150)]
    equal(set(statuses), {200, 503}, "statuses")
    sluice.process.wait_output("Too many open files")
    true("ejected" not in sluice.log(), "a server was ejected")
    # Those that have a connection are served on.
    equal({client.ask("/", fields=[("X-Api-Key", str(n))]).status for n in range(4)}, {200}, "statuses afterwards")


@test("descriptors: a client that pipelines takes no more of them than one that does not")
def pipelined_descriptors(t):
    gate = t.event()

    def held(x):
        x.read_body()
        gate.wait(DEADLINE_SECONDS)
        x.reply(200)

    sluice = t.sluice(to(t.origin(held), route="ordering = none"), nofile=120)
    clients = [t.client(sluice) for _ in range(30)]
    for client in clients:
        for n in range(8):
            client.request(f"/{n}")
    gate.set()
    equal(answers_of(clients, 8), {200}, "statuses")
    true("Too many open files" not in sluice.log(), "descriptors ran out")


@test("descriptors: one request of each client always finds one to a server")
def reserved_descriptors(t):
    gate, origin = t.event(), t.origin(lambda x: (x.read_body(), gate.wait(DEADLINE_SECONDS), x.reply(200)))
    sluice = t.sluice(to(origin, route="ordering = none"), nofile=120)
    clients = [t.client(sluice) for _ in range(60)]
    for client in clients:
        client.request("/")
    line = sluice.process.wait_output("descriptors allows: others wait in the backlog")
    served = int(line.split(" clients are connected")[0].rsplit(" ", 1)[1])
    origin.wait_requests(served)
    gate.set()
    equal(answers_of(clients, 1), {200}, "statuses")


main()
