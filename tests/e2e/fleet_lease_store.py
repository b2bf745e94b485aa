"""The store's function for leases (proxy/fleet/lease.lua) by itself, in a real Redis: random operations
beside a plain oracle, by a clock that the test sets, also backwards; and nodes that use their leases
as they may, of which no window holds too much."""
from lib.redis import Redis, pack, unpack
from lib.store_clock import function_with_clock
from lib.store_oracle import quantum_of
from lib.tap import equal, main, test, true

ASK, GIVE, CHARGE = 1, 2, 3
SHADOW, WAITS, WAITS_YOUNG = 1, 2, 64
SILENCE = 400_000  # of nodes


class Rule:
    def __init__(self, quota, window, slots, shadow=False, waits=0):
        self.quota, self.window, self.shadow, self.waits = quota, window, shadow, waits
        self.quantum = quantum_of(quota, window, slots)

    def words(self):
        return [SHADOW * self.shadow + self.waits, self.quota, self.window, self.quantum]


class Oracle:
    """What is used and on lease of one caller, by slot: [used, leased]. What counts no more when it is
    changed is forgotten: a clock that goes back does not bring it back."""

    def __init__(self, rule):
        self.rule, self.slots, self.kept, self.changed = rule, {}, {}, False

    def begin(self, now):
        self.slots = {s: list(c) for s, c in self.kept.items() if self.ends(s, now) > 0 and sum(c) > 0}
        self.changed = False

    def end(self):
        if self.changed:
            self.kept = self.slots

    def ends(self, slot, now):
        return (slot + 1) * self.rule.quantum + self.rule.window - now

    def total(self):
        return sum(sum(c) for c in self.slots.values())

    def add(self, slot, used, leased):
        count = self.slots.setdefault(slot, [0, 0])
        self.changed = True
        count[0] += used
        count[1] += leased

    def settle(self, now, slot, units, used, keep):
        if slot not in self.slots or self.slots[slot][1] < units:
            return 0
        self.add(slot, 0, -units)
        self.add(min(slot, now // self.rule.quantum), used, 0)
        return keep

    def give(self, cost):
        for slot in sorted(self.slots):
            self.changed = True
            taken = min(cost, self.slots[slot][0])
            self.slots[slot][0] -= taken
            cost -= taken
            if cost == 0 or self.slots[slot][1] > 0:
                return

    def free_in(self, now, missing, whole=False):
        first = None
        for slot in sorted(self.slots):
            missing -= sum(self.slots[slot])
            ends = (slot + 1) * self.rule.quantum - now
            if self.slots[slot][1] > 0 and ends > 0 and first is None and not whole:
                first = ends
            if missing <= 0:
                return min(ends + self.rule.window, first if first is not None else 1 << 62)
        return first or 0

    def time(self, now, cost, missing):
        total, quota = self.total(), self.rule.quota
        if missing > 0:
            return -1 if cost > quota else self.free_in(now, missing)
        if total == 0:
            return 0
        return self.free_in(now, total - quota + 1) if total >= quota else self.free_in(now, total, True)


class Pair:
    def __init__(self, t, rules):
        self.redis = Redis(t).connect()
        self.redis.ask("FUNCTION", "LOAD", function_with_clock("lease", (r"'EX',\s*format[^\n]*", "'EX', 100000)", 1)))
        self.now, self.epoch, self.rules, self.known = 1_800_000_000_000_000, 0, rules, 0
        self.oracles = {caller: Oracle(rule) for caller, rule in rules.items()}
        self.call([])  # its epoch: until it is known, nothing is given back

    def call(self, operations):
        """Operations of (ASK, [(caller, cost, slot, units, used, keep, want, term), ...]) or
        (GIVE, caller, cost, age) or (CHARGE, caller, cost)."""
        keys, rules, words = ["f{epoch}"], [], []

        def number(items, item):
            if item not in items:
                items.append(item)
            return items.index(item) + 1
        for kind, *rest in operations:
            words.append(kind)
            if kind == ASK:
                words.append(len(rest[0]))
                for caller, *fields in rest[0]:
                    words += [number(keys, caller), number(rules, self.rules[caller]), *fields, self.epoch]
            else:
                words += [number(keys, rest[0]), number(rules, self.rules[rest[0]]), rest[1]]
                words += [self.epoch, self.now - rest[2]] if kind == GIVE else []
        request = [0, SILENCE, len(rules)] + [w for rule in rules for w in rule.words()] + words
        self.redis.ask("SET", "clock", self.now)
        answer = unpack(self.redis.ask("FCALL", "sluice_lease_1", len(keys), *keys, pack(request), self.known))
        equal(answer[0], self.now, "the time")
        self.epoch = self.known = answer[1]
        return answer[2:]

    def expect(self, operations):
        answer, now = [], self.now
        for oracle in self.oracles.values():
            oracle.begin(now)
        for kind, *rest in operations:
            if kind == GIVE:
                if 0 <= rest[2] < self.rules[rest[0]].window:
                    self.oracles[rest[0]].give(rest[1])
            elif kind == CHARGE:
                self.oracles[rest[0]].add(now // self.rules[rest[0]].quantum, rest[1], 0)
            else:
                answer += self.expect_ask(rest[0])
        for oracle in self.oracles.values():
            oracle.end()
        return answer

    def expect_ask(self, charges):
        now, kept, answer, admitted = self.now, {}, [], 1
        for caller, _, slot, units, used, keep, _, _ in charges:
            kept[caller] = self.oracles[caller].settle(now, slot, units, used, keep) if slot else 0
        for caller, cost, *_ in charges:
            oracle = self.oracles[caller]
            if cost and oracle.total() + kept[caller] + cost > oracle.rule.quota and not oracle.rule.shadow:
                admitted = 0
        for caller, cost, _, _, _, _, want, term in charges:
            oracle, keep = self.oracles[caller], kept[caller]
            missing = oracle.total() + keep + max(cost, 1) - oracle.rule.quota
            if admitted and missing <= 0 and cost:
                oracle.add(now // oracle.rule.quantum, cost, 0)
            free = oracle.rule.quota - oracle.total() - keep
            got = max(0, min(want if missing <= 0 else 0, -(-free // 2)))
            slot = (now + term) // oracle.rule.quantum if keep + got else 0
            if slot:
                oracle.add(slot, 0, keep + got)
            answer += [oracle.total(), slot, keep, got, oracle.time(now, cost, missing), int(missing <= 0)]
        return [admitted] + answer


def any_rules(random):
    return {f"f{{{n}}}{name}:lease": Rule(random.choice([1, 3, 20, 31, 100, 5000]),
                                        random.choice([1_000_000, 10_000_000]), random.choice([31, 8, 255]),
                                        random.random() < 0.1)
            for n in range(5) for name in "ab"}


def any_charge(random, caller, rule, held, now):
    """What it says of the leases that it has is true, most of the time."""
    slot = units = used = keep = 0
    if held.get(caller) and random.random() < 0.8:
        slot, units = held[caller].pop(random.randrange(len(held[caller])))
        used = random.randint(0, units)
        keep = random.randint(0, units - used) if random.random() < 0.6 else 0
        units += random.random() < 0.05
    return (caller, random.choice([0, 0, 1, 1, 2, 30]), slot, units, used, keep,
            random.choice([0, 1, 10, rule.quota]), rule.window // random.choice([4, 4, 10]))


@test("random operations: the same as a plain oracle says", workers=[1])
def oracle(t):
    random, rules = t.random, any_rules(t.random)
    pair, held, got = Pair(t, rules), {}, 0
    for step in range(4000):
        pair.now += random.choice([0, 1, 1000, 50_000, 300_000]) if random.random() < 0.97 else 12_000_000
        if random.random() < 0.005:
            pair.now -= random.choice([1, 100_000, 3_000_000])
        operations = []
        for _ in range(random.choice([1, 1, 1, 5])):
            draw, picked = random.random(), random.sample(sorted(rules), random.choice([1, 1, 2, 3]))
            if draw < 0.8:
                operations.append((ASK, [any_charge(random, c, rules[c], held, pair.now) for c in picked]))
            elif draw < 0.9:
                window = rules[picked[0]].window
                operations.append((GIVE, picked[0], random.choice([1, 1, 5]), random.choice(
                    [0, 0, window // 2, window - 1, window, 2 * window, -1])))
            else:
                operations.append((CHARGE, picked[0], random.choice([1, 1, 5])))
        expected = pair.expect(operations)
        answer = pair.call(operations)
        equal(answer, expected, f"step {step}: {operations}")
        for kind, *rest in operations:
            for n, charge in enumerate(rest[0] if kind == ASK else ()):
                slot, kept, new = answer[6 * n + 2:6 * n + 5]
                got += new
                if slot:
                    held.setdefault(charge[0], []).append((slot, kept + new))
            answer = answer[1 + 6 * len(rest[0]):] if kind == ASK else answer
    t.note(f"{got} units were on lease")
    true(got > 1000, "enough of them")


@test("nodes that use their leases as they may: no window is too full", workers=[1])
def windows(t):
    random = t.random
    for quota, window in ((50, 1_000_000), (300, 2_000_000), (25, 1_000_000)):
        caller = "f{1}a:lease"
        pair = Pair(t, {caller: Rule(quota, window, 31)})
        leases, uses, most = [None] * 4, [], 0
        for _ in range(3000):
            pair.now += random.choice([100, 1000, 5000, 20_000])
            node = random.randrange(4)
            slot, units, left, ends = leases[node] or (0, 0, 0, 0)
            if left and pair.now < ends and random.random() < 0.8:
                taken = random.randint(1, left)
                uses += [pair.now] * taken
                leases[node] = (slot, units, left - taken, ends)
                most = max(most, sum(at > pair.now - window for at in uses))
                true(most <= quota, f"{most} of {quota} within a window")
            elif random.random() < 0.3:
                keep = left if pair.now < ends and random.random() < 0.7 else 0
                _, _, slot, kept, new, _, _ = pair.call([(ASK, [(
                    caller, 0, slot, units, units - left, keep, random.choice([0, 10, 30, quota]),
                    window // 4)])])
                leases[node] = (slot, kept + new, kept + new, pair.now + window // 4) if slot else None
                if random.random() < 0.05:
                    leases[node] = None  # it died
        t.note(f"{len(uses)} uses, at most {most} of {quota} within a window")
        true(most > quota * 0.7, "most of it can be used")


@test("what counts no more leaves nothing behind, and a store that lost its memory takes nothing back",
      workers=[1])
def expiry(t):
    caller = "f{1}a:lease"
    pair = Pair(t, {caller: Rule(50, 1_000_000, 31)})
    _, used, slot, kept, got, _, fits = pair.call([(ASK, [(caller, 1, 0, 0, 0, 0, 10, 250_000)])])
    equal((used, kept, got, fits), (11, 0, 10, 1), "a charge and a lease")
    equal(pair.call([(ASK, [(caller, 0, slot, 10, 0, 0, 0, 250_000)])])[1], 1, "after it was returned")
    pair.call([(GIVE, caller, 1, 1_000_000)])
    equal(pair.redis.ask("EXISTS", caller), 1, "what comes back late: it may stand for nothing that counts")
    pair.call([(GIVE, caller, 1, 999_999)])
    equal(pair.redis.ask("EXISTS", caller), 0, "callers with nothing used")
    slot = pair.call([(ASK, [(caller, 0, 0, 0, 0, 0, 10, 250_000)])])[2]
    pair.redis.ask("DEL", "f{epoch}", caller)
    pair.now += 1
    equal(pair.call([(ASK, [(caller, 0, slot, 10, 4, 6, 5, 250_000)])])[1:5],
          [5, (pair.now + 250_000) // pair.rules[caller].quantum, 0, 5], "of another epoch nothing is kept")


@test("a lease of before the store lost its memory is not settled with another node's of now", workers=[1])
def epochs(t):
    caller = "f{1}a:lease"
    pair = Pair(t, {caller: Rule(50, 1_000_000, 31)})
    pair.call([(ASK, [(caller, 0, 0, 0, 0, 0, 10, 250_000)])])
    before = pair.epoch
    pair.redis.ask("DEL", "f{epoch}", caller)
    pair.now += 1
    slot = pair.call([(ASK, [(caller, 0, 0, 0, 0, 0, 10, 250_000)])])[2]
    pair.epoch = before
    equal(pair.call([(ASK, [(caller, 0, slot, 10, 0, 0, 0, 250_000)])])[1], 10, "the other node's lease counts on")


def want(pair, caller, known, cost=1, lease=(0, 0, 0, 0), want=10):
    """What a node that knows that epoch gets: admitted, used, the lease's slot, kept, new, a time, fits."""
    pair.known = known
    return pair.call([(ASK, [(caller, cost, *lease, want, pair.rules[caller].window // 4)])])


@test("a store that nobody is known to have used gives nothing of limits that wait, for two leases or until those of "
      "before count no more", workers=[1])
def young(t):
    rules = {f"f{{{n}}}a:lease": Rule(50, window, 31, waits=waits) for n, (window, waits) in enumerate(
        ((400_000, WAITS + WAITS_YOUNG), (60_000_000, WAITS + WAITS_YOUNG), (60_000_000, WAITS), (60_000_000, 0)))}
    short, long, local, other = rules
    pair = Pair(t, rules)
    born = pair.epoch
    equal(born % 2, 0, "the epoch of a store that may have been emptied")
    for caller, wait in ((short, 400_000 + 100_000), (long, 2 * SILENCE)):
        equal(want(pair, caller, 0), [0, 50, 0, 0, 0, wait, 0], "full, and nothing on lease")
        equal(want(pair, caller, born, cost=51)[5:], [-1, 0], "what never fits")
    for caller in (local, other):
        equal(want(pair, caller, 0)[:5:4], [1, 10], "admitted, and a lease")
    pair.now = born + 499_999
    equal(want(pair, short, 0)[0], 0, "to the end")
    pair.now = born + 500_000
    equal(want(pair, short, 0)[:5:4], [1, 10], "after it")
    pair.now = born + 2 * SILENCE - 1
    equal(want(pair, long, born)[0], 0, "to the end")
    pair.now = born + 2 * SILENCE
    equal(want(pair, long, born)[:5:4], [1, 10], "after it")
    equal(pair.epoch, born, "the epoch")


@test("a store of which a node knows that it has forgotten gives nothing of limits that wait until leases and uses of "
      "before count no more", workers=[1])
def forgotten(t):
    waiting, shadow, other = "f{1}a:lease", "f{1}b:lease", "f{1}c:lease"
    pair = Pair(t, {waiting: Rule(50, 4_000_000, 31, waits=WAITS), other: Rule(50, 4_000_000, 31),
                    shadow: Rule(50, 4_000_000, 31, shadow=True, waits=WAITS)})
    pair.now += 10_000_000
    before = pair.epoch
    for fresh_first in (False, True):
        lease = want(pair, waiting, before)
        equal(lease[4], 10, "a lease")
        pair.redis.ask("DEL", "f{epoch}", waiting, shadow, other)
        pair.now += 100_000
        lost = pair.now
        if fresh_first:
            lease = want(pair, waiting, 0)
            equal(lease[:5:4], [1, 10], "of a node that knows nothing")
        left = lost + 5_000_000 - pair.now
        answer = want(pair, waiting, before, lease=(lease[2], 10, 4, 6))
        true(pair.epoch % 2 == 1 and pair.epoch > before, f"epoch {pair.epoch}")
        true(abs(answer[5] - left) <= 2, f"full for {answer[5]} us, not {left}")
        equal(answer[:5] + answer[6:], [0, 50, 0, 0, 0, 0], "full, and nothing is kept or new")
        equal(want(pair, shadow, before)[:6:2], [1, 0, 0], "a shadow limit refuses nobody, and leases nothing")
        equal(want(pair, other, before)[:5:4], [1, 10], "a limit that does not wait")
        known, pair.now = pair.epoch, lost + 4_999_990
        equal(want(pair, waiting, known)[0], 0, "to the end")
        pair.now = lost + 5_000_010
        equal(want(pair, waiting, before)[:5:4], [1, 10], "after it, also of a node that comes late")
        equal(pair.epoch, known, "the epoch")
        before, pair.now = known, pair.now + 20_000_000


main()
