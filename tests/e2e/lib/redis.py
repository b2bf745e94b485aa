"""A Redis of the test's own (or Valkey, where that is installed), on a free port of loopback and in memory only; and its
protocol, as far as tests need it."""
import os
import shutil
import signal
import socket
import struct
import threading
import time

from .process import DEADLINE_SECONDS, Port, Process, until
from .tap import Skip


# Either will do; SLUICE_E2E_STORE names one.
SERVER = shutil.which(os.environ.get("SLUICE_E2E_STORE") or "redis-server") or shutil.which("valkey-server")


class Refused(Exception):
    """What Redis answered with an error."""


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS)
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        data = b"*%d\r\n" % len(words)
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            data += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(data)
        return self._read()

    def _read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Refused(rest.decode())
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._read() for _ in range(int(rest))]
        raise ConnectionError(f"Redis said {line!r}")

    def close(self):
        self.file.close()
        self.socket.close()


def long_ago():
    """What a store has that fleets have used for an hour: since when it remembers, by its time in microseconds."""
    return str(int(time.time() - 3600) * 1_000_000)


def tls_options(t, port, authority):
    t.defer(port.release)
    if not os.path.exists(authority.path("redis.pem")):
        authority.issue("redis", ["IP:127.0.0.1", "store.test"])
    return ("--tls-port", str(port.number), "--tls-cert-file", authority.path("redis.pem"), "--tls-key-file",
            authority.path("redis.key"), "--tls-ca-cert-file", authority.certificate, "--tls-replication", "yes",
            "--tls-cluster", "yes")


class Redis:
    """`options`: further words of its command line. As fleets find it that have used it for long; `young`: as the
    first node of a new fleet does, and after a FLUSHALL. `tls`: an Authority, whose certificate for 127.0.0.1 it has on
    a port of its own, at which replication and clusters are, too; the test itself asks without TLS."""

    def __init__(self, t, *options, young=False, tls=None):
        if not SERVER:
            raise Skip("neither redis-server nor valkey-server is installed")
        self.t = t
        self.tls = Port(socket.AF_INET) if tls else None
        self.options = (*options, *tls_options(t, self.tls, tls)) if tls else options
        self.port = Port(socket.AF_INET)
        self.process = None
        t.defer(self.kill)
        self.start()
        if not young and not {"--cluster-enabled", "--replicaof"} & set(options):
            self._remember()

    def _remember(self):
        """As fleets find it that have used it for long."""
        connection = self.connect()
        if "--requirepass" in self.options:
            connection.ask("AUTH", self.options[self.options.index("--requirepass") + 1])
        elif "--user" in self.options:
            name = self.options.index("--user") + 1
            word, = (w for w in self.options[name:] if w.startswith(">"))
            connection.ask("AUTH", self.options[name], word[1:])
        lacks_replicas = "--min-replicas-to-write" in self.options
        if lacks_replicas:  # so far
            connection.ask("CONFIG", "SET", "min-replicas-to-write", 0)
        for key in ("sluice{epoch}:1", "sluice{split}:since"):
            connection.ask("SET", key, long_ago())
        if lacks_replicas:
            connection.ask("CONFIG", "SET", "min-replicas-to-write",
                           self.options[self.options.index("--min-replicas-to-write") + 1])

    @property
    def number(self):
        return self.port.number

    @property
    def url(self):
        return f"rediss://127.0.0.1:{self.tls.number}" if self.tls else f"redis://127.0.0.1:{self.number}"

    def start(self):
        """Also again, after `kill`, on the same port: with an empty memory."""
        folder = os.path.join(self.t.folder, f"redis-{self.number}")
        shutil.rmtree(folder, ignore_errors=True)  # a replica has left what it was sent
        os.mkdir(folder)
        self.process = Process([SERVER, "--port", str(self.number), "--bind", "127.0.0.1",
                                "--save", "", "--appendonly", "no", "--dir", folder,
                                *self.options], "redis")
        self.process.wait_output("Ready to accept connections")

    def connect(self):
        made = Connection(self.number)
        self.t.defer(made.close)
        return made

    def callers(self):
        """How many connections have called a function with their last command."""
        connection = Connection(self.number)
        rows = connection.ask("CLIENT", "LIST").split(b"\n")
        connection.close()
        return sum(b" cmd=fcall " in row for row in rows)

    def log_calls(self):
        """Keeps all commands from now on, for calls_about_callers."""
        for name, value in (("slowlog-max-len", 100_000), ("slowlog-log-slower-than", 0)):
            self.connect().ask("CONFIG", "SET", name, value)

    def calls_about_callers(self, function):
        """How many calls of a function that decides have had callers; renewals of a node, which depend on time, have none.
        Behind the name, a call has the number of its keys, of which the first is the epoch's."""
        rows = [row[3] for row in self.connect().ask("SLOWLOG", "GET", -1)]
        return sum(row[:2] == [b"FCALL", function.encode()] and int(row[2]) > 1 for row in rows)

    def kill(self):
        self.process.signal(signal.SIGCONT)
        self.process.kill()

    def stop(self):
        self.process.stop()

    def go_on(self):
        self.process.signal(signal.SIGCONT)


