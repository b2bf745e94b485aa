"""Which worker of sluice a connection belongs to, and when that worker has read what was sent.

Each worker waits on an epoll instance of its own. /proc tells which sockets an instance watches
(/proc/PID/fdinfo), and which socket is a connection's other end (/proc/net/tcp, by ports): so two
connections are of one worker when one instance watches both.

A worker that has answered a request on one connection has, by then, also read what had arrived
before on its other connections, at the latest when it answers a second one: between the two it has
been round its loop, and a loop handles every connection that is ready. On loopback, sent bytes have
arrived when send() returns. So two round trips on a probe connection of the same worker, asking
what sluice answers itself, are a barrier: what was sent before has been read, parsed and entered, a
share of it each time when it is many requests.
"""
import os

from .process import until


# At least so many requests of one connection are begun in one turn of the loop; others then get theirs.
REQUESTS_A_TURN = 16


class Barrier:
    def __init__(self, t, sluice, clients):
        self.t = t
        self.sluice = sluice
        self.probes = {}
        self.worker = {}
        for client, worker in zip(clients, workers_of(sluice, clients)):
            self._watch(client, worker)

    def watch(self, client):
        """One more client."""
        self._watch(client, workers_of(self.sluice, [client])[0])

    def _watch(self, client, wanted):
        self.worker[client] = wanted
        for _ in range(1000):
            if wanted in self.probes:
                return
            probe = self.t.client(self.sluice)
            self._ask(probe)
            self.probes.setdefault(workers_of(self.sluice, [probe])[0], probe)
        raise AssertionError(f"no probe for {wanted}")

    def passed_by(self, client, requests=1):
        """Returns when sluice has taken in what this client has sent so far, that many requests."""
        probe = self.probes[self.worker[client]]
        for _ in range(2 + requests // REQUESTS_A_TURN):
            self._ask(probe)

    @staticmethod
    def _ask(probe):
        answer = probe.ask("/", host="nowhere.test")
        assert answer.status == 404, f"the probe got {answer}"


def workers_of(sluice, clients):
    """Of each, with one look into /proc for all; waits until their workers watch them."""
    inodes = server_inodes(sluice, clients)

    def find():
        links = _links(sluice.pid)
        numbers = {link: number for number, link in links.items()}
        owners = {}
        for epoll, link in links.items():
            if "eventpoll" in link:
                for watched in _targets(sluice.pid, epoll):
                    owners.setdefault(watched, []).append(epoll)
        found = [owners.get(numbers.get(f"socket:[{inode}]"), []) for inode in inodes]  # none: it is being accepted
        assert all(len(owner) <= 1 for owner in found), f"{inodes} are watched by {found}"
        return all(found) and [owner[0] for owner in found]
    return until(find, "workers of connections") if clients else []


def of_worker(t, sluice, count, worker=None):
    """So many connections of one worker, which is that of the first unless it is named; and which it is."""
    clients = []
    while len(clients) < count:
        client = t.client(sluice)
        found = workers_of(sluice, [client])[0]
        worker = found if worker is None else worker
        if found == worker:
            clients.append(client)
        else:
            leave(sluice, client)
    return clients, worker


def server_inodes(sluice, clients):
    """The sockets at sluice's ends of connections; waits until sluice has accepted them."""
    wanted = [(f"{sluice.port.number:04X}", f"{client.local_port():04X}") for client in clients]

    def find():
        with open("/proc/net/tcp", encoding="ascii") as table:
            found = {(fields[1][-4:], fields[2][-4:]): int(fields[9])
                     for fields in map(str.split, table) if fields[9].isdigit() and fields[9] != "0"}
        return all(ends in found for ends in wanted) and found
    found = until(find, "accepted connections") if wanted else {}
    return [found[ends] for ends in wanted]


def server_inode(sluice, client):
    return server_inodes(sluice, [client])[0]


def leave(sluice, client, how="close"):
    """The client closes or resets; returns when sluice has noticed and closed its end too."""
    name = f"socket:[{server_inode(sluice, client)}]"
    getattr(client, how)()
    until(lambda: name not in _links(sluice.pid).values(), "sluice noticing that its client left")


def accepts(sluice):
    """Does a worker watch the socket that listens?"""
    with open("/proc/net/tcp", encoding="ascii") as table:
        listening = [f"socket:[{fields[9]}]" for fields in map(str.split, table)
                     if fields[1].endswith(f":{sluice.port.number:04X}") and fields[3] == "0A"]
    links = _links(sluice.pid)
    watched = [number for epoll, link in links.items() if "eventpoll" in link for number in _targets(sluice.pid, epoll)]
    return any(links.get(number) in listening for number in watched)


def _links(pid):
    """What the process's descriptors are, by number."""
    links = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            links[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
        except OSError:
            pass  # closed meanwhile
    return links


def _targets(pid, epoll):
    with open(f"/proc/{pid}/fdinfo/{epoll}", encoding="ascii") as info:
        return [int(line.split()[1]) for line in info if line.startswith("tfd:")]
