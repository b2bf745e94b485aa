"""What a node says of the fleet: the store's health, how far its replicas are behind, what is on lease; by the
admin interface, `sluice fleet` and the metrics."""
import os
import re
import signal
import time

from lib.admin import Admin, value, with_admin
from lib.browser import Browser
from lib.fleet import PATIENT, ask, limit, start_named, state
from lib.process import BINARY, run, until
from lib.redis import Redis
from lib.sluice import to
from lib.store_function import TOP, function_text
from lib.tap import equal, main, test, true

PICTURES = os.environ.get("DASHBOARD_PICTURES")
LEASE = "membership_lease = 600ms\n"


def metric(node, name, **labels):
    return value(node.admin.metrics()[1], name, **labels)


@test("the primary, its round trip, and its replica: behind when it stands still", workers=[1])
def replicas(t):
    primary = Redis(t)
    replica = Redis(t, "--replicaof", "127.0.0.1", str(primary.number))
    origin = t.origin()
    sections = limit("it", "1000 per 1h") + to(origin, route="limits = it")
    node = start_named(t, primary, "one", sections, fleet=LEASE)
    until(lambda: [x["online"] for x in state(node)["replicas"]] == [True], "the replica is online")
    until(lambda: state(node)["replicas"][0]["behind_bytes"] == 0 or None, "and has all")
    health = state(node)["health"]
    equal((health["primary"], health["replicas"]), (f"127.0.0.1:{primary.number}", 1), health)
    true(0 < health["round_trip_us"] < 10_000_000, health)
    equal(state(node)["replicas"][0]["address"], f"127.0.0.1:{replica.number}", "the replica's address")
    replica.process.signal(signal.SIGSTOP)
    client = t.client(node)

    def is_behind():
        ask(client)
        return state(node)["replicas"][0]["behind_bytes"] > 0
    until(is_behind, "it is behind")
    true(metric(node, "sluice_fleet_replica_behind_bytes", replica=f"127.0.0.1:{replica.number}") > 0, "in the metrics")
    equal(metric(node, "sluice_fleet_replicas"), 1, "in the metrics")
    equal(metric(node, "sluice_fleet_nodes"), 1, "in the metrics")
    status, text = run([BINARY, "fleet", "-c", node.ini_path])
    true(status == 0 and f"127.0.0.1:{primary.number}" in text and "BEHIND (BYTES)" in text, text)
    replica.process.signal(signal.SIGCONT)
    until(lambda: state(node)["replicas"][0]["behind_bytes"] == 0, "it has all again")


@test("a store that is lost: how long ago it answered; one that refuses INFO: nothing is known, all else works",
      workers=[1])
def lost(t):
    redis = Redis(t)
    origin = t.origin()
    sections = limit("it", "5 per 1h") + to(origin, route="limits = it")
    node = start_named(t, redis, "one", sections, fleet=LEASE)
    until(lambda: state(node)["health"], "it has answered")
    redis.kill()
    until(lambda: state(node)["health"]["answered_ms"] > 1500, "it does not answer any more")
    true(metric(node, "sluice_fleet_store_age_seconds") > 1.5, "in the metrics")
    until(lambda: metric(node, "sluice_store_connections") == 0, "no worker has it")
    other = Redis(t)
    other.connect().ask("ACL", "SETUSER", "default", "-info")
    second = start_named(t, other, "two", sections, fleet=LEASE)
    until(lambda: len(state(second)["nodes"]) == 1, "it has joined")
    equal(ask(t.client(second)).status, 200, "and judges")
    equal((state(second)["health"], state(second)["replicas"]), (None, []), "nothing is known")


def says(node, *words):
    """Until the node says why it is without its store, in these words."""
    def there():
        trouble = state(node)["trouble"]
        return trouble if trouble and all(word in trouble["why"] for word in words) else None
    return until(there, f"it says {words}")


@test("why the store is away, in words: refused, without a password, a wrong one, calls that its user may not make",
      workers=[1, 2])