class Pulse:
    """How long a store takes to answer at the worst, from now until `end`."""

    def __init__(self, t, redis):
        self.redis, self.worst, self.over, self.thread = redis, 0, threading.Event(), None
        t.defer(self.end)
        self.begin()

    def begin(self):
        self.over.clear()
        self.thread = threading.Thread(target=self._watch, args=(Connection(self.redis.number),), daemon=True)
        self.thread.start()

    def _watch(self, connection):
        while not self.over.wait(0.02):
            asked = time.monotonic()
            connection.ask("PING")
            self.worst = max(self.worst, time.monotonic() - asked)
        connection.close()

    def end(self):
        self.over.set()
        self.thread.join()


def pack(numbers):
    """MessagePack of an array of integers."""
    out = b"\xdd" + struct.pack(">I", len(numbers))
    for n in numbers:
        out += bytes([n]) if n < 128 else b"\xcf" + struct.pack(">Q", n)
    return out


FORMS = {0xcc: ">B", 0xcd: ">H", 0xce: ">I", 0xcf: ">Q", 0xd0: ">b", 0xd1: ">h", 0xd2: ">i", 0xd3: ">q",
         0xcb: ">d"}


def unpack(data):
    """The array of integers that it is."""
    first = data[0]
    if first == 0xdc:
        count, at = struct.unpack_from(">H", data, 1)[0], 3
    elif first == 0xdd:
        count, at = struct.unpack_from(">I", data, 1)[0], 5
    else:
        count, at = first & 0x0f, 1
    numbers = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind < 0x80 or kind >= 0xe0:
            numbers.append(kind if kind < 0x80 else kind - 256)
            continue
        numbers.append(int(struct.unpack_from(FORMS[kind], data, at)[0]))
        at += struct.calcsize(FORMS[kind])
    assert at == len(data)
    return numbers


class Sentinels:
    """A primary with replicas, and Sentinels that watch it under `name`."""

    def __init__(self, t, replicas=2, count=3, name="it", *options, announce="127.0.0.1", tls=None):
        self.t, self.name, self.tls = t, name, tls
        self.options = ("--min-replicas-max-lag", "2", *options)
        self.primary = Redis(t, *self.options, tls=tls)
        self.number = self.primary.tls.number if tls else self.primary.number
        self.replicas = [Redis(t, "--replicaof", "127.0.0.1", str(self.number), *self.options, tls=tls)
                         for _ in range(replicas)]
        self.tls_ports = []
        for replica in self.replicas:
            until(lambda: b"master_link_status:up" in replica.connect().ask("INFO", "replication"),
                  "the replica has caught up")
        self.sentinels = [self._sentinel(announce) for _ in range(count)]
        for sentinel in self.sentinels:
            until(lambda: self._knows(sentinel, count - 1, replicas), "the Sentinels know each other")

    def _sentinel(self, host):
        port = Port(socket.AF_INET)
        path = self.t.path(f"sentinel-{port.number}")
        with open(path, "w", encoding="ascii") as ini:
            ini.write(f"port {port.number}\nbind 127.0.0.1\nsentinel resolve-hostnames yes\n"
                      f"sentinel monitor {self.name} {host} {self.number} 2\n"
                      f"sentinel down-after-milliseconds {self.name} 4000\n"
                      f"sentinel failover-timeout {self.name} 10000\n")
            if self.tls:
                secret = Port(socket.AF_INET)
                options = tls_options(self.t, secret, self.tls)
                ini.write("".join(f"{name[2:]} {value}\n" for name, value in zip(options[::2], options[1::2])
                                  if name != "--tls-cluster"))
                self.tls_ports.append(secret.number)
        process = Process([SERVER, path, "--sentinel"], "sentinel")
        self.t.defer(process.kill)
        process.wait_output("+monitor")
        return port.number, process

    def _knows(self, sentinel, others, replicas):
        connection = Connection(sentinel[0])
        answer = connection.ask("SENTINEL", "MASTER", self.name)
        connection.close()
        facts = dict(zip(answer[::2], answer[1::2]))
        return int(facts[b"num-other-sentinels"]) == others and int(facts[b"num-slaves"]) == replicas

    @property
    def url(self):
        if self.tls:
            return ", ".join(f"rediss://127.0.0.1:{number}" for number in self.tls_ports)
        return ", ".join(f"redis://127.0.0.1:{number}" for number, _ in self.sentinels)

    def named(self, sentinel=0):
        """The port of the primary, as a Sentinel says."""
        connection = Connection(self.sentinels[sentinel][0])
        answer = connection.ask("SENTINEL", "get-master-addr-by-name", self.name)
        connection.close()
        return int(answer[1])
