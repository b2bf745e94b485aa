"""Limits of a fleet: several nodes, one Redis. What is claimed of times is claimed as in promise.py:
a window that was too full for certain, by when requests were sent and when the origin had them."""
import json
import re
import signal
import time

from lib.admin import Admin, value
from lib.fields import told, wait_ms
from lib.fleet import NODES, PATIENT, Load, ask, connected, costly_origin, fleet_of, in_one_window, judge, limit, nodes, start_named
from lib.held import Held
from lib.process import BINARY, run, until
from lib.redis import Redis
from lib.sluice import to
from lib.successor import Successor
from lib.tap import equal, main, test, true

# ---- one limit, all nodes ----------------------------------------------------------------------

@test("one quota over three nodes: each reports what is left, and a refusal the exact time to retry")
def together(t):
    redis = Redis(t)
    origin = t.origin()
    clients = [t.client(n) for n in nodes(t, redis, limit("it", "4 per 2s") + to(origin, route="limits = it"))]
    key, answers = in_one_window(2.0, lambda key: [ask(clients[n % NODES], key) for n in range(7)])
    equal([answer.status for answer in answers], [200] * 4 + [429] * 3, "within the window")
    equal([told(answer).left["it"]["r"] for answer in answers[:4]], [3, 2, 1, 0], "what each node says is left")
    equal({told(answer).policy["it"]["q"] for answer in answers[:4]}, {4}, "the quota")
    equal([json.loads(refused.body)["violated-policies"] for refused in answers[4:]], [["it"]] * 3, "violated")
    waits = [wait_ms(refused) for refused in answers[4:]]
    true(all(0 < wait <= 2000 for wait in waits), f"waits {waits}")
    equal(ask(clients[0], key="two").status, 200, "another caller")
    time.sleep(waits[-1] / 1000)
    equal(ask(clients[1], key).status, 200, "after the time that another node said")
    equal(sum(x.request.get("X-Api-Key") == key for x in origin.requests), 5, "at the origin")


@test("several limits, of the fleet and of the node, are charged all or none")
def several(t):
    redis = Redis(t)
    origin = t.origin()
    sections = (limit("wide", "10 per 1h") + limit("narrow", "2 per 1h")
                + "[limit own]\nkey = header:X-Api-Key | ip\nrate = 3 per 1h\n"
                + to(origin, route="limits = wide, narrow")
                + "[route mixed]\npath = /mixed\nupstream = origin\nlimits = own, wide\n")
    one, two = [t.client(n) for n in nodes(t, redis, sections, 2)]
    equal([ask(c).status for c in (one, two, one, two)], [200, 200, 429, 429], "by the narrow one")
    refused = ask(one)
    equal(told(refused).left["wide"]["r"], 8, "left of the wide one, of which nothing was taken")
    equal([ask(one, path="/mixed").status for _ in range(4)], [200, 200, 200, 429], "by the node's own")
    refused = ask(one, path="/mixed")
    equal(told(refused).left["wide"]["r"], 5, "left of the wide one")
    equal(told(refused).left["own"]["r"], 0, "left of the node's own")
    equal([ask(two, path="/mixed").status for _ in range(4)], [200, 200, 200, 429], "the other node's own")
    equal(told(ask(two, path="/mixed")).left["wide"]["r"], 2, "left of the wide one")


@test("costs, refunds, shadow and delay reach the store")
def afterwards(t):
    redis = Redis(t)
    origin = costly_origin(t)
    sections = (limit("it", "10 per 1h") + limit("seen", "1 per 1h", "mode = shadow")
                + limit("slow", "1 per 300ms", "on_exceed = delay 10s")
                + to(origin, route="limits = it, seen")
                + "[route cost]\npath = /cost\nupstream = origin\nlimits = it\ncost = response:X-Cost\n"
                + "[route fail]\npath = /fail\nupstream = origin\nlimits = it\nrefund = 5xx\n"
                + "[route slow]\npath = /slow\nupstream = origin\nlimits = slow\n")
    one, two = [t.client(n) for n in nodes(t, redis, sections, 2)]
    equal([ask(c).status for c in (one, two)], [200, 200], "shadow refuses nothing")
    equal(told(ask(one)).left["it"]["r"], 7, "after three")
    equal(ask(two, path="/fail").status, 500, "a failure")
    until(lambda: told(ask(one, path="/fail")).left["it"]["r"] == 6, "the failures were given back")
    equal(ask(one, path="/cost").status, 200, "of a cost that the response says")
    until(lambda: told(ask(two, path="/fail")).left["it"]["r"] == 2, "what it cost in truth")
    began = time.monotonic()
    equal([ask(c, path="/slow").status for c in (one, two, one)], [200] * 3, "delayed")
    true(time.monotonic() - began >= 0.55, "each after its time")


