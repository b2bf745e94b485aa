"""The store's function (proxy/fleet/judge.lua) by itself, in a real Redis: random operations beside
a plain oracle for each kind of limit, by a clock that the test sets, also backwards."""
import struct
from fractions import Fraction

from lib.redis import Redis, Refused, pack
from lib.store_function import function_text
from lib.store_oracle import (ASK, GIVE, HOLD, LEASE, LOOK, NAME, Calendar, Gcra, Holders, Pair, Rule, any_operations,
                              any_rule, describe)
from lib.tap import equal, main, test, true


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
            caller = random.choice(sorted(rules))
            new = any_rule(random)
            # a rule of the same key has the same periods
            if rules[caller].key("") != new.key("") or not isinstance(new, Calendar):
                rules[caller] = new
                given = [g for g in given if g[0] != caller]
        operations = any_operations(random, rules, given)
        if not operations:
            continue
        runs = random.random() < 0.7
        holder = random.choice([4096, 4096, 4099, 2**51 + 1])
        expected = pair.expect(operations, holder)
        answer = pair.call(operations, holder, runs)
        if answer != expected:
            for operation in operations:
                t.note(f"{describe(operation)}")
        equal(answer, expected, f"step {step}")
        at = 0
        for kind, *rest in operations:
            if kind not in (ASK, LOOK):
                continue
            verdicts += 1
            admitted += answer[at]
            for n, (caller, rule, cost) in enumerate(rest[0]):
                slot = answer[at + 3 * n + 2]
                if slot > 0 and random.random() < (0.6 if isinstance(rule, Holders) else 0.2):
                    given.append((caller, rule, cost, slot))
            at += 1 + 3 * len(rest[0])
    t.note(f"{verdicts} verdicts, {admitted} admitted")
    true(verdicts > 5000 and admitted > 500, "enough of both")


def kept_long_enough(pair, caller, rule):
    """The function knows the time until which the store keeps a caller (ring.lua)."""
    kept = pair.redis.ask("GET", rule.key(caller))
    if not kept:
        return  # all was given back
    quantum, _, newest, _, _, until = struct.unpack("<6d", kept[:48])
    true(until >= (newest + 1) * quantum + rule.window, "it is kept for as long as it counts")


@test("runs: many callers of the same limits, of which any may be full, shadow or waiting", workers=[1])
def runs_agree(t):
    pair, random = Pair(t), t.random
    windows = random.choice([1_000_000, 10_000_000]), 10_000_000, 3_600_000_000
    sets = [[Rule(random.choice([1, 2, 3, 31, 32, 100]), window, random.choice([31, 31, 8]),
                  shadow=random.random() < 0.15, waits=random.random() < 0.5)
             for window in windows[:limits]] for limits in (1, 2, 3)]
    given, requests, admitted = [], 0, 0
    for step in range(600):
        pair.now += random.choice([0, 1, 1000, 50_000, 400_000]) if random.random() < 0.95 else 20_000_000
        if random.random() < 0.1:  # to where what was charged last ends, or nearly
            pair.now += random.choice(windows) + random.choice([-1, 0, 1, 300_000])
        if random.random() < 0.01:
            pair.now -= random.choice([1, 100_000, 5_000_000])
        if random.random() < 0.02:
            limits = random.choice(sets)
            at = random.randrange(len(limits))
            limits[at] = Rule(random.choice([1, 3, 32, 100]), random.choice(windows), 31, waits=True)
            given = []
        operations = []
        for _ in range(random.choice([1, 1, 2, 3])):
            number = random.randrange(3)
            callers = random.sample(range(25), random.choice([1, 5, 20]))
            cost = random.choice([1, 1, 1, 1, 2, 5])
            operations += [(ASK, tuple((f"f{{{number}.{n}}}{i}", rule, cost) for i, rule in enumerate(sets[number])))
                           for n in callers]
            if given and random.random() < 0.5:
                caller, rule, charged, slot = given.pop(random.randrange(len(given)))
                operations.append((GIVE, caller, rule, slot, charged))
        expected = pair.expect(operations, 7)
        answer = pair.call(operations)
        equal(answer, expected, f"step {step}: {[describe(operation) for operation in operations]}")
        at = 0
        for kind, *rest in operations:
            if kind != ASK:
                continue
            requests += 1
            admitted += answer[at]
            for caller, rule, _ in rest[0] if answer[at] else []:
                kept_long_enough(pair, caller, rule)
            given += [(caller, rule, cost, answer[at + 3 * n + 2]) for n, (caller, rule, cost) in enumerate(rest[0])
                      if answer[at + 3 * n + 2] > 0 and random.random() < 0.1]
            at += 1 + 3 * len(rest[0])
        given = given[-30:]
    t.note(f"{requests} requests, {admitted} admitted")
    true(admitted > 300 and requests - admitted > 300, "enough of both")


