"""The operator's interface: metrics, health, status, and who may call what."""
import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess

from lib import process
from lib.admin import Admin, value, with_admin
from lib.process import SANITIZER, Port, resident_bytes, until
from lib.sluice import to
from lib.tap import equal, group, main, true
from lib.wire import dial

LIMIT = "[limit burst]\nkey = header:X-Key\nrate = 2 per 1h\n"


@group("metrics say what happened")
def metrics(t):
    origin = t.origin(lambda x: x.reply(200, b"hello"))
    sluice, admin = with_admin(t, LIMIT + to(origin, route="limits = burst"))
    client = t.client(sluice)

    for _ in range(3):
        client.ask("/", fields=[("X-Key", "a")])
    client.ask("/", fields=[("X-Key", "b")])

    with t.point("requests by route, class and verdict"):
        fields, text = admin.metrics()
        true(fields["content-type"].startswith("text/plain; version=0.0.4"), fields["content-type"])
        equal(value(text, "sluice_requests_total", route="origin", status="2xx", verdict="admit"), 3)
        equal(value(text, "sluice_requests_total", route="origin", status="4xx", verdict="refuse"), 1)

    with t.point("limits and upstreams"):
        equal(value(text, "sluice_limit_verdicts_total", limit="burst", verdict="admit"), 3)
        equal(value(text, "sluice_limit_verdicts_total", limit="burst", verdict="refuse"), 1)
        equal(value(text, "sluice_limit_callers", limit="burst"), 2)
        equal(value(text, "sluice_upstream_requests_total", upstream="origin"), 3)
        equal(value(text, "sluice_server_up", upstream="origin", server=str(origin)), 1)

    with t.point("histograms count every request, the queue's those that were forwarded"):
        equal(value(text, "sluice_request_duration_seconds_count", route="origin"), 4)
        equal(value(text, "sluice_queue_wait_seconds_count", route="origin"), 3)
        equal(value(text, "sluice_upstream_duration_seconds_bucket", route="origin", le="+Inf"), 3)

    with t.point("no sample twice, each of a family with HELP and TYPE"):
        samples = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
        equal(len(samples), len(set(samples)), "samples")
        families = set(re.findall(r"# TYPE (\S+)", text))
        for sample in samples:
            name = sample.split("{")[0]
            true(name in families or re.sub("_(bucket|sum|count)$", "", name) in families, sample)

    with t.point("promtool finds nothing wrong"):
        if shutil.which("promtool"):
            found = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True,
                                   timeout=60, check=False)
            equal((found.returncode, found.stdout + found.stderr), (0, b""), "what promtool says")
        else:
            t.note("no promtool")

    with t.point("OpenMetrics by Accept"):
        fields, text = admin.metrics("application/openmetrics-text; version=1.0.0")
        true(fields["content-type"].startswith("application/openmetrics-text"), fields["content-type"])
        true(text.endswith("# EOF\n"), "its end")
        true("# TYPE sluice_requests counter\n" in text, "a counter's family")

    with t.point("counters go on over a reload"):
        sluice.reload(sluice.sections.replace("2 per 1h", "3 per 1h"))
        sluice.process.wait_output(": reloaded")
        client.ask("/", fields=[("X-Key", "a")])
        _, text = admin.metrics()
        equal(value(text, "sluice_requests_total", route="origin", status="2xx", verdict="admit"), 4)
        equal(value(text, "sluice_reloads_total"), 1)


@group("health, readiness and status")
def health(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, to(origin))

    with t.point("healthz and readyz"):
        equal(admin.ask("/healthz")[::2], (200, b"ok\n"))
        equal(admin.ask("/readyz")[::2], (200, b"ready\n"))

    with t.point("status"):
        status, answer = admin.json("/api/v1/status")
        equal((status, answer["pid"], answer["workers"], answer["draining"]),
              (200, sluice.pid, sluice.workers, False))
        equal(answer["configuration"], sluice.ini_path)

    with t.point("HEAD: the fields without the content"):
        status, fields, content = admin.ask("/healthz", "HEAD")
        equal((status, fields["content-length"], content), (200, "3", b""))


