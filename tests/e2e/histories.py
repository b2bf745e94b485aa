"""Random histories: reads and writes of several clients, each over several connections of several
workers, while the origin drops requests, dies and returns, and clients leave what they asked for.

    client --seq 1, 2, 3, ... over its connections--> sluice --> origin: a register for each client
      knows the order in which sluice received them                writes set it to their seq,
      (a barrier after each)                                       reads return it; logs who came

With `slow` clients send bodies in pieces, which others' requests pass, leave long responses unread for
a while, and have event streams open.

Judged are what each read saw, and the order of arrivals. SLUICE_E2E_SEED repeats a run's choices;
threads and timing still differ. SLUICE_E2E_OPERATIONS sets the length."""
import os
import threading
import time
from types import SimpleNamespace

from lib.client import request_bytes
from lib.origin import Origin
from lib.process import DEADLINE_SECONDS, SANITIZER
from lib.sluice import to
from lib.tap import equal, longer, main, test, true
from lib.workers import Barrier

CLIENTS = 4
CONNECTIONS = 8
OPERATIONS = int(os.environ.get("SLUICE_E2E_OPERATIONS") or longer(100 if SANITIZER else 250))

ROUTE = "host = api.test\nsession = header:X-Api-Key | ip\nordering = {}\nread_hold = 1h\n"


class Registers(Origin):
    """One register a client. When it dies, what it has not applied by then is lost, and what was on
    its way to it is not looked at any more, as with a process that is killed."""

    def __init__(self, random, troubled):
        self.random = random
        self.troubled = troubled
        self.oldest = 0     # the first connection of this life
        self.state = threading.Lock()
        self.value = {}     # client: seq of the last write
        self.applied = {}   # client: seqs of writes, in order
        self.arrivals = {}  # client: (seq, is write), in order
        self.deposits = set()   # (client, seq) of deposits done
        self.too_early = set()  # (client, seq) of deposits that a withdrawal did not find
        self.dropped = 0
        super().__init__(self._serve_register)

    def _serve_events(self, x, client, seq):
        with self.state:
            self.arrivals.setdefault(client, []).append((seq, False))
        x.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n:\n\n")
        x.stream.read_to_end()
        x.close()

    def _serve_register(self, x):
        client, seq = x.request.get("X-Api-Key"), int(x.request.get("X-Seq"))
        write = x.request.method not in ("GET", "HEAD")
        if x.request.target == "/events":
            self._serve_events(x, client, seq)
            return
        x.read_body()
        with self.state:
            if x.connection < self.oldest:
                x.close()
                return
            self.arrivals.setdefault(client, []).append((seq, write))
            pause, trouble = self.random.random() ** 4 * 0.01, self.random.random()
            before = self.random.random() < 0.5
        if pause > 0.001:
            time.sleep(pause)
        drops = self.troubled and trouble < 0.03
        with self.state:
            if x.connection < self.oldest or (drops and before):
                self.dropped += 1
                x.close()
                return
            if write:
                self.value[client] = seq
                self.applied.setdefault(client, []).append(seq)
                self._book(client, seq, x.request.get("X-Withdraw"))
            seen = self.value.get(client, 0)
            if drops:
                self.dropped += 1
        if drops:
            x.close()
        else:
            x.reply(200, (b"%d" % seen).ljust(int(x.request.get("X-Long") or 0)))

    def _book(self, client, seq, withdrawn):
        """Every other write is a deposit, the next one withdraws just that."""
        if not withdrawn:
            self.deposits.add((client, seq))
        elif (client, int(withdrawn)) not in self.deposits:
            self.too_early.add((client, int(withdrawn)))

    def die(self):
        with self.state:
            self.refuse()
            self.oldest = self.connections


