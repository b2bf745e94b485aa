"""What follows when a limit is exceeded, and for whom it holds: delay, shadow, count_refused, bans,
allow and deny lists, several limits at once, networks of networks."""
import json
import os
import re
import time

from lib.client import request_bytes
from lib.fields import told, wait_ms
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.workers import Barrier, leave


def limited(t, *limits, route="", listener="", handler=None, **options):
    origin = t.origin(handler)
    texts = "".join(f"[limit {name}]\n{lines}\n" for name, lines in limits)
    names = ", ".join(name for name, _ in limits)
    sections = texts + to(origin, route=f"limits = {names}\nhost = api.test\n{route}")
    return origin, t.sluice(sections, listener=listener, **options)


def key(value):
    return [("X-Api-Key", value)]


def violated(answer):
    equal(answer.status, 429, "status")
    return sorted(json.loads(answer.body)["violated-policies"])


# ---- on_exceed = delay -------------------------------------------------------------------------

@group("on_exceed = delay")
def delay(t):
    with t.point("what does not fit yet waits, in order, and none is refused"):
        origin, sluice = limited(t, ("it", "rate = 2 per 500ms\non_exceed = delay 30s"))
        client = t.client(sluice)
        began = time.monotonic()
        client.send(b"".join(request_bytes(f"/{n}", "POST", body=b"x") for n in range(7)))
        equal([client.response().status for _ in range(7)], [200] * 7, "statuses")
        equal(origin.targets(), [f"/{n}" for n in range(7)], "targets")
        # The n-th was judged before it arrived: not before n/2 windows of the first one's sending.
        late = [x.arrived - began for x in origin.requests]
        for n, seconds in enumerate(late):
            true(seconds >= n // 2 * 0.5, f"number {n} had arrived after {seconds:.3f} s")

    with t.point("of two of one caller that wait at once each gets its turn"):
        _, sluice = limited(t, ("it", "rate = 1 per 300ms\non_exceed = delay 30s"))
        clients = [t.client(sluice) for _ in range(4)]
        for client in clients:
            client.request("/")
        equal([client.response().status for client in clients], [200] * 4, "statuses")

    with t.point("what would take longer than that is refused at once"):
        _, sluice = limited(t, ("it", "rate = 1 per 1h\non_exceed = delay 50m"))
        client = t.client(sluice)
        equal(client.ask("/").status, 200, "status")
        answer = client.ask("/")  # would take 50 minutes to fail
        equal(violated(answer), ["it"], "violated-policies")
        true(wait_ms(answer) > 3_000_000, "the wait")

    with t.point("what was waited already counts: who would need a second turn of it is refused"):
        # One goes at once, one after 2 s; the other two would have to wait for 4 s, or 6.
        _, sluice = limited(t, ("it", "rate = 1 per 2s\non_exceed = delay 3s"))
        client = t.client(sluice)
        client.send(request_bytes("/") * 4)
        answers = [client.response() for _ in range(4)]
        equal(sorted(a.status for a in answers), [200, 200, 429, 429], "statuses")

    with t.point("while one waits, other callers go on"):
        _, sluice = limited(t, ("it", "key = header:X-Api-Key\nrate = 1 per 30m\non_exceed = delay 50m"))
        one, other = t.client(sluice), t.client(sluice)
        barrier = Barrier(t, sluice, [one])
        equal(one.ask("/", fields=key("a")).status, 200, "status")
        one.request("/", fields=key("a"))
        barrier.passed_by(one)
        equal([other.ask("/", fields=key(str(n))).status for n in range(20)], [200] * 20, "statuses")
        leave(sluice, one, "reset")

    with t.point("who leaves while waiting is not forwarded and takes nothing"):
        origin, sluice = limited(t, ("it", "rate = 1 per 4s\non_exceed = delay 30s"))
        one, two, three = (t.client(sluice) for _ in range(3))
        barrier = Barrier(t, sluice, [two])
        equal(one.ask("/one").status, 200, "status")
        two.request("/two")
        barrier.passed_by(two)
        leave(sluice, two, "reset")
        equal(three.ask("/three").status, 200, "status")
        equal(origin.targets(), ["/one", "/three"], "targets")

    with t.point("a limit that refuses decides over one that would wait"):
        _, sluice = limited(t, ("soft", "rate = 1 per 30m\non_exceed = delay 50m"), ("hard", "rate = 1 per 20m"))
        client = t.client(sluice)
        equal(client.ask("/").status, 200, "status")
        answer = client.ask("/")
        equal(violated(answer), ["hard", "soft"], "violated-policies")
        true(1_200_000 < wait_ms(answer) <= 1_800_000, "the longer of the waits")

    with t.point("gcra and bytes wait as well"):
        for limit, body in (("rate = 2 per 400ms\nalgorithm = gcra\nburst = 1", b""),
                            ("rate = 1kB per 300ms", b"x" * 1000)):
            _, sluice = limited(t, ("it", f"{limit}\non_exceed = delay 30s"))
            client = t.client(sluice)
            began = time.monotonic()
            equal([client.ask("/", "POST", body=body).status for _ in range(3)], [200] * 3, limit)
            true(time.monotonic() - began >= 0.4, "the third too early")


# ---- shadow ------------------------------------------------------------------------------------

def access_lines(sluice, count):
    """The first so many lines of the access log: [{name: value}] of what stands behind the combined format."""
    sluice.process.wait_output("verdict=", count)
    return [dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line)) for line in sluice.log().splitlines()
            if "verdict=" in line]