@test("pipelined and many at once: the store's calls are fewer than the questions", workers=[1])
def batches(t):
    redis = Redis(t)
    origin = t.origin()
    node = start_named(t, redis, "one", limit("it", "1000 per 1h") + to(origin, route="limits = it"))
    connected(node)
    redis.log_calls()
    client = t.client(node)
    head = b"GET / HTTP/1.1\r\nHost: a.test\r\nX-Api-Key: one\r\n\r\n"
    client.send(head * 16)
    equal([client.response().status for _ in range(16)], [200] * 16, "answers")
    calls = redis.calls_about_callers("sluice_judge_1")
    # More than 16 where a verdict became old before its turn.
    questions = value(node.admin.metrics()[1], "sluice_fleet_questions_total")
    t.note(f"{calls} calls for {questions} questions")
    true(0 < calls < questions and questions >= 16, f"{calls} calls for {questions} questions")


@test("a verdict that became old in the queue is given back, and the store asked again")
def old_verdicts(t):
    redis = Redis(t)
    held = Held(t)
    sections = limit("it", "10 per 1h") + to(held.origin, upstream="max_in_flight = 1", route="limits = it")
    node, = nodes(t, redis, sections, 1)
    clients = [t.client(node) for _ in range(2)]
    clients[0].request("/first", fields=[("X-Api-Key", "one")])
    held.here("/first")
    clients[1].request("/second", fields=[("X-Api-Key", "two")])
    store = redis.connect()

    def callers():
        return {key: store.ask("GET", key) for key in store.ask("KEYS", "sluice{*}it:1")}
    until(lambda: len(callers()) == 2, "both were asked about")
    before = callers()
    time.sleep(0.15)  # a verdict's time is the subject
    held.let("/first", "/second")
    equal([c.response().status for c in clients], [200, 200], "both are served")
    after = callers()
    equal(sum(after[key] != before[key] for key in before), 1, "callers whose verdict was renewed")
    equal(told(ask_held(held, t.client(node), "two")).left["it"]["r"], 8, "charged once each")


def ask_held(held, client, key):
    held.let("/")
    return ask(client, key)


# ---- the promise -------------------------------------------------------------------------------

@test("the promise over three nodes under load", workers=[2])
def promise(t):
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = limit("it", "50 per 2s") + to(origin, route="limits = it")
    load = Load(t, 4).begin(nodes(t, redis, sections, fleet="store_timeout = 5s"))
    origin.wait(lambda: len(origin.requests) >= 200, "four windows' worth")
    spans = judge(t, load, origin, 50, 2.0)
    equal(load.count(503), 0, "answers without a verdict")
    true(len(spans) >= 200, "what may pass does")


@test("one node stopped for a while, another killed: no window is too full",
      workers=[2])
def nodes_fail(t):
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = limit("it", "40 per 1s") + to(origin, route="limits = it")
    all_nodes = nodes(t, redis, sections, fleet="store_timeout = 2s")
    load = Load(t, 3).begin(all_nodes)
    origin.wait(lambda: len(origin.requests) >= 60, "requests")
    all_nodes[1].process.stop()
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + 80, "requests past the node that stands still")
    all_nodes[1].process.signal(signal.SIGCONT)
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + 40, "requests")
    all_nodes[2].process.kill()
    all_nodes[2].ended = True
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + 80, "requests past the killed node")
    judge(t, load, origin, 40, 1.0)


# ---- the store fails ---------------------------------------------------------------------------

