#!/usr/bin/env python3
"""What an operator changes while sluice runs: limits, servers, the level of the log."""
import json
import os

from lib.admin import command, value, with_admin
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, true

LIMIT = "[limit burst]\nkey = header:X-Key\nrate = 2 per 1h\n"


def patch(admin, name, change):
    return admin.json(f"/api/v1/limits/{name}", "PATCH", body=json.dumps(change).encode())


@group("PATCH of a limit is in force at once, and only the file keeps it")
def limits(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, LIMIT + to(origin, route="limits = burst"))
    client = t.client(sluice)
    statuses = lambda count, key="ann": [client.ask("/", fields=[("X-Key", key)]).status for _ in range(count)]

    with t.point("raised: what was admitted still counts; the answer says what keeps it"):
        equal(statuses(3), [200, 200, 429])
        status, answer = patch(admin, "burst", {"rate": "3 per 1h"})
        equal((status, answer["amount"], answer["persists"], answer["changed"]), (200, 3, False, True))
        true("until the next reload" in answer["detail"], answer["detail"])
        equal(statuses(2), [200, 429])

    with t.point("lowered: the bound is the new one's at once"):
        equal(patch(admin, "burst", {"rate": "1 per 1h"})[0], 200)
        equal((statuses(1), statuses(2, "bob")), ([429], [200, 429]))

    with t.point("several settings in one step; null is the default"):
        status, answer = patch(admin, "burst", {"mode": "shadow", "count_refused": True})
        equal((status, answer["shadow"], answer["amount"]), (200, True, 1))
        equal(statuses(2, "bob"), [200, 200])
        equal(patch(admin, "burst", {"mode": None, "count_refused": None})[1]["shadow"], False)
        equal(statuses(1, "bob"), [429])

    with t.point("what is wrong changes nothing and is said"):
        for change, status, word in (({"rate": "many"}, 422, "rate"), ({"rate": None}, 422, "rate"),
                                     ({"rat": "1 per 1h"}, 422, "no key"),
                                     ({"rate": "9 per 1h\nmode = shadow"}, 422, "line"),
                                     ({"rate": "9 per 1h", "algorithm": "guess"}, 422, "algorithm"),
                                     ({"rate": ["1 per 1h"]}, 400, "settings"), ({}, 400, "settings"),
                                     ([], 400, "object")):
            found, problem = patch(admin, "burst", change)
            equal((found, problem["status"]), (status, status), change)
            true(word in json.dumps(problem), problem)
        equal(admin.json("/api/v1/limits/burst", "PATCH", body=b"{")[0], 400)
        equal(admin.json("/api/v1/limits/burst", "PATCH", body=b'{"rate": "5 per 1h", "rate": "6 per 1h"}')[0], 400)
        equal(patch(admin, "none", {"rate": "1 per 1h"})[0], 404)
        equal(admin.json("/api/v1/limits/burst")[1]["amount"], 1)

    with t.point("the file is not read for it: an edit that nobody asked for has no effect"):
        sluice.write_ini(sluice.sections.replace("2 per 1h", "50 per 1h"))
        equal(patch(admin, "burst", {"mode": "enforce"})[1]["amount"], 1)

    with t.point("a reload brings the file's back, and says so"):
        equal(admin.json("/api/v1/reload", "POST")[0], 200)
        answer = admin.json("/api/v1/limits/burst")[1]
        equal((answer["amount"], answer["changed"]), (50, False))
        sluice.process.wait_output("[limit burst] rate has changed")


@group("the bound holds while a limit is changed under load")
def changed_under_load(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, LIMIT.replace("2 per 1h", "400 per 1h") + to(origin, route="limits = burst"),
                               workers=2)
    clients = [t.client(sluice) for _ in range(2)]
    admitted = asked = 0
    for turn in range(20):
        rate = (300, 400)[turn % 2]
        equal(patch(admin, "burst", {"rate": f"{rate} per 1h"})[1]["amount"], rate)
        for client in clients:
            for _ in range(15):
                asked += 1
                admitted += client.ask("/", fields=[("X-Key", "ann")]).status == 200
    equal((asked, admitted), (600, 400), "asked and admitted")
    equal(len(origin.requests), 400, "at the origin")


