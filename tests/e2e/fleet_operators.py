"""What operators ask about callers of a fleet's limits: what they have used, whether a request would pass, and to
forget it; for each way to share a limit and each kind."""
import json

from lib.fields import told
from lib.fleet import ask, in_one_window, limit, named, nodes, share
from lib.held import Held
from lib.process import BINARY, run, until
from lib.redis import Redis
from lib.sluice import to
from lib.tap import equal, main, test, true


def operate(node, *words):
    return run([BINARY, *words, "-c", node.ini_path])


def callers(node, key="one", name="it"):
    """What is used of the limit, by GET callers; and whether the caller is banned."""
    status, answer = node.admin.json(f"/api/v1/callers?key={key}&limit={name}")
    equal(status, 200, answer)
    found, = answer["limits"]
    equal(found["limit"], name, "the limit")
    equal(found["used"] + found["remaining"], found["quota"], f"{found}")
    return found


def reset(node, key="one"):
    status, answer = node.admin.json(f"/api/v1/callers?key={key}", "DELETE")
    equal(status, 200, answer)
    return answer["reset"]


def explain(node, key="one", path="/"):
    status, answer = node.admin.json(f"/api/v1/explain?path={path}&field.X-Api-Key={key}")
    equal(status, 200, answer)
    return answer


def pair(t, redis, sections, **options):
    return named(t, redis, sections, ("one", "two"), **options)


KINDS = (
    ("a window", "exact", "4 per 1h", ""),
    ("gcra", "exact", "4 per 1h", "algorithm = gcra"),
    ("the calendar", "exact", "4 per month UTC", ""),
    ("a window in leases", "lease", "4 per 1h", ""),
    ("gcra in leases", "lease", "4 per 1h", "algorithm = gcra"),
)


def at_the_store(kind, way, rate, more):
    @test(f"callers, explain and reset by any node: {kind}", workers=[1])
    def operators(t):
        sections = limit("it", rate, more, way) + to(t.origin(), route="limits = it")
        one, two = pair(t, Redis(t), sections)
        clients = [t.client(n) for n in (one, two)]
        equal(explain(two)["outcome"], "admit", "before")
        equal(callers(two)["used"], 0, "before")
        equal(reset(two), [], "nothing to forget")
        equal([ask(clients[n % 2]).status for n in range(5)], [200] * 4 + [429], "requests")
        for node in (one, two):
            found = callers(node)
            equal((found["used"], found["quota"], found["banned"]), (4, 4, False), f"{found}")
            true(found["more_ms"] > 0, f"{found}")
            answer = explain(node)
            equal((answer["outcome"], answer["status"]), ("refuse", 429), f"{answer}")
            equal(answer["limits"][0]["violated"], True, f"{answer}")
            true(answer["retry_after_ms"] > 0, f"{answer}")
        equal(callers(one, "two")["used"], 0, "another caller")
        equal(explain(one, "two")["outcome"], "admit", "another caller")
        equal(reset(one), ["it"], "forgotten")
        equal(callers(two)["used"], 0, "after that")
        # with leases a node may know from the store for a while that nothing is free
        until(lambda: ask(clients[1]).status == 200, "after that")


for row in KINDS:
    at_the_store(*row)


@test("explain takes nothing, knows the cost, and sums a request's limits up", workers=[1])
def explained(t):
    redis = Redis(t)
    sections = (limit("it", "4 per 1h") + limit("seen", "1 per 1h", "mode = shadow")
                + "[limit own]\nkey = header:X-Api-Key | ip\nrate = 2 per 1h\n"
                + to(t.origin(), route="limits = it, seen, own")
                + "[route dear]\npath = /dear\nupstream = origin\nlimits = it\ncost = 3\n")
    one, two = pair(t, redis, sections)
    for _ in range(3):
        answer = explain(one)
        equal((answer["outcome"], [x["remaining"] for x in answer["limits"]]), ("admit", [3, 0, 1]), f"{answer}")
    client = t.client(two)
    equal([ask(client).status for _ in range(2)], [200] * 2, "two")
    answer = explain(two)
    equal((answer["outcome"], [x["violated"] for x in answer["limits"]]), ("refuse", [False, True, True]),
          "by the other node's own limit")
    equal(explain(one)["outcome"], "admit", "by this node's")
    equal(explain(one, path="/dear")["outcome"], "refuse", "what costs three")
    equal(explain(one, "two", "/dear")["outcome"], "admit", "of another caller")