@test("a store that stands still: 503 with Retry-After in time, and no window is too full after it")
def store_stops(t):
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = limit("it", "30 per 1s") + to(origin, route="limits = it")
    all_nodes = nodes(t, redis, sections, fleet="store_timeout = 100ms")
    load = Load(t, 2).begin(all_nodes)
    origin.wait(lambda: len(origin.requests) >= 60, "requests")
    redis.stop()
    until(lambda: load.count(503) > 50, "refusals without a verdict")
    answer = ask(t.client(all_nodes[0]))
    equal((answer.status, answer.get("Retry-After")), (503, "1"), "without the store")
    true("temporary-reduced-capacity" in answer.body.decode(), answer.body)
    all_nodes[0].process.wait_output("until it answers, store_down decides")
    redis.go_on()
    at = len(origin.requests)
    origin.wait(lambda: len(origin.requests) >= at + 60, "requests after it")
    judge(t, load, origin, 30, 1.0)


@test("a store that is killed and comes back empty: nodes find it, and wait for as long as it may have forgotten")
def store_restarts(t):
    redis = Redis(t)
    origin = t.origin()
    sections = limit("it", "5 per 1h") + limit("soon", "3 per 2s") + to(origin, route="limits = it") + (
        "[route soon]\npath = /soon\nupstream = origin\nlimits = soon\n")
    all_nodes = nodes(t, redis, sections)
    clients = [t.client(n) for n in all_nodes]
    equal([ask(c).status for c in clients], [200] * 3, "before")
    equal([ask(c, path="/soon").status for c in clients], [200] * 3, "before")
    redis.kill()
    until(lambda: ask(clients[0]).status == 503, "the store is missed")
    redis.start()
    for node in all_nodes:
        connected(node, 2)
    refused = ask(clients[1])
    equal(refused.status, 429, "an empty store may have forgotten what it admitted")
    true(3_590_000 < wait_ms(refused) <= 3_600_000, f"a window's wait, {wait_ms(refused)} ms")
    until(lambda: ask(clients[2], path="/soon").status == 200, "when a window has passed")


@test("a store that is flushed: limits wait for a window with refuse, and start from zero with admit")
def store_flushed(t):
    redis = Redis(t)
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sections = limit("it", "20 per 2s") + to(origin, route="limits = it")
    load = Load(t, 2).begin(nodes(t, redis, sections))
    origin.wait(lambda: len(origin.requests) >= 40, "two windows")
    for _ in range(3):
        redis.connect().ask("FLUSHALL")
        at = len(origin.requests)
        origin.wait(lambda: len(origin.requests) >= at + 15, "requests after it")
    judge(t, load, origin, 20, 2.0)
    sections = limit("other", "5 per 1h") + to(origin, route="limits = other")
    node, = nodes(t, redis, sections, 1, fleet="store_down = admit")
    client = t.client(node)
    equal([told(ask(client)).left["other"]["r"] for _ in range(2)], [4, 3], "before")
    redis.connect().ask("FLUSHALL")
    equal(told(ask(client)).left["other"]["r"], 4, "from zero")


@test("another function under our name is refused, and told", workers=[1])
def other_function(t):
    redis = Redis(t)
    redis.connect().ask("FUNCTION", "LOAD", "#!lua name=sluice_judge_1\n"
                        "redis.register_function('sluice_judge_1', function() return 'x' end)")
    node = t.sluice(fleet_of(redis) + limit("it", "5 per 1h") + to(t.origin(), route="limits = it"))
    node.process.wait_output("it has another function under the name")
    equal(ask(t.client(node)).status, 503, "without a verdict")
    redis.connect().ask("FUNCTION", "DELETE", "sluice_judge_1")
    connected(node)
    equal(ask(t.client(node)).status, 200, "with its own")


@test("a function that was flushed is loaded again, and the question asked again")
def flushed(t):
    redis = Redis(t)
    origin = t.origin()
    node, = nodes(t, redis, limit("it", "5 per 1h") + to(origin, route="limits = it"), 1)
    client = t.client(node)
    equal(ask(client).status, 200, "before")
    redis.connect().ask("FUNCTION", "FLUSH")
    equal(told(ask(client)).left["it"]["r"], 3, "after")


