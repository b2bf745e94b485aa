"""The store's function for shares (proxy/fleet/split.lua) by itself, in a real Redis, by a clock that the
test sets: nodes that use all that they may, of which calls and answers are late, lost or come twice, that
stop, die, join and forget; and a store that forgets. No window may hold more than the quota."""
from lib.redis import Redis, pack, unpack
from lib.store_clock import function_with_clock
from lib.tap import equal, main, test, true

LEASE, GRACE = 1_000_000, 200_000


class Store:
    def __init__(self, t):
        self.redis = Redis(t).connect()
        self.redis.ask("FUNCTION", "LOAD", function_with_clock("split", (r"redis.call\('EXPIRE'[^\n]*", "", 1)))
        self.now = 1_800_000_000_000_000
        self.begin()

    def begin(self):
        """Of limits that no node has used yet, of a fleet that has used the store for long."""
        self.redis.ask("DEL", "f{split}")
        self.redis.ask("SET", "f{split}:since", self.now - 3600_000_000)

    def forget(self):
        self.redis.ask("DEL", "f{split}", "f{split}:since")

    def call(self, words):
        """(name, process, number, lease, limits of (name, quota, window, units, judged, since)): what it gives of
        each: (units, judged, since, nodes, more)."""
        name, process, number, lease, limits = words
        request = [process, number, lease, GRACE] + [n for limit in limits for n in limit[1:]]
        self.redis.ask("SET", "clock", self.now)
        answer = unpack(self.redis.ask("FCALL", "sluice_split_1", 2, "f{split}", "f{split}:since", name, pack(request),
                                       *(limit[0] for limit in limits)))
        equal(answer[0], self.now, "the time")
        return [tuple(answer[at:at + 5]) for at in range(1, len(answer), 5)]


class Node:
    """As split.c has it, but that it uses each share to its very end."""

    def __init__(self, store, name, process, quota, window):
        self.store, self.name, self.process, self.quota, self.window = store, name, process, quota, window
        self.units, self.judged, self.until, self.since, self.number = 0, 0, 0, 0, 0
        self.call, self.late = None, []  # the call that is on its way; those of lost connections
        self.answer, self.alive, self.told_at = None, True, 0
        self.used = []  # [begin, end, units, judged] of what it may have used

    def holds(self):
        return (self.units, self.judged) if self.store.now < self.until else (0, 0)

    def ask(self, lease=LEASE):
        units, judged = self.holds()
        if self.store.now - self.told_at >= LEASE + self.window + GRACE:
            self.since = 0
        self.number += 1
        self.call = (self.store.now, (self.name, self.process, self.number, lease,
                                      [("it", self.quota, self.window, units, judged, self.since)]))

    def reach(self):
        self.answer = self.store.call(self.call[1])[0]

    def lose(self):
        """The connection: a call that is on its way may still come."""
        if self.answer is None:
            self.late.append(self.call[1])
        self.call = self.answer = None

    def hear(self):
        began, self.call = self.call[0], None
        self.units, self.judged, self.since, _, _ = self.answer
        self.told_at, self.until, self.answer = began, began + LEASE, None
        self.use()

    def use(self):
        """Notes what it may use from now on; called whenever that changes."""
        now = self.store.now
        if self.used and self.used[-1][1] > now:
            self.used[-1][1] = now
        if now < self.until:
            self.used.append([now, self.until, self.units, self.judged])

    def die(self):
        self.alive = False
        if self.used and self.used[-1][1] > self.store.now:
            self.used[-1][1] = self.store.now

    def most(self, now):
        """Units that it may have used in the last window, and whether the store judged for it then."""
        recent = [u for u in self.used if u[0] <= now and u[1] > now - self.window]
        self.used = [u for u in self.used if u[1] > now - self.window]
        return max((u[2] for u in recent), default=0), max((u[3] for u in recent), default=0)


def counted(nodes, now, quota):
    most = [node.most(now) for node in nodes]
    return sum(units for units, _ in most) + quota * max((judged for _, judged in most), default=0)


def step(random, store, nodes, quota, window, forgets):
    node = random.choice(nodes)
    draw = random.random()
    if not node.alive:
        if draw < 0.1 and node.late:
            store.call(node.late.pop(0))
        return
    if node.answer is not None and draw < 0.7:
        node.hear()
    elif node.call is None:
        node.ask()
    elif draw < 0.75:
        if node.answer is None:
            node.reach()
    elif draw < 0.85:
        node.lose()
    elif draw < 0.9 and node.late:
        store.call(node.late.pop(0))
    elif draw < 0.92:
        node.die()
        nodes.append(Node(store, random.choice([node.name, f"n{len(nodes)}"]), random.getrandbits(40) + 1,
                          quota, window))
    elif draw < 0.94 and len(nodes) < 8:
        nodes.append(Node(store, f"n{random.randrange(100)}", random.getrandbits(40) + 1, quota, window))
    elif draw < 0.96 and forgets:
        forget(store, node, nodes)


def forget(store, node, nodes):
    """Windows that are longer than a lease need a node that remembers, which comes within two leases: here at
    once. With others any node may be the first that asks."""
    node.lose()
    node.ask()
    if node.window > LEASE and node.call[1][4][0][5] == 0:
        return
    store.forget()
    for other in nodes:
        other.late = []
        if other is not node and other.call and other.answer is None:
            other.call = None
    if node.window > LEASE:
        node.reach()
    else:
        node.lose()
        node.late = []


@test("random schedules: no window holds more than the quota, and all of it is given when all is quiet",
      workers=[1])