@test("a ban is shown and forgotten; what is in flight is shown and stays", workers=[1])
def bans_and_flights(t):
    redis, held = Redis(t), Held(t)
    held.let("/")
    sections = (limit("it", "1 per 1h", "ban = 2 per 1m for 2m")
                + "[limit flight]\nkey = header:X-Api-Key | ip\nconcurrency = 2\nscope = fleet\n"
                + to(held.origin, route="limits = it")
                + "[route flight]\npath = /flight\nupstream = origin\nlimits = flight\n")
    one, two = pair(t, redis, sections)
    client = t.client(one)
    equal([ask(client).status for _ in range(4)], [200, 429, 429, 429], "banned")
    true(callers(two)["banned"], "as the other node says")
    true(explain(two)["limits"][0]["banned"], "as it explains")
    equal(reset(two), ["it"], "forgotten")
    equal(callers(one)["banned"], False, "it is not banned")
    equal(ask(client).status, 200, "nor refused")
    flight = t.client(one)
    flight.request("/flight", fields=[("X-Api-Key", "one")])
    held.here("/flight")
    equal(callers(two, name="flight")["used"], 1, "in flight")
    equal(reset(two), ["it"], "of the rest")
    equal(callers(two, name="flight")["used"], 1, "still in flight")
    held.let("/flight")
    equal(flight.response().status, 200, "its end")
    until(lambda: callers(two, name="flight")["used"] == 0, "nothing is in flight")


@test("of a limit that is divided each node knows its own callers, and what is free of its share", workers=[1])
def divided(t):
    one, two = pair(t, Redis(t), limit("it", "8 per 3s", way="split") + to(t.origin(), route="limits = it"))
    until(lambda: [share(n) for n in (one, two)] == [4, 4], "their shares")
    equal(explain(one)["limits"][0]["remaining"], 3, "free of the share")
    client = t.client(one)

    def requests(key):
        return ([ask(client, key).status for _ in range(5)], explain(one, key)["outcome"], callers(one, key)["remaining"],
                explain(two, key)["outcome"], reset(one, key), ask(client, key).status)
    _, found = in_one_window(3.0, requests)
    statuses, of_one, remaining, of_two, forgotten, after = found
    equal(statuses, [200] * 4 + [429], "the share")
    equal(of_one, "refuse", "beyond it")
    equal(remaining, 0, "of the share")
    equal(of_two, "admit", "by the other node")
    equal((forgotten, after), (["it"], 200), "forgotten by this node, and after that")


@test("the commands; and while the store is away they say so", workers=[1])
def commands(t):
    redis = Redis(t)
    admin = f"[admin]\nbind = unix:{t.path('admin')}\n"
    sections = (admin + limit("it", "4 per 1h") + "[limit own]\nrate = 3 per 1h\n"
                + to(t.origin(), route="limits = it, own"))
    node, = nodes(t, redis, sections, 1)
    equal(t.client(node).ask("/").status, 200, "a request")
    status, text = operate(node, "callers", "127.0.0.1", "--json")
    equal(status, 0, text)
    equal([(x["limit"], x["used"]) for x in json.loads(text)["limits"]], [("it", 1), ("own", 1)], text)
    status, text = operate(node, "explain", "http://api.test/")
    equal((status, "admit" in text), (0, True), text)
    status, text = operate(node, "reset", "127.0.0.1")
    equal((status, "it" in text, "own" in text), (0, True, True), text)
    equal(told(t.client(node).ask("/")).left["it"]["r"], 3, "after the reset")
    redis.stop()
    status, text = operate(node, "callers", "127.0.0.1")
    true("does not answer" in text, f"a store that stands still: {text}")
    redis.go_on()
    until(lambda: operate(node, "callers", "127.0.0.1")[0] == 0, "it goes on")
    redis.kill()
    for words in (("explain", "http://api.test/"), ("callers", "127.0.0.1"), ("reset", "127.0.0.1")):
        until(lambda words=words: "does not answer" in operate(node, *words)[1], f"{words} without a store")
    status, text = operate(node, "reset", "127.0.0.1", "--limit", "own")
    equal((status, "own" in text), (0, True), text)

@test("a command that changes a node of a fleet says that it changes this node alone", workers=[1])
def one_node(t):
    redis = Redis(t)
    note = "changed at this node only; repeat the command at each other node of the fleet"
    plans = ("[plans]\nkey = header:X-Api-Key\n[plan gold]\nlimits = own\n[plan default]\nlimits = it\n"
             + limit("it", "4 per 1h") + "[limit own]\nkey = header:X-Api-Key\nrate = 3 per 1h\n")
    sections = plans + to(t.origin(), route="limits = plan, it")
    fleet, = nodes(t, redis, f"[admin]\nbind = unix:{t.path('admin')}\n" + sections, 1)
    alone = t.sluice(f"[admin]\nbind = unix:{t.path('alone')}\n" + sections.replace("scope = fleet\nfleet = exact\n", ""))
    address = alone.sections.partition("server = ")[2].split()[0]
    changes = (("keys", "set", "ann", "gold"), ("keys", "revoke", "ann"), ("keys", "delete", "ann"),
               ("limits", "set", "it", "rate=5 per 1h"), ("upstreams", "weight", "origin", address, "2"),
               ("log-level", "info"))
    for words in changes:
        for node, noted in ((fleet, True), (alone, False)):
            status, text = operate(node, *words)
            equal((status, note in text), (0, noted), f"{words}: {text}")
    for words in (("keys", "show", "ann"), ("limits", "set", "none", "rate=5 per 1h")):
        equal((operate(fleet, *words)[0], note in operate(fleet, *words)[1]), (1, False), f"{words}")


main()