@test("store_down = admit: all pass while the store is away, and are not charged afterwards")
def admit(t):
    redis = Redis(t)
    origin = t.origin()
    sections = (limit("it", "2 per 1h") + to(origin, route="limits = it")
                + "[limit own]\nrate = 5 per 1h\n[route own]\npath = /own\nupstream = origin\nlimits = own, it\n")
    node, = nodes(t, redis, sections, 1, fleet="store_down = admit")
    client = t.client(node)
    equal(ask(client).status, 200, "with the store")
    redis.stop()
    equal([ask(client).status for _ in range(6)], [200] * 6, "without")
    equal([ask(client, path="/own").status for _ in range(6)], [200] * 5 + [429], "by the node's own limit")
    redis.go_on()
    until(lambda: told(ask(client, key="other")).left["it"]["r"] in (0, 1), "the store answers")
    until(lambda: (a := ask(client)).status == 429 or told(a).left["it"]["r"] == 0, "the second and last")
    equal(ask(client).status, 429, "beyond it")


@test("a node starts without its store, and finds it")
def late(t):
    redis = Redis(t)
    redis.kill()
    origin = t.origin()
    node = t.sluice(fleet_of(redis) + limit("it", "5 per 1s") + to(origin, route="limits = it"))
    client = t.client(node)
    equal(ask(client).status, 503, "without")
    redis.start()
    connected(node)
    until(lambda: ask(client).status == 200, "with")


# ---- the nodes ---------------------------------------------------------------------------------

def operate(node, *words):
    return run([BINARY, *words, "-c", node.ini_path])


def names(node):
    status, text = operate(node, "fleet", "--json")
    equal(status, 0, text)
    return sorted(n["name"] for n in json.loads(text)["nodes"])


@test("nodes know each other: one joins, one leaves, one is killed and its lease ends", workers=[2])
def members(t):
    redis = Redis(t)
    origin = t.origin()

    def start(name):
        return start_named(t, redis, name, to(origin), fleet="membership_lease = 1s")
    one, two = start("one"), start("two")
    status, text = operate(one, "fleet", "--wait-nodes", "2")
    equal(status, 0, text)
    true(re.search(r"one +\S.* +yes|one +\S.* +true", text), text)
    three = start("three")
    for node in (one, two, three):
        equal(operate(node, "fleet", "--wait-nodes", "3")[0], 0, "three nodes")
        # one that stood still for a second is off the list until it is renewed
        until(lambda node=node: names(node) == ["one", "three", "two"], "their names")
    two.terminate()
    equal(two.wait(), 0, "a clean end")
    until(lambda: names(one) == ["one", "three"], "one has left")
    three.process.kill()
    three.ended = True
    until(lambda: names(one) == ["one"], "one was killed")
    status, text = operate(one, "fleet", "--json")
    answer = json.loads(text)
    equal((answer["node"], answer["connected_workers"], answer["store_down"]), ("one", 2, "refuse"), text)
    redis.kill()
    until(lambda: json.loads(operate(one, "fleet", "--json")[1])["connected_workers"] == 0, "the store is gone")
    until(lambda: names(one) == [], "no lease is left")
    redis.start()
    until(lambda: names(one) == ["one"], "it has joined again")


@test("an upgrade of a node with a name: the old process does not take it off the list", workers=[1])
def upgraded(t):
    redis, held, pid_file = Redis(t), Held(t), t.path("sluice.pid")
    node = t.sluice(fleet_of(redis, "node = one\nmembership_lease = 60s\n") + to(held.origin),
                    settings=f"pid_file = {pid_file}\nshutdown_timeout = 1m")
    connected(node)
    store = redis.connect()

    def lease():
        return store.ask("ZRANGE", "sluice{nodes}", 0, -1, "WITHSCORES")
    until(lease, "it has joined")
    client = t.client(node)
    client.request("/under-way")
    held.here("/under-way")
    first = lease()
    successor = Successor(t, node, pid_file)
    until(lambda: lease() != first, "the new process has joined")
    held.let("/under-way")
    equal(client.response().status, 200, "of the old process")
    client.close()
    until(lambda: not node.process.running(), "the old process ends")
    equal([name for name in lease() if name == b"one"], [b"one"], "the node is still there")
    successor.end()
    until(lambda: not lease(), "the new process leaves")
    node.wait()


