#!/usr/bin/env python3
"""The busiest and the most refused callers, and a caller by the hash that the access log has."""
import json
import os
import re

from lib import process
from lib.admin import command, with_admin
from lib.sluice import to
from lib.tap import equal, group, main, true

LIMITS = "[limit burst]\nkey = header:X-Key\nrate = 5 per 1h\n[limit each]\nkey = ip\nrate = 1000 per 1h\n"


def counts(answer):
    return [(x["limit"], x["admitted"], x["refused"]) for x in answer["callers"]]


@group("the busiest callers, over all workers")
def busiest(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, LIMITS + to(origin, route="limits = burst, each"))
    clients = [t.client(sluice) for _ in range(4)]
    ask = lambda key, count: [clients[i % 4].ask("/", fields=[("X-Key", key)]).status for i in range(count)]
    busy = lambda query="": admin.json("/api/v1/callers" + query)[1]

    with t.point("nobody yet"):
        answer = busy()
        equal((answer["sort"], answer["callers"], answer["span_ms"]), ("admitted", [], 0))

    ask("ann", 9)
    ask("bob", 4)
    ask("eve", 7)

    with t.point("by what was admitted, of all limits or of one"):
        answer = busy("?limit=burst")
        equal(counts(answer), [("burst", 5, 4), ("burst", 5, 2), ("burst", 4, 0)])
        equal({x["admitted_error"] + x["refused_error"] for x in answer["callers"]}, {0})
        equal([(x["used"], x["quota"]) for x in answer["callers"]], [(5, 5), (5, 5), (4, 5)])
        equal({x["address"] for x in answer["callers"]}, {"127.0.0.1"})
        true(0 < answer["span_ms"] <= 120000, answer["span_ms"])
        equal(counts(busy("?count=2")), [("each", 14, 0), ("burst", 5, 4)])

    with t.point("by what was refused"):
        answer = busy("?sort=refused&count=2")
        equal((answer["sort"], counts(answer)), ("refused", [("burst", 5, 4), ("burst", 5, 2)]))

    with t.point("malformed questions"):
        for query in ("?sort=name", "?count=0", "?count=385", "?count=-1", "?count=x", "?count="):
            equal(admin.json("/api/v1/callers" + query)[0], 400, query)
        equal(admin.json("/api/v1/callers?limit=none")[0], 404)

    with t.point("more callers than there are counters: the busy ones stay, within the stated error"):
        for number in range(1200):
            clients[number % 4].ask("/", fields=[("X-Key", f"guest{number}")])
        answer = busy("?limit=burst&count=384")
        total = 14 + 1200
        first = answer["callers"][0]
        true(first["admitted_error"] <= total / 192, first)
        for caller in answer["callers"]:
            true(caller["admitted"] <= 5, caller)
        true(len(answer["callers"]) <= 384 * sluice.workers, len(answer["callers"]))

    with t.point("no label of metrics comes of it"):
        text = admin.metrics()[1]
        true("sluice_limit_verdicts_total" in text and first["caller"] not in text, text)


