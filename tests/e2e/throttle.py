"""Throttles: who is charged, what a refusal says, and that it is true."""
import json
import re
import threading
import time

from lib.client import request_bytes
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, test, true

QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"


def limited(t, *limits, route=None, sections="", listener="", handler=None):
    """A proxy whose one route has these limits: (name, lines)."""
    origin = t.origin(handler)
    texts = "".join(f"[limit {name}]\n{lines}\n" for name, lines in limits)
    names = ", ".join(name for name, _ in limits)
    route = f"limits = {names}" if route is None else route
    return origin, t.sluice(texts, sections, to(origin, route=route), listener=listener)


def statuses(client, count, target="/", **more):
    return [client.ask(target, **more).status for _ in range(count)]


def rate_fields(answer):
    """RateLimit and RateLimit-Policy as {name: {parameter: number}}, from their structured fields."""
    found = []
    for field in ("RateLimit-Policy", "RateLimit"):
        items = {}
        for item in (answer.get(field) or "").split(","):
            match = re.fullmatch(r'\s*"([\w-]+)"((?:;[a-z]+=[^;]+)*)\s*', item)
            true(match, f"{field}: {answer.get(field)!r}")
            parameters = dict(p.split("=") for p in match[2].split(";")[1:])
            items[match[1]] = {k: int(v) for k, v in parameters.items() if v.isdigit()}
        found.append(items)
    return found


# ---- what is said ------------------------------------------------------------------------------

