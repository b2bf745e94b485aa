#!/usr/bin/env python3
"""Keys with plans and overrides of single callers: in force at once, kept over a kill, refused when unknown."""
import hashlib
import json
import os
import random
import signal

from lib import process
from lib.admin import command, with_admin
from lib.sluice import to
from lib.tap import SEED, equal, group, main, test, true

PLANS = """[limit few]
key = header:X-Key
rate = 2 per 1h
[limit many]
key = header:X-Key
rate = 50 per 1h
[plans]
key = header:X-Key
{more}
[plan gold]
limits = many
[plan listed]
limits = many
callers = file:{file}
[plan default]
limits = few
"""


def begin(t, more="", route="", state=True, **options):
    origin = t.origin(lambda x: x.reply(200))
    folder = os.path.join(t.folder, "state")
    if state:
        os.makedirs(folder, exist_ok=True)
    sections = PLANS.format(more=more, file=t.file("listed.keys", "lara\n")) + to(origin, route="limits = plan\n" + route)
    sluice, admin = with_admin(t, sections, settings=f"state = {folder}\n" if state else "", **options)
    return sluice, Asker(admin, t.client(sluice)), origin


class Asker:
    def __init__(self, admin, client):
        self.admin, self.client = admin, client

    def key(self, key, method="GET", change=None):
        body = b"" if change is None else json.dumps(change).encode()
        return self.admin.json(f"/api/v1/keys/{key}", method, body=body)

    def put(self, key, **change):
        return self.key(key, "PUT", change)

    def override(self, hash, method="PUT", **change):
        return self.admin.json(f"/api/v1/callers/{hash}/override", method, body=json.dumps(change).encode())

    def quota(self, key):
        """Of the limit that the caller's plan has."""
        answer = self.admin.json(f"/api/v1/explain?path=/&field.X-Key={key}")[1]
        return [limit["quota"] for limit in answer["limits"]]

    def ask(self, key=None):
        return self.client.ask("/", fields=[("X-Key", key)] if key else [])


@group("keys: added, moved, revoked and forgotten while sluice runs")
def keys(t):
    sluice, asker, _ = begin(t)

    with t.point("added, and in force for the next request"):
        equal((asker.key("ann")[0], asker.quota("ann")), (404, [2]))
        status, answer = asker.put("ann", plan="gold")
        equal((status, answer), (201, {"key": "ann", "plan": "gold", "revoked": False, "source": "interface",
                                       "persists": True}))
        equal([asker.ask("ann").status for _ in range(4)], [200] * 4)

    with t.point("moved, and forgotten"):
        equal((asker.put("ann", plan="default")[0], asker.quota("ann")), (200, [2]))
        equal(asker.put("ann", plan="gold")[0], 200)
        equal((asker.key("ann", "DELETE")[0], asker.quota("ann"), asker.key("ann", "DELETE")[0]), (200, [2], 404))

    with t.point("it goes before the files; a revoked key is refused although a file lists it"):
        equal((asker.key("lara")[1]["source"], asker.quota("lara")), ("file", [50]))
        equal(asker.put("lara", plan="default")[0], 201)
        equal((asker.key("lara")[1]["source"], asker.quota("lara")), ("interface", [2]))
        equal(asker.put("lara", revoked=True)[1]["revoked"], True)
        equal(asker.ask("lara").status, 403)
        equal((asker.key("lara", "DELETE")[0], asker.quota("lara")), (200, [50]))

    with t.point("a key of any bytes that a field can have"):
        equal(asker.put("a%2Fb%20c%25%C3%AB", plan="gold")[0], 201)
        equal(asker.quota("a%2Fb%20c%25%C3%AB"), [50])

    with t.point("hashed: the key is not in the folder, and its digest is no key"):
        digest = hashlib.sha256(b"h-secret").hexdigest()
        equal(asker.put("h-secret", plan="gold", hashed=True)[0], 201)
        with open(os.path.join(t.folder, "state", "roster"), encoding="ascii") as file:
            text = file.read()
        true("h-secret" not in text and digest in text, text)
        equal((asker.quota("h-secret"), asker.quota("sha256:" + digest)), ([50], [2]))
        equal(asker.put(f"sha256:{hashlib.sha256(b'other').hexdigest()}", plan="gold")[0], 201)
        equal(asker.quota("other"), [50])
        equal((asker.key("h-secret", "DELETE")[0], asker.quota("h-secret")), (200, [2]))

    with t.point("what is wrong"):
        for change, status in (({"plan": "none"}, 422), ({}, 400), ({"plan": 3}, 400), ({"revoked": False}, 400),
                               ({"plan": "gold", "revoked": True}, 400), ({"plan": "gold", "hashed": 1}, 400),
                               ({"hashed": True}, 400), ({"plan": "gold", "more": 1}, 400), ([], 400)):
            equal(asker.key("x", "PUT", change)[0], status, change)
        equal(asker.put("x%0Ay", plan="gold")[0], 400)
        equal(asker.put("x" * 4097, plan="gold")[0] >= 400, True)
        equal(asker.key("x")[0], 404)

    with t.point("a reload keeps them; a plan that is gone leaves its keys unknown"):
        asker.put("ann", plan="gold")
        sluice.reload(sluice.sections + "[limit other]\nrate = 1 per 1s\n")
        sluice.process.wait_output(": reloaded")
        equal(asker.quota("ann"), [50])
        sluice.reload(sluice.sections.replace("[plan gold]", "[plan golden]"))
        sluice.process.wait_output(": reloaded", 2)
        equal(asker.quota("ann"), [2])
        true("h-secret" not in sluice.log() and "lara" not in sluice.log(), "no key in the log")


