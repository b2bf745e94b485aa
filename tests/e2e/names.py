"""Servers by name: requests follow the name, whatever connections there are."""
import collections
import signal
import threading

from lib.names import Asking, Dnsmasq
from lib.process import BINARY, DEADLINE_SECONDS, Port, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true

A, B, C = "127.0.0.2", "127.0.0.3", "127.0.0.4"


class Places:
    """One server at several addresses, with the same port. Each answers with its address."""

    def __init__(self, t, *addresses):
        self.at, self.holds = {}, {}
        held = Port(host="0.0.0.0")  # at every address
        t.defer(held.release)
        self.port = held.number
        for address in addresses:
            self.at[address] = t.origin(self._handler(t, address), host=address, port=self.port)

    def _handler(self, t, address):
        self.holds[address] = t.event()

        def handler(x):
            x.read_body()
            if x.request.target == "/hold":
                self.holds[address].wait(DEADLINE_SECONDS)
            elif x.request.target == f"/broken/{address}":
                x.close()
                return
            x.reply(200, address.encode())
        return handler


def ask(client, count, target="/"):
    return collections.Counter(client.ask(target).body.decode() for _ in range(count))


def asks(client, wanted):
    """Until the next requests, three for each, take turns over exactly these addresses."""
    until(lambda: ask(client, 3 * len(wanted)) == {address: 3 for address in wanted}, f"turns over {wanted}", pause=0.05)


def dns(t):
    names = Dnsmasq(t)
    if names.refused:
        t.skip(f"no name server can be run: {names.refused}")
    return names


@group("a name server whose answers change")
def moved(t):
    names, places = dns(t), Places(t, A, B, C)
    names.answer("api.test", A)
    sluice = t.sluice(to(f"api.test:{places.port}", upstream="resolve_interval = 1s", route="ordering = none"),
                      command=[*names.command, BINARY])
    client, held = t.client(sluice), t.client(sluice)

    with t.point("moved: an idle connection is closed though its server serves, and the next request is at the new one"):
        held.request("/hold")
        places.at[A].wait_requests(1)
        equal(ask(client, 4), {A: 4})
        equal(places.at[A].open_connections, 2, "connections")
        names.answer("api.test", B)
        until(lambda: places.at[A].open_connections == 1, "the idle connection closed")
        equal(ask(client, 4), {B: 4})

    with t.point("the busy connection ends with its response"):
        places.holds[A].set()
        equal(held.response().body, A.encode())
        places.at[A].wait_connections_gone()

    with t.point("an address is added: requests take turns, over kept connections"):
        names.answer("api.test", B, C)
        asks(client, [B, C])
        before = {address: places.at[address].connections for address in (B, C)}
        equal(ask(client, 30), {B: 15, C: 15})
        equal({address: places.at[address].connections for address in (B, C)}, before, "connections")

    with t.point("an address is taken away"):
        names.answer("api.test", C)
        places.at[B].wait_connections_gone()
        equal(ask(client, 6), {C: 6})

    with t.point("an answer without addresses changes nothing"):
        names.answer("other.test", A)
        sluice.process.wait_output("keeping its addresses")
        equal(ask(client, 6), {C: 6})


@test("a reload looks names up at once", workers=[2])
def reloaded(t):
    names, places = dns(t), Places(t, A, B)
    names.answer("api.test", A)
    sections = to(f"api.test:{places.port}", upstream="resolve_interval = 1h")
    sluice = t.sluice(sections, command=[*names.command, BINARY])
    client = t.client(sluice)
    equal(ask(client, 4), {A: 4})
    names.answer("api.test", B)
    sluice.process.signal(signal.SIGHUP)
    places.at[A].wait_connections_gone()
    equal(ask(client, 4), {B: 4})


@group("/etc/hosts", workers=[2])
def hosts(t):
    asking, places = Asking(t), Places(t, A, B, C)
    if asking.refused:
        t.skip(f"mount namespaces are not permitted: {asking.refused}")

    def write(*addresses):
        asking.write_hosts("127.0.0.1 localhost\n" + "".join(f"{address} api.test\n" for address in addresses))

    write(A)
    sluice = t.sluice(to(f"api.test:{places.port}", upstream="resolve_interval = 1s"), command=[*asking.command, BINARY])
    client = t.client(sluice)
    with t.point("changes are followed"):
        equal(ask(client, 4), {A: 4})
        write(B, C)
        places.at[A].wait_connections_gone()
        asks(client, [B, C])


