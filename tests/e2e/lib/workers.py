"""Which worker of sluice a connection belongs to, and when that worker has read what was sent.

Each worker waits on an epoll instance of its own. /proc tells which sockets an instance watches
(/proc/PID/fdinfo), and which socket is a connection's other end (/proc/net/tcp, by ports): so two
connections are of one worker when one instance watches both.

A worker that has answered a request on one connection has, by then, also read what had arrived
before on its other connections, at the latest when it answers a second one: between the two it has
been round its loop, and a loop handles every connection that is ready. On loopback, sent bytes have
arrived when send() returns. So two round trips on a probe connection of the same worker, asking
what sluice answers itself, are a barrier: what was sent before has been read, parsed and entered.
"""
import os


class Barrier:
    def __init__(self, t, sluice, clients):
        self.sluice = sluice
        self.probes = {}
        self.worker = {client: self._worker_of(client) for client in clients}
        wanted = set(self.worker.values())
        for _ in range(1000):
            if wanted <= set(self.probes):
                break
            probe = t.client(sluice)
            self._ask(probe)
            self.probes.setdefault(self._worker_of(probe), probe)
        assert wanted <= set(self.probes), f"no probes for all of {wanted}"

    def passed_by(self, client):
        """Returns when sluice has taken in what this client has sent so far."""
        probe = self.probes[self.worker[client]]
        self._ask(probe)
        self._ask(probe)

    @staticmethod
    def _ask(probe):
        answer = probe.ask("/", host="nowhere.test")
        assert answer.status == 404, f"the probe got {answer}"

    def _worker_of(self, client):
        pid = self.sluice.pid
        inode = _server_inode(self.sluice.port.number, client.local_port())
        watched, instances = None, {}
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                link = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue  # closed meanwhile
            if link == f"socket:[{inode}]":
                watched = int(name)
            elif "eventpoll" in link:
                instances[int(name)] = _targets(pid, name)
        owners = [epoll for epoll, targets in instances.items() if watched in targets]
        assert len(owners) == 1, f"descriptor {watched} is watched by {owners} of {instances}"
        return owners[0]


def _server_inode(server_port, client_port):
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table:
            fields = line.split()
            if (fields[1].endswith(f":{server_port:04X}") and fields[2].endswith(f":{client_port:04X}")):
                return int(fields[9])
    raise AssertionError(f"no connection from port {client_port} to {server_port}")


def _targets(pid, epoll):
    with open(f"/proc/{pid}/fdinfo/{epoll}", encoding="ascii") as info:
        return [int(line.split()[1]) for line in info if line.startswith("tfd:")]