def seen_by_state(t):
    gate = t.event()
    origin = t.origin(lambda x: (gate.wait(20), x.reply(200)))
    sluice, admin = with_admin(t, "[plans]\nkey = header:X-Key\n[plan gold]\ncallers = file:" +
                               t.file("gold-keys", "ann\n") + "\nlimits = calls\n[limit calls]\nkey = header:X-Key\n"
                               "rate = 9 per 1h\n" + to(origin, upstream="max_in_flight = 1", route="session = header:X-Key"))
    clients = [t.client(sluice) for _ in range(2)]
    for client, key in zip(clients, ("ann", "bob")):
        client.request("/", fields=[("X-Key", key)])
        origin.wait_requests(1)
    upstream = lambda: admin.json("/api/v1/upstreams")[1]["upstreams"][0]
    until(lambda: (upstream()["queued"], upstream()["sessions_queued"]) == (1, 1), "one that waits")
    equal((upstream()["max_in_flight"], upstream()["shed"]), (1, 0))
    sessions = admin.json("/api/v1/sessions?state=open")[1]["sessions"]
    equal(sorted((one["in_flight"], one["queued_normal"]) for one in sessions), [(0, 1), (1, 0)], "sessions")
    for one in sessions:
        equal(admin.json(f"/api/v1/sessions/{one['id']}"), (200, one))
    equal(admin.json("/api/v1/sessions?state=draining")[1], {"total": 0, "sessions": []})
    for path in ("0" * 32, "x" * 32, "-" + "0" * 31, "0x" + "0" * 30, "0" * 31, "0" * 33):
        equal(admin.ask(f"/api/v1/sessions/{path}")[0], 404, path)
    equal(admin.ask("/api/v1/sessions/-" + sessions[0]["id"][1:] + "/drain", "POST")[0], 404, "a sign is no digit")
    equal([admin.json(f"/api/v1/callers?key={key}")[1]["plan"] for key in ("ann", "bob")], ["gold", None], "plans")
    gate.set()
    equal({client.response().status for client in clients}, {200})