@group("a caller by the hash of the access log", workers=[1])
def by_hash(t):
    origin = t.origin(lambda x: x.reply(200))
    log, state = os.path.join(t.folder, "access.log"), os.path.join(t.folder, "state")
    os.mkdir(state)
    settings = f"access_log = file:{log}\nstate = {state}\n"
    sections = LIMITS + to(origin, route="limits = burst, each")

    def logged():
        with open(log, encoding="utf-8") as lines:
            found = re.findall(r"caller=([0-9a-f]{16})", lines.read())
        return found[-1] if found else None

    def serve(count):
        sluice, admin = with_admin(t, sections, settings=settings)
        client = t.client(sluice)
        statuses = [client.ask("/", fields=[("X-Key", "ann")]).status for _ in range(count)]
        process.until(logged, "a line in the access log")
        return sluice, admin, statuses

    sluice, admin, _ = serve(3)
    known = logged()

    with t.point("it is the list's hash, and finds what the key finds"):
        equal([x["caller"] for x in admin.json("/api/v1/callers?limit=burst")[1]["callers"]], [known])
        status, answer = admin.json(f"/api/v1/callers/{known}")
        equal((status, answer["caller"], [(x["limit"], x["used"]) for x in answer["limits"]]),
              (200, known, [("burst", 3)]))
        by_key = admin.json("/api/v1/callers?key=ann&limit=burst")[1]["limits"]
        equal([(x["caller"], x["used"]) for x in by_key], [(known, 3)])

    with t.point("one that no limit knows, and an invalid hash"):
        equal(admin.json("/api/v1/callers/0123456789abcdef"), (200, {"caller": "0123456789abcdef", "limits": [], "override": None}))
        for hash in ("ann", known[:15], known + "0", known.upper() if known.upper() != known else "X" * 16):
            equal(admin.json(f"/api/v1/callers/{hash}")[0], 404, hash)
        equal(admin.json(f"/api/v1/callers/{known}?limit=none")[0], 404)

    with t.point("the same after a restart on the same state"):
        sluice.terminate()
        equal(sluice.wait(), 0, "exit status")
        sluice, admin, statuses = serve(3)
        equal((statuses, logged()), ([200, 200, 429], known))
        equal([x["used"] for x in admin.json(f"/api/v1/callers/{known}")[1]["limits"]], [5])

    with t.point("reset by the hash, one limit or all"):
        equal(admin.json(f"/api/v1/callers/{known}?limit=each", "DELETE")[1]["reset"], [])
        equal(admin.json(f"/api/v1/callers/{known}?limit=burst", "DELETE"),
              (200, {"caller": known, "reset": ["burst"], "override": None}))
        equal(admin.json(f"/api/v1/callers/{known}")[1]["limits"], [])


@group("the command line", workers=[1])
def commands(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, LIMITS + to(origin, route="limits = burst, each"))
    client = t.client(sluice)
    for _ in range(8):
        client.ask("/", fields=[("X-Key", "ann")])
    here = ("-c", sluice.ini_path)
    hash = admin.json("/api/v1/callers?limit=burst")[1]["callers"][0]["caller"]

    with t.point("callers"):
        lines = command("callers", "--limit", "burst", *here).splitlines()
        equal(lines[0].split(), ["CALLER", "ADDRESS", "LIMIT", "ADMITTED", "REFUSED", "SHADOW", "USED", "QUOTA",
                                  "BANNED", "BANNED", "FOR"])
        equal(lines[1].split(), [hash, "127.0.0.1", "burst", "5", "3", "0", "5", "5", "no", "-"])
        equal(len(command("callers", "--refused", "--count", "1", *here).splitlines()), 3)
        equal(command("callers", "--hash", hash, *here).splitlines()[1].split()[:3], ["burst", "5", "0"])
        command("callers", "--count", "0", *here, status=1)

    with t.point("reset by hash"):
        equal(command("reset", "--hash", hash, *here), "reset: burst\n")

    with t.point("top, to a file: one screen of 80 columns"):
        lines = command("top", *here).splitlines()
        true(all(len(line) <= 80 for line in lines) and len(lines) <= 24, lines)
        true(lines[0].startswith("sluice ") and "1 workers" in lines[0], lines[0])
        found = [line.split() for line in lines if line.startswith(hash)]
        equal([x[1:5] for x in found if x[2] == "burst"], [["127.0.0.1", "burst", "5", "3"]])

    with t.point("top --json"):
        answer = json.loads(command("top", "--json", *here))
        equal(sorted(answer), ["callers", "limits", "status"])
        equal([limit["verdicts"]["refused"] for limit in answer["limits"] if limit["name"] == "burst"], [3])

    with t.point("another command's option is refused"):
        for words in (["status", "--csv"], ["top", "--hash", hash], ["reset", "--count", "3"], ["usage", "--refused"]):
            command(*words, *here, status=2)


