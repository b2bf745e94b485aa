"""The store's function for locks (proxy/store/lock.lua) by itself, in a real Redis, beside a plain oracle and by a clock
that the test sets, also backwards: sessions that take, use and release, are late, are ended and come back, and a store
that forgets."""
from lib.redis import Redis
from lib.store_clock import function_with_clock
from lib.tap import equal, longer, main, test, true

LEASES = [1_000, 3_000, 10_000]
# What Redis's own clock would do, by the test's: see Store.call.
CLOCK = ((r"redis.call\('PEXPIRE'[^\n]*", "", 1),)


class Store:
    def __init__(self, t):
        self.redis = Redis(t).connect()
        self.redis.ask("FUNCTION", "LOAD", function_with_clock("lock", *CLOCK))
        self.now = 1_800_000_000_000  # ms

    def expire(self, names):
        for name in names:
            till = self.redis.ask("HGET", "{l}lock:" + name, "till")
            if till and int(till) <= self.now:
                self.redis.ask("DEL", "{l}lock:" + name)

    def call(self, asks):
        """Of (verb, name, session, number, lease, keep, value): (status, fence, left, session, value) each."""
        self.expire({ask[1] for ask in asks})
        self.redis.ask("SET", "clock", self.now * 1000)
        text = self.redis.ask("FCALL", "sluice_lock_1", len(asks) + 1, *("{l}lock:" + ask[1] for ask in asks), "{l}lock",
                              *(word for verb, _, *rest in asks for word in (verb, *rest)))
        answers = []
        for _ in asks:
            line, text = text.split(b"\n", 1)
            status, fence, left, session, size = line.split()
            answers.append((status.decode(), int(fence), int(left), session.decode(), text[:int(size)].decode()))
            equal(text[int(size):int(size) + 1], b"\n")
            text = text[int(size) + 1:]
        equal(text, b"")
        return answers

    def listed(self):
        names, cursor = set(), b"0"
        while True:
            cursor, *keys = self.redis.ask("FCALL", "sluice_locks_1", 1, "{l}lock", cursor).split(b"\n")
            names |= {key.decode().split(":", 1)[1] for key in keys}
            if cursor == b"0":
                return names


class Lock:
    def __init__(self, now):
        self.session, self.fence, self.ends, self.value, self.till = "", now * 1000, 0, "", 0


class Oracle:
    """The same in plain words."""

    def __init__(self):
        self.locks = {}

    def expire(self, now, names):
        for name in names:
            if name in self.locks and self.locks[name].till <= now:
                del self.locks[name]

    def answer(self, now, ask):
        verb, name, session, number, lease, keep, value = ask
        is_kept = name in self.locks
        lock = self.locks.get(name) or Lock(now)
        mine = lock.session != "" and lock.session == session
        past = number < 0 and lock.fence <= -1 - number
        status, shown = "over", None
        if verb == "look":
            status = "free" if not lock.session else "busy" if lock.ends > now else "lapsed"
        elif verb == "end":
            if lock.session and number in (0, lock.fence):
                status, shown = "free", lock.session
        elif verb == "release":
            status = "free" if mine and number == lock.fence else "over"
        elif verb == "use":
            status = "held" if mine and number == lock.fence else "over"
        elif mine and not past:
            status = "held"
        elif number < 0 or number == lock.fence if is_kept else number < 0 or number > (now - keep) * 1000:
            status = "busy" if lock.session and not mine and lock.ends > now else "held"
            if status == "held":
                lock.session, lock.fence, lock.ends, lock.till = session, max(lock.fence + 1, now * 1000), 0, 0
        if status == "held":
            self.locks[name] = lock
            lock.ends, lock.value = max(lock.ends, now + lease), value or lock.value
            if lock.till < lock.ends + 2 * keep:
                lock.till = lock.ends + 3 * keep
        elif status == "free" and verb != "look":
            lock.session, lock.ends, lock.till = "", 0, now + 2 * keep
        shown = shown or lock.session or "-"
        return (status, lock.fence, max(0, lock.ends - now), shown, lock.value if verb in ("take", "look") else "")


