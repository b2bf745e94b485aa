"""The store's function (proxy/fleet/judge.lua) by itself, in a real Redis: random operations beside
a plain oracle, by a clock that the test sets, also backwards."""
import os
import re

from lib.redis import Redis, Refused, pack, unpack
from lib.tap import equal, main, test, true

SOURCE = os.path.join(os.environ.get("top_srcdir", "."), "proxy", "fleet", "judge.lua")
ASK, GIVE, CHARGE, LOOK = 1, 2, 3, 4


def function_with_clock(keeps):
    """The function with the time of the key `clock` instead of Redis's own. `keeps`: the keys of callers do
    not expire by Redis's clock either, which goes on while a slow machine counts."""
    with open(SOURCE, encoding="utf-8") as source:
        text = source.read()
    text, found = re.subn(r"call\('TIME'\)", "{ 0, call('GET', 'clock') }", text)
    equal(found, 1, "places that ask for the time")
    if keeps:
        text, found = re.subn(r"'EX', [^)]*\)", "'EX', 100000)", text)
        equal(found, 1, "places that let callers expire")
    return text


class Rule:
    def __init__(self, quota, window, slots, shadow=False, waits=False):
        self.quota, self.window, self.shadow, self.waits = quota, window, shadow, waits
        self.quantum = 1 if quota <= slots else -(-window // (slots - 1))

    def words(self):
        return [self.quota, self.window, self.quantum, int(self.shadow) + 2 * int(self.waits)]


class Oracle:
    """All charges of one caller, by the slot that each was recorded in. A charge that has expired when the
    caller is changed is forgotten for good, whatever rule or clock comes later. So are all slots once
    nothing is in use, also those that were given back and lie ahead of a clock that was set back."""

    def __init__(self):
        self.charges = []  # [slot, count] in the order of recording
        self.quantum = None

    def divide(self, rule):
        if self.quantum not in (None, rule.quantum):
            for charge in self.charges:
                charge[0] = ((charge[0] + 1) * self.quantum - 1) // rule.quantum
        self.quantum = rule.quantum

    def counted(self, rule, now):
        return [c for c in self.charges if (c[0] + 1) * rule.quantum + rule.window > now and c[1] > 0]

    def used(self, rule, now):
        return sum(c[1] for c in self.counted(rule, now))

    def fits(self, rule, cost, now):
        return self.used(rule, now) + max(cost, 1) <= rule.quota

    def newest(self, rule, now):
        """Slots rise as long as any is in use."""
        alive = [c[0] for c in self.charges if (c[0] + 1) * rule.quantum + rule.window > now]
        return max(alive) if self.used(rule, now) else 0

    def forget(self, rule, now):
        self.charges = [c for c in self.charges if (c[0] + 1) * rule.quantum + rule.window > now]
        if not self.used(rule, now):
            self.charges = []

    def charge(self, rule, cost, now):
        if not self.used(rule, now):
            self.charges = []
        slot = max(now // rule.quantum, self.newest(rule, now))
        self.charges.append([slot, cost])
        return slot

    def give(self, slot, cost):
        for charge in self.charges:
            if charge[0] == slot and cost > 0:
                given = min(cost, charge[1])
                charge[1] -= given
                cost -= given

    def time(self, rule, cost, now):
        counted = sorted(self.counted(rule, now))
        used = sum(c[1] for c in counted)
        missing = used + max(cost, 1) - rule.quota
        if missing > 0 and cost > rule.quota:
            return -1
        if missing <= 0:
            if used == 0:
                return 0
            missing = used - rule.quota + 1 if used >= rule.quota else used
        for slot, count in counted:
            missing -= count
            if missing <= 0:
                return (slot + 1) * rule.quantum + rule.window - now
        raise AssertionError("more is missing than is used")


class Pair:
    """The function and the oracle, asked the same."""

    def __init__(self, t, keeps=True):
        self.redis = Redis(t).connect()
        self.redis.ask("FUNCTION", "LOAD", function_with_clock(keeps))
        self.now = 1_800_000_000_000_000
        self.oracles = {}
        self.epoch = None

    def call(self, operations):
        """Operations of (kind, ((caller, rule, cost), ...)) or (kind, caller, rule, cost[, slot])."""
        keys, rules, words = ["f{epoch}"], [], []

        def number(items, item):
            if item not in items:
                items.append(item)
            return items.index(item) + 1

        for kind, *rest in operations:
            words.append(kind)
            if kind in (ASK, LOOK):
                words.append(len(rest[0]))
                for caller, rule, cost in rest[0]:
                    words += [number(keys, caller), number(rules, rule), cost]
            else:
                caller, rule, cost, *slot = rest
                words += [number(keys, caller), number(rules, rule), *slot, cost]
                words += [self.epoch or 0] if kind == GIVE else []
        request = [len(rules)] + [w for rule in rules for w in rule.words()] + words
        self.redis.ask("SET", "clock", self.now)
        answer = unpack(self.redis.ask("FCALL", "sluice_judge_2", len(keys), *keys, pack(request),
                                       self.epoch or 0))
        equal(answer[0], self.now, "the time")
        self.epoch = self.epoch or answer[1]
        equal(answer[1], self.epoch, "the epoch")
        return answer[2:]

    def expect(self, operations):
        """The oracle's answer to the same operation, which changes its state."""
        answer, now, changed = [], self.now, {}
        for kind, *rest in operations:
            for caller, rule, *_ in rest[0] if kind in (ASK, LOOK) else [rest]:
                self.oracles.setdefault(caller, Oracle()).divide(rule)
            if kind == CHARGE:
                caller, rule, cost = rest
                self.oracles[caller].charge(rule, cost, now)
                changed[caller] = rule
            elif kind == GIVE:
                caller, rule, cost, slot = rest
                changed[caller] = rule
                self.oracles[caller].give(slot, cost)
            else:
                admitted = all(rule.shadow or self.oracles[caller].fits(rule, cost, now)
                               for caller, rule, cost in rest[0])
                answer.append(int(admitted))
                for caller, rule, cost in rest[0]:
                    oracle, slot = self.oracles[caller], 0
                    fits = oracle.fits(rule, cost, now)
                    time = None if fits else oracle.time(rule, cost, now)
                    if kind == ASK and admitted and fits and cost > 0:
                        slot = oracle.charge(rule, cost, now)
                        changed[caller] = rule
                    answer += [oracle.used(rule, now), slot,
                               oracle.time(rule, 0 if fits else cost, now) if time is None else time]
                    if fits and oracle.used(rule, now) < rule.quota:
                        ends = [(s + 1) * rule.quantum + rule.window - now
                                for s, _ in oracle.counted(rule, now)]
                        answer[-1] = max(ends, default=0)
        for caller, rule in changed.items():
            self.oracles[caller].forget(rule, now)
        return answer


def any_rule(random):
    quota = random.choice([1, 2, 3, 10, 31, 32, 100, 5000])
    window = random.choice([1_000_000, 10_000_000, 3_600_000_000])
    return Rule(quota, window, random.choice([31, 31, 8, 255]), random.random() < 0.15, random.random() < 0.5)


def any_operations(random, rules, given):
    operations = []
    for _ in range(random.choice([1, 1, 1, 4, 20])):
        draw = random.random()
        picked = random.sample(sorted(rules), random.choice([1, 1, 1, 2, 3]))
        costs = [random.choice([1, 1, 1, 1, 0, 2, 7, 40]) for _ in picked]
        if draw < 0.75:
            charges = tuple((c, rules[c], cost) for c, cost in zip(picked, costs))
            operations.append((ASK if draw < 0.7 else LOOK, charges))
        elif draw < 0.85 or not given:
            operations.append((CHARGE, picked[0], rules[picked[0]], max(1, costs[0])))
        else:
            caller, rule, cost, slot = given.pop(random.randrange(len(given)))
            if rules[caller] is rule:
                operations.append((GIVE, caller, rule, cost, slot))
    return operations


@test("random operations: the function and a plain oracle agree", workers=[1])
def oracle(t):
    pair, random = Pair(t), t.random
    rules = {f"f{{{n}}}{limit}": any_rule(random) for n in range(8) for limit in "ab"}
    given, verdicts, admitted = [], 0, 0
    for step in range(4000):
        draw = random.random()
        pair.now += random.choice([0, 1, 1000, 50_000, 400_000]) if draw < 0.97 else 20_000_000
        if draw < 0.005:
            pair.now -= random.choice([1, 100_000, 5_000_000])
        if random.random() < 0.003:
            rules[random.choice(sorted(rules))] = any_rule(random)
        operations = any_operations(random, rules, given)
        expected = pair.expect(operations)
        answer = pair.call(operations)
        equal(answer, expected, f"step {step}: {operations}")
        at = 0
        for kind, *rest in operations:
            if kind not in (ASK, LOOK):
                continue
            verdicts += 1
            admitted += answer[at]
            for n, (caller, rule, cost) in enumerate(rest[0]):
                if answer[at + 3 * n + 2] and random.random() < 0.2:
                    given.append((caller, rule, cost, answer[at + 3 * n + 2]))
            at += 1 + 3 * len(rest[0])
    t.note(f"{verdicts} verdicts, {admitted} admitted")
    true(verdicts > 5000 and admitted > 500, "enough of both")


@test("expired charges leave no keys behind", workers=[1])
def expiry(t):
    pair = Pair(t, keeps=False)
    rule = Rule(5, 1_000_000, 31)
    pair.call([(ASK, (("f{1}a", rule, 1),))])
    left = pair.redis.ask("PTTL", "f{1}a")
    true(1000 <= left <= 6000, f"the caller of a window of 1 s is kept for {left} ms")
    pair.now += 2_000_000
    slot = pair.call([(ASK, (("f{1}a", rule, 1),))])[2]
    pair.call([(GIVE, "f{1}a", rule, 1, slot)])
    equal(pair.redis.ask("EXISTS", "f{1}a"), 0, "callers with nothing used")


@test("a store that lost its memory has another epoch, and takes nothing back of the one before",
      workers=[1])
def epochs(t):
    pair = Pair(t)
    rule = Rule(5, 1_000_000_000, 2)
    slot = pair.call([(ASK, (("f{1}a", rule, 3),))])[2]
    before = pair.epoch
    pair.redis.ask("DEL", "f{epoch}", "f{1}a")
    pair.now += 1
    pair.epoch = None
    equal(pair.call([(ASK, (("f{1}a", rule, 2),))])[1:3], [2, slot], "used, in the same slot")
    true(pair.epoch > before, "another epoch")
    pair.epoch, new = before, pair.epoch
    pair.redis.ask("SET", "clock", pair.now)
    pair.redis.ask("FCALL", "sluice_judge_2", 2, "f{epoch}", "f{1}a",
                   pack([1, *rule.words(), GIVE, 2, 1, slot, 2, before]), 0)
    pair.epoch = new
    equal(pair.call([(LOOK, (("f{1}a", rule, 1),))])[1], 2, "used")


def look(pair, rule, known):
    """Whether one more fits, what is used, until when; of a node that knows that epoch."""
    pair.redis.ask("SET", "clock", pair.now)
    answer = unpack(pair.redis.ask("FCALL", "sluice_judge_2", 2, "f{epoch}", "f{1}a",
                                   pack([1, *rule.words(), LOOK, 1, 2, 1, 1]), known))
    return (answer[1], *answer[2:4], answer[5])


@test("limits that wait are full for a window once a node knows what the store has forgotten", workers=[1])
def waiting(t):
    pair = Pair(t)
    rule, other = Rule(5, 1_000_000, 31, waits=True), Rule(5, 1_000_000, 31)
    pair.call([(ASK, (("f{1}a", rule, 5),))])
    known = pair.epoch
    equal(look(pair, rule, 0), (known, 0, 5, 1_000_001), "full, also for a node that is new")
    for fresh_first in (False, True):
        pair.redis.ask("DEL", "f{epoch}", "f{1}a")
        pair.now += 100_000
        lost = pair.now
        if fresh_first:
            fresh, admitted, used, _ = look(pair, rule, 0)
            equal((admitted, used), (1, 0), "a store that nobody is known to have used")
            true(fresh > known, "another epoch")
        now_known, admitted, used, left = look(pair, rule, known)
        equal((admitted, used), (0, 5), "forgotten: full")
        true(now_known > known and abs(left - 1_000_000) <= 2, f"epoch {now_known}, for {left} us")
        equal(look(pair, other, now_known)[1:3], (1, 0), "a limit that does not wait")
        pair.now = lost + 999_990
        equal(look(pair, rule, now_known)[:3], (now_known, 0, 5), "to the end of the window")
        pair.now = lost + 1_000_010
        equal(look(pair, rule, known), (now_known, 1, 0, 0), "after it")
        known = now_known
    pair.redis.ask("SET", "f{epoch}", known - 10)
    true(look(pair, rule, known)[:2] == ((pair.now // 2) * 2 + 1, 0), "a store that is what it was long ago")


@test("the function that is released has not been changed under its number", workers=[1])
def released(t):
    redis = Redis(t).connect()
    with open(SOURCE, encoding="utf-8") as source:
        text = source.read()
    redis.ask("FUNCTION", "LOAD", text)
    try:
        redis.ask("FUNCTION", "LOAD", text)
    except Refused as refused:
        true("already exists" in str(refused), str(refused))
    names = [f for f in redis.ask("FUNCTION", "LIST")]
    equal(len(names), 1, "libraries")


main()