@test("a name of its own for each node, unless the file says one", workers=[1])
def default_names(t):
    redis = Redis(t)
    sections = [f"[admin]\nbind = unix:{t.path(str(n))}\n" + to(t.origin()) for n in range(2)]
    both = [nodes(t, redis, s, 1)[0] for s in sections]
    operate(both[0], "fleet", "--wait-nodes", "2")
    equal(len(set(names(both[0]))), 2, "names")
    other = t.sluice(f"[admin]\nbind = unix:{t.path('none')}\n" + to(t.origin()))
    status, text = operate(other, "fleet")
    equal((status, "There is no [fleet]" in text), (1, True), text)


@test("store_required: not ready while the store is away; a reload takes it back")
def readiness(t):
    redis = Redis(t)
    origin = t.origin()
    admin = f"[admin]\nbind = unix:{t.path('admin')}\n"
    node, = nodes(t, redis, admin + to(origin), 1, fleet="store_required = on", listener="health = on")
    client = t.client(node)
    until(lambda: client.ask("/readyz").status == 200, "ready")
    redis.kill()
    until(lambda: client.ask("/readyz").status == 503, "not ready")
    equal(Admin(f"unix:{t.path('admin')}").ask("/readyz")[0], 503, "by the operator's interface")
    equal(client.ask("/").status, 200, "a request without a limit of the fleet")
    node.reload(fleet_of(redis) + admin + to(origin))
    until(lambda: client.ask("/readyz").status == 200, "ready, as it is not required")


# ---- who may ask, and what is said --------------------------------------------------------------

@test("users and passwords, from the URL, a variable and a file; a database; no secret is shown")
def passwords(t):
    redis = Redis(t, "--requirepass", "all:so/secret")
    redis_of_users = Redis(t, "--user", *"node on >p@ss ~* +@all".split(), "--user", "default", "off")
    origin = t.origin()
    sections = limit("it", "5 per 1h") + to(origin, route="limits = it")
    t.file("password", "all:so/secret\n")
    t.file("of_node", "p@ss\n")
    for line, env in ((f"store = redis://:all%3Aso%2fsecret@127.0.0.1:{redis.number}/3", {}),
                      (f"store = redis://:${{PASSWORD}}@127.0.0.1:{redis.number}/3", {"PASSWORD": "all:so%2Fsecret"}),
                      (f"store = redis://127.0.0.1:{redis.number}/3\npassword = file:password", {}),
                      (f"store = redis://node:p%40ss@127.0.0.1:{redis_of_users.number}", {}),
                      (f"store = redis://node@127.0.0.1:{redis_of_users.number}\npassword = file:of_node", {})):
        node = t.sluice(f"[fleet]\n{line}\n{PATIENT}" + sections, environment=env)
        connected(node)
        equal(ask(t.client(node)).status, 200, line)
        true("secret" not in node.log() and "p%40ss" not in node.log(), "no secret in the log")
    node = t.sluice(f"[fleet]\nstore = redis://:wrong@127.0.0.1:{redis.number}\n{PATIENT}" + sections)
    node.process.wait_output("WRONGPASS")
    equal(ask(t.client(node)).status, 503, "with a wrong password")


@test("a reload changes the limit, the store's timeout and the store itself")
def reload(t):
    one, two = Redis(t), Redis(t)
    origin = t.origin()
    route = to(origin, route="limits = it")
    node, = nodes(t, one, limit("it", "4 per 1h") + route, 1)
    client = t.client(node)
    equal([ask(client).status for _ in range(3)], [200] * 3, "at first")
    node.reload(fleet_of(one, "store_timeout = 4s") + limit("it", "40 per 1h") + route)
    until(lambda: told(ask(client)).left["it"]["r"] >= 30, "the raised limit, its count kept")
    node.reload(fleet_of(one) + limit("it", "4 per 1h") + route)
    until(lambda: ask(client).status == 429, "the lowered limit, its count kept")
    node.reload(fleet_of(two) + limit("it", "4 per 1h") + route)
    connected(node, 2)
    equal(ask(client).status, 200, "by another store")
    node.reload(route.replace("limits = it", ""))
    until(lambda: "RateLimit" not in str(ask(client).fields), "no limit any more")