def by_hosts(t, places, addresses, upstream, other=""):
    asking = Asking(t)
    if asking.refused:
        t.skip(f"mount namespaces are not permitted: {asking.refused}")
    asking.write_hosts("127.0.0.1 localhost\n" + "".join(f"{a} api.test\n" for a in addresses))
    return t.sluice(to(f"api.test:{places.port}", *([other] if other else []), upstream=upstream,
                       route="session = header:X-Client\nordering = none"), command=[*asking.command, BINARY])


@group("balance over a name's addresses", workers=[1])
def balance(t):
    places = Places(t, A, B, C)
    with t.point("round_robin: each address has its server's weight"):
        other = t.origin(lambda x: (x.read_body(), x.reply(200, b"other")))
        client = t.client(by_hosts(t, places, [A, B, C], "", f"{other} weight=3"))
        equal(ask(client, 60), {A: 10, B: 10, C: 10, "other": 30})

    with t.point("hash: a key always to the same address, keys over all"):
        client = t.client(by_hosts(t, places, [A, B, C], "balance = hash\nhash_key = header:X-Key"))
        seen = collections.Counter()
        for key in range(60):
            found = {client.ask("/", fields=[("X-Key", f"key {key}")]).body.decode() for _ in range(3)}
            equal(len(found), 1, f"addresses of key {key}")
            seen.update(found)
        true(min(seen[address] for address in (A, B, C)) > 5, f"keys {seen}")

    with t.point("least_in_flight: an address that is busy gets nothing while another is free"):
        sluice = by_hosts(t, places, [A, B, C], "balance = least_in_flight")
        clients = [t.client(sluice) for _ in range(6)]
        before = [len(origin.requests) for origin in places.at.values()]
        for n, client in enumerate(clients):
            client.request("/hold")
            until(lambda: sum(len(o.requests) for o in places.at.values()) == sum(before) + n + 1, "a request held")
        equal([len(o.requests) - had for o, had in zip(places.at.values(), before)], [2, 2, 2], "requests")
        for hold in places.holds.values():
            hold.set()
        for client in clients:
            equal(client.response().status, 200, "status")


@group("an address of several that fails", workers=[1])
def failing(t):
    places = Places(t, A, B, C)
    with t.point("one that answers nothing is ejected alone, and its requests are served by others"):
        sluice = by_hosts(t, places, [A, B, C], "max_fails = 2\nfail_timeout = 1m")
        client = t.client(sluice)
        equal({client.ask(f"/broken/{B}").status for _ in range(12)}, {200}, "statuses")
        sluice.process.wait_output(f"address {B}:{places.port} ejected after 2 failures")
        equal(ask(client, 10), {A: 5, C: 5})

    with t.point("health checks look at each address"):
        health = Places(t, A, B)
        sick = threading.Event()

        def handler(x):
            x.read_body()
            x.reply(503 if sick.is_set() and x.request.target == "/health" else 200, B.encode())
        health.at[B].handler = handler
        sluice = by_hosts(t, health, [A, B], "health_path = /health\nhealth_interval = 100ms")
        client = t.client(sluice)
        equal(ask(client, 6), {A: 3, B: 3})
        sick.set()
        sluice.process.wait_output(f"address {B}:{health.port} is unhealthy")
        equal(ask(client, 6), {A: 6})
        sick.clear()
        sluice.process.wait_output(f"address {B}:{health.port} is healthy again")
        equal(ask(client, 6), {A: 3, B: 3})


@test("upstream_affinity: a session's connection ends with its address", workers=[1, 2])
def affinity(t):
    names, places = dns(t), Places(t, A, B)
    names.answer("api.test", A)
    sluice = t.sluice(to(f"api.test:{places.port}", upstream="resolve_interval = 1s",
                         route="session = header:X-Client\nupstream_affinity = session"),
                      command=[*names.command, BINARY])
    client = t.client(sluice)

    def one():
        return client.ask("/", fields=[("X-Client", "c")]).body.decode()

    equal([one(), one()], [A, A])
    names.answer("api.test", B)
    places.at[A].wait_connections_gone()
    equal([one(), one()], [B, B])


@test("max_connections below the number of addresses: all are used", workers=[1, 2])
def bounded(t):
    places = Places(t, A, B, C)
    client = t.client(by_hosts(t, places, [A, B, C], "", ""))
    equal(ask(client, 9), {A: 3, B: 3, C: 3})
    asking = Asking(t)
    asking.write_hosts("127.0.0.1 localhost\n" + "".join(f"{a} api.test\n" for a in (A, B, C)))
    sluice = t.sluice(to(f"api.test:{places.port} max_connections=2"), command=[*asking.command, BINARY])
    client = t.client(sluice)
    equal(ask(client, 9), {A: 3, B: 3, C: 3})


if __name__ == "__main__":
    main()