@group("mode = shadow")
def shadow(t):
    _, sluice = limited(t, ("soft", "rate = 2 per 1h\nmode = shadow"), ("hard", "rate = 4 per 1h"),
                        settings="access_log = stdout")
    client = t.client(sluice)
    answers = [client.ask("/") for _ in range(5)]

    with t.point("it refuses nobody, and is not told"):
        equal([a.status for a in answers], [200] * 4 + [429], "statuses")
        equal({name for a in answers for name in told(a).policy}, {"hard"}, "limits in the answers")
        equal(violated(answers[4]), ["hard"], "violated-policies")

    with t.point("the log says what it would have refused, and which limit decided"):
        found = [(line["verdict"], line["limit"]) for line in access_lines(sluice, 5)]
        equal(found, [("admit", "soft")] * 2 + [("shadow", "soft")] * 2 + [("refuse", "hard")], "log")

    with t.point("with a ban, with delay, in flight, by the calendar: nobody is refused or waits"):
        for limit in ("rate = 1 per 1h\nban = 2 per 1m for 5m", "rate = 1 per 1h\non_exceed = delay 50m",
                      "rate = 1 per 1h\ncount_refused = on", "rate = 1 per day", "rate = 1B per 1h"):
            _, other = limited(t, ("soft", f"{limit}\nmode = shadow"))
            client = t.client(other)
            equal([client.ask("/", "POST", body=b"xyz").status for _ in range(10)], [200] * 10, limit)


# ---- count_refused, ban ------------------------------------------------------------------------

@test("count_refused: who goes on asking waits for the whole window again; without it, only for the rest")
def count_refused(t):
    pause = 0.2
    for choice in ("on", "off"):
        _, sluice = limited(t, ("it", f"rate = 3 per 1h\ncount_refused = {choice}"))
        client = t.client(sluice)
        for _ in range(3):
            equal(client.ask("/").status, 200, "status")
        filled = time.monotonic()
        time.sleep(pause)
        before = time.monotonic()
        answers = [client.ask("/") for _ in range(5)]
        took = time.monotonic() - before
        equal([a.status for a in answers], [429] * 5, "statuses")
        wait = wait_ms(answers[4])
        if choice == "on":
            true(wait >= 3_600_000 - took * 1000 - 1, f"on: only {wait} ms")
        else:
            true(wait <= 3_600_000 - (before - filled) * 1000 + 1, f"off: {wait} ms")