def draw_ask(random, lives, names, keep):
    """Of a random session, as it would ask, or as it should not."""
    name = random.choice(names)
    life = random.choice(lives[name])
    verb = random.choices(["take", "use", "release", "end", "look"], [6, 10, 2, 1, 2])[0]
    number = life[2] if verb in ("use", "release") else life[1]
    if verb == "end":
        number = random.choice([0, life[2]])
    if verb == "take" and life[0] == "any":
        number = -1 - random.choice([0, 0, max(0, life[2] - 1), life[2]])
    elif verb in ("use", "release") and random.random() < 0.05:
        number = max(0, number + random.choice([-1, 1]))
    value = random.choice(["", "", f"v{random.randrange(100)}", "two\nlines"]) if verb in ("take", "use") else ""
    return life, (verb, name, life[0], number, random.choice(LEASES), keep, value)


def learn(random, lives, life, ask, answer, count):
    """A session knows its fence; one that is over may be born again, by another id."""
    if ask[0] == "take" and answer[0] == "held":
        life[2] = answer[1]
    elif answer[0] == "over" and ask[0] in ("take", "use") and random.random() < 0.5:
        lives[ask[1]].append([f"s{count}", answer[1], 0])
        del lives[ask[1]][1:-3]


class Watch:
    """What must hold whatever the oracle says: takings have growing fences, and no use is behind a later taking."""

    def __init__(self, forgets):
        self.last, self.over, self.taken, self.forgets = {}, set(), {}, forgets

    def see(self, ask, answer):
        verb, name, session, number = ask[:4]
        status, fence = answer[:2]
        if status != "held":
            return
        last_fence, last_session = self.last.get(name, (0, ""))
        if verb == "take" and (fence, session) != (last_fence, last_session):
            true(fence > last_fence, f"{name}: fence {fence} after {last_fence}")
            self.over.add((name, last_session, last_fence))
            self.last[name] = fence, session
        true((name, session, fence) not in self.over, f"{name}: {session} is over, and has used it by {fence}")
        true(verb != "use" or (number, session) == (last_fence, last_session), f"{name}: {number} after {last_fence}")
        if verb == "take" and number >= 0 and not self.forgets:
            equal(self.taken.setdefault((name, session), fence), fence, f"{name}: {session} takes it once")


def live(t, store, schedule, forgets):
    random = t.random
    keep = random.choice([5_000, 60_000])
    names = [f"{schedule}-{n}" for n in range(3)]
    lives = {name: [["any", 0, 0], ["s", 0, 0]] for name in names}
    oracle, watch = Oracle(), Watch(forgets)
    most = store.now
    for count in range(120):
        store.now += random.choice([0, 1, 400, 1_500]) if random.random() < 0.95 else random.choice([12_000, 200_000])
        most = max(most, store.now)
        if not forgets and random.random() < 0.02:
            store.now = most - 2_000
        if forgets and random.random() < 0.02:
            for name in names:
                store.redis.ask("DEL", "{l}lock:" + name)
            store.now += 10
            oracle.locks.clear()
        drawn = [draw_ask(random, lives, names, keep) for _ in range(random.choice([1, 1, 1, 4]))]
        oracle.expire(store.now, {ask[1] for _, ask in drawn})
        answers = store.call([ask for _, ask in drawn])
        for (life, ask), answer in zip(drawn, answers):
            equal(answer, oracle.answer(store.now, ask), f"schedule {schedule}, call {count}: {ask}")
            watch.see(ask, answer)
            learn(random, lives, life, ask, answer, f"{count}-{len(lives[ask[1]])}")
    held = {name for name in names if oracle.locks.get(name) and oracle.locks[name].session
            and oracle.locks[name].till > store.now}
    found = {name for name in store.listed() if name.startswith(f"{schedule}-")}
    true(held <= found or forgets, f"{held} are held, {found} are listed")
    freed = {name for name in names if name in oracle.locks and not oracle.locks[name].session}
    true(not freed & found, f"{freed} were released, {found} are listed")