@group("configuration in effect, and the level of the log", workers=[1])
def config(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, LIMIT + to(origin, upstream="health_path = /up?key=sesame",
                                             route="limits = burst\nrequest_header_set = X-Secret: sesame"))

    def sections():
        _, answer = admin.json("/api/v1/config")
        return {(x["section"], x["name"]): x for x in answer["sections"]}

    with t.point("settings and defaults, section by section; repeatable ones as lists"):
        found = sections()
        equal(found["limit", "burst"]["settings"]["rate"], "2 per 1h")
        equal(found["limit", "burst"]["settings"]["mode"], "enforce")
        equal(found["upstream", "origin"]["settings"]["server"], [str(origin)])
        equal(found["sluice", ""]["settings"]["log_level"], "info")

    with t.point("secrets are masked"):
        text = admin.ask("/api/v1/config")[2].decode()
        true("sesame" not in text, text)
        equal(found["route", "origin"]["settings"]["request_header_set"], ["X-Secret: ***"])
        equal(found["upstream", "origin"]["settings"]["health_path"], "/up?***")

    with t.point("a changed section says so"):
        equal((found["limit", "burst"]["changed"], found["sluice", ""]["changed"]), (False, False))
        patch(admin, "burst", {"rate": "7 per 1h"})
        found = sections()
        equal((found["limit", "burst"]["settings"]["rate"], found["limit", "burst"]["changed"]), ("7 per 1h", True))

    with t.point("log level: debug lines come, and go with a reload"):
        level = lambda text: admin.json("/api/v1/log-level", "PUT", body=text)
        true(" debug " not in sluice.log(), sluice.log())
        equal(level(b'{"level": "debug"}')[1]["level"], "debug")
        sluice.process.wait_output(" debug ")
        equal(sections()["sluice", ""]["settings"]["log_level"], "debug")
        for text in (b'{"level": "loud"}', b'{"level": 3}', b'{}', b'debug'):
            true(level(text)[0] in (400, 422), text)
        equal(admin.json("/api/v1/reload", "POST")[0], 200)
        equal(sections()["sluice", ""]["settings"]["log_level"], "info")


@group("servers: drain, disable, enable")
def servers(t):
    one, two = t.origin(lambda x: x.reply(200, b"one")), t.origin(lambda x: x.reply(200, b"two"))
    sluice, admin = with_admin(t, to(one, two))
    client = t.client(sluice)
    operate = lambda server, word: admin.json(f"/api/v1/upstreams/origin/servers/{server}/{word}", "POST")
    seen = lambda: {client.ask("/").body for _ in range(8)}

    with t.point("a drained or disabled server gets nothing; the metrics and the list say so"):
        equal(seen(), {b"one", b"two"})
        for word, mode in (("drain", "draining"), ("disable", "disabled")):
            equal(operate(one, word), (200, {"mode": mode}))
            equal(seen(), {b"two"})
            _, answer = admin.json("/api/v1/upstreams")
            equal([x["mode"] for x in answer["upstreams"][0]["servers"]], [mode, "enabled"])
            equal(value(admin.metrics()[1], "sluice_server_up", upstream="origin", server=str(one)), 0)

    with t.point("a reload does not bring it back"):
        sluice.reload(sluice.sections + "[limit other]\nrate = 1 per 1s\n")
        sluice.process.wait_output(": reloaded")
        equal(seen(), {b"two"})

    with t.point("the last one: 503, and none is asked in spite of it"):
        operate(two, "disable")
        answer = client.ask("/")
        equal((answer.status, len(one.requests) > 0), (503, True))
        before = len(one.requests) + len(two.requests)
        equal({client.ask("/").status for _ in range(4)}, {503})
        equal(len(one.requests) + len(two.requests), before)

    with t.point("enabled again"):
        operate(one, "enable")
        equal(seen(), {b"one"})
        operate(two, "enable")
        equal(seen(), {b"one", b"two"})

    with t.point("names that do not exist: 404"):
        for path in ("origin/servers/127.0.0.1:1/drain", "none/servers/x:1/drain", "origin/drain",
                     f"origin/servers/{one}/frob", "origin/servers/drain", "origin/servers//drain"):
            equal(admin.json(f"/api/v1/upstreams/{path}", "POST")[0], 404, path)


