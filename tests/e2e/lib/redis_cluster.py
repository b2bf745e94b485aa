"""A Redis Cluster of the test's own, on free ports of loopback: primaries, and replicas of each."""
import binascii
import socket

from .process import Port, until
from .redis import Redis, long_ago

SLOTS, PARTS = 16384, 1024


class Node(Redis):
    def __init__(self, t, *options, tls=None):
        self.bus = Port(socket.AF_INET)
        super().__init__(t, "--cluster-enabled", "yes", "--cluster-port", str(self.bus.number),
                         "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
                         "--repl-ping-replica-period", "1", *options, tls=tls)
        self.connection = self.connect()
        self.id = self.ask("CLUSTER", "MYID").decode()

    def ask(self, *words):
        return self.connection.ask(*words)

    def info(self):
        lines = self.ask("CLUSTER", "INFO").decode().split()
        return dict(line.split(":") for line in lines)

    def meet(self, other):
        number = other.tls.number if other.tls else other.number
        self.ask("CLUSTER", "MEET", "127.0.0.1", number, other.bus.number)

    def errors(self, kind):
        """How often it has answered with this error."""
        lines = dict(line.split(b":") for line in self.ask("INFO", "ERRORSTATS").split() if b":" in line)
        return int(lines.get(b"errorstat_" + kind.encode(), b"count=0").split(b"=")[1])

    def role(self):
        return self.ask("ROLE")[0].decode()


class RedisCluster:
    """`timeout_ms`: after so long without an answer a node is taken to have failed."""

    def __init__(self, t, primaries=3, timeout_ms=5000, tls=None):
        self.t = t
        self.options = ("--cluster-node-timeout", str(timeout_ms))
        self.primaries = [Node(t, *self.options, tls=tls) for _ in range(primaries)]
        for i, node in enumerate(self.primaries):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            node.ask("CLUSTER", "ADDSLOTSRANGE", i * SLOTS // primaries, (i + 1) * SLOTS // primaries - 1)
        self.all = list(self.primaries)
        for node in self.all[1:]:
            self.all[0].meet(node)
        self._agree()
        self._remember()

    def _remember(self):
        """As fleets find it that have used it for long (redis.py)."""
        tags = [("split", "sluice{split}:since"), *((f"{n:03x}", f"sluice{{{n:03x}}}epoch:1") for n in range(PARTS))]
        for tag, key in tags:
            slot = binascii.crc_hqx(tag.encode(), 0) % SLOTS
            last = [(i + 1) * SLOTS // len(self.primaries) for i in range(len(self.primaries))]
            next(node for node, end in zip(self.primaries, last) if slot < end).ask("SET", key, long_ago())

    def add_replica(self, primary):
        replica = Node(self.t, *self.options)
        self.all.append(replica)
        self.all[0].meet(replica)
        until(lambda: int(replica.info()["cluster_known_nodes"]) == len(self.all), "the nodes know each other")
        replica.ask("CLUSTER", "REPLICATE", primary.id)
        until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"), "the replica has caught up")
        self._agree()
        return replica

    def _agree(self):
        """All know all, and where each slot is."""
        for node in self.all:
            until(lambda: (node.info()["cluster_state"], int(node.info()["cluster_known_nodes"]))
                  == ("ok", len(self.all)), "the nodes know each other")
        until(lambda: len({str(self._slots(node)) for node in self.all}) == 1, "they agree on the slots")

    @staticmethod
    def _slots(node):
        return sorted((r[0], r[1], r[2][1], len(r)) for r in node.ask("CLUSTER", "SLOTS"))

    @property
    def url(self):
        return self.url_of(self.primaries)

    @staticmethod
    def url_of(nodes):
        return ", ".join(node.url for node in nodes)

    def keys(self, pattern):
        """(primary, key) of all keys like this."""
        return [(node, key) for node in self.primaries for key in node.ask("KEYS", pattern)]

    def begin_move(self, slot, source, target):
        """The keys stay; a key that the source lacks is asked of the target (ASK)."""
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)

    def move_keys(self, slot, source, target, count=1000):
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, count)
        if keys:
            source.ask("MIGRATE", "127.0.0.1", target.number, "", 0, 10000, "KEYS", *keys)
        return len(keys)

    def end_move(self, slot, source, target):
        for node in (target, source):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