@group("ban")
def ban(t):
    def refused_times(client, count):
        """Goes on until so many were refused; the last refusal."""
        answer = None
        for _ in range(count):
            answer = until(lambda: (a := client.ask("/")).status == 429 and a, "a refusal", pause=0)
        return answer

    with t.point("who was refused so often is refused outright, for as long as it says"):
        _, sluice = limited(t, ("it", "key = header:X-Api-Key | ip\nrate = 1 per 1s\nban = 5 per 1m for 1h"))
        client = t.client(sluice)
        last = refused_times(client, 5)
        true(wait_ms(last) <= 1000, f"wait of {wait_ms(last)} ms before the ban")
        time.sleep(1.01)
        answer = client.ask("/")  # the rate would admit it
        equal(violated(answer), ["it"], "violated-policies")
        true(3_590_000 < wait_ms(answer) <= 3_600_000, f"wait of {wait_ms(answer)} ms")
        equal(told(answer).left["it"]["r"], 0, "remaining")
        equal(client.ask("/", fields=key("another")).status, 200, "status of another caller")

    with t.point("asking on does not make it longer, and when it is over all is as before"):
        _, sluice = limited(t, ("it", "rate = 1 per 500ms\nban = 3 per 1m for 4s"))
        client = t.client(sluice)
        refused_times(client, 3)
        began = time.monotonic()
        waits = []
        while (answer := client.ask("/")).status == 429:
            waits.append(wait_ms(answer))
            time.sleep(waits[-1] / 1000 / 3 + 0.001)
        true(waits and waits[0] > 500 and waits == sorted(waits, reverse=True), f"waits {waits}")
        true(time.monotonic() - began < 30, "it does not end")


# ---- lists -------------------------------------------------------------------------------------

TRUST = "trusted_proxies = 127.0.0.0/8"


def asks_from(client, address, **more):
    return client.ask("/", fields=[("X-Forwarded-For", address), *more.get("fields", [])]).status


@group("allow and deny")
def lists(t):
    allowed, denied = t.file("vip.keys", "# who pays\ngold\n\n2001:db8:5::/48\n"), t.file("bad.keys", "evil\n")
    _, sluice = limited(t, ("it", "key = header:X-Api-Key | ip\nrate = 1 per 1h"), listener=TRUST,
                        route="allow = 10.0.0.0/8, 2001:db8:1::/48, file:vip.keys\n"
                              "deny = 10.6.6.0/24, 192.0.2.1, file:bad.keys")
    client = t.client(sluice)

    def seen(address, value=None, count=3):
        fields = key(value) if value else []
        return [asks_from(client, address, fields=fields) for _ in range(count)]

    for title, address, value, expected in (
            ("an allowed network", "10.1.2.3", None, [200] * 3),
            ("an allowed network of IPv6", "2001:db8:1:ffff::1", None, [200] * 3),
            ("an address beside it", "2001:db8:2::1", None, [200, 429, 429]),
            ("an allowed key", "1.2.3.4", "gold", [200] * 3),
            ("another key", "1.2.3.4", "silver", [200, 429, 429]),
            ("a key in other letters", "1.2.3.5", "GOLD", [200, 429, 429]),
            ("a network from the file", "2001:db8:5::9", None, [200] * 3),
            ("denied, inside of what is allowed", "10.6.6.7", None, [403] * 3),
            ("a denied address", "192.0.2.1", None, [403] * 3),
            ("a denied key, from an allowed network", "10.1.2.3", "evil", [403] * 3),
            ("a comment is no key", "1.2.3.6", "# who pays", [200, 429, 429])):
        with t.point(f"{title}: {expected[0]}"):
            equal(seen(address, value), expected, "statuses")

    with t.point("an allowed caller gets no limit's fields, a denied one a problem without them"):
        answer = client.ask("/", fields=[("X-Forwarded-For", "10.1.2.3")])
        equal((answer.get("RateLimit"), answer.get("RateLimit-Policy")), (None, None))
        answer = client.ask("/", fields=[("X-Forwarded-For", "192.0.2.1")])
        equal((answer.status, answer.get("Content-Type"), answer.get("RateLimit"), answer.get("Retry-After")),
              (403, "application/problem+json", None, None))

    with t.point("a reload reads the files again"):
        t.file("vip.keys", "silver\n")
        t.file("bad.keys", "gold\n")
        sluice.reload(sluice.sections)
        sluice.process.wait_output("reloaded")
        equal(seen("10.1.2.3", "evil"), [200] * 3, "not denied any more")
        until(lambda: asks_from(client, "1.2.3.4", fields=key("gold")) == 403, "denied now")
        equal(seen("1.2.3.4", "silver"), [200] * 3, "allowed now")

    with t.point("a file that is gone is an error with its line, and the old lists stay"):
        os.unlink(denied)
        sluice.reload(sluice.sections)
        sluice.process.wait_output("reload failed")
        line = sluice.ini().count("\n", 0, sluice.ini().index("deny = ")) + 1
        true(f"{sluice.ini_path}:{line}: " in sluice.log(), "file:line in the log")
        equal(asks_from(client, "1.2.3.4", fields=key("gold")), 403, "status")
        true(os.path.exists(allowed), "the other file")