BANS = ("[limit harsh]\nkey = header:X-Key\nrate = 3 per 50ms\nban = 2 per 1m for 1h\n"
        "[limit trial]\nkey = header:X-Key\nrate = 2 per 1h\nmode = shadow\n"
        "[limit monthly]\nkey = ip\nrate = 1000 per month\n[limit at_once]\nkey = ip\nconcurrency = 9\n")
HOUR_MS = 3_600_000


@group("what is shown of bans, of shadow limits and of periods is so", workers=[1])
def shown(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, BANS + to(origin, route="limits = harsh, trial, monthly, at_once"))
    client = t.client(sluice)
    ask = lambda: client.ask("/", fields=[("X-Key", "ann")])
    here = ("-c", sluice.ini_path)
    answers = [ask()]
    while answers[-1].get("Retry-After") != "3600":
        answers.append(ask())
    harsh = lambda: [x for x in admin.json("/api/v1/callers?key=ann")[1]["limits"] if x["limit"] == "harsh"][0]
    # What it has used is free again after 50 ms.
    process.until(lambda: ask().get("RateLimit").startswith('"harsh";r=0;'), "the fields of a banned caller")

    with t.point("a banned caller has nothing left until the end of the ban"):
        found = harsh()
        equal((found["banned"], found["remaining"], found["used"]), (True, 0, 3))
        for name in ("banned_ms", "more_ms", "clear_ms"):
            true(HOUR_MS - 60_000 < found[name] <= HOUR_MS, (name, found))
        one = [x for x in admin.json("/api/v1/callers?limit=harsh")[1]["callers"]][0]
        true(one["banned"] and HOUR_MS - 60_000 < one["banned_ms"] <= HOUR_MS, one)

    with t.point("explain and the command line say so, too"):
        found = admin.json("/api/v1/explain?path=/&field.X-Key=ann")[1]["limits"][0]
        true(found["banned"] and found["remaining"] == 0 and found["banned_ms"] > HOUR_MS - 60_000, found)
        for words in (["callers", "ann", "--limit", "harsh"], ["callers", "--limit", "harsh"],
                      ["explain", "/", "--field", "X-Key: ann"]):
            head, line, *_ = [x for x in command(*words, *here).splitlines() if re.search("LIMIT|harsh", x)]
            true("BANNED FOR" in head and re.search("59m [0-9]+s", line), (head, line))

    with t.point("a limit in shadow mode has refused nothing, here as there"):
        verdicts = admin.json("/api/v1/limits/trial")[1]["verdicts"]
        true(verdicts["shadow_refused"] > 0, verdicts)
        for sort in ("admitted", "refused"):
            one = admin.json(f"/api/v1/callers?limit=trial&sort={sort}")[1]["callers"][0]
            equal((one["admitted"], one["refused"], one["shadow_refused"]),
                  (verdicts["admitted"], 0, verdicts["shadow_refused"]), sort)

    with t.point("the period of each limit"):
        lines = command("limits", *here).splitlines()
        equal([line.split()[3] for line in lines], ["PER", "50ms", "1h", "month", "-"])
        equal([x["per"] for x in admin.json("/api/v1/limits")[1]["limits"]], ["50ms", "1h", "month", None])


@group("each server has figures of its own", workers=[2])
def servers(t):
    origin, other = t.origin(lambda x: x.reply(200)), t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, to(origin, other))
    other.refuse()
    client = t.client(sluice)
    for _ in range(12):
        client.ask("/")
    of = lambda: {x["address"]: x for x in admin.json("/api/v1/upstreams")[1]["upstreams"][0]["servers"]}
    here, gone = of()[origin.address], of()[other.address]
    with t.point("one that answers, and one that is down"):
        equal((here["responses"], here["failures"], gone["responses"]), (12, 0, 0))
        true(gone["failures"] > 0, gone)
    with t.point("so has the stream of events"):
        with admin.events() as events:
            shown = {x["address"]: x for x in events.next()["upstreams"][0]["servers"]}
        equal((shown[origin.address]["responses_total"], shown[other.address]["responses_total"]), (12, 0))


main()