@group("answers")
def answers(t):
    origin, sluice = limited(t, ("burst", "key = ip\nrate = 3 per 1h"))
    client = t.client(sluice)

    with t.point("an admitted answer says what remains"):
        for left in (2, 1, 0):
            answer = client.ask("/", "POST", body=b"hello")
            equal((answer.status, answer.body), (200, b"hello"))
            equal(answer.all("RateLimit-Policy"), ['"burst";q=3;w=3600'], "RateLimit-Policy")
            policy, state = rate_fields(answer)
            equal(state["burst"]["r"], left, "remaining")
            # Until all of it, or with nothing left the first of it, is free again: in an hour.
            true(3590 <= state["burst"]["t"] <= 3600, f"t={state['burst']['t']}")
            true(answer.get("Retry-After") is None, "Retry-After on a 200")

    with t.point("a refusal: 429, Retry-After, the fields, not to be stored"):
        answer = client.ask("/refused")
        equal((answer.status, answer.reason), (429, "Too Many Requests"))
        equal(answer.all("RateLimit-Policy"), ['"burst";q=3;w=3600'], "RateLimit-Policy")
        policy, state = rate_fields(answer)
        equal(state["burst"]["r"], 0, "remaining")
        seconds = int(answer.get("Retry-After"))
        true(3500 < seconds <= 3600, f"Retry-After {seconds}")
        true(abs(state["burst"]["t"] - seconds) <= 1, f"t={state['burst']['t']}, Retry-After {seconds}")
        equal(answer.tokens("Cache-Control"), ["no-store"], "Cache-Control")
        equal(answer.get("Content-Type"), "application/problem+json", "Content-Type")

    with t.point("a refusal's body: problem details with the violated policies and the exact wait"):
        body = json.loads(answer.body)
        equal((body["type"], body["status"]), (QUOTA_EXCEEDED, 429))
        equal(body["violated-policies"], ["burst"], "violated-policies")
        true(body["title"] and body["detail"], "title and detail")
        wait = body["retry-after-ms"]
        true(isinstance(wait, int) and seconds - 1 <= wait / 1000 <= seconds, f"{wait} ms, {seconds} s")

    with t.point("a refused HEAD: the same without the body"):
        answer = client.ask("/refused", "HEAD")
        equal((answer.status, answer.body), (429, b""))
        equal(client.ask("/refused").status, 429, "status of the next")

    with t.point("a refused POST: its body does not disturb what comes after"):
        one = t.client(sluice)
        one.send(request_bytes("/refused", "POST", body=b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
                 + request_bytes("/refused"))
        equal(one.response().status, 429, "status")
        if one.buffer or one._more():
            equal(one.response().status, 429, "status")

    with t.point("a refused POST that expects 100-continue is not asked for its body"):
        one = t.client(sluice)
        one.send(b"POST /refused HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        answer = one.response()
        equal((answer.status, answer.interim), (429, []))

    with t.point("nothing refused reached the origin"):
        equal(origin.targets(), ["/"] * 3, "targets")


@test("Retry-After, when obeyed, leads to a 200; the exact wait of the body too")
def obeyed(t):
    _, sluice = limited(t, ("burst", "rate = 3 per 2s"))
    client = t.client(sluice)
    for exact in (False, True):
        while (answer := client.ask("/")).status == 200:
            pass
        equal(answer.status, 429, "status")
        wait = json.loads(answer.body)["retry-after-ms"] / 1000 if exact else int(answer.get("Retry-After"))
        true(0 < wait <= 2, f"wait of {wait} s for a window of 2 s")
        time.sleep(wait)
        equal(client.ask("/").status, 200, f"status after {wait} s")


@test("Retry-After is at least 1 and rounded up")
def rounded(t):
    _, sluice = limited(t, ("burst", "rate = 1 per 900ms"))
    client = t.client(sluice)
    until(lambda: (answer := client.ask("/")).status == 429 and answer.get("Retry-After") == "1",
          "a refusal with Retry-After: 1", pause=0)


@test("refused and admitted ones among pipelined requests are answered in order")
def pipelined(t):
    _, sluice = limited(t, ("burst", "rate = 3 per 1h"))
    client = t.client(sluice)
    client.send(b"".join(request_bytes(f"/{n}") for n in range(8)))
    equal([client.response().status for _ in range(8)], [200] * 3 + [429] * 5, "statuses")


# ---- whom it is charged to ---------------------------------------------------------------------

def separate(t, key, same, other, listener=""):
    """`same`: requests of one caller; `other`: of another one each."""
    _, sluice = limited(t, ("burst", f"key = {key}\nrate = {len(same)} per 1h"), listener=listener)
    client = t.client(sluice)
    for ask in same:
        equal(client.ask(**ask).status, 200, f"status of {ask}")
    for ask in same:
        equal(client.ask(**ask).status, 429, f"status of {ask} once more")
    for ask in other:
        equal(client.ask(**ask).status, 200, f"status of another caller {ask}")


def header(value, name="X-Api-Key", **more):
    return {"fields": [(name, value)], **more}


def forwarded(address):
    return header(address, "X-Forwarded-For")


@group("keys")
def keys(t):
    trust = "trusted_proxies = 127.0.0.0/8"
    long = "k" * 4000
    table = [
        ("header:X-Api-Key", [header("a"), header("a", "x-API-key"), header("a")], [header("b"), header("A")], ""),
        ("header:X-Api-Key | ip", [header("a")], [{}], ""),
        ("header:X-Api-Key", [{}, header(""), {}], [header("a")], ""),  # absent: its ip, never no limit
        ("header:X-Api-Key", [header(long + "1")], [header(long + "2"), header(long)], ""),
        ("header:X-Api-Key + path", [header("a", target="/x"), header("a", target="/y/../x"),
                                     header("a", target="/x?q")],
         [header("a", target="/y"), header("b", target="/x")], ""),
        ("cookie:sid", [header("a=b; sid=1; c=d", "Cookie"), header("sid=1", "Cookie")],
         [header("a=b; sid=2; c=d", "Cookie"), header("xsid=1", "Cookie")], ""),
        ("query:key", [{"target": "/?key=1"}, {"target": "/x?a=b&key=1&c"}], [{"target": "/?key=2"}, {"target": "/?xkey=1"}], ""),
        ("host", [{"host": "a.test"}, {"host": "A.test"}, {"host": "a.test:80"}], [{"host": "b.test"}], ""),
        ("method", [{"method": "GET"}], [{"method": "POST"}], ""),
        ("ip", [forwarded("1.2.3.4"), forwarded("6.6.6.6, 1.2.3.4"), forwarded("1.2.3.4, 127.0.0.9")],
         [forwarded("1.2.3.5"), {}], trust),
        ("ip", [forwarded("1.2.3.4"), forwarded("1.2.3.5"), {}], [], ""),  # not believed
        ("ip/64", [forwarded("2001:db8:0:1::1"), forwarded("2001:db8:0:1:ffff::2")],
         [forwarded("2001:db8:0:2::1"), forwarded("1.2.3.4")], trust),
        ("ip/24", [forwarded("1.2.3.4"), forwarded("1.2.3.250")], [forwarded("1.2.4.4")], trust),
    ]
    for key, same, other, listener in table:
        with t.point(f"{key}: {len(same)} of one caller, {len(other)} of others{' (forwarded)' if listener else ''}"):
            separate(t, key, same, other, listener)


# ---- several limits, plans ---------------------------------------------------------------------

@group("several limits")
def several(t):
    _, sluice = limited(t, ("narrow", "key = header:X-Api-Key\nrate = 2 per 1h"),
                        ("wide", "key = ip\nrate = 5 per 2h"))
    client = t.client(sluice)

    with t.point("each is reported"):
        answer = client.ask(**header("a"))
        policy, state = rate_fields(answer)
        equal(policy, {"narrow": {"q": 2, "w": 3600}, "wide": {"q": 5, "w": 7200}}, "policies")
        equal({name: v["r"] for name, v in state.items()}, {"narrow": 1, "wide": 4}, "remaining")

    with t.point("what one refuses takes nothing from the others"):
        equal(client.ask(**header("a")).status, 200, "status")
        for _ in range(10):
            answer = client.ask(**header("a"))
            equal((answer.status, json.loads(answer.body)["violated-policies"]), (429, ["narrow"]))
        _, state = rate_fields(client.ask(**header("b")))
        equal(state["wide"]["r"], 2, "remaining of the other limit")

    with t.point("all that are violated are named, with the longest wait"):
        equal(statuses(client, 2, **header("c")), [200, 200])
        answer = client.ask(**header("c"))
        equal(answer.status, 429, "status")
        equal(sorted(json.loads(answer.body)["violated-policies"]), ["narrow", "wide"])
        true(3600 < int(answer.get("Retry-After")) <= 7200, f"Retry-After {answer.get('Retry-After')}")


@group("plans")
def plans(t):
    t.file("gold.keys", "# golden ones\ngold-key-1\n\ngold-key-2\n")
    sections = f"""
[limit gold-burst]
key = header:X-Api-Key
rate = 5 per 1h
[limit burst]
key = header:X-Api-Key | ip
rate = 2 per 1h
[plans]
key = header:X-Api-Key
[plan gold]
limits = gold-burst
callers = file:gold.keys
[plan default]
limits = burst
"""
    _, sluice = limited(t, ("all", "key = ip\nrate = 1000 per 1h"), route="limits = plan, all", sections=sections)
    client = t.client(sluice)
    for who, fields, expected in (
            ("on the list", header("gold-key-1"), [200] * 5 + [429]),
            ("on the list too: its own count", header("gold-key-2"), [200] * 5 + [429]),
            ("on no list", header("lead-key"), [200] * 2 + [429]),
            ("without a key", {}, [200] * 2 + [429]),
            ("a comment is no key", header("# golden ones"), [200] * 2 + [429])):
        with t.point(f"a caller {who}"):
            equal(statuses(client, len(expected), **fields), expected, "statuses")


@group("shadow")
def shadow(t):
    _, sluice = limited(t, ("soft", "rate = 2 per 1h\nmode = shadow"), ("hard", "rate = 6 per 1h"))
    client = t.client(sluice)

    with t.point("a violated shadow limit refuses nobody, an enforced one beside it does"):
        equal(statuses(client, 7), [200] * 6 + [429], "statuses")

    with t.point("a refusal names only the limits that are enforced"):
        equal(json.loads(client.ask("/").body)["violated-policies"], ["hard"], "violated-policies")


@test("a route without limits is not limited and says nothing of limits")
def without(t):
    _, sluice = limited(t, route="")
    client = t.client(sluice)
    equal(statuses(client, 50), [200] * 50, "statuses")
    equal(client.ask("/").get("RateLimit"), None, "RateLimit")


@test("50 per hour from 16 connections at once: exactly 50 reach the origin")
def exact(t):
    origin, sluice = limited(t, ("burst", "rate = 50 per 1h\nprecision = exact"))
    found, lock = [], threading.Lock()

    def hammer():
        client = t.client(sluice)
        mine = statuses(client, 40)
        with lock:
            found.extend(mine)

    threads = [threading.Thread(target=hammer) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal((found.count(200), found.count(429)), (50, 16 * 40 - 50), "answers")
    equal(len(origin.requests), 50, "requests at the origin")


# ---- reload ------------------------------------------------------------------------------------

def marked(origin, limit, mark):
    return (f"[limit burst]\nkey = ip\n{limit}\n"
            + to(origin, route=f"limits = burst\nresponse_header_set = X-Mark: {mark}"))


@group("reload")
def reload(t):
    origin = t.origin()
    sluice = t.sluice(marked(origin, "rate = 5 per 1h", 1))
    client = t.client(sluice)

    with t.point("what was admitted before still counts after"):
        equal(statuses(client, 3), [200] * 3, "statuses")
        sluice.reload(marked(origin, "rate = 5 per 1h", 2))
        seen = []
        until(lambda: seen.append(client.ask("/")) or seen[-1].status == 429, "a refusal")
        equal([a.status for a in seen], [200, 200, 429], "statuses")

    with t.point("a raised limit: only the difference is free"):
        sluice.reload(marked(origin, "rate = 8 per 1h", 3))
        until(lambda: client.ask("/").status == 200, "the new limit")
        rest = [client.ask("/").status for _ in range(4)]
        equal(rest, [200, 200, 429, 429], "statuses")

    with t.point("a lowered limit: at once"):
        sluice.reload(marked(origin, "rate = 2 per 1h", 4))
        until(lambda: '"burst";q=2;w=3600' in client.ask("/").all("RateLimit-Policy"), "the new limit")
        equal(client.ask("/").status, 429, "status")

    with t.point("a bad file changes nothing and is reported with file and line"):
        good = sluice.sections
        sluice.reload(good + "\n[route origin]\nnonsense = 1\n")
        line = sluice.ini().count("\n", 0, sluice.ini().index("nonsense")) + 1
        sluice.process.wait_output(f"{sluice.ini_path}:{line}")
        equal(client.ask("/").status, 429, "status")

    with t.point("a good file after it is taken"):
        sluice.reload(to(origin))
        until(lambda: client.ask("/").status == 200, "no limit any more")


@test("connections and requests in flight live through a reload")
def reload_in_flight(t):
    gate = t.event()

    def handler(x):
        x.read_body()
        if x.request.target == "/hold":
            gate.wait(120)
        x.reply(200, x.request.body)

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, route="response_header_set = X-Mark: 1"))
    client, probe = t.client(sluice), t.client(sluice)
    client.request("/hold")
    origin.wait_requests(1)
    sluice.reload(to(origin, route="response_header_set = X-Mark: 2", name="renamed"))
    until(lambda: probe.ask("/").get("X-Mark") == "2", "the new file")
    gate.set()
    equal(client.response().status, 200, "status of the one in flight")
    equal(client.ask("/").get("X-Mark"), "2", "mark of the next")


main()