@test("slots that do not count in a shorter window leave nothing behind", workers=[1])
def shorter(t):
    pair = Pair(t)
    for window, pause in ((3_600_000_000, 10), (3_600_000_000, 5_000_000), *[(1_000_000, 10)] * 4):
        operations = [(ASK, (("f{1}a", Rule(3, window, 31), 1),))]
        equal(pair.call(operations), pair.expect(operations, 7), f"by a window of {window} us")
        pair.now += pause


@test("an error in the middle of a call leaves nothing behind for the next", workers=[1])
def broken_off(t):
    pair = Pair(t)
    rule = Rule(5, 1_000_000_000, 31)
    calls = [[(ASK, ((f"f{{{n}}}a", rule, 1),)) for n in range(5)] for _ in range(3)]
    equal(pair.call(calls[0]), pair.expect(calls[0], 7), "before")
    for words in ([7, LEASE, 1, *rule.words(0), ASK, 1, 2, 1, 1, 8], [7, LEASE, 1, *rule.words(0), 7, 1, 9, 2, 1, 1]):
        refused = None
        try:
            pair.send(NAME, ["f{epoch}", "f{3}a", "f{4}a"], words)
        except Refused as answer:
            refused = str(answer)
        true(refused, "a request that ends too soon is an error")
        pair.now += 1
        equal(pair.call(calls[1][:3]), pair.expect(calls[1][:3], 7), "as if it had not been")
    equal(pair.call(calls[2]), pair.expect(calls[2], 7), "nor was anything kept of it")


@test("gcra: whatever is given back, no time has more than the burst and what has drained in it", workers=[1])
def spaced(t):
    pair, random = Pair(t), t.random
    rule = Gcra(random.choice([3, 10, 700]), 1_000_000, random.choice([2, 7, 50]))
    taken, kept, admitted = [], [], 0
    for _ in range(1500):
        pair.now += random.choice([0, 1, 1000, 50_000, 400_000])
        cost = random.choice([1, 1, 2, 5])
        if taken and random.random() < 0.4:
            at, cost, slot = taken.pop(random.randrange(len(taken)))
            kept.remove((at, cost, slot))
            if pair.now - at < rule.most * rule.window // rule.quota:  # else the nodes give nothing back
                pair.call([(GIVE, "f{1}a", rule, slot, cost)])
            continue
        answer = pair.call([(ASK, (("f{1}a", rule, cost),))])
        if answer[0]:
            admitted += 1
            taken.append((pair.now, cost, answer[2]))
            kept.append(taken[-1])
            taken = taken[-20:]
    true(admitted > 0, f"{admitted} admitted")
    for first, (begin, _, _) in enumerate(kept):
        total = 0
        for at, cost, _ in kept[first:]:
            total += cost
            true(total <= rule.most + Fraction((at - begin) * rule.quota, rule.window),
                 f"{total} in {at - begin} us")