@test("random sessions: each answer is the oracle's, fences grow, and who lost a lock is over", workers=[1])
def sessions(t):
    store = Store(t)
    for schedule in range(longer(250)):
        live(t, store, schedule, forgets=schedule % 4 == 3)


@test("an id takes a lock once: not after a takeover, its release or its end", workers=[1])
def once(t):
    store = Store(t)

    def ask(verb, session, number):
        return store.call([(verb, "n", session, number, 1_000, 60_000, "")])[0]

    _, birth, *_ = ask("look", "", 0)
    status, first, left, session, _ = ask("take", "a", birth)
    equal((status, left, session), ("held", 1_000, "a"))
    equal(ask("take", "b", first)[0], "busy")
    store.now += 1_000
    status, second, _, _, _ = ask("take", "b", first)
    equal(status, "held")
    true(second > first, f"{second} after {first}")
    for verb, number in (("take", birth), ("use", first), ("release", first)):
        equal(ask(verb, "a", number)[0], "over", verb)
    equal(ask("release", "b", second)[0], "free")
    equal(ask("take", "a", birth)[0], "over", "its own taking is not forgotten")
    equal(ask("take", "b", first)[0], "over", "released")
    status, third, _, _, _ = ask("take", "c", second)
    equal(status, "held")
    equal(ask("end", "", 0)[3], "c", "which was ended")
    equal(ask("take", "c", second)[0], "over", "ended")
    equal(ask("use", "c", third)[0], "over", "ended")
    store.now += 130_000
    equal(ask("take", "c", second)[0], "over", "its taking is not kept any more")
    equal(ask("take", "c", third)[0], "over", "nor is its end")


@test("an id takes a lock once also where the clock is set back when its taking is not kept any more", workers=[1])
def clock_set_back(t):
    for keeps in (1, 2):
        store = Store(t)

        def ask(verb, number):
            return store.call([(verb, "n", "a", number, 1_000, 60_000, "")])[0]

        birth = ask("look", 0)[1]
        equal(ask("release", ask("take", birth)[1])[0], "free")
        store.now += keeps * 60_000
        ask("look", 0)  # so that the store may forget it
        store.now -= 2_000
        equal(ask("take", birth)[0], "over", f"after {keeps} times what was asked")


@test("what an id takes again, after it has dropped a fence, has a new one, also if the store still names the id", workers=[1])
def taken_again(t):
    store = Store(t)

    def take(session, dropped):
        return store.call([("take", "n", session, -1 - dropped, 1_000, 60_000, "")])[0]

    _, first, *_ = take("a", 0)
    equal(take("a", first - 1)[1], first, "it has not dropped this one: asked again, it has it")
    store.now += 1
    status, second, left, session, _ = take("a", first)
    equal((status, left, session), ("held", 1_000, "a"))
    true(second > first, f"{second} after {first}")
    equal(store.call([("use", "n", "a", first, 1_000, 60_000, "")])[0][0], "over")
    equal(take("b", second)[0], "busy", "what another has dropped says nothing of a's")


@test("a use sets the lock's value if the session has it, and else changes nothing", workers=[1])
def effects(t):
    store = Store(t)
    _, fence, *_ = store.call([("take", "n", "a", -1, 1_000, 60_000, "one")])[0]
    store.now += 2_000
    equal(store.call([("use", "n", "a", fence, 1_000, 60_000, "two")])[0][0], "held", "nobody has taken it")
    equal(store.call([("look", "n", "", 0, 1, 1, "")])[0][4], "two")
    store.now += 2_000
    _, later, *_ = store.call([("take", "n", "b", -1, 1_000, 60_000, "")])[0]
    equal(store.call([("use", "n", "a", fence, 1_000, 60_000, "three")])[0][0], "over")
    equal(store.call([("look", "n", "", 0, 1, 1, "")])[0], ("busy", later, 1_000, "b", "two"))


main()