def schedules(t):
    store, most, judged = Store(t), 0, 0
    for schedule in range(60):
        random = t.random
        quota, window = random.choice([1, 2, 3, 10, 100]), random.choice([300_000, 1_000_000, 3_000_000])
        store.begin()
        nodes = [Node(store, f"n{n}", random.getrandbits(40) + 1, quota, window) for n in range(3)]
        for _ in range(250):
            store.now += random.choice([0, 1000, 50_000, 200_000]) if random.random() < 0.97 else 1_500_000
            step(random, store, nodes, quota, window, forgets=schedule % 2)
            count = counted(nodes, store.now, quota)
            true(count <= quota, f"schedule {schedule}: {count} of {quota} in a window of {window}")
            most = max(most, count / quota)
            judged += any(n.judged and store.now < n.until for n in nodes)
        nodes = [n for n in nodes if n.alive]
        for node in nodes:
            node.call = node.answer = None
        for _ in range(3 * (LEASE + window + GRACE) // 200_000 + 12):
            store.now += 200_000
            for node in nodes:
                node.ask()
                node.reach()
                node.hear()
        shares = sorted(n.units for n in nodes)
        if len(nodes) > quota:
            equal([n.judged for n in nodes], [1] * len(nodes), "more nodes than units: the store judges")
        else:
            equal(sum(shares), quota, f"schedule {schedule}: all of it is given, {shares}")
            true(shares[-1] - shares[0] <= 1, f"in even shares: {shares}")
            by_name = [n.units for n in sorted(nodes, key=lambda n: (n.name, n.process))]
            equal(by_name, sorted(shares, reverse=True), "the rest to the lowest names")
    t.note(f"at most {100 * most:.0f} % of a quota, {judged} steps with the store as judge")
    equal(most, 1.0, "all of a quota is used at times")
    true(judged > 0, "and the store judges at times")


@test("a joiner, a node that leaves, and one that dies: when the others get what they may", workers=[1])
def changes(t):
    store = Store(t)
    one, two = [Node(store, name, 1, 10, 1_000_000) for name in ("one", "two")]

    def renew(node, lease=LEASE):
        node.ask(lease)
        node.reach()
        answer = node.answer
        node.hear()
        return answer
    equal(renew(one)[0], 10, "alone")
    equal(renew(two)[0], 0, "a joiner")
    store.now += 1000
    equal((renew(one)[0], one.units), (5, 5), "the other uses less when it hears of it,")
    store.now += 1000
    equal(renew(one)[0], 5, "and says so")
    units, _, _, nodes, more = renew(two)
    equal((units, nodes, more), (0, 2, 1_200_000), "the joiner waits for a window")
    store.now += 600_000
    renew(one)
    renew(two)
    store.now += 600_000
    equal(renew(two)[0], 5, "and has its share")
    renew(one)
    two.ask(0)
    two.reach()
    equal(renew(one)[:5], (5, 0, one.since, 1, 1_200_000), "after one has left")
    store.now += 600_000
    renew(one)
    store.now += 600_000
    equal(renew(one)[0], 10, "a window later")
    three = Node(store, "three", 3, 10, 1_000_000)
    equal(renew(three)[0], 0, "another joiner")
    for _ in range(10):
        store.now += 200_000
        equal(renew(three)[0], 0, "while the node that is not heard counts")
    store.now += 200_000
    equal(renew(three)[0], 10, "a lease and a window later")


@test("a store that forgot gives nobody more than it has until all of it is over", workers=[1])
def forgotten(t):
    store = Store(t)
    one, two = [Node(store, name, 1, 10, 1_000_000) for name in ("one", "two")]
    for _ in range(20):
        store.now += 200_000
        for node in (one, two):
            node.ask()
            node.reach()
            node.hear()
    equal((one.units, two.units), (5, 5), "before")
    store.forget()
    store.now += 1000
    for node in (one, two):
        node.ask()
        node.reach()
        node.hear()
    equal((one.units, two.units), (5, 5), "what they had")
    three = Node(store, "three", 3, 10, 1_000_000)
    for _ in range(10):
        three.ask()
        three.reach()
        three.hear()
        equal(three.units, 0, "a joiner has nothing")
        for node in (one, two):
            node.ask()
            node.reach()
            node.hear()
        store.now += 200_000
    equal(store.redis.ask("EXISTS", "f{split}"), 1, "it is kept")


@test("a store that forgot, and a node that remembers nothing comes first: it waits for those who remember",
      workers=[1])
def young(t):
    window = 60_000_000
    store = Store(t)
    one, new = Node(store, "one", 1, 10, window), Node(store, "new", 2, 10, window)

    def renew(node):
        node.ask()
        node.reach()
        node.hear()
        return node.units
    equal(renew(one), 10, "before")
    store.forget()
    for step in range(10):
        store.now += LEASE // 5
        equal(renew(new), 0, "one had all of it")
        true(step % 3 == 0 or renew(one) == 5, "and keeps its part of it")
    store.now += window
    for _ in range(20):
        store.now += LEASE // 2
        renew(one)
        renew(new)
    store.now += window + LEASE
    for node in (one, new, one, new):
        renew(node)
    store.redis.ask("DEL", "f{split}")
    three = Node(store, "three", 3, 10, window)
    equal(renew(three), 10, "limits that were idle for long are none that were forgotten")
    store.forget()
    four = Node(store, "four", 4, 10, window)
    for _ in range(4):
        equal(renew(four), 0, "the first of all waits for two leases")
        store.now += LEASE // 2
    equal(renew(four), 10, "and has all of it, if none that remembers has called")


main()