@group("servers: weight", workers=[2])
def weights(t):
    origins = [t.origin(lambda x: x.reply(200)) for _ in range(2)]
    one = origins[0]
    sluice, admin = with_admin(t, to(*origins))
    path = f"/api/v1/upstreams/origin/servers/{one}/weight"

    def put(weight, of=path):
        return admin.json(of, "PUT", body=json.dumps(weight).encode())

    def share():
        """How many of 80 requests on one connection, which has one worker, the first server gets."""
        before, client = len(one.requests), t.client(sluice)
        equal({client.ask("/").status for _ in range(80)}, {200}, "statuses")
        return len(one.requests) - before

    with t.point("the next requests are divided by it"):
        equal(share(), 40, "equal weights")
        equal(put({"weight": 3}), (200, {"weight": 3}))
        equal(share(), 60, "three to one")
        equal([server["weight"] for server in admin.json("/api/v1/upstreams")[1]["upstreams"][0]["servers"]], [3, 1])
    with t.point("a reload keeps it, null takes the file's"):
        sluice.reload(sluice.sections.replace(f"server = {one}", f"server = {one} weight=7"))
        sluice.process.wait_output(": reloaded")
        equal(share(), 60, "after a reload")
        equal(put({"weight": None}), (200, {"weight": None}))
        equal(share(), 70, "the file's")
    with t.point("invalid weights, and servers that do not exist, are refused"):
        for body in ({}, {"weight": 0}, {"weight": 1001}, {"weight": "3"}, {"weight": 3, "more": 1}, {"weight": 1.5}):
            equal(put(body)[0], 400, body)
        equal(put({"weight": 1}, "/api/v1/upstreams/none/servers/x:1/weight")[0], 404)
        equal(put({"weight": 1}, f"/api/v1/upstreams/origin/servers/{one}/drain")[0], 404)


@group("a drained server keeps the sessions that are bound to it; a disabled one loses them")
def bound_sessions(t):
    one, two = t.origin(lambda x: x.reply(200, b"one")), t.origin(lambda x: x.reply(200, b"two"))
    sluice, admin = with_admin(t, to(one, two, route="session = header:X-Key\nupstream_affinity = session"))
    client = t.client(sluice)
    operate = lambda server, word: admin.json(f"/api/v1/upstreams/origin/servers/{server}/{word}", "POST")
    ask = lambda: client.ask("/", fields=[("X-Key", "ann")]).body
    mine = ask()
    server, other = (one, b"two") if mine == b"one" else (two, b"one")
    operate(server, "drain")
    equal([ask() for _ in range(4)], [mine] * 4, "drained")
    operate(server, "disable")
    equal([ask() for _ in range(4)], [other] * 4, "disabled")


@group("the command line", workers=[1])
def commands(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, LIMIT + to(origin, route="limits = burst"))
    here = ("-c", sluice.ini_path)

    with t.point("limits set: the new limit, and what keeps it"):
        lines = command("limits", "set", "burst", "rate=9 per 1h", "mode=shadow", *here).splitlines()
        equal(lines[1].split()[:3], ["burst", "ring", "9"])
        true("until the next reload" in lines[-1], lines)
        equal(admin.json("/api/v1/limits/burst")[1]["shadow"], True)
        command("limits", "set", "burst", "mode=", *here)
        equal(admin.json("/api/v1/limits/burst")[1]["shadow"], False)

    with t.point("errors: exit 1 with each of them; words that are missing: exit 2"):
        output = command("limits", "set", "burst", "rate=many", *here, status=1)
        true("nothing has changed" in output and '"many"' in output, output)
        command("limits", "set", "none", "rate=1 per 1s", *here, status=1)
        command("limits", "set", "burst", *here, status=2)
        command("limits", "set", "burst", "rate", *here, status=2)
        command("limits", "burst", *here, status=2)

    with t.point("upstreams disable, log-level, config"):
        true("disabled" in command("upstreams", "disable", "origin", str(origin), *here), "disable")
        true("disabled" in command("upstreams", *here), "listed")
        command("upstreams", "enable", "origin", str(origin), *here)
        true("5" in command("upstreams", "weight", "origin", str(origin), "5", *here), "weight")
        command("upstreams", "weight", "origin", str(origin), "file", *here)
        command("upstreams", "weight", "origin", str(origin), "many", *here, status=2)
        command("upstreams", "weight", "origin", str(origin), "5000", *here, status=1)
        command("upstreams", "frob", "origin", str(origin), *here, status=1)
        command("upstreams", "enable", "origin", *here, status=2)
        true("debug" in command("log-level", "debug", *here), "log-level")
        output = command("config", *here)
        true("[limit burst] ; changed by the admin interface\n" in output, output)
        true("rate = 9 per 1h\n" in output and "log_level = debug\n" in output, output)


main()