@test("gcra: a rate that changes, as nodes reload one by one, keeps how many requests are in use", workers=[1])
def another_rate(t):
    pair, random = Pair(t), t.random
    rates = [Gcra(random.choice([1, 10, 600, 7000]), random.choice([1_000_000, 60_000_000, 3_600_000_000]), most)
             for most in (7, 7, 50)]
    given, changes, last = [], 0, None
    for step in range(600):
        pair.now += random.choice([0, 1, 1000, 50_000, 400_000])
        rule, used = random.choice(rates), pair.oracles["f{1}ag"].used(last, pair.now) if last else 0
        operations = [(ASK, (("f{1}a", rule, random.choice([0, 1, 1, 2, 5])),))]
        if given and random.random() < 0.4:
            _, cost, slot = given.pop(random.randrange(len(given)))
            operations.insert(0, (GIVE, "f{1}a", rule, slot, cost))
        expected, answer = pair.expect(operations, 7), pair.call(operations)
        equal(answer, expected, f"step {step}")
        if last and last is not rule:
            given = []  # none of these goes back
            changes += 1
            if len(operations) == 1 and not answer[0]:
                true(used - 1 <= answer[1] <= used, f"{answer[1]} in use, and {used} before")
        last = rule
        if answer[0] and answer[2] > 0:
            given.append((rule, operations[-1][1][0][2], answer[2]))
    true(changes > 100, f"{changes} changes")


@test("calendar: when periods become shorter, what was used counts to the end of the one of now", workers=[1])
def shorter_periods(t):
    pair, long, short = Pair(t), Calendar(5, 3_600_000_000), Calendar(5, 2_000_000)
    pair.now += 100_500_000 - pair.now % 3_600_000_000

    def judge(kind, rule, cost):
        return pair.call([(kind, (("f{1}a", rule, cost),))], 7)
    equal(judge(ASK, long, 5)[:2], [1, 5], "by the longer one")
    equal(judge(LOOK, short, 1), [0, 5, -1, 1_500_000], "by the shorter one")
    equal(judge(ASK, long, 1)[:2], [0, 5], "by a node that has not reloaded yet")
    equal(judge(ASK, short, 1), [0, 5, -1, 1_500_000], "again by the shorter one")
    pair.now += 1_500_000
    equal(judge(ASK, short, 5)[:2], [1, 5], "in the next one")
    equal(judge(ASK, long, 1)[:2], [0, 5], "back to the longer one")


@test("what a dead holder holds comes back; what a late one says counts once", workers=[1])
def holders(t):
    pair = Pair(t)
    rule = Holders(4)

    one, two, three = 4096, 2 * 4096, 3 * 4096

    def ask_as(holder):
        return pair.call([(ASK, (("f{1}a", rule, 1),))], holder)[:2]
    equal([ask_as(one) for _ in range(2)] + [ask_as(two) for _ in range(3)],
          [[1, 1], [1, 2], [1, 3], [1, 4], [0, 4]], "two holders")
    pair.now += LEASE - 1
    equal(ask_as(two), [0, 4], "still held")
    pair.call([(HOLD, "f{1}a", rule, 2, 1)], two)
    pair.now += 1
    equal([ask_as(two) for _ in range(3)], [[1, 3], [1, 4], [0, 4]], "what the dead one held has come back")
    pair.call([(HOLD, "f{1}a", rule, 2, 1)], one)
    equal(ask_as(three), [0, 6], "the late one was not dead, and says so")
    pair.call([(HOLD, "f{1}a", rule, 2, 1), (GIVE, "f{1}a", rule, 1, 1), (HOLD, "f{1}a", rule, 1, 1)], one)
    equal(ask_as(three), [0, 5], "counted once")
    pair.call([(GIVE, "f{1}a", rule, 1, 4)], two)
    equal(ask_as(three), [1, 2], "when they are over")
    pair.call([(GIVE, "f{1}a", rule, 1, 1)], one)
    pair.call([(GIVE, "f{1}a", rule, 1, 1)], three)
    equal(pair.redis.ask("EXISTS", "f{1}an"), 0, "nothing is left of it")