class Asker:
    """One client with several connections. It knows in which order sluice received its requests."""

    def __init__(self, t, sluice, name, random, leaves, slow=False):
        self.slow = slow
        self.unsent = {}     # connection: the rest of a body
        self.streams = []
        self.t, self.sluice, self.name, self.random, self.leaves = t, sluice, name, random, leaves
        self.connections = []
        self.waiting = {}    # connection: what it has not been answered, in order
        self.reads = {}      # seq: what a read saw
        self.abandoned = set()
        self.deposited = None  # seq of a deposit that the next write withdraws
        self.statuses = {}
        self.error = None
        for _ in range(CONNECTIONS):
            self._connect()
        self.barrier = Barrier(t, sluice, self.connections)

    def _connect(self):
        client = self.t.client(self.sluice, receive_buffer=4096 if self.slow else None)
        equal(client.ask("/", host="nowhere.test").status, 404, "status of a first request")
        self.connections.append(client)
        self.waiting[client] = []
        return client

    def run(self):
        try:
            for seq in range(1, OPERATIONS + 1):
                self._operate(seq)
            for client in self.connections:
                while self.waiting[client]:
                    self._answer(client)
        except BaseException as error:
            self.error = error
            raise

    def _operate(self, seq):
        client = self.random.choice(self.connections)
        # No more than sluice reads without answering: a queued body is not read, nor what is behind.
        while len(self.waiting[client]) >= 6 or any(body for _, _, body in self.waiting[client]):
            self._answer(client)
        if self.slow and self.random.random() < 0.03:
            self._open_stream(seq)
            return
        method = self.random.choice(["GET"] * 6 + ["HEAD", "POST", "POST", "PUT"])
        body = b"x" * self.random.randrange(1, 2000) if method in ("POST", "PUT") \
            and self.random.random() < 0.5 else None
        fields = [("X-Api-Key", self.name), ("X-Seq", str(seq))]
        if method in ("POST", "PUT"):
            if self.deposited:
                fields.append(("X-Withdraw", str(self.deposited)))
            self.deposited = None if self.deposited else seq
        if self.slow and self.random.random() < 0.05:
            fields.append(("X-Long", "300000"))
        request = request_bytes("/", method, fields, body)
        cut = self.random.randrange(len(body)) if self.slow and body else 0
        client.send(request[:len(request) - cut])
        if cut:
            self.unsent[client] = request[-cut:]
        self.waiting[client].append((seq, method, body))
        self.barrier.passed_by(client)
        if self.random.random() < 0.3:
            self._send_rests()
        if self.leaves and self.random.random() < 0.04:
            self.unsent.pop(client, None)
            self.abandoned |= {waiting for waiting, _, _ in self.waiting.pop(client)}
            self.connections.remove(client)
            self.random.choice([client.reset, client.close])()
            self.barrier.watch(self._connect())

    def _send_rests(self):
        for client in list(self.unsent):
            client.send(self.unsent.pop(client))

    def _open_stream(self, seq):
        stream = self.t.client(self.sluice)
        stream.request("/events", fields=[("X-Api-Key", self.name), ("X-Seq", str(seq))])
        self.barrier.watch(stream)
        self.barrier.passed_by(stream)
        self.abandoned.add(seq)  # a read, which may be cut
        self.streams.append(stream)
        if len(self.streams) > 3:
            self.streams.pop(0).reset()

    def _answer(self, client):
        self._send_rests()
        seq, method, _ = self.waiting[client].pop(0)
        answer = client.response(method)
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        if answer.status == 200 and method == "GET":
            self.reads[seq] = int(answer.body)


def wrong_reads(asker, origin):
    """Reads that saw anything but the last write before them that the origin did."""
    applied, wrong = sorted(origin.applied.get(asker.name, [])), []
    for seq, seen in sorted(asker.reads.items()):
        before = [write for write in applied if write < seq]
        if seen != (before[-1] if before else 0):
            wrong.append(f"{asker.name}: read {seq} saw {seen}, not {before[-1] if before else 0}")
    return wrong


def wrong_arrivals(asker, origin, strict):
    """Those that came after one of a later number which they, or it, should have been a barrier to.
    A read that its client left is cut, and may be looked at late."""
    wrong, last, last_write = [], 0, 0
    for seq, write in origin.arrivals.get(asker.name, []):
        if seq in asker.abandoned and not write:
            continue
        if seq < (last if write or strict else last_write):
            wrong.append(f"{asker.name}: {'write' if write else 'read'} {seq} came after {last}")
        last = max(last, seq)
        if write:
            last_write = max(last_write, seq)
    return wrong


