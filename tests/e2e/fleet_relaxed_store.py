"""The store's function for limits that nodes publish (proxy/fleet/relaxed.lua) by itself, in a real Redis:
random operations beside a plain oracle, by a clock that the test sets, also backwards."""
from lib.redis import Redis, pack, unpack
from lib.store_clock import function_with_clock
from lib.tap import equal, main, test


class Oracle:
    """What was published of one caller, by slot. What counts no more when more is published is forgotten."""

    def __init__(self):
        self.slots, self.quantum = {}, None

    def publish(self, now, window, quantum, more, less):
        counted = {}
        for slot, count in self.slots.items():
            if self.quantum != quantum:
                slot = ((slot + 1) * self.quantum - 1) // quantum
            if (slot + 2) * quantum + window > now:
                counted[slot] = counted.get(slot, 0) + count
        if more or (less and counted):
            if more:
                slot = max(now // quantum, max(counted, default=0))
                counted[slot] = counted.get(slot, 0) + more
            for slot in sorted(counted):
                taken = min(less, counted[slot])
                counted[slot], less = counted[slot] - taken, less - taken
            counted = {slot: count for slot, count in counted.items() if count}
            self.slots, self.quantum = counted, quantum
        ends = (min(counted) + 2) * quantum + window - now if counted else 0
        return sum(counted.values()), ends


@test("random publications: the same as a plain oracle says", workers=[1])
def oracle(t):
    random, redis = t.random, Redis(t).connect()
    redis.ask("FUNCTION", "LOAD", function_with_clock("relaxed", (r"'EX',\s*[^\n]*", "'EX', 100000)", 1)))
    oracles = {f"f{{{n}}}it:relaxed": Oracle() for n in range(6)}
    rules = [(1_000_000, 1), (1_000_000, 32_768), (1_000_000, 65_536), (10_000_000, 262_144)]
    rule_of = {key: random.choice(rules) for key in oracles}
    now, most = 1_800_000_000_000_000, 0
    for step in range(3000):
        now += random.choice([0, 1, 1000, 50_000, 300_000]) if random.random() < 0.97 else 12_000_000
        now -= random.choice([1, 100_000, 3_000_000]) if random.random() < 0.01 else 0
        request, keys, expected = [], random.sample(sorted(oracles), random.choice([1, 1, 2, 5])), []
        for key in keys:
            if random.random() < 0.01:
                rule_of[key] = random.choice(rules)
            more = random.choice([0, 1, 1, 2, 30])
            less = random.choice([0, 0, 0, 0, 1, 3, 40])
            request += [*rule_of[key], more, less]
            expected += oracles[key].publish(now, *rule_of[key], more, less)
        redis.ask("SET", "clock", now)
        answer = unpack(redis.ask("FCALL", "sluice_relaxed_1", len(keys), *keys, pack(request)))
        equal(answer, expected, f"step {step}: {keys} {request}")
        most = max(most, *expected)
    t.note(f"at most {most}")


@test("what counts no more is dropped by the store in time", workers=[1])
def expiry(t):
    redis = Redis(t).connect()
    redis.ask("FUNCTION", "LOAD", function_with_clock("relaxed"))
    redis.ask("SET", "clock", 1_800_000_000_000_000)
    redis.ask("FCALL", "sluice_relaxed_1", 1, "f{1}it:relaxed", pack([10_000_000, 1, 3, 0]))
    equal(redis.ask("TTL", "f{1}it:relaxed") in (12, 13), True, "its time")
    redis.ask("FCALL", "sluice_relaxed_1", 1, "f{2}it:relaxed", pack([10_000_000, 1, 0, 0]))
    equal(redis.ask("EXISTS", "f{2}it:relaxed"), 0, "of a caller that was only asked about nothing is kept")
    redis.ask("FCALL", "sluice_relaxed_1", 1, "f{1}it:relaxed", pack([10_000_000, 1, 0, 3]))
    equal(redis.ask("EXISTS", "f{1}it:relaxed"), 0, "nor of one that has given all back")


main()
