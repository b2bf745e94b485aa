"""The store's function (proxy/fleet/judge.lua) beside a plain oracle for each kind of limit, by a clock that the test
sets, also backwards: what tests of it share."""
import re
import struct
from fractions import Fraction
from math import ceil

from .redis import Redis, pack
from .store_function import function_text
from .tap import equal

ASK, GIVE, CHARGE, LOOK, HOLD, FORGET, RUN = 1, 2, 3, 4, 5, 6, 7
LEASE = 3_000_000
NAME = "sluice_judge_1"


def with_clock(text, keeps):
    """The function with the time of the key `clock` instead of Redis's own. `keeps`: the keys of callers do
    not expire by Redis's clock either, which goes on while a slow machine counts."""
    text, found = re.subn(r"call\('TIME'\)", "{ 0, call('GET', 'clock') }", text)
    equal(found, 1, "places that ask for the time")
    if keeps:
        text, found = re.subn(r"'EX', [a-z\[\]]+\)", "'EX', 100000)", text)
        equal(found, 1, "places that let callers expire")
    return text


def read_answer(data, requests):
    """The time, the epoch, and of each request, by its charges, whether it was admitted and three numbers a limit."""
    numbers = [int(n) for n in struct.unpack(f"<{len(data) // 8}d", data)]
    answer, at = numbers[:2], 2
    for charges in requests:
        answer.append(int(numbers[at] != 0))
        if numbers[at] > 0:
            for _, rule, _ in charges:
                used, newest = numbers[at:at + 2]
                answer += [used, newest, (newest + 1) * rule.quantum + rule.window - answer[0]]
                at += 3
        else:
            answer += numbers[at + 1:at + 1 + 3 * len(charges)]
            at += 1 + 3 * len(charges)
    equal(at, len(numbers), "numbers of the answer")
    return answer


def verdicts_of(operations):
    """The charges of each request that is judged."""
    return [rest[0] for kind, *rest in operations if kind in (ASK, LOOK)]


class Ban:
    """So many refusals in a time, and for how long."""

    def __init__(self, count, per, lasts):
        self.count, self.per, self.lasts = count, per, lasts
        self.ring = Rule(count, per, 31)


class Limit:
    """What all kinds of rules have."""
    kind, suffix, waits, waits_young = 0, "", False, False

    def __init__(self, quota, shadow=False, counts=False, ban=None):
        self.quota, self.shadow, self.counts, self.ban = quota, shadow, counts, ban
        self.most = quota

    def words(self, now):
        flags = self.shadow + 2 * self.waits + 4 * self.counts + 8 * bool(self.ban) + 16 * self.kind
        flags += 64 * self.waits_young
        words = [flags, self.quota, *self.more(now)]
        return words + ([self.ban.lasts, *self.ban.ring.words(now)] if self.ban else [])

    def key(self, caller):
        return f"{caller}{self.suffix}{'!' if self.ban else ''}"