@group("limits, upstreams and sessions")
def listings(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(
        t, LIMIT + to(origin, route="limits = burst\nsession = header:X-Key\n"))
    client = t.client(sluice)
    client.ask("/", fields=[("X-Key", "a")])

    with t.point("limits"):
        _, answer = admin.json("/api/v1/limits")
        (limit,) = answer["limits"]
        equal((limit["name"], limit["amount"], limit["per_ms"], limit["callers"]),
              ("burst", 2, 3600000, 1))
        equal(limit["verdicts"]["admitted"], 1)
        equal(admin.json("/api/v1/limits/burst"), (200, limit))
        equal(admin.json("/api/v1/limits/none")[0], 404)

    with t.point("upstreams"):
        _, answer = admin.json("/api/v1/upstreams")
        (upstream,) = answer["upstreams"]
        equal((upstream["name"], upstream["responses"], upstream["failures"]), ("origin", 1, 0))
        equal([server["address"] for server in upstream["servers"]], [str(origin)])

    with t.point("a session, by its id and by its state; where a request waits"):
        seen_by_state(t)
    with t.point("sessions, and closing one"):
        _, answer = admin.json("/api/v1/sessions")
        equal(answer["total"], len(answer["sessions"]))
        if answer["sessions"]:
            session = answer["sessions"][0]["id"]
            equal(admin.json(f"/api/v1/sessions/{session}/close", "POST"), (200, {"state": "closing"}))
        equal(admin.json(f"/api/v1/sessions/{'0' * 32}/close", "POST")[0], 404)
        equal(admin.json(f"/api/v1/sessions/{'0' * 32}/frob", "POST")[0], 404)
        equal(admin.json("/api/v1/sessions/xyz/close", "POST")[0], 404)


@group("callers: what they have used, and forgetting it")
def callers(t):
    origin = t.origin(lambda x: x.reply(200))
    limits = LIMIT + "[limit each]\nkey = ip\nrate = 100 per 1h\n"
    sluice, admin = with_admin(t, limits + to(origin, route="limits = burst, each"))
    client = t.client(sluice)
    for _ in range(3):
        client.ask("/", fields=[("X-Key", "ann")])

    with t.point("used, remaining, and when it clears"):
        status, answer = admin.json("/api/v1/callers?key=ann")
        found = {limit["limit"]: limit for limit in answer["limits"]}
        equal((status, found["burst"]["used"], found["burst"]["remaining"], found["burst"]["quota"]), (200, 2, 0, 2))
        true(3500000 < found["burst"]["more_ms"] <= 3600001, found["burst"])
        true("each" not in found or found["each"]["used"] == 0, f"an address is not a key: {found}")

    with t.point("an address is found by the limits that are keyed by it"):
        _, answer = admin.json("/api/v1/callers?key=127.0.0.1&limit=each")
        (limit,) = answer["limits"]
        equal((limit["used"], limit["remaining"]), (2, 98))

    with t.point("a caller that nobody has seen has all of it"):
        _, answer = admin.json("/api/v1/callers?key=nobody&limit=burst")
        equal([(x["used"], x["remaining"]) for x in answer["limits"]], [(0, 2)])

    with t.point("looking takes nothing; a reset lets it pass again, one limit only"):
        equal(client.ask("/", fields=[("X-Key", "ann")]).status, 429, "status")
        equal(admin.json("/api/v1/callers?key=ann&limit=burst", "DELETE"),
              (200, {"key": "ann", "reset": ["burst"]}))
        equal([client.ask("/", fields=[("X-Key", "ann")]).status for _ in range(3)], [200, 200, 429])

    with t.point("a key of bytes that are no UTF-8 is found, reset, and shown as JSON can"):
        equal([client.ask("/", fields=[("X-Key", "\xff\xfe")]).status for _ in range(3)], [200, 200, 429])
        status, answer = admin.json("/api/v1/callers?key=%ff%fe&limit=burst")
        equal((status, answer["key"], [x["remaining"] for x in answer["limits"]]), (200, "\ufffd\ufffd", [0]))
        equal(admin.json("/api/v1/callers?key=%ff%fe&limit=burst", "DELETE"),
              (200, {"key": "\ufffd\ufffd", "reset": ["burst"]}))
        equal(admin.json("/api/v1/callers?key=Zo%c3%ab")[1]["key"], "Zo\xeb", "a key in UTF-8")

    with t.point("a NUL ends no key: another caller is meant"):
        equal(admin.json("/api/v1/callers?key=ann%00b", "DELETE")[1]["key"], "ann%00b")
        equal(admin.json("/api/v1/callers/" + "0" * 16 + "%00x")[0], 404)

    with t.point("an unknown limit and a delete without a key: 404 and 400"):
        equal(admin.json("/api/v1/callers?key=ann&limit=none")[0], 404)
        equal(admin.json("/api/v1/callers?limit=burst", "DELETE")[0], 400)


@group("explain says what a request would get, and takes nothing")
def explain(t):
    origin = t.origin(lambda x: x.reply(200))
    sections = (LIMIT + "[plans]\nkey = header:X-Key\n[plan gold]\n"
                f"callers = file:{t.file('gold.keys', 'ann' + chr(10))}\nlimits = burst\nlane = high\n" +
                to(origin, route="path = /api/\nlimits = plan\ndeny = 192.0.2.0/24\nmethod = GET\n"))
    sluice, admin = with_admin(t, sections)
    client = t.client(sluice)

    def ask(query):
        status, answer = admin.json("/api/v1/explain?" + query)
        equal(status, 200, answer)
        return answer

    with t.point("route, plan, limits and verdict, however often it is asked"):
        for _ in range(5):
            answer = ask("path=/api/x&field.X-Key=ann")
            equal((answer["outcome"], answer["route"], answer["plan"], answer["lane"]),
                  ("admit", "origin", "gold", "high"))
            equal([(x["limit"], x["remaining"]) for x in answer["limits"]], [("burst", 1)])

    with t.point("it is what the request then gets"):
        equal([client.ask("/api/x", fields=[("X-Key", "ann")]).status for _ in range(3)], [200, 200, 429])
        answer = ask("path=/api/x&field.X-Key=ann")
        equal((answer["outcome"], answer["status"], answer["limits"][0]["violated"]), ("refuse", 429, True))
        true(3500000 < answer["retry_after_ms"] <= 3600001, answer)
        equal(ask("path=/api/x&field.X-Key=bob")["limits"], [])

    with t.point("lists, methods, paths that no route has, a route by its name"):
        equal(ask("path=/api/x&address=192.0.2.7")["outcome"], "deny")
        equal(ask("path=/api/x&method=POST"), {"outcome": "no route", "status": 405})
        equal(ask("path=/other"), {"outcome": "no route", "status": 404})
        equal(ask("route=origin&field.X-Key=ann")["outcome"], "refuse")

    with t.point("bytes that are no HTTP get 400, and smuggle nothing"):
        for query in ("path=no-slash", "method=G%20T", "address=here", "field.X%20Y=1", "host=a%20b",
                      "field.X=1%0d%0a%0d%0aGET%20/%20HTTP/1.1", "path=/%2500", "path=/%00"):
            equal(admin.json("/api/v1/explain?" + query)[0], 400, query)
        # An end of a line would be a field of its own.
        for query in ("path=/%0D%0AX-Key:%20ann", "path=/&field.A=b%0D%0AX-Key:%20ann", "path=/&field.A%0AB=c", "path=/&host=a%0D%0Ab:%20c",
                      "path=/&method=GET%20/x%0A"):
            status, answer = admin.json("/api/v1/explain?" + query)
            equal((status, "control character" in answer["detail"]), (400, True), query)
        true("expected it as in /account" in admin.json("/api/v1/explain?path=account")[1]["detail"], "a path without a slash")


@group("reload", workers=[1])
def reload(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, LIMIT + to(origin, route="limits = burst"))

    with t.point("a good file takes effect before the answer"):
        sluice.write_ini(sluice.sections.replace("2 per 1h", "5 per 1h"))
        equal(admin.json("/api/v1/reload", "POST"), (200, {"configuration": sluice.ini_path}))
        equal(admin.json("/api/v1/limits/burst")[1]["amount"], 5)

    with t.point("a file with an error: 422, and nothing changes"):
        sluice.write_ini(sluice.sections.replace("5 per 1h", "many"))
        status, problem = admin.json("/api/v1/reload", "POST")
        equal((status, problem["status"]), (422, 422))
        equal(admin.json("/api/v1/limits/burst")[1]["amount"], 5)


@group("tokens", workers=[1])
def tokens(t):
    digest = hashlib.sha256(b"hashed-secret").hexdigest()
    lines = f"# people\nann read reader-secret\nbob write sha256:{digest}\nplain-secret\nsharp#secret # no comment before a blank\n"
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, to(origin), tokens=lines)

    with t.point("without a token: 401 that says how, but health needs none"):
        status, fields, content = admin.ask("/api/v1/status")
        equal((status, fields["www-authenticate"]), (401, 'Bearer realm="sluice"'))
        equal(json.loads(content)["status"], 401)
        equal(admin.ask("/metrics")[0], 401)
        equal(admin.ask("/healthz")[0], 200)
        equal(admin.ask("/readyz")[0], 200)

    with t.point("a wrong token, a part of one, a digest instead of its token: 401"):
        for token in ("reader-secre", "reader-secret2", digest, "sha256:" + digest, "ann", "sharp", "no", ""):
            equal(admin.ask("/api/v1/status", fields=[f"Authorization: Bearer {token}"])[0], 401, token)
        equal(admin.ask("/api/v1/status", fields=["Authorization: Basic reader-secret"])[0], 401)

    with t.point("read may look and not change"):
        equal(admin.ask("/api/v1/status", token="reader-secret")[0], 200)
        equal(admin.ask("/api/v1/reload", "POST", token="reader-secret")[0], 403)

    with t.point("write may do both, also by its digest"):
        for token in ("hashed-secret", "plain-secret", "sharp#secret"):
            equal(admin.ask("/api/v1/status", token=token)[0], 200)
            equal(admin.ask("/api/v1/reload", "POST", token=token)[0], 200)

    with t.point("a file that can't be read, or is wrong: no start, and the line says why"):
        for text, words in (("ann read\n", ":1: expected NAME"), ("", "the file has no token"),
                            ("x write sha256:12\n", ":1: expected 64 hexadecimal digits")):
            path = t.file("wrong.token", text)
            port = Port(socket.AF_INET)
            ini = t.file("wrong.ini", sluice.ini().replace("admin.token", "wrong.token").replace(
                sluice.address, f"127.0.0.1:{port.number}"))
            t.defer(port.release)
            status, output = process.run([process.BINARY, "run", "-c", ini])
            equal(status, 1, f"exit status, it said {output!r}")
            true(path in output and words in output, output)


