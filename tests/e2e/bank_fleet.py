"""The bank of etc/examples/websockets behind three nodes, of which one at a time owns an account's session: each order
arrives at a node at random, while owners are killed, stand still and return, and the store stands still.

A schedule is drawn from the seed that is printed: how the nodes are set up, what each account orders, one by one or
several in one write, how long it waits before it goes on at another node while the first answers are still to come, and
what happens to the nodes and when. An oracle says how each account must end:

  answered 200            done, once, and the answer is what the orders before it lead to
  answered 409 or 503     not done
  502, or cut off         nobody knows: done once, or not

Orders of one write are done in their order, and behind all that was answered before the write. One that was cut off may
still be on its way to the owner: it is done before later ones, or under the same ownership.

The bank refuses an order whose Sluice-Fence is smaller than one that it has seen. Only a process that stops between its
look at the lease and the network can send one: so there is at most one for each worker that stood still or died. Where
the machine itself held up threads for long, this is not judged.

BANK_SCHEDULES=200 lives so many (make bank-fleet), BANK_LEASE is in seconds.
"""
import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time

from lib.client import Client, request_bytes
from lib.owners import Fleet
from lib.process import Lateness, Port, until
from lib.tap import IS_LONG, SEED, equal, main, test, true
from lib.wire import Ended

SCHEDULES = int(os.environ.get("BANK_SCHEDULES") or (3 if IS_LONG else 1))
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../etc/examples/websockets/bank.py")
ACCOUNTS, ORDERS, FIRST_BALANCE = 10, 30, 100
LEASE = float(os.environ.get("BANK_LEASE", "1"))
STALE = b"the session has another owner\n"
CUT = "cut off"