def quantum_of(quota, window, slots):
    """As the nodes have it: a power of two."""
    return 1 if quota <= slots else 1 << (window // (slots - 1)).bit_length() - 1


class Rule(Limit):
    def __init__(self, quota, window, slots, shadow=False, waits=False, waits_young=False, **more):
        super().__init__(quota, shadow, **more)
        self.window, self.waits, self.waits_young = window, waits, waits_young
        self.quantum = quantum_of(quota, window, slots)

    def more(self, _):
        return [self.window, self.quantum]

    def oracle(self):
        return Oracle()


class Gcra(Limit):
    kind, suffix = 1, "g"

    def __init__(self, quota, window, burst, **more):
        super().__init__(quota, **more)
        self.window, self.most = window, burst

    def more(self, _):
        return [self.window, self.most]

    def oracle(self):
        return GcraOracle()


class Calendar(Limit):
    """Periods of a length. `wrong`: by how much the nodes take the store's clock to be ahead."""
    kind, suffix = 2, "c"

    def __init__(self, quota, length, wrong=0, **more):
        super().__init__(quota, **more)
        self.length, self.wrong = length, wrong

    def begin(self, now):
        return now // self.length * self.length

    def more(self, now):
        begin = self.begin(now + self.wrong)
        return [begin + n * self.length for n in (-1, 0, 1, 2)]

    def oracle(self):
        return CalendarOracle()


class Holders(Limit):
    kind, suffix = 3, "n"

    def more(self, _):
        return []

    def oracle(self):
        return HoldersOracle()


class Oracle:
    """All charges of one caller, by the slot that each was recorded in. A charge that has expired when the
    caller is changed is forgotten for good, whatever rule or clock comes later. So are all slots once
    nothing is in use, also those that were given back and lie ahead of a clock that was set back."""

    def __init__(self):
        self.charges = []  # [slot, count] in the order of recording
        self.quantum = self.before = None

    def divide(self, rule, now):
        self.before = [list(c) for c in self.charges], self.quantum
        if self.quantum not in (None, rule.quantum):
            for charge in self.charges:
                charge[0] = ((charge[0] + 1) * self.quantum - 1) // rule.quantum
        self.quantum = rule.quantum

    def leave(self):
        """It was only looked at: slots are kept as they were."""
        if self.before:
            self.charges, self.quantum = self.before

    def counted(self, rule, now):
        return [c for c in self.charges if (c[0] + 1) * self.quantum + rule.window > now and c[1] > 0]

    def used(self, rule, now):
        return sum(c[1] for c in self.counted(rule, now))

    def fits(self, rule, cost, now, _holder):
        return self.used(rule, now) + max(cost, 1) <= rule.quota

    def newest(self, rule, now):
        """Slots rise as long as any is in use."""
        alive = [c[0] for c in self.charges if (c[0] + 1) * self.quantum + rule.window > now]
        return max(alive) if self.used(rule, now) else 0

    def forget(self, rule, now):
        self.charges = [c for c in self.charges if (c[0] + 1) * self.quantum + rule.window > now]
        if not self.used(rule, now):
            self.charges, self.quantum = [], rule.quantum

    def charge(self, rule, cost, now, _=None):
        if not self.used(rule, now):
            self.charges, self.quantum = [], rule.quantum
        slot = max(now // self.quantum, self.newest(rule, now))
        self.charges.append([slot, cost])
        return slot

    def give(self, _rule, slot, cost, _now, _holder):
        for charge in self.charges:
            if charge[0] == slot and cost > 0:
                given = min(cost, charge[1])
                charge[1] -= given
                cost -= given

    def left(self, rule, now):
        """Until something is free where nothing is, else all."""
        return self.time(rule, 0, now)

    def time(self, rule, cost, now):
        """Until it fits, if it does not; else until all is free."""
        counted = sorted(self.counted(rule, now))
        used = sum(c[1] for c in counted)
        missing = used + max(cost, 1) - rule.quota
        if missing > 0 and cost > rule.quota:
            return -1
        if missing <= 0:
            return max([(s + 1) * self.quantum + rule.window - now for s, _ in counted], default=0)
        for slot, count in counted:
            missing -= count
            if missing <= 0:
                return (slot + 1) * self.quantum + rule.window - now
        raise AssertionError("more is missing than is used")

    def refuse(self, ban, now):
        """Of a ban's refusals: one more."""
        self.charge(ban.ring, 1, now)
        if self.used(ban.ring, now) >= ban.count:
            self.charges = [[(now + ban.lasts - ban.per) // self.quantum, ban.count]]
        self.forget(ban.ring, now)


class GcraOracle(Oracle):
    """The time at which all has drained, exactly."""

    def __init__(self):
        super().__init__()
        self.drains, self.given = Fraction(0), 0
        self.is_new, self.rate = True, None

    def divide(self, rule, now):
        """Another rate than that it was kept by: as many requests are in use, and none of them goes back."""
        rate = rule.quota, rule.window
        if self.rate not in (None, rate) and not self.is_new:
            quota, window = self.rate
            level = float(self.level(now) * quota)  # whole, in parts of a microsecond
            self.given += max(0, self.drains // 1 - now)
            self.drains = now + Fraction(ceil(level * rule.window / window), rule.quota)
        self.rate = rate

    def level(self, now):
        return max(Fraction(0), self.drains - now)

    def used(self, rule, now):
        return ceil(self.level(now) * rule.quota / rule.window)

    def fits(self, rule, cost, now, _holder):
        return self.level(now) + Fraction((max(cost, 1) - rule.most) * rule.window, rule.quota) <= 0

    def charge(self, rule, cost, now, _=None):
        self.drains = now + self.level(now) + Fraction(cost * rule.window, rule.quota)
        self.is_new = False
        return self.place()

    def place(self):
        return self.drains // 1 + self.given + 1

    def give(self, rule, slot, cost, now, _):
        back = Fraction(cost * rule.window, rule.quota)
        if self.is_new:
            return
        if slot < self.place():
            back = max(0, min(back, slot - self.given - 1 - now))
            self.given += ceil(back)
        self.drains = now + max(Fraction(0), self.level(now) - back)

    def forget(self, rule, now):
        pass

    def time(self, rule, cost, now):
        if cost > rule.most:
            return -1
        over = self.level(now) + Fraction((max(cost, 1) - rule.most) * rule.window, rule.quota)
        return ceil(over if over > 0 else self.level(now))


class CalendarOracle(Oracle):
    def __init__(self):
        super().__init__()
        self.begin, self.count, self.end = 0, 0, 0

    def divide(self, rule, now):
        """By a limit with shorter periods than before what was used counts in the one of now."""
        if not self.unknown(rule, now) and self.begin < rule.begin(now) and self.end > now and self.count:
            self.begin, self.end = rule.begin(now), rule.begin(now) + rule.length

    def unknown(self, rule, now):
        return not rule.more(now)[0] <= now < rule.more(now)[3]

    def period(self, rule, now):
        """The one that is charged, and what is used in it."""
        begin = rule.more(now)[1] if self.unknown(rule, now) else rule.begin(now)
        if self.begin == begin + rule.length:
            return self.begin, self.count
        return begin, self.count if self.begin >= begin else 0

    def used(self, rule, now):
        return self.period(rule, now)[1]

    def fits(self, rule, cost, now, _holder):
        return not self.unknown(rule, now) and self.used(rule, now) + max(cost, 1) <= rule.quota

    def charge(self, rule, cost, now, _=None):
        self.begin, self.count = self.period(rule, now)
        self.end = self.begin + rule.length
        self.count += cost
        return self.begin

    def give(self, rule, slot, cost, now, _):
        begin, count = self.period(rule, now)
        if begin == slot:
            self.begin, self.count = (begin, count - cost) if count > cost else (0, 0)  # else nothing is kept
            self.end = begin + rule.length

    def forget(self, rule, now):
        pass

    def time(self, rule, cost, now):
        if self.unknown(rule, now):
            return 1
        if cost > rule.quota:
            return -1
        begin, count = self.period(rule, now)
        return begin + rule.length - now if count or cost else 0


class HoldersOracle(Oracle):
    """A holder has 4096 numbers, one after the other: those before the newest that it had say nothing more."""

    def __init__(self):
        super().__init__()
        self.holds = {}  # holder's number: [count, until]
        self.asker = 0

    def is_stale(self, now, holder):
        return any(h // 4096 == holder // 4096 and h > holder and count and until > now
                   for h, (count, until) in self.holds.items())

    def own(self, now, holder):
        """What it holds, of all its numbers so far, which are not kept any more."""
        numbers = [h for h in self.holds if h // 4096 == holder // 4096 and h <= holder]
        return sum(count for count, until in map(self.holds.pop, numbers) if until > now)

    def divide(self, rule, _now):
        pass

    def used(self, _, now):
        return sum(count for count, until in self.holds.values() if until > now)

    def fits(self, rule, cost, now, holder):
        self.asker = holder
        return not self.is_stale(now, holder) and self.used(rule, now) + max(cost, 1) <= rule.quota

    def charge(self, _, cost, now, holder):
        if not self.is_stale(now, holder):
            self.keep(now, holder, self.own(now, holder) + cost)
        return 1

    def give(self, _rule, _slot, cost, now, holder):
        if not self.is_stale(now, holder):
            self.keep(now, holder, max(0, self.own(now, holder) - cost))

    def hold(self, now, holder, held, settled):
        if not self.is_stale(now, holder):
            count = self.own(now, holder)
            self.keep(now, holder, held if settled or count == 0 else count)

    def keep(self, now, holder, count):
        """Drops what has ended. A stale call changes nothing: a clock that is set back finds again what had ended."""
        self.holds[holder] = count, now + LEASE
        self.holds = {h: (held, until) for h, (held, until) in self.holds.items() if until > now and held}

    def forget(self, _, now):
        pass

    def left(self, rule, now):
        return 0

    def time(self, rule, cost, now):
        return 0 if self.fits(rule, cost, now, self.asker) else -1 if cost > rule.quota else 1_000_000


class Pair:
    """The function and the oracle, asked the same."""

    def __init__(self, t, keeps=True):
        self.redis = Redis(t).connect()
        self.redis.ask("FUNCTION", "LOAD", with_clock(function_text("judge"), keeps))
        self.now = 1_800_000_000_000_000
        self.oracles, self.bans = {}, {}
        self.epoch = None

    def compose(self, operations, runs=False):
        """Keys, rules and words of operations: (kind, ((caller, rule, cost), ...)) or (kind, caller, rule, cost[,
        slot]). `runs`: requests of callers that are new to the call as RUN, where that is possible."""
        keys, rules, words = ["f{epoch}"], [], []
        before = None  # the limits of a run that may go on, and where its count is

        def key(caller, rule):
            if rule.key(caller) not in keys:
                keys.append(rule.key(caller))
                keys.extend([rule.key(caller) + "refusals"] if rule.ban else [])
            return keys.index(rule.key(caller)) + 1

        def number(rule):
            if rule not in rules:
                rules.append(rule)
                rules.extend([rule.ban] if rule.ban else [])
            return rules.index(rule) + 1

        def is_new(charges):
            return not any(rule.key(caller) in keys or not isinstance(rule, Rule) or rule.ban or rule.counts or cost < 1
                           for caller, rule, cost in charges)

        for kind, *rest in operations:
            if runs and kind == ASK and is_new(rest[0]):
                limits = [(rule, cost) for _, rule, cost in rest[0]]
                if before is None or before[0] != limits:
                    before = limits, len(words) + 2
                    words += [RUN, len(limits), 0, len(keys) + 1]
                    words += [word for rule, cost in limits for word in (number(rule), cost)]
                for caller, rule, _ in rest[0]:
                    key(caller, rule)
                words[before[1]] += 1
                continue
            before = None
            words.append(kind)
            if kind in (ASK, LOOK):
                words.append(len(rest[0]))
                for caller, rule, cost in rest[0]:
                    words += [key(caller, rule), number(rule), cost]
            else:
                caller, rule, *more = rest
                words += [key(caller, rule), number(rule), *more]
                words += [self.epoch or 0] if kind == GIVE else []
        return keys, rules, words

    def call(self, operations, holder=7, runs=True, known=None):
        """`known`: the epoch that the node knows, if not that of the test."""
        keys, rules, words = self.compose(operations, runs)
        request = [holder, LEASE, len(rules)]
        request += [w for rule in rules if not isinstance(rule, Ban) for w in rule.words(self.now)] + words
        data = self.send(NAME, keys, request, known)
        return self.learn(read_answer(data, verdicts_of(operations)), known)

    def send(self, name, keys, request, known=None):
        self.redis.ask("SET", "clock", self.now)
        return self.redis.ask("FCALL", name, len(keys), *keys, pack(request),
                              (self.epoch or 0) if known is None else known)

    def learn(self, answer, known=None):
        """What the answer says behind the time and the epoch."""
        equal(answer[0], self.now, "the time")
        if known is not None:
            return answer[1:]
        self.epoch = self.epoch or answer[1]
        equal(answer[1], self.epoch, "the epoch")
        return answer[2:]

    def banned(self, caller, rule):
        """For how long still; 0: it is not."""
        if not rule.ban:
            return 0
        refusals = self.bans.setdefault(rule.key(caller), Oracle())
        refusals.divide(rule.ban.ring, self.now)
        full = refusals.used(rule.ban.ring, self.now) >= rule.ban.count
        newest = refusals.newest(rule.ban.ring, self.now)
        return (newest + 1) * refusals.quantum + rule.ban.per - self.now if full else 0

    def expect_verdict(self, kind, charges, holder):
        """The oracle's answer, which changes its state."""
        now, found = self.now, []
        for caller, rule, cost in charges:
            oracle = self.oracles[rule.key(caller)]
            found.append((self.banned(caller, rule), oracle.fits(rule, cost, now, holder)))
        admitted = all(rule.shadow or fits and not banned
                       for (_, rule, _), (banned, fits) in zip(charges, found))
        answer = [int(admitted)]
        for (caller, rule, cost), (banned, fits) in zip(charges, found):
            oracle = self.oracles[rule.key(caller)]
            slot = -2 if banned else 0 if fits else -1
            time = banned or (oracle.time(rule, cost, now) if not fits else None)
            if slot == 0 and kind == ASK and admitted and cost > 0:
                slot = oracle.charge(rule, cost, now, holder)
                oracle.forget(rule, now)
            answer += [oracle.used(rule, now), slot, oracle.left(rule, now) if time is None else time]
            is_noted = slot == -1 and kind == ASK and not admitted and not rule.shadow
            if slot <= 0 and not (is_noted and rule.counts and cost):
                oracle.leave()
            if is_noted:
                if rule.counts and cost:
                    oracle.charge(rule, cost, now, holder)
                    oracle.forget(rule, now)
                if rule.ban:
                    self.bans[rule.key(caller)].refuse(rule.ban, now)
        return answer

    def expect(self, operations, holder):
        """What the oracle says to each operation, by which its state changes."""
        answer, now = [], self.now
        for kind, *rest in operations:
            for caller, rule, *_ in rest[0] if kind in (ASK, LOOK) else [rest]:
                self.oracles.setdefault(rule.key(caller), rule.oracle()).divide(rule, now)
            if kind in (ASK, LOOK):
                answer += self.expect_verdict(kind, rest[0], holder)
                continue
            caller, rule, *more = rest
            oracle = self.oracles[rule.key(caller)]
            if kind == CHARGE:
                oracle.charge(rule, more[0], now, holder)
            elif kind == GIVE:
                oracle.give(rule, *more, now, holder)
            elif kind == FORGET:
                self.bans.pop(rule.key(caller), None)
                if isinstance(rule, Holders):
                    continue  # as it was, also what a clock that is set back finds again
                self.oracles[rule.key(caller)] = rule.oracle()
                self.oracles[rule.key(caller)].divide(rule, now)
            else:
                oracle.hold(now, holder, *more)
            oracle.forget(rule, now)
        return answer


def any_rule(random):
    window = random.choice([1_000_000, 10_000_000, 3_600_000_000])
    more = {"shadow": random.random() < 0.15, "counts": random.random() < 0.1}
    if random.random() < 0.2:
        more["ban"] = Ban(random.choice([1, 3, 40]), random.choice([1_000_000, 7_000_000]),
                          random.choice([300_000, 20_000_000]))
    draw = random.random()
    if draw < 0.2:
        return Gcra(random.choice([1, 3, 10, 7000]), window, random.choice([1, 2, 7, 50]), **more)
    if draw < 0.4:
        return Calendar(random.choice([1, 10, 300]), random.choice([2_000_000, 3_600_000_000]),
                        random.choice([0, 0, 1_999_999, -2_000_000, 3_000_000_000, 4_000_000]), **more)
    if draw < 0.55:
        return Holders(random.choice([1, 3, 20]), more["shadow"], ban=more.get("ban"))
    return Rule(random.choice([1, 2, 3, 10, 31, 32, 100, 5000]), window, random.choice([31, 31, 8, 255]),
                waits=random.random() < 0.5, **more)


def any_change(random, caller, rule, cost, given, forgets):
    """Another operation than asking; None: none of what was drawn is possible."""
    draw = random.random()
    if isinstance(rule, Holders) and draw < 0.5:
        return HOLD, caller, rule, random.randrange(4), random.randrange(2)
    if draw < 0.55 and draw >= 0.5 and forgets:
        return FORGET, caller, rule
    if draw < 0.5 or not given:
        return None if isinstance(rule, Holders) else (CHARGE, caller, rule, max(1, cost))
    caller, old, cost, slot = given.pop(random.randrange(len(given)))
    return (GIVE, caller, rule, slot, cost) if old is rule else None


def any_operations(random, rules, given, forgets=True):
    operations = []
    for _ in range(random.choice([1, 1, 1, 4, 20])):
        draw = random.random()
        picked = random.sample(sorted(rules), random.choice([1, 1, 1, 2, 3]))
        costs = [random.choice([1, 1, 1, 1, 0, 2, 7, 40]) for _ in picked]
        if draw < 0.75:
            charges = tuple((c, rules[c], cost) for c, cost in zip(picked, costs))
            operations.append((ASK if draw < 0.7 else LOOK, charges))
        else:
            wanted = given[-1][0] if given and random.random() < 0.5 else picked[0]
            change = any_change(random, wanted, rules[wanted], costs[0], given, forgets)
            operations += [change] if change else []
    return operations


def describe(operation):
    return [[(c, vars(r), cost) for c, r, cost in part] if isinstance(part, tuple) else
            vars(part) if isinstance(part, Limit) else part for part in operation]