@group("the command line asks the same", workers=[1])
def command_line(t):
    def run(*arguments, status=0, environment=None):
        found, output = process.run([process.BINARY, *arguments], environment=environment)
        equal(found, status, f"exit status of {arguments}: {output!r}")
        return output

    origin = t.origin(lambda x: x.reply(200))
    limits = LIMIT + "[limit each]\nkey = ip\nrate = 100 per 1h\n"
    sluice, admin = with_admin(t, limits + to(origin, route="limits = burst, each"),
                               tokens=f"ann read sha256:{hashlib.sha256(b'reader').hexdigest()}\nwriter\n")
    client = t.client(sluice)
    for _ in range(3):
        client.ask("/", fields=[("X-Key", "ann")])
    here = ("-c", sluice.ini_path)

    with t.point("status, limits, upstreams and sessions as tables, found by the file"):
        true(f"pid                     {sluice.pid}\n" in run("status", *here), run("status", *here))
        lines = run("limits", *here).splitlines()
        equal(lines[0].split(), ["LIMIT", "ALGORITHM", "AMOUNT", "PER", "CALLERS", "ADMITTED", "REFUSED",
                                 "DELAYED", "SHADOW"])
        equal(lines[1].split(), ["burst", "ring", "2", "1h", "1", "2", "1", "0", "0"])
        true(str(origin) in run("upstreams", *here), run("upstreams", *here))
        true("in all" in run("sessions", *here), run("sessions", *here))

    with t.point("of the file they need [admin] only, also of one that is included"):
        path = t.file("client.ini", f"""[listener l]
bind = 127.0.0.1:${{SLUICE_UNSET}}
nonsense = 1
[admin]
bind = ${{SLUICE_ADDRESS}}
[rout x]
""")
        outer = t.file("outer.ini", f"[sluice]\nworkers = ${{SLUICE_UNSET}}\ninclude = {path}\n")
        known = {"SLUICE_ADDRESS": admin.address, "SLUICE_TOKEN": "reader"}
        true("burst" in run("limits", "-c", outer, environment=known), "limits")
        true("SLUICE_ADDRESS is not set" in run("limits", "-c", outer, status=1), "its own variable is needed")

    with t.point("callers, reset and explain"):
        lines = run("callers", "ann", *here, "--limit", "burst").splitlines()
        equal(lines[1].split()[:4], ["burst", "2", "0", "2"])
        true("refuse" in run("explain", "/x", "--field", "X-Key: ann", *here), "explained")
        equal(run("reset", "ann", "--limit", "burst", *here), "reset: burst\n")
        true("admit" in run("explain", "/x", "--field", "X-Key: ann", *here), "explained")
        equal(run("reset", "nobody", "--limit", "burst", *here), "nothing was used\n")

    with t.point("--json is what the API sends; --admin and the environment instead of the file"):
        where = ("--admin", f"http://{admin.address}")
        output = run("limits", *where, "--json", environment={"SLUICE_TOKEN": "reader"})
        equal(json.loads(output), admin.json("/api/v1/limits", token="writer")[1])

    with t.point("reload; a role that does not suffice, a token that is wrong: exit 1"):
        true(sluice.ini_path in run("reload", *here), "reloaded")
        true("may only read" in run("reload", *where, status=1, environment={"SLUICE_TOKEN": "reader"}), "403")
        true("token" in run("limits", *where, status=1, environment={"SLUICE_TOKEN": "wrong"}), "401")

    with t.point("the command line is wrong: exit 2; nobody answers: exit 3"):
        true("too few words" in run("reset", *here, status=2), "words")
        true("too many words" in run("callers", "ann", "--hash", "0" * 16, *here, status=2), "words")
        true("too many words" in run("status", "x", *here, status=2), "words")
        true("not a field" in run("explain", "/", "--field", "x", *here, status=2), "a field")
        run("limits", "--frobnicate", status=2)
        true("is sluice running there?" in run("limits", "--admin", "127.0.0.1:1", status=3), "nobody")
        true("no [admin]" in run("limits", "-c", t.file("none.ini", to(origin) + "[listener l]\nbind = 127.0.0.1:1\n"),
                                 status=1), "no [admin]")