CASES = (
    ("[limit a]\nrate = 1 per 1s\nscope = fleet\n", "expected [fleet] with store"),
    ("[limit a]\nrate = 1 per 1s\nscope = fleet\nfleet = exact\n", "expected [fleet] with store"),
    ("[fleet]\n", "[fleet] has no store"),
    ("[fleet]\nstore = http://x\n", "does not begin with redis://"),
    ("[fleet]\nstore = redis://a.test, redis://b.test\n", "there are several"),
    ("[fleet]\nstore = redis://a.test, redis://:x@b.test\nsentinel = it\n", "belongs in the first one"),
    ("[fleet]\nstore = redis://a.test\nsentinel_password = file:ini\n", "no effect without sentinel = NAME"),
    ("[fleet]\nstore = redis://a.test\nsentinel = it\nsentinel_user = x\n", "no effect without sentinel_password"),
    ("[fleet]\nstore = redis://a.test\ncluster = on\nsentinel = it\n", "on with sentinel, too"),
    ("[fleet]\nstore = redis://a.test/3, redis://b.test\ncluster = on\n", "only database 0"),
    ("[fleet]\nstore = redis://a.test\ncluster = on\nstore_down = strict\n", "strict is not supported with cluster = on"),
    ("[fleet]\nstore = redis://a.test\ncluster = on\n[limit a]\nrate = 1 per 1s\nscope = fleet\nfleet = relaxed\n",
     "not supported with cluster = on"),
    ("[fleet]\nstore = redis://a@127.0.0.1\n", "a user without a password"),
    ("[fleet]\nstore = redis://a:%zz@127.0.0.1\n", "not percent-encoded"),
    ("[fleet]\nstore = redis://127.0.0.1/x\n", "invalid database behind the '/': it is a number from 0 to 65535"),
    ("[fleet]\nstore = redis://unix:/run/redis.sock\n", "it cannot be reached by a unix socket; expected redis://HOST"),
    ("[fleet]\nstore = unix:///run/redis.sock\n", "it cannot be reached by a unix socket; expected redis://HOST"),
    ("[fleet]\nstore = /run/redis.sock\n", "it cannot be reached by a unix socket; expected redis://HOST"),
    ("[fleet]\nstore = redis://:" + 513 * "x" + "@127.0.0.1\n", "the password has 513 bytes; expected at most 512"),
    ("[fleet]\nstore = redis://" + 513 * "x" + ":y@127.0.0.1\n", "the user has 513 bytes; expected at most 512"),
    ("[fleet]\nstore = rediss://127.0.0.1, redis://127.0.0.2\nsentinel = a\n", "some URLs begin with redis:// and others with rediss://"),
    ("[fleet]\nstore = redis://[::1\n", "begins with '[' and has no ']'"),
    ("[fleet]\nstore = redis://127.0.0.1 redis://127.0.0.2\n", "there is a blank in the host"),
    ("[fleet]\nstore = redis://127.0.0.1,\nsentinel = it\n", "a URL is missing before or after a comma"),
    ("[fleet]\nstore = redis://127.0.0.1, redis://a@127.0.0.1\nsentinel = it\n", "belongs in the first one"),
    ("[fleet]\nstore = redis://127.0.0.1\npassword = file:\n", "password: there is no path; expected file:PATH"),
    ("[fleet]\nstore = redis://127.0.0.1\npassword = file:/\n", "it is a folder; expected a file"),
    ("[fleet]\nstore = redis://:x@127.0.0.1\npassword = file:ini\n", "the store's URL has one too"),
) + tuple((f"[fleet]\nstore = redis://127.0.0.1\n[limit a]\n{lines}\nscope = fleet\nfleet = exact\n", what)
          for lines, what in (
              ("rate = 1000 per 1s\nprecision = exact", "remembers at most 255 times"),
              ("rate = 1 per 1s\nwas = b", "under the limit's name")))


@test("sluice check names what is wrong and what is not supported, by file and line", workers=[1])
def checks(t):
    rest = "[listener a]\nbind = 127.0.0.1:1\n[upstream u]\nserver = 127.0.0.1:2\n[route r]\nupstream = u\n"
    for text, expected in CASES:
        t.file("ini", text + rest)
        status, output = run([BINARY, "check", "-c", t.path("ini")])
        equal(status, 1, text)
        true(expected in output, f"{text}: {output}")
        true(f"{t.path('ini')}:" in output, output)


main()