def troubles(t):
    redis = Redis(t)
    origin = t.origin()
    sections = limit("it", "1000 per 1h") + to(origin, route="limits = it")
    node = start_named(t, redis, "one", sections, fleet=LEASE)
    until(lambda: state(node)["trouble"] is None or None, "all is well")
    control = redis.connect()
    control.ask("ACL", "SETUSER", "default", "-fcall")
    client = t.client(node)

    def refuses():
        ask(client)
        return state(node)["trouble"]
    until(refuses, "calls are refused")
    says(node, "NOPERM")
    equal(state(node)["connected_workers"], t.workers, "it is connected all the same")
    control.ask("ACL", "SETUSER", "default", "+fcall")

    def is_well():
        ask(t.client(node))  # of any worker: each says what it was told last, until it asks again
        return state(node)["trouble"] is None or None
    until(is_well, "it answers again")
    redis.kill()
    trouble = says(node, "onnection refused")
    status, text = run([BINARY, "fleet", "-c", node.ini_path])
    true(status == 0 and "trouble.why" in text and "onnection refused" in text and "trouble.lasts" in text, text)
    until(lambda: state(node)["trouble"]["lasts_ms"] > trouble["lasts_ms"], "and for how long")
    status, text = run([BINARY, "fleet", "--json", "-c", node.ini_path])
    true(status == 0 and '"trouble"' in text and "onnection refused" in text, text)
    for password, words in (("", "NOAUTH"), (":wrong@", "WRONGPASS")):
        other = Redis(t, "--requirepass", "secret")
        node = t.sluice(f"[fleet]\nstore = redis://{password}127.0.0.1:{other.number}\n{PATIENT}{LEASE}"
                        f"[admin]\nbind = unix:{t.path(words)}\n{sections}")
        node.admin = Admin(f"unix:{t.path(words)}")
        says(node, words)


def rights():
    """The commands that sluice.ini(5) says the user at the store needs."""
    with open(os.path.join(TOP, "etc", "man", "sluice.ini.5"), encoding="utf-8") as page:
        return re.search(r"The user at the store needs (.*?), and access", page.read(), re.S)[1].replace(" and ", ", ")


@test("a user with the rights that sluice.ini(5) names, and no others, is refused nothing", workers=[1])
def few_rights(t):
    redis, origin, words = Redis(t), t.origin(), [word.strip().lower() for word in rights().split(",")]
    redis.connect().ask("ACL", "SETUSER", "few", "on", ">few", "~sluice*", "nocommands",
                        *("+" + word.replace(" ", "|") for word in words))
    limits = "".join(limit(way, "900 per 1s", way=way) for way in ("exact", "lease", "split", "relaxed"))
    limits += limit("strict", "40 per 1m", "store_down = strict") + limit("many", "1000 per 1h", way="lease")
    limits += limit("banned", "40 per 1h", "ban = 3 per 1m for 2m") + limit("spaced", "40 per 1h",
                                                                         "algorithm = gcra\nburst = 9")
    limits += "[limit flight]\nkey = ip\nconcurrency = 3\nscope = fleet\n"
    names = ", ".join(re.findall(r"\[limit (\w+)\]", limits))
    node = t.sluice(f"[fleet]\nstore = redis://few:few@127.0.0.1:{redis.number}\nstore_down = refuse\n{PATIENT}"
                    "membership_lease = 4s\n"
                    f"[admin]\nbind = unix:{t.path('few')}\n" + limits +
                    to(origin, route=f"limits = {names}\nrefund = 5xx\nordering = none") +
                    "[route plain]\npath = /plain\nupstream = origin\nlimits = exact\nordering = none\n")
    node.admin = Admin(f"unix:{t.path('few')}")
    until(lambda: all(s["judged_by"] != "nobody" for s in state(node)["shares"]), "it has its share")
    client = t.client(node)
    until(lambda: ask(client).status == 200, "a first request")
    for _ in range(5):
        time.sleep(0.1)  # so that they are kept at several times
        for path in ("/", "/plain"):  # the store judges requests with plain limits only in another way
            equal(ask(client, path=path).status, 200, "one more")
    equal(node.admin.json("/api/v1/callers?key=one", "DELETE")[0], 200, "a reset")
    equal(ask(client).status, 200, "after a reset")
    true("refuses calls" not in node.log(), node.log())