@group("content of those who may not call is not kept", workers=[1])
def unheard(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, to(origin), tokens="ann write secret\n")
    equal(admin.ask("/api/v1/reload", "POST", token="secret")[0], 200)
    size = 1 << 20
    with t.point("a mebibyte each of a hundred without a token takes no memory"):
        with contextlib.ExitStack() as stack:
            before = resident_bytes(sluice.pid)
            callers = [stack.enter_context(dial(admin.address)) for _ in range(100)]
            head = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
            for number, caller in enumerate(callers):
                caller.sendall(head % ((b"/api/v1/reload", b"/healthz", b"/nothing")[number % 3], size))
                caller.sendall(b"x" * (size - 1))
            # A round of the server's loop each: all that was sent is read then.
            for _ in range(300):
                equal(admin.ask("/healthz")[0], 200)
            true(SANITIZER or resident_bytes(sluice.pid) < before + 30 * size,
                 f"{before} bytes became {resident_bytes(sluice.pid)}")
            for number, caller in enumerate(callers):
                caller.sendall(b"x")
                equal(caller.recv(65536).split(b" ")[1], (b"401", b"405", b"404")[number % 3], "status")
    with t.point("who waits to be asked for the content is refused at once"):
        with dial(admin.address) as caller:
            caller.sendall(b"POST /api/v1/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
            equal(caller.recv(65536).split(b" ")[1], b"401", "status")


@group("requests with mistakes", workers=[1])
def mistakes(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, to(origin))

    with t.point("an unknown path is 404, another method 405 with Allow, as problem+json"):
        status, fields, content = admin.ask("/api/v1/nothing")
        equal((status, fields["content-type"], json.loads(content)["status"]),
              (404, "application/problem+json", 404))
        status, fields, _ = admin.ask("/api/v1/status", "DELETE")
        equal((status, fields["allow"]), (405, "GET"))

    with t.point("content over 1 MiB is 413"):
        equal(admin.ask("/api/v1/reload", "POST", body=b"x" * (1 << 20))[0], 200)
        equal(admin.ask("/api/v1/reload", "POST", body=b"x" * ((1 << 20) + 1))[0], 413)

    with t.point("half requests that go on for ever lock nobody out"):
        with contextlib.ExitStack() as stack:
            halves = []
            for _ in range(400):
                half = stack.enter_context(dial(admin.address))
                half.sendall(b"GET /healthz HTTP/1.1\r\n")
                halves.append(half)
            cut = [False]

            def drip():
                try:
                    for half in halves[:200]:
                        half.sendall(b"x")
                except OSError:
                    cut[0] = True  # the older ones are cut
                return cut[0]
            until(drip, "the first half request is cut", pause=1)
            equal(admin.ask("/healthz")[0], 200)

    with t.point("half a request holds up neither other operators nor the stop"):
        with dial(admin.address) as half:
            half.sendall(b"POST /api/v1/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
            equal(admin.ask("/healthz")[0], 200)
            sluice.terminate()
            equal(sluice.wait(), 0, "exit status")


@group("without a token, no page in the operator's browser is answered", workers=[1])
def pages(t):
    origin = t.origin(lambda x: x.reply(200))
    sluice, admin = with_admin(t, to(origin))
    port = admin.address.rpartition(":")[2]
    disable = f"/api/v1/upstreams/origin/servers/{origin}/disable"

    for host in ("localhost", "localhost:81", "LOCALHOST.", "sluice.localhost", "127.0.0.1", "10.1.2.3:8081", "[::1]:8081"):
        with t.point(f"Host: {host} is answered"):
            equal(admin.ask("/api/v1/status", host=host)[0], 200)
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil", "evillocalhost",
                 "a b", "[::1].evil", "127.0.0.1@evil.example"):
        with t.point(f"Host: {host} is 403, but /healthz answers"):
            equal(admin.ask("/api/v1/config", host=host)[0], 403)
            equal(admin.ask("/healthz", host=host)[0], 200)
    for line in ("Origin: http://evil.example", "Origin: null", "Origin: http://127.0.0.1:1", "Sec-Fetch-Site: cross-site",
                 "Sec-Fetch-Site: same-site"):
        with t.point(f"{line} is 403, and nothing is done"):
            equal(admin.ask(disable, "POST", fields=[line], host=admin.address)[0], 403)
            equal(admin.json("/api/v1/upstreams")[1]["upstreams"][0]["servers"][0]["mode"], "enabled")
    for line in (f"Origin: http://{admin.address}", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"):
        with t.point(f"{line} is answered"):
            equal(admin.ask("/api/v1/reload", "POST", fields=[line], host=admin.address)[0], 200)

    with t.point("with a token, any Host is answered"):
        _, guarded = with_admin(t, to(origin), tokens="secret\n")
        equal(guarded.ask("/api/v1/status", token="secret", host="sluice.example")[0], 200)


@group("a unix socket", workers=[1])
def unix(t):
    origin = t.origin(lambda x: x.reply(200))
    path = os.path.join(t.folder, "admin.sock")
    sluice = t.sluice(to(origin) + f"[admin]\nbind = unix:{path}\n")
    sluice.process.wait_output("sluice is ready")
    equal(Admin(f"unix:{path}").ask("/healthz")[0], 200)
    equal(Admin(f"unix:{path}").ask("/api/v1/status", host="sluice")[0], 200, "any Host")
    equal(oct(os.stat(path).st_mode & 0o777), oct(0o660), "its mode")
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status")
    true(not os.path.exists(path), "the socket's file is gone")


main()