@group("keys and overrides outlive a kill -9, each change whole or not at all", workers=[1])
def killed(t):
    source = random.Random(SEED)
    known = {}
    for _ in range(4):
        sluice, asker, _ = begin(t)
        for key, plan in known.items():
            equal(asker.quota(key), [50] if plan == "gold" else [2], key)
        for _ in range(source.randrange(1, 8)):
            key = f"key{source.randrange(6)}"
            plan = source.choice(["gold", "default"])
            true(asker.put(key, plan=plan)[0] in (200, 201), "put")
            known[key] = plan
        sluice.process.signal(signal.SIGKILL)
        sluice.process.wait()
        sluice.ended = True
    sluice, asker, _ = begin(t)
    equal({key: asker.quota(key) for key in known}, {key: [50] if plan == "gold" else [2] for key, plan in known.items()})
    equal([name for name in os.listdir(os.path.join(t.folder, "state")) if "roster" in name], ["roster"])


@group("without a state folder keys last until the next start", workers=[1])
def unkept(t):
    sluice, asker, _ = begin(t, state=False)
    equal((asker.put("ann", plan="gold")[1]["persists"], asker.quota("ann")), (False, [50]))


@group("a sluice that stops takes no changes: the next one may have read the file", workers=[1])
def stopping(t):
    gate = t.event()

    def answer(x):
        gate.wait(30)
        x.reply(200)
    origin = t.origin(answer)
    sluice, admin = with_admin(t, PLANS.format(more="", file=t.file("listed.keys", "lara\n")) + to(origin))
    client = t.client(sluice)
    asker = Asker(admin, client)
    client.request("/")
    origin.wait_requests(1)
    sluice.terminate()
    process.until(lambda: admin.ask("/readyz")[0] == 503, "it drains")
    equal((asker.put("ann", plan="gold")[0], asker.key("ann", "DELETE")[0]), (409, 404))
    equal(asker.override("0" * 16, deny=True, **{"for": 60})[0], 409)
    gate.set()
    equal(client.response().status, 200)
    equal(sluice.wait(), 0, "exit status")


