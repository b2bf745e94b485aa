"""Nodes of two releases with one store, as during a rolling upgrade: each has its own function, and they count
together. released/ has the functions of releases before, as they were."""
import copy
import os
import threading
import time

from lib.fleet import Load, ask, limit, nodes
from lib.redis import Redis, pack, unpack
from lib.fields import told, wait_ms
from lib.process import until
from lib.sluice import to
from lib.spans import most_within
from lib.store_oracle import (ASK, LEASE, LOOK, Ban, Pair, Rule, any_operations, any_rule, read_answer, verdicts_of,
                              with_clock)
from lib.tap import equal, main, test, true


def released(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "released", name), encoding="utf-8") as text:
        return text.read()


# ---- the functions ------------------------------------------------------------------------------

class Two(Pair):
    """That of a release before beside our own, on the same keys."""

    def __init__(self, t, release):
        super().__init__(t)
        self.release = release
        self.redis.ask("FUNCTION", "LOAD", with_clock(released(f"sluice_{release}.lua"), True))

    def call_before(self, operations, holder):
        keys, rules, words = self.compose(operations)
        request = [len(rules)] if self.release == 2 else [holder, LEASE, len(rules)]
        for rule in rules:
            if self.release == 2:
                request += [rule.quota, rule.window, rule.quantum, rule.shadow + 2 * rule.waits]
            elif not isinstance(rule, Ban):
                request += rule.words(self.now)
        answer = self.send(f"sluice_judge_{self.release}", keys, request + words)
        return self.learn(unpack(answer) if self.release < 7 else read_answer(answer, verdicts_of(operations)))


def as_before(operations, answer):
    """Release 2 said 0 of whatever was not charged."""
    answer, at = list(answer), 0
    for kind, *rest in operations:
        if kind in (ASK, LOOK):
            for n in range(len(rest[0])):
                answer[at + 3 * n + 2] = max(0, answer[at + 3 * n + 2])
            at += 1 + 3 * len(rest[0])
    return answer


def of_before(rule):
    """The same limit as a node of a release before has it: its quantum is no power of two, and slots become its own."""
    twin = copy.copy(rule)
    if isinstance(rule, Rule):
        twin.keeps_others = False
        if rule.quantum > 1:
            rule.quantum = 2 ** (rule.quantum.bit_length() - 1)
    return twin


def any_window(random):
    return Rule(random.choice([1, 2, 3, 10, 31, 32, 100, 5000]), random.choice([1_000_000, 10_000_000, 3_600_000_000]),
                random.choice([31, 31, 8, 255]), shadow=random.random() < 0.15, waits=random.random() < 0.5)


def agree(t, release, draw_rule, as_answered):
    two, random = Two(t, release), t.random
    rules = {f"f{{{n}}}{limit}": draw_rule(random) for n in range(8) for limit in "ab"}
    rules_before = {caller: of_before(rule) for caller, rule in rules.items()}
    given, calls = [], [0, 0]
    for step in range(2000):
        two.now += random.choice([0, 1, 1000, 50_000, 400_000]) if random.random() < 0.97 else 20_000_000
        is_before = random.random() < 0.5
        operations = any_operations(random, rules_before if is_before else rules, given, forgets=release > 2)
        if not operations:
            continue
        calls[is_before] += 1
        expected = two.expect(operations, 5)
        if is_before:
            equal(two.call_before(operations, 5), as_answered(operations, expected), f"step {step}, by release {release}")
        else:
            equal(two.call(operations, 5), expected, f"step {step}")
        at = 0
        for kind, *rest in operations:
            if kind not in (ASK, LOOK):
                continue
            for n, (caller, rule, cost) in enumerate(rest[0]):
                if expected[at + 3 * n + 2] > 0 and random.random() < 0.2:
                    given.append((caller, rule, cost, expected[at + 3 * n + 2]))
            at += 1 + 3 * len(rest[0])
    true(min(calls) > 500, f"calls {calls}")


@test("random operations by the functions of two releases: together they agree with a plain oracle", workers=[1])
def together(t):
    agree(t, 2, any_window, as_before)


@test("the same of release 4, which knows all kinds of limits", workers=[1])
def together_of_all_kinds(t):
    agree(t, 4, any_rule, lambda operations, answer: answer)