# ---- several limits ----------------------------------------------------------------------------

@group("several limits of different kinds")
def several(t):
    gate = t.event()

    def handler(x):
        x.read_body()
        if x.request.target == "/hold":
            gate.wait(120)
        x.reply(200, b"x" * 100)

    origin, sluice = limited(t, ("ring", "key = header:A\nrate = 4 per 1h"), ("paced", "key = header:B\nalgorithm = gcra\nrate = 5 per 2h"),
                        ("monthly", "key = header:C\nrate = 6 per month"), ("open", "key = header:D\nconcurrency = 1"),
                        ("flow", "key = header:E\nrate = 1kB per 1h"), handler=handler)
    client, other = t.client(sluice), t.client(sluice)

    def fields(**values):
        return [(name, values.get(name, "same")) for name in "ABCDE"]

    with t.point("each is reported"):
        left = told(client.ask("/", fields=fields())).left
        equal({name: v["r"] for name, v in left.items()},
              {"ring": 3, "paced": 4, "monthly": 5, "open": 0, "flow": 900}, "remaining")

    with t.point("a refusal by one takes nothing of the others, whichever it is"):
        client.request("/hold", fields=fields())
        origin.wait_requests(2)
        for _ in range(20):
            equal(violated(other.ask("/", fields=fields())), ["open"], "violated-policies")
        gate.set()
        client.response()
        left = told(client.ask("/", fields=fields())).left
        equal({name: v["r"] for name, v in left.items() if name != "flow"},
              {"ring": 1, "paced": 2, "monthly": 3, "open": 0}, "remaining")
        true(left["flow"]["r"] >= 700, f"{left['flow']} of 1000 bytes after 200")

    with t.point("all that are violated are named, and the latest time is sent"):
        client.ask("/", fields=fields())
        answers = [client.ask("/", fields=fields(A=a)) for a in ("same", "new", "new", "new")]
        equal([a.status for a in answers], [429, 200, 429, 429], "statuses")
        equal(violated(answers[0]), ["ring"], "violated-policies")
        equal(violated(answers[2]), ["paced"], "violated-policies")
        equal(client.ask("/", fields=fields(A="new", B="new")).status, 200, "the sixth of the month")
        answer = client.ask("/", fields=fields())
        equal(violated(answer), ["monthly", "paced", "ring"], "violated-policies")
        state = told(answer).left
        equal(max(v.get("t", 0) for v in state.values()), int(answer.get("Retry-After")), "Retry-After")
        equal([state[name]["r"] for name in ("ring", "paced", "monthly")], [0] * 3, "remaining")


# ---- networks ----------------------------------------------------------------------------------

@group("ip/64 and ip/48 at once")
def networks(t):
    _, sluice = limited(t, ("network", "key = ip/64\nrate = 3 per 1h"), ("site", "key = ip/48\nrate = 5 per 1h"),
                        listener=TRUST)
    client = t.client(sluice)

    def ask(address):
        return client.ask("/", fields=[("X-Forwarded-For", address)])

    with t.point("all addresses of a /64 are one caller"):
        equal([ask(f"2001:db8:7:1::{n:x}").status for n in range(1, 5)], [200] * 3 + [429], "statuses")
        equal(violated(ask("2001:db8:7:1:ffff:ffff:ffff:ffff")), ["network"], "violated-policies")

    with t.point("and all /64 of a /48 one other, which pays nothing for what was refused"):
        equal([ask(f"2001:db8:7:{n:x}::1").status for n in range(2, 5)], [200, 200, 429], "statuses")
        equal(violated(ask("2001:db8:7:ffff::1")), ["site"], "violated-policies")
        equal(violated(ask("2001:db8:7:1::1")), ["network", "site"], "violated-policies")

    with t.point("the next /48 is another"):
        equal([ask(f"2001:db8:8:{n}::1").status for n in range(6)], [200] * 5 + [429], "statuses")

    with t.point("an IPv4 address stays whole, also written as one of IPv6"):
        equal([ask("192.0.2.1").status for _ in range(4)], [200] * 3 + [429], "statuses")
        equal([ask("192.0.2.2").status for _ in range(4)], [200] * 3 + [429], "statuses of its neighbour")
        equal(ask("::ffff:192.0.2.1").status, 429, "status of the mapped form")


main()