@group("a damaged file is set aside, and said", workers=[1])
def damaged(t):
    os.makedirs(os.path.join(t.folder, "state"))
    with open(os.path.join(t.folder, "state", "roster"), "w", encoding="ascii") as file:
        file.write("sluice roster 1\nkey ann gold\nkey bob\n")
    sluice, asker, _ = begin(t)
    true("not a line of a roster" in sluice.log(), sluice.log())
    equal((asker.quota("ann"), asker.quota("bob")), ([50], [2]))
    true(os.path.exists(os.path.join(t.folder, "state", "roster.set-aside")), "set aside")


@group("a file of another version is refused and kept", workers=[1])
def of_another_version(t):
    path = os.path.join(t.folder, "state", "roster")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="ascii") as file:
        file.write("sluice roster 2\nkey ann gold\nend\n")
    sluice, asker, _ = begin(t)
    true(f"{path}: it has version 2, expected 1" in sluice.log(), sluice.log())
    equal(asker.put("ann", plan="gold")[0], 201)
    with open(path, encoding="ascii") as file:
        equal(file.read(), "sluice roster 2\nkey ann gold\nend\n", "the file")


@group("unknown callers are refused where the file says so")
def unknown(t):
    for more, route in (("unknown = refuse", ""), ("", "unknown_callers = refuse"),
                        ("unknown = default", "unknown_callers = refuse")):
        with t.point(f"{more or 'nothing'} in [plans], {route or 'nothing'} on the route"):
            sluice, asker, origin = begin(t, more, route)
            answer = asker.ask()
            equal((answer.status, answer.get("www-authenticate")), (401, "ApiKey"))
            equal(json.loads(answer.body)["status"], 401)
            equal(asker.ask("bob").status, 403)
            equal(asker.ask("lara").status, 200)
            equal(len(origin.requests), 1, "at the origin")
            asker.put("bob", plan="gold")
            equal(asker.ask("bob").status, 200)
            asker.put("bob", revoked=True)
            answer = asker.ask("bob")
            equal((answer.status, "revoked" in answer.body.decode()), (403, True))
            sluice.end()

    with t.point("a route may serve them all the same; an allow list goes first"):
        sluice, asker, _ = begin(t, "unknown = refuse", "unknown_callers = default")
        equal((asker.ask().status, asker.ask("eve").status), (200, 200))
        sluice.end()
        sluice, asker, _ = begin(t, "unknown = refuse", "allow = 127.0.0.1")
        equal((asker.ask().status, asker.ask("eve").status), (200, 200))


@test("a revoked key is refused, whatever would serve the caller otherwise")
def revoked(t):
    for key, (more, route) in zip(("ann", "cid", "dan"), (("", ""), ("unknown = refuse", "unknown_callers = default"), ("", "allow = 127.0.0.1"))):
        sluice, asker, origin = begin(t, more, route)
        equal(asker.ask(key).status, 200)
        asker.put(key, revoked=True)
        equal(asker.ask(key).status, 403, (more, route))
        equal(asker.ask("bob").status, 200, (more, route))
        hash = asker.admin.json(f"/api/v1/callers?key={key}&limit=few")[1]["limits"][0]["caller"]
        for change in ({"exempt": True}, {"plan": "gold"}):
            asker.override(hash, **change, **{"for": "1h"})
            equal(asker.ask(key).status, 403, change)
        equal(asker.admin.json(f"/api/v1/explain?path=/&field.X-Key={key}")[1]["status"], 403)
        equal(len(origin.requests), 2, "at the origin")
        sluice.end()