def history(t, ordering, troubled=True, upstream="", route="", slow=False):
    origin = Registers(t.random, troubled)
    t.defer(origin.end)
    sluice = t.sluice(to(origin, upstream="keepalive = 8\nretries = 1\n" + upstream,
                         route=ROUTE.format(ordering) + route))
    askers = [Asker(t, sluice, f"client {n}", t.random, troubled, slow) for n in range(CLIENTS)]
    threads = [threading.Thread(target=asker.run, daemon=True) for asker in askers]
    over = threading.Event()
    deaths = 0
    for thread in threads:
        thread.start()
    trouble = threading.Thread(target=lambda: [thread.join() for thread in threads] and over.set(),
                               daemon=True)
    trouble.start()
    while troubled and not over.wait(t.random.uniform(0.05, 0.4)):
        origin.die()
        deaths += 1
        time.sleep(t.random.uniform(0.0, 0.03))
        origin.reopen()
    true(over.wait(DEADLINE_SECONDS), "it came to an end")
    for asker in askers:
        true(asker.error is None, f"{asker.name}: {asker.error!r}")
        for stream in asker.streams:
            stream.reset()
    wrong_read = [line for asker in askers for line in wrong_reads(asker, origin)]
    wrong_order = [line for asker in askers for line in wrong_arrivals(asker, origin, ordering == "strict")]
    # A deposit that failed is no news; one that was done after its withdrawal had come is.
    wrong_order += [f"withdrawn before it was deposited: {which}"
                    for which in origin.too_early & origin.deposits]
    statuses = {}
    for asker in askers:
        for status, count in asker.statuses.items():
            statuses[status] = statuses.get(status, 0) + count
    workers = {worker for asker in askers for worker in asker.barrier.worker.values()}
    t.note(f"ordering = {ordering} {upstream}: {CLIENTS} clients, {sum(len(a.reads) for a in askers)} reads judged, "
           f"{sum(map(len, origin.applied.values()))} writes of which {len(origin.deposits)} deposits, {len(workers)} workers; the origin died "
           f"{deaths} times and dropped {origin.dropped}; abandoned {sum(len(a.abandoned) for a in askers)}; "
           f"answers {dict(sorted(statuses.items()))}; wrong: {len(wrong_read)} reads, {len(wrong_order)} arrivals")
    return wrong_read, wrong_order


@test("writes: each read sees the last write before it, whatever fails and leaves")
def writes(t):
    for troubled, upstream in ((False, ""), (True, ""), (True, "max_in_flight = 3")):
        wrong_read, wrong_order = history(t, "writes", troubled, upstream)
        equal(wrong_read, [], "reads")
        equal(wrong_order, [], "arrivals")


@test("writes: the same with bodies in pieces, responses left unread and event streams")
def slow_writes(t):
    for troubled, upstream, route in (
            (False, "", ""), (True, "max_in_flight = 3", ""),
            (True, "max_in_flight = 3", "request_buffering = off\nresponse_buffering = off")):
        wrong_read, wrong_order = history(t, "writes", troubled, upstream, route, slow=True)
        equal(wrong_read, [], "reads")
        equal(wrong_order, [], "arrivals")


@test("none: slow clients, too, are out of order then", workers=[4])
def slow_none(t):
    wrong_read, _ = history(t, "none", troubled=False, slow=True)
    true(wrong_read, "no wrong read was found")


@test("strict: as received by sluice, so at the origin, whatever fails and leaves")
def strict(t):
    for upstream in ("", "max_in_flight = 2"):
        wrong_read, wrong_order = history(t, "strict", upstream=upstream)
        equal(wrong_read, [], "reads")
        equal(wrong_order, [], "arrivals")


@test("none: the checker finds responses out of order")
def none(t):
    wrong_read, _ = history(t, "none", troubled=False)
    true(wrong_read, "no wrong read was found")


@test("the checker of arrivals tells right from wrong", workers=[1])
def checker(t):
    read, write = False, True
    for arrivals, strict, count in (
            ([(1, read), (2, write), (2, write), (3, read), (4, read)], True, 0),
            ([(1, read), (3, read), (2, read), (4, write)], False, 0),
            ([(1, read), (3, read), (2, read), (4, write)], True, 1),   # strict orders reads too
            ([(2, write), (1, read)], False, 1),                        # a read behind a later write
            ([(3, read), (2, write)], False, 1),                        # a write behind a later read
            ([(2, write), (1, write)], False, 1)):
        asker = SimpleNamespace(name="c", abandoned=set())
        origin = SimpleNamespace(arrivals={"c": arrivals})
        equal(len(wrong_arrivals(asker, origin, strict)), count, f"wrong ones in {arrivals}")


main()