@test("what a holder said by a connection before changes nothing of what it has said since", workers=[1])
def connections(t):
    pair, rule, holder, other = Pair(t), Holders(4), 4096, 2 * 4096
    question = [(ASK, (("f{1}a", rule, 1),))]
    equal(pair.call(question, holder)[:2], [1, 1], "by the first connection")
    pair.call([(HOLD, "f{1}a", rule, 1, 1)], holder + 1)
    equal([pair.call(question, holder + 1)[:2] for _ in range(2)], [[1, 2], [1, 3]], "by the second")
    pair.call([(HOLD, "f{1}a", rule, 1, 1)], holder)
    pair.call([(GIVE, "f{1}a", rule, 1, 1)], holder)
    equal(pair.call(question, holder)[:2], [0, 3], "what comes late by the first")
    equal([pair.call(question, other)[:2] for _ in range(2)], [[1, 4], [0, 4]], "another holder")
    pair.call([(GIVE, "f{1}a", rule, 1, 3)], holder + 2)
    equal(pair.call(question, other)[:2], [1, 2], "when they are over, by the third")


@test("a stale call leaves what has ended as it was: a clock that is set back finds it again", workers=[1])
def stale(t):
    pair, rule, holder, other = Pair(t), Holders(4), 4096, 2 * 4096
    ask, hold = [(ASK, (("f{1}a", rule, 1),))], [(HOLD, "f{1}a", rule, 1, 1)]

    def agree(operations, by, what):
        found = pair.call(operations, by)
        equal(found, pair.expect(operations, by), what)
        return found[:2]
    equal(agree(ask, other, "another holder"), [1, 1], "another holder")
    pair.now += LEASE - 1
    agree(hold, holder + 1, "the second connection")
    pair.now += 1
    agree(hold, holder, "a stale call, when the other's hold has ended")
    pair.now -= 1
    equal(agree(ask, 3 * 4096, "the clock is set back"), [1, 3], "what was held then")


@test("expired charges leave no keys behind", workers=[1])
def expiry(t):
    pair = Pair(t, keeps=False)
    rule = Rule(5, 1_000_000, 31)
    pair.call([(ASK, (("f{1}a", rule, 1),))])
    left = pair.redis.ask("PTTL", "f{1}a")
    true(1000 <= left <= 6000, f"the caller of a window of 1 s is kept for {left} ms")
    pair.redis.ask("PEXPIRE", "f{1}a", 100_000)
    pair.now += 500_000
    pair.call([(ASK, (("f{1}a", rule, 1),))])
    true(pair.redis.ask("PTTL", "f{1}a") > 10_000, "one that is kept for long enough yet")
    pair.now += 600_000
    pair.call([(ASK, (("f{1}a", rule, 1),))])
    left = pair.redis.ask("PTTL", "f{1}a")
    true(1000 <= left <= 6000, f"one that is to be kept for longer now is kept for {left} ms")
    pair.now += 2_000_000
    slot = pair.call([(ASK, (("f{1}a", rule, 1),))])[2]
    pair.call([(GIVE, "f{1}a", rule, slot, 1)])
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
    pair.redis.ask("FCALL", NAME, 2, "f{epoch}", "f{1}a",
                   pack([7, LEASE, 1, *rule.words(0), GIVE, 2, 1, slot, 2, before]), 0)
    pair.epoch = new
    equal(pair.call([(LOOK, (("f{1}a", rule, 1),))])[1], 2, "used")


def look(pair, rule, known):
    """Whether one more fits, what is used, until when; of a node that knows that epoch."""
    epoch, admitted, used, _, left = pair.call([(LOOK, (("f{1}a", rule, 1),))], known=known)
    return epoch, admitted, used, left