@group("overrides: one caller, until a time")
def overrides(t):
    sluice, asker, _ = begin(t)
    for _ in range(3):
        asker.ask("ann")
    hash = asker.admin.json("/api/v1/callers?key=ann&limit=few")[1]["limits"][0]["caller"]
    statuses = lambda: [asker.ask("ann").status for _ in range(3)]

    with t.point("exempt: no limits; ended: they are back"):
        equal(statuses(), [429] * 3)
        status, answer = asker.override(hash, exempt=True, **{"for": "1h"})
        equal((status, answer["caller"], answer["override"]["kind"], answer["override"]["persists"]),
              (200, hash, "exempt", True))
        equal(statuses(), [200] * 3)
        equal(asker.admin.json(f"/api/v1/callers/{hash}")[1]["override"]["kind"], "exempt")
        equal(asker.admin.json("/api/v1/explain?path=/&field.X-Key=ann")[1]["override"], True)
        equal(asker.override(hash, "DELETE"), (200, {"caller": hash, "override": None}))
        equal((statuses(), asker.override(hash, "DELETE")[0]), ([429] * 3, 404))

    with t.point("denied: 403; of another plan: its limits"):
        asker.override(hash, deny=True, **{"for": 60})
        equal(statuses(), [403] * 3)
        answer = asker.override(hash, plan="gold", **{"for": "10m"})[1]
        equal(answer["override"]["plan"], "gold")
        equal((statuses(), asker.quota("ann")), ([200] * 3, [50]))
        equal((asker.ask("bob").status, asker.quota("bob")), (200, [2]), "another caller")

    with t.point("a reload and a restart keep it"):
        sluice.reload(sluice.sections + "[limit other]\nrate = 1 per 1s\n")
        sluice.process.wait_output(": reloaded")
        equal(asker.quota("ann"), [50])
        sluice.end()
        sluice, asker, _ = begin(t)
        equal(asker.quota("ann"), [50])

    with t.point("it ends by itself"):
        asker.override(hash, exempt=True, **{"for": 1})
        process.until(lambda: asker.quota("ann") == [2] and asker.ask("ann").status == 429, "the override's end")
        equal(asker.admin.json(f"/api/v1/callers/{hash}")[1]["override"], None)

    with t.point("what is wrong"):
        for change in ({"exempt": True}, {"for": "1h"}, {"exempt": True, "deny": True, "for": "1h"},
                       {"exempt": True, "for": 0}, {"exempt": True, "for": "soon"}, {"exempt": True, "for": "401d"},
                       {"exempt": False, "for": "1h"}, {"plan": 1, "for": "1h"}):
            equal(asker.override(hash, **change)[0], 400, change)
        equal(asker.override(hash, plan="none", **{"for": "1h"})[0], 422)
        for path in ("ann", hash[:15], hash + "0"):
            equal(asker.override(path, exempt=True, **{"for": "1h"})[0], 404, path)
        equal(asker.admin.json(f"/api/v1/callers/{hash}/other", "PUT", body=b"{}")[0], 404)


@group("the command line", workers=[1])
def commands(t):
    sluice, asker, _ = begin(t)
    here = ("-c", sluice.ini_path)
    asker.ask("ann")
    hash = asker.admin.json("/api/v1/callers?key=ann&limit=few")[1]["limits"][0]["caller"]

    with t.point("keys"):
        true("gold" in command("keys", "set", "ann", "gold", *here), "set")
        true("gold" in command("keys", "show", "ann", *here), "show")
        command("keys", "set", "ann", "none", *here, status=1)
        true("yes" in command("keys", "revoke", "ann", *here), "revoke")
        command("keys", "delete", "ann", *here)
        command("keys", "show", "ann", *here, status=1)
        command("keys", "set", "hashed", "gold", "--hashed", *here)
        equal(asker.quota("hashed"), [50])
        command("keys", "set", "ann", *here, status=2)
        command("keys", "frob", "ann", *here, status=2)

    with t.point("override"):
        true("exempt" in command("override", hash, "exempt", "1h", *here), "exempt")
        true("gold" in command("override", hash, "plan", "gold", "1h", *here), "plan")
        equal(asker.quota("ann"), [50])
        command("override", hash, "end", *here)
        command("override", hash, "end", *here, status=1)
        command("override", hash, "plan", "gold", *here, status=2)


main()
