"""The store's list of nodes for store_down = strict (proxy/fleet/strict.lua) by itself, in a real Redis, by a
clock that the test sets: what it answers beside a plain oracle; and nodes that are cut off, come back, die and
leave, of which calls and answers are late or lost, while the store forgets. What the store may admit and the
shares that are in use are never more than the limit."""
from fractions import Fraction

from lib.redis import Redis, pack, unpack
from lib.store_clock import function_with_clock
from lib.tap import equal, main, test, true

LEASE, KEPT, WINDOW, PARTS = 1_000_000, 24_000_000, 1_500_000, 1 << 32


class Oracle:
    def __init__(self):
        self.since, self.nodes = None, {}

    def part(self, node):
        return Fraction(1, node["divisor"]) if node["divisor"] else Fraction(0)

    def sums(self, now):
        live = sum((self.part(n) for n in self.nodes.values() if n["live"] > now), Fraction(0))
        return live, sum((self.part(n) for n in self.nodes.values() if n["live"] <= now), Fraction(0))

    def give(self, now, own, wanted, held):
        own["divisor"] = 0
        left = 1 - sum(self.sums(now))
        given = 0
        if now < self.young or now < self.forgot:
            given = held if held and Fraction(1, held) <= left else 0
        elif left > Fraction(1, 1_000_000):
            given = max(wanted, len(self.nodes), -(-left.denominator // left.numerator))
        own["divisor"] = held if held and (given == 0 or held < given) else given
        return given

    def call(self, now, process, number, lease, keeps, wanted, held, echo, known):
        if self.since is None:
            self.since, self.forgot, self.young, self.nodes = now, 0, now + 2 * lease, {}
        self.nodes = {p: n for p, n in self.nodes.items() if n["ends"] > now}
        own = self.nodes.get(process, {"divisor": 0, "live": 0, "ends": 0, "number": 0})
        given = 0
        if number > own["number"] and lease == 0:
            self.nodes.pop(process, None)
        elif number > own["number"]:
            if known and known != self.since:
                self.forgot = max(self.forgot, now + keeps)
            elif echo:
                own["live"] = max(own["live"], echo + 2 * lease)
            own["ends"], own["number"] = now + keeps, number
            self.nodes[process] = own
            given = self.give(now, own, wanted, held)
        live, lost = self.sums(now)
        lost = 1 - live if now < self.forgot or now < self.young else lost
        parts = min(PARTS, max(0, -(-lost.numerator * PARTS // lost.denominator)))
        return now, self.since, given, parts, len(self.nodes), sum(n["live"] > now for n in self.nodes.values())


class Store:
    def __init__(self, t):
        self.redis = Redis(t).connect()
        self.redis.ask("FUNCTION", "LOAD", function_with_clock("strict", (r"'EX', string[^\n]*", "'EX', 100000)", 1)))
        self.oracle, self.now, self.calls = Oracle(), 1_800_000_000_000_000, 0

    def forget(self):
        self.redis.ask("DEL", "f{strict}")
        self.oracle = Oracle()

    def call(self, process, words):
        self.redis.ask("SET", "clock", self.now)
        self.calls += 1
        answer = tuple(unpack(self.redis.ask("FCALL", "sluice_strict_1", 1, "f{strict}", process, pack(words))))
        expected = self.oracle.call(self.now, process, *words)
        equal(answer[:3] + answer[4:], expected[:3] + expected[4:], f"{process} {words}")
        # Rounded up, so that no node is asked for less than its share; a sum of doubles may be a little more.
        true(0 <= answer[3] - expected[3] <= 1, f"{process} {words}: {answer} beside {expected}")
        return answer


class Node:
    """As strict_list.c has it, but for a tail of 0: so the rule is as tight as it can be."""

    def __init__(self, store, process):
        self.store, self.process, self.alive, self.is_cut = store, process, True, False
        self.number, self.since, self.echo, self.used_at = 0, 0, 0, None
        self.asked, self.answered, self.lost, self.divisor = None, None, PARTS, 0
        self.waiting = None  # [words, when it was asked, when it is executed, when it is answered, answer]

    def held(self):
        return self.divisor if self.asked is not None and self.store.now - self.asked < KEPT - KEPT // 16 else 0

    def words(self, lease=LEASE):
        self.number += 1
        return [self.number, lease, KEPT, 0, self.held(), 0 if self.owes() else self.echo, self.since]

    def owes(self):
        """Did it use its share within the last window, and the store does not know?"""
        return self.used_at is not None and self.store.now - self.used_at < WINDOW

    def asks(self):
        return self.asked is not None and self.store.now - self.asked < LEASE

    def uses(self):
        now = self.store.now
        return (self.alive and self.divisor > 0 and self.asked is not None and not self.asks()
                and now - self.answered > 3 * LEASE + 3 * LEASE // 16 + WINDOW
                and now - self.asked + WINDOW < KEPT - KEPT // 16)

    def adopt(self, asked, answer):
        self.asked, self.answered, self.divisor, self.lost = asked, self.store.now, answer[2], answer[3]
        if self.since != answer[1]:
            self.echo = 0
        self.since = answer[1]
        if not self.owes():
            self.echo = answer[0]


def check(nodes, asked):
    """`asked`: (when, part of the limit that some node may ask the store for), of the last window."""
    now = nodes[0].store.now
    asked.append((now, max((Fraction(PARTS - n.lost, PARTS) for n in nodes if n.alive and n.asks()), default=0)))
    while asked[0][0] <= now - WINDOW:
        asked.pop(0)
    shares = sum((Fraction(1, n.used_divisor) for n in nodes if n.owes()), Fraction(0))
    most = max(part for _, part in asked)
    true(not shares or shares + most <= 1 + Fraction(1, 1 << 20), f"{most} at the store beside {shares} in use")
    return shares


def live_on(t, store, nodes, late):
    """A while in which one thing happens, if any."""
    random = t.random
    store.now += random.choice([1000, 20_000, 100_000, 100_000])
    for call in [c for c in late if c[1] <= store.now]:  # of connections that have died
        late.remove(call)
        store.call(*call[0])
    for n in nodes:
        if n.uses():
            n.used_at, n.used_divisor = store.now, n.divisor
        if n.waiting and n.waiting[4] is None and n.waiting[2] <= store.now and not n.is_cut:
            if n.alive:
                n.used_at = None  # its debts were paid before, on the same connection
            n.waiting[4] = store.call(n.process, n.waiting[0])
        if n.waiting and n.waiting[4] and n.waiting[3] <= store.now and not n.is_cut:
            if n.alive:
                n.adopt(n.waiting[1], n.waiting[4])
            n.waiting = None
        if n.alive and not n.is_cut and not n.waiting and (n.asked is None or store.now - n.asked >= LEASE // 3):
            executed = store.now + random.randrange(50_000)
            n.waiting = [n.words(), store.now, executed, executed + random.randrange(50_000), None]


def cut(random, store, node, late):
    node.is_cut = True
    if node.waiting and node.waiting[4] is None and random.random() < 0.5:
        late.append(((node.process, node.waiting[0]), store.now + random.randrange(4 * LEASE)))
    node.waiting = None


@test("nodes that use all that they may: never more than the limit, and the same as a plain oracle says", workers=[1])
def nodes_use(t):
    random, store, most, times = t.random, Store(t), Fraction(0), 0
    for schedule in range(12):
        store.forget()
        store.now += 100 * KEPT
        nodes, late = [Node(store, f"{schedule}.{n}") for n in range(random.randrange(1, 5))], []
        asked = []
        for _ in range(700):
            live_on(t, store, nodes, late)
            shares = check(nodes, asked)
            most, times = max(most, shares), times + (shares > 0)
            node, luck = random.choice(nodes), random.random()
            if luck < 0.015 and not node.is_cut:
                cut(random, store, node, late)
            elif luck < 0.03:
                node.is_cut = False
            elif luck < 0.033 and len(nodes) < 8:
                nodes.append(Node(store, f"{schedule}.{len(nodes)}"))
            elif luck < 0.035:
                node.alive = False
            elif luck < 0.038 and node.alive and not node.is_cut and not node.owes() and not node.waiting:
                store.call(node.process, node.words(lease=0))
                node.alive = False
            elif luck < 0.04:
                known = [n for n in nodes if n.alive and not n.is_cut and n.since and not n.waiting and not n.owes()]
                if known:
                    store.forget()  # one that knew the list comes at once
                    known[0].adopt(store.now, store.call(known[0].process, known[0].words()))
            elif luck < 0.06:
                store.now += random.choice([LEASE // 2, LEASE, 3 * LEASE])
    true(times > 0, "no share was used")
    t.note(f"{store.calls} calls; shares in use {times} times, at most {float(most):.3f}")


@test("a share belongs to the node that holds it: a joiner has none until others hold less", workers=[1])
def joiners(t):
    store = Store(t)
    a, b = Node(store, "1"), Node(store, "2")

    def call(node, **more):
        words = node.words(**more)
        answer = store.call(node.process, words)
        node.adopt(store.now, answer)
        return answer
    equal(call(a)[2:], (0, PARTS, 1, 0), "of a new list nobody has a share, and others may")
    store.now += 2 * LEASE
    equal(call(a)[2:], (1, PARTS, 1, 0), "all of it, but it has been silent for too long to be live")
    equal(call(a)[2:], (1, 0, 1, 1), "until it has said that it heard that")
    equal(call(b)[2:], (0, 0, 2, 1), "what the first holds is not the second's")
    equal(call(a)[2:], (2, 0, 2, 1), "the first may hold half")
    equal(call(b)[2:], (0, 0, 2, 2), "which it has not said yet")
    equal(call(a)[2], 2, "it says so")
    equal(call(b)[2], 2, "the other half")
    store.now += LEASE
    call(a)
    store.now += LEASE
    equal(call(a)[3:], (PARTS // 2, 2, 1), "the second is lost: half is its own")
    store.now += KEPT
    call(a)
    equal(call(a)[3:5], (0, 1), "and after its time it is forgotten")
    equal(store.call("1", [a.number, LEASE, KEPT, 0, 1, 0, a.since])[2], 0, "a call that comes twice gives nothing")
    call(a, lease=0)
    equal(store.call("3", [1, LEASE, KEPT, 7, 0, 0, 0])[2], 7, "at least as many nodes as were said")


main()