@test("limits that wait are full for a window once a node knows what the store has forgotten", workers=[1])
def waiting(t):
    pair = Pair(t)
    rule, other = Rule(5, 1_000_000, 31, waits=True), Rule(5, 1_000_000, 31)
    strict = Rule(5, 1_000_000, 31, waits=True, waits_young=True)
    pair.call([(ASK, (("f{1}a", rule, 5),))])
    known = pair.epoch
    equal(look(pair, rule, 0), (known, 0, 5, 1_000_001), "full, also for a node that is new")
    for fresh_first in (False, True):
        pair.redis.ask("DEL", "f{epoch}", "f{1}a")
        pair.now += 100_000
        lost = pair.now
        if fresh_first:
            fresh, admitted, used, _ = look(pair, rule, 0)
            equal((admitted, used), (1, 0), "a limit that trusts a store that nobody is known to have used")
            true(fresh > known, "another epoch")
            equal(look(pair, strict, fresh)[:3], (fresh, 0, 5), "one that does not")
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


@test("a store that is young: limits that wait for that are full for two leases, or a window if that is shorter",
      workers=[1])
def young(t):
    pair, born = Pair(t), None
    short, long = [Rule(5, window, 31, waits=True, waits_young=True) for window in (1_000_000, 60_000_000)]
    local = Rule(5, 60_000_000, 31, waits=True)
    rules = {"{1}s": short, "{2}l": long, "{3}o": local}

    def admitted(known):
        answers = [pair.call([(LOOK, ((f"f{key}", rule, 1),))], known=known) for key, rule in rules.items()]
        return [answer[1] for answer in answers], [answer[4] for answer in answers]
    born = pair.now
    equal(admitted(0), ([0, 0, 1], [1_000_000, 2 * LEASE, 0]), "at its first call")
    pair.now = born + 1_000_000
    for known in (born, 0):
        equal(admitted(known)[0], [1, 0, 1], "for a window")
    equal(pair.call([(ASK, (("f{2}l", long, 1),))], known=born)[1], 0, "no request is charged")
    pair.now = born + 2 * LEASE
    for known in (0, born):
        equal(admitted(known), ([1, 1, 1], [0, 0, 0]), "for two leases")


@test("requests whose text has come before are judged by their own rules, whatever came between", workers=[1])
def texts_again(t):
    pair, random = Pair(t), t.random
    sets = [[Rule(quota, 1_000_000, 31, waits=True) for _ in range(1 + quota % 3)] for quota in range(1, 91)]
    requests = [(ASK, tuple((f"f{{{n}}}{i}", rule, 1) for i, rule in enumerate(rules))) for n, rules in enumerate(sets)]
    for step in range(1500):
        pair.now += random.choice([0, 1000, 300_000])
        operations = [requests[random.randrange(4 if random.random() < 0.8 else len(requests))]]
        if random.random() < 0.1:
            operations.append((LOOK, random.choice(requests)[1]))
        equal(pair.call(operations), pair.expect(operations, 7), f"step {step}")
    pair.call(requests[:1])
    known = pair.epoch
    pair.redis.ask("DEL", "f{epoch}", "f{0}0", "f{0}1")
    for what in ("the store has forgotten", "and still has not got it back"):
        equal(pair.call(requests[:1], known=known)[1], 0, what)
    pair.redis.ask("DEL", "f{epoch}")
    equal(pair.call(requests[:1], known=0)[1], 1, "a store that nobody is known to have used")


@test("a refund of an earlier period of a calendar leaves the count of this one", workers=[1])
def refund_of_an_earlier_period(t):
    pair, rule = Pair(t), Calendar(5, 10_000_000)
    slot = pair.call([(ASK, (("f{1}a", rule, 2),))])[2]
    pair.now += 10_000_000
    pair.call([(ASK, (("f{1}a", rule, 3),))])
    pair.call([(GIVE, "f{1}a", rule, slot, 2)])
    equal(pair.call([(LOOK, (("f{1}a", rule, 1),))])[1], 3, "used")


@test("a function is loaded once", workers=[1])
def loaded_once(t):
    text, redis = function_text("judge"), Redis(t).connect()
    redis.ask("FUNCTION", "LOAD", text)
    refused = None
    try:
        redis.ask("FUNCTION", "LOAD", text)
    except Refused as answer:
        refused = str(answer)
    true(refused and "already exists" in refused, refused)
    equal(len(redis.ask("FUNCTION", "LIST")), 1, "libraries")


main()