@test("the same of release 7, which answers in doubles", workers=[1])
def together_with_doubles(t):
    agree(t, 7, any_rule, lambda operations, answer: answer)


@test("the same of release 8, to which each number is a holder", workers=[1])
def together_with_numbers(t):
    agree(t, 8, any_rule, lambda operations, answer: answer)


# ---- nodes --------------------------------------------------------------------------------------

class NodeBefore:
    """What a node of release 2 asks its store."""

    def __init__(self, redis, key, quota, window_us):
        self.connection, self.key = redis.connect(), key
        try:
            self.connection.ask("FUNCTION", "LOAD", released("sluice_2.lua"))
        except Exception as refused:  # pylint: disable=broad-except
            true("already exists" in str(refused), str(refused))
        self.rule = [quota, window_us, 1 if quota <= 31 else -(-window_us // 30), 2]
        self.admitted = []
        self.is_over = False
        self.thread = threading.Thread(target=self._hammer, daemon=True)

    def ask(self):
        """Whether it admits one, and what is used."""
        answer = unpack(self.connection.ask("FCALL", "sluice_judge_2", 2, "sluice{epoch}:2", self.key,
                                            pack([1, *self.rule, ASK, 1, 2, 1, 1]), 0))
        return answer[2], answer[3]

    def _hammer(self):
        while not self.is_over:
            sent = time.monotonic()
            if self.ask()[0]:
                self.admitted.append((sent, time.monotonic()))

    def end(self):
        self.is_over = True
        self.thread.join()


def key_of(redis):
    """The caller's, as soon as a node has asked about it."""
    found = until(lambda: redis.connect().ask("KEYS", "sluice{*}it:*"), "a caller")
    return found[0].decode()


@test("a rolling upgrade: nodes of both releases have one quota, and one memory of what the store forgot")
def one_quota(t):
    redis, origin = Redis(t), t.origin()
    node, = nodes(t, redis, limit("it", "6 per 1h") + to(origin, route="limits = it"), 1)
    client = t.client(node)
    equal(told(ask(client)).left["it"]["r"], 5, "by our own")
    before = NodeBefore(redis, key_of(redis), 6, 3_600_000_000)
    equal([before.ask() for _ in range(2)], [(1, 2), (1, 3)], "by the one before")
    equal(told(ask(client)).left["it"]["r"], 2, "by our own")
    equal([before.ask() for _ in range(3)], [(1, 5), (1, 6), (0, 6)], "by the one before, which is refused")
    equal(ask(client).status, 429, "and so is ours")
    before.connection.ask("FLUSHALL")
    equal(ask(client).status, 429, "the store has forgotten")
    equal(before.ask()[0], 0, "which the other one hears of by ours")


@test("a rolling upgrade: what is used lasts no longer, though the releases divide time differently", workers=[1])
def one_way_to_divide(t):
    redis, origin = Redis(t), t.origin()
    node, = nodes(t, redis, limit("it", "40 per 10s") + to(origin, route="limits = it"), 1)
    client = t.client(node)
    ask(client)
    before = NodeBefore(redis, key_of(redis), 40, 10_000_000)
    refused = []
    while len(refused) < 20:
        before.ask()
        answer = ask(client)
        refused += [wait_ms(answer)] if answer.status == 429 else []
    true(max(refused) <= 11_000, f"{max(refused)} ms to wait of a window of 10 s")


@test("the promise over two nodes and one of the release before, under load", workers=[2])
def promise(t):
    redis, origin = Redis(t), t.origin(lambda x: x.reply(200, b"x"))
    made = nodes(t, redis, limit("it", "50 per 2s") + to(origin, route="limits = it"), 2)
    load = Load(t, 2).begin(made)
    before = NodeBefore(redis, key_of(redis), 50, 2_000_000)
    before.thread.start()
    origin.wait(lambda: len(origin.requests) + len(before.admitted) >= 250, "five windows' worth")
    load.end()
    before.end()
    spans = load.spans(origin) + before.admitted
    most = most_within(spans, 1.95)
    t.note(f"{len(spans)} admitted, {len(before.admitted)} by the release before; at most {most} of 50 within 2 s")
    true(most <= 50, f"{most} within 2 s")
    true(before.admitted and origin.requests, "by both")


main()