@test("sluice.ini(5) names each command that a function of the store calls", workers=[1])
def all_rights(t):
    with open(os.path.join(TOP, "etc", "man", "sluice.ini.5"), encoding="utf-8") as page:
        named_there = set(re.findall(r"\b[A-Z]{3,}\b", page.read()))
    called = set()
    for name in ("judge", "lease", "join", "split", "strict", "relaxed", "lock"):
        found = set(re.findall(r"(?:call|write)\('([A-Z]+)'", function_text(name)))
        true(found, f"{name} calls commands")
        called |= found
    equal(sorted(called - named_there), [], "commands that the page does not name")


@test("a store that may evict keys is warned of, once for a connection, until it may not any more", workers=[1])
def eviction(t):
    redis = Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    origin = t.origin()
    sections = limit("it", "1000 per 1h") + to(origin, route="limits = it")
    node = start_named(t, redis, "one", sections, fleet=LEASE)
    until(lambda: state(node)["eviction"] == "allkeys-lru" or None, "it is known")
    status, text = run([BINARY, "fleet", "-c", node.ini_path])
    true(status == 0 and "warning: the store may evict keys" in text, text)
    heard = until(lambda: state(node)["health"]["answered_ms"], "some time ago")
    until(lambda: state(node)["health"]["answered_ms"] < heard or None, "it has been asked again")
    equal(node.log().count("the store may evict keys"), 1, "one line")
    redis.connect().ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    until(lambda: state(node)["eviction"] is None or None, "it may not any more")


@test("what is on lease: callers and units, until the leases end")
def leases(t):
    """Takes half a minute: leases must end."""
    redis = Redis(t)
    origin = t.origin()
    sections = limit("it", "4000 per 1h", way="lease") + to(origin, route="limits = it")
    node = start_named(t, redis, "one", sections, fleet=LEASE)
    equal(state(node)["leases"], {"callers": 0, "units": 0}, "nothing yet")
    client = t.client(node)

    def has_leases():
        ask(client)
        ask(client, key="two")
        found = state(node)["leases"]
        return found["callers"] == 2 and found["units"] > 0 and metric(node, "sluice_fleet_lease_callers") in (1, 2)
    until(has_leases, "two callers have one, also in the metrics")
    until(lambda: state(node)["leases"] == {"callers": 0, "units": 0}, "they end unless they are used")


def column(browser, table, label):
    """By the head of the row."""
    return dict(browser.run(f"""[...document.querySelectorAll('#{table} tbody tr')].map((row) =>
        [row.querySelector('th').textContent, row.querySelector('[data-label="{label}"]').textContent])"""))


@test("the dashboard shows the nodes, the store and what decides each limit; and nothing of it without a fleet",
      workers=[1])
def dashboard(t):
    redis, browser = Redis(t), Browser(t)
    origin = t.origin()
    sections = (limit("it", "10 per 1h") + limit("closed", "10 per 1h", "store_down = refuse")
                + to(origin, route="limits = it, closed"))
    fleet = f"[fleet]\nstore = {redis.url}\nnode = one\nnodes = 2\n{PATIENT}{LEASE}"
    _, admin = with_admin(t, fleet + sections)
    browser.open(f"http://{admin.address}/")
    browser.wait("#nodes tbody th", r"^one \(this one\)$")
    browser.wait("#fleet-store", f"^Store 127.0.0.1:{redis.number}, answered .* 1 of 1 workers connected .* 0 units of 0")
    equal(column(browser, "rungs", "Decided by"), {"it": "store", "closed": "store"}, "with the store")
    if PICTURES:
        browser.picture(os.path.join(PICTURES, "fleet.png"), True)
    redis.kill()
    until(lambda: column(browser, "rungs", "Decided by") == {"it": "share", "closed": "refuse"}, "without it")
    _, alone = with_admin(t, to(origin))
    browser.open(f"http://{alone.address}/")
    browser.wait("#state", "^live$")
    true(browser.run("document.getElementById('fleet').hidden"), "no fleet")


main()