class Bank:
    """The example's program."""

    def __init__(self, t, number, delay="0"):
        self.port, self.journal, self.delay = Port(), t.path(f"journal{number}"), delay
        t.defer(self.port.release)
        t.defer(self.end)
        self.start()

    def start(self):
        self.child = subprocess.Popen(
            [sys.executable, EXAMPLE, "--port", str(self.port.number), "--journal", self.journal, "--delay", self.delay],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        true(b"open" in self.child.stdout.readline(), "the bank is open")

    def end(self):
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()

    def entries(self):
        """{account: [(number of the order, what was done, balance, fence)]}"""
        found = collections.defaultdict(list)
        with open(self.journal, encoding="utf-8") as lines:
            for line in lines:
                name, order, amount, balance, ref, fence = line.split()
                found[name].append((int(ref), f"{order} {amount}", int(balance), int(fence)))
        return found


class Order:
    def __init__(self, rng):
        self.kind, self.amount = rng.choice(("deposit", "withdraw")), rng.randrange(1, 120)
        self.write = self.sent = None  # in which write, and when
        self.answer, self.answered = (CUT, b""), float("inf")


class Account:
    """One client: what it orders, and what it was answered: (status, text)."""

    def __init__(self, name, rng):
        self.name, self.rng = name, rng
        self.orders = [Order(rng) for _ in range(ORDERS)]
        self.patience = rng.choice((0.3, 1.2, 1.7, None))  # in leases
        self.waiting, self.fault = [], None

    def text(self, n):
        return f"{self.orders[n].kind} {self.orders[n].amount} ref={n}".encode()

    def bytes(self, body):
        return request_bytes(f"/account?name={self.name}", "POST", body=body)

    def run(self, fleet, began):
        n = 0
        while n < ORDERS:
            count = min(self.rng.choice((1, 1, 1, 2, 3, 5)), ORDERS - n)
            self.write(self.connect(fleet), range(n, n + count))
            n += count
            began(count)
            if self.rng.random() < 0.15:
                time.sleep(self.rng.random() / 2)  # idle for a while, so that its session may move

    def connect(self, fleet):
        """To one of those nodes that live."""
        def connected():
            try:
                return Client(self.rng.choice(fleet.nodes).address)
            except OSError:
                return None
        return until(connected, f"{self.name}: a node that lives", pause=0.05)

    def write(self, client, numbers):
        """Waits for the answers as long as it has patience."""
        thread = threading.Thread(target=self.place, args=(client, numbers))
        thread.start()
        thread.join(self.patience and self.patience * LEASE)
        self.waiting.append(thread)

    def place(self, client, numbers):
        now = time.monotonic()
        for n in numbers:
            self.orders[n].write, self.orders[n].sent = numbers[0], now
        try:
            with contextlib.suppress(Ended, OSError), contextlib.closing(client):
                client.send(b"".join(self.bytes(self.text(n)) for n in numbers))
                for n in numbers:
                    answer = client.response()
                    self.orders[n].answer = (answer.status, answer.body)
                    self.orders[n].answered = time.monotonic()
        except AssertionError as fault:
            self.fault = fault
        now = time.monotonic()
        for n in numbers:
            self.orders[n].answered = min(self.orders[n].answered, now)

    def finish(self):
        for thread in self.waiting:
            thread.join()
        if self.fault:
            raise self.fault

    def ask_balance(self, fleet):
        """At any node, until one says it."""
        def balance():
            try:
                client = Client(self.rng.choice(fleet.nodes).address)
                with contextlib.closing(client):
                    client.send(self.bytes(b"balance"))
                    answer = client.response()
            except (Ended, OSError):
                return None
            return answer.body if answer.status == 200 else None
        return until(balance, f"{self.name}: its balance", pause=0.1)


# ---- what happens meanwhile -------------------------------------------------------------------------------------------

class Fate:
    """What happens to nodes and store, by how many orders were answered. All of it on one thread, which starts nodes
    again: a child dies with the thread that has made it."""

    def __init__(self, fleet, rng):
        self.fleet, self.rng, self.orders = fleet, rng, 0
        self.changed, self.due, self.stood_still = threading.Condition(), [], 0
        nodes = rng.sample(range(3), 3)
        kinds = [(self.kill, nodes[0]), (self.pause, nodes[1])]
        kinds += [rng.choice([(self.pause, nodes[0]), (self.pause, nodes[2]), (self.stop_store, None), (self.kill, nodes[1])])
                  for _ in range(rng.randrange(3))]
        total = ACCOUNTS * ORDERS
        self.events = sorted((rng.randrange(total // 20, total * 3 // 4), number) for number in range(len(kinds)))
        self.kinds = kinds

    def began(self, count):
        with self.changed:
            self.orders += count
            self.changed.notify()

    def later(self, seconds, action, *arguments):
        self.due.append((time.monotonic() + seconds, action, arguments))

    def next(self):
        """(action, arguments) whose time has come, or None and how long until then."""
        if self.events and self.events[0][0] <= self.orders:
            action, node = self.kinds[self.events.pop(0)[1]]
            return action, (node,)
        for entry in self.due:
            if entry[0] <= time.monotonic():
                self.due.remove(entry)
                return entry[1:]
        return None

    def run(self, threads):
        """Until the threads have ended, and all is done."""
        while self.events or self.due or any(thread.is_alive() for thread in threads):
            with self.changed:
                step = self.next()
                if not step:
                    self.changed.wait(0.02)
            if step:
                step[0](*step[1])

    def kill(self, i):
        """It is started again some time later."""
        node = self.fleet.nodes[i]
        if node.ended:
            return
        self.stood_still += node.workers
        node.ended = True
        node.process.kill()
        self.later(self.rng.uniform(0, 3 * LEASE), self.start, node)

    def start(self, node):
        node.start()
        node.ended = False

    def pause(self, i):
        """It returns: before its lease is over, or behind it."""
        node = self.fleet.nodes[i]
        if node.ended:
            return
        self.stood_still += node.workers
        process = node.process
        process.signal(signal.SIGSTOP)
        self.later(self.rng.uniform(0.2, 2.5) * LEASE, process.signal, signal.SIGCONT)

    def stop_store(self, _):
        self.fleet.redis.process.signal(signal.SIGSTOP)
        self.later(self.rng.uniform(0.2, 2.5) * LEASE, self.fleet.redis.go_on)


# ---- the oracle -------------------------------------------------------------------------------------------------------

def is_late(earlier, fence, later, other):
    """May this order not be done behind the other one, which was made later?"""
    if earlier.write == later.write:
        return True
    return earlier.answered < later.sent and (earlier.answer[0] != CUT or fence != other)


def check(account, entries):
    """What the bank did for the account, held against what it was told; returns its last balance."""
    refs = [ref for ref, *_ in entries]
    equal(len(refs), len(set(refs)), f"{account.name}: each order at most once, of {refs}")
    fences = [fence for *_, fence in entries]
    equal(fences, sorted(fences), f"{account.name}: fences")
    for at, n in enumerate(refs):
        for before in range(at):
            true(refs[before] < n or not is_late(account.orders[n], fences[at], account.orders[refs[before]], fences[before]),
                 f"{account.name}: order {n} behind {refs[before]}, in {refs} with {fences}")
    balance, done = FIRST_BALANCE, {}
    for n in refs:
        order = account.orders[n]
        after = balance + (order.amount if order.kind == "deposit" else -order.amount)
        done[n] = f"{order.kind} {order.amount}: {after if after >= 0 else 'refused'}\n".encode()
        balance = after if after >= 0 else balance
    equal([entry[2] for entry in entries[-1:]] or [FIRST_BALANCE], [balance], f"{account.name}: the last balance")
    for n, order in enumerate(account.orders):
        status, text = order.answer
        what = f"{account.name}: order {n}, answered {status} {text}"
        if status == 200:
            equal(text, done.get(n), what)
        elif status in (409, 503):
            true(n not in done, f"{what}, and it was done")
        else:
            true(status in (502, CUT), what)
    return balance


def live(t, number):
    rng = random.Random(f"{SEED} {number}")
    bank = Bank(t, number, rng.choice(("0.005", "0.1")))
    route = (f"session = query:name\nordering = {rng.choice(('strict', 'writes'))}\nqueue_timeout = 30s\n"
             f"owner_idle = {rng.choice((100, 300, 1000))}ms\n"
             f"session_elsewhere = {rng.choice(('forward', 'forward', 'forward', 'refuse'))}\n")
    fleet = Fleet(t, lease=f"{LEASE:g}s", workers=rng.choice((1, 2)), origin=f"127.0.0.1:{bank.port.number}", route=route,
                  settings="shutdown_timeout = 30s\n")
    accounts = [Account(f"a{i}", random.Random(rng.random())) for i in range(ACCOUNTS)]
    fate = Fate(fleet, rng)
    threads = [threading.Thread(target=account.run, args=(fleet, fate.began)) for account in accounts]
    with Lateness() as lateness:
        for thread in threads:
            thread.start()
        fate.run(threads)
        for account in accounts:
            account.finish()
    last = {account.name: account.ask_balance(fleet) for account in accounts}
    entries = bank.entries()
    for account in accounts:
        balance = check(account, entries[account.name])
        equal(last[account.name], b"balance: %d\n" % balance, f"{account.name}: its balance")
    answers = [order.answer for account in accounts for order in account.orders]
    counts = collections.Counter(status for status, _ in answers)
    stale = sum(text == STALE for _, text in answers)
    moves = sum(len({fence for *_, fence in of}) - 1 for of in entries.values())
    t.note(f"schedule {number}: {route.splitlines()[1:]}: answers {dict(counts)}, {moves} moves, {stale} stale, "
           f"threads at most {lateness.worst:.2f} s late")
    true(stale <= fate.stood_still or lateness.worst > LEASE / 4, f"{stale} orders of owners that were none any more")
    return moves


@test("the bank refuses an order with a smaller fence than the largest of its account, also after a restart", workers=[1])
def stale(t):
    bank = Bank(t, 0)

    def order(fence, name="ann"):
        client = t.client(f"127.0.0.1:{bank.port.number}")
        fields = [("Sluice-Fence", str(fence))] if fence else []
        return client.ask(f"/account?name={name}", "POST", fields, b"deposit 1").status
    equal([order(fence) for fence in (5, 5, 4, 7, 6)], [200, 200, 409, 200, 409], "its own fences")
    equal((order(1, "bob"), order(None)), (200, 200), "another account, and no fence")
    bank.end()
    bank.start()
    equal((order(6), order(7)), (409, 200), "it remembers")


def register(number):
    @test(f"ten accounts at three nodes, schedule {number}: all answers are true, and nothing is done twice or out of order",
          workers=[1])
    def schedule(t):
        live(t, number)


for made in range(SCHEDULES):
    register(made)


@test("sessions have one owner after another in such schedules", workers=[1])
def moves(t):
    true(any(live(t, number) for number in range(SCHEDULES, SCHEDULES + 5)), "no session of five schedules moved")


main()
