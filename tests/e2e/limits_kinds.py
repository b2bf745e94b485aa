"""Each kind of limit through the proxy: paced, by the calendar, in flight, in bytes; and what a
request costs. Waits are awaited by what sluice says (Retry-After), never guessed."""
import datetime
import json
import os
import time
import zoneinfo

from lib.admin import with_admin
from lib.client import request_bytes
from lib.fields import told, wait_ms
from lib.process import SANITIZER, find_library, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.wire import quiet
from lib.workers import Barrier, leave

UTC = datetime.timezone.utc
# What the clocks of two processes, read one after the other, may differ by beyond what the test
# itself has measured: limits count by a clock that is the wall's at the start.
CLOCK_SLACK_S = 0.02


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as text:
        return text.read()


def limited(t, limit, route="", upstream="", handler=None, **options):
    origin = t.origin(handler)
    sections = f"[limit it]\n{limit}\n" + to(origin, route=f"limits = it\n{route}", upstream=upstream)
    return origin, t.sluice(sections, **options)


# ---- one total ---------------------------------------------------------------------------------

@test("a limit with key = all has one caller over all routes and addresses; reset and explain name it")
def total(t):
    origin = t.origin()
    routes = "".join(f"[route {n}]\nupstream = origin\npath = /{n}/\nlimits = total, own\n" for n in "ab")
    sluice, admin = with_admin(t, "[limit total]\nkey = all\nrate = 5 per 1h\n"
                               "[limit own]\nkey = header:X-Key | all\nrate = 2 per 1h\n" +
                               to(origin, route="path = /c/") + routes)
    client = t.client(sluice)

    def ask(path, key=None):
        return client.ask(path, fields=[("X-Key", key)] if key else [])

    equal([ask("/a/").status, ask("/b/").status, ask("/a/").status], [200, 200, 429], "without a key, together")
    equal([ask("/a/", "x").status, ask("/b/", "x").status, ask("/b/", "x").status], [200, 200, 429], "a key's own")
    last, refused = ask("/b/", "y"), ask("/a/", "z")
    equal([last.status, refused.status], [200, 429], "the total is used up by others")
    true("total" in refused.get("RateLimit") and told(refused).left["total"]["r"] == 0, "fields")
    equal(len(origin.requests), 5, "requests at the origin")
    equal(admin.json("/api/v1/callers?key=all&limit=total", "DELETE"),
          (200, {"key": "all", "reset": ["total"]}), "reset")
    equal(ask("/a/", "z").status, 200, "after the reset")


# ---- gcra --------------------------------------------------------------------------------------

@test("gcra: the burst at once, then one each interval, told exactly")
def gcra(t):
    _, sluice = limited(t, "algorithm = gcra\nrate = 4 per 1s\nburst = 6")
    client = t.client(sluice)
    began = time.monotonic()
    answers = [client.ask("/") for _ in range(6)]
    equal([a.status for a in answers], [200] * 6, "the burst")
    # What is left is of the burst, so the burst is the quota, and it is whole again after 1.5 s.
    equal(told(answers[0]).policy["it"], {"q": 6, "w": 2}, "policy")
    equal(told(answers[0]).left["it"]["r"], 5, "remaining")
    refused = until(lambda: (a := client.ask("/")).status == 429 and a, "a refusal", pause=0)
    # A burst of 6 at 4 per second: what was begun is never further ahead than 6 intervals.
    true(0 < wait_ms(refused) <= 250, f"wait of {wait_ms(refused)} ms for an interval of 250 ms")
    times = []
    while len(times) < 4:
        answer = client.ask("/")
        if answer.status != 200:
            time.sleep(wait_ms(answer) / 1000)
            equal(client.ask("/").status, 200, "status after the wait that was told")
        times.append(time.monotonic())
    # 6 at once and one each 250 ms after: the n-th one behind the burst is not before n intervals.
    for n, moment in enumerate(times, 1):
        true(moment - began >= n * 0.25, f"number {n} behind the burst after {moment - began:.3f} s")


@test("gcra: a burst of 1 paces from the first; without one the rate's amount comes at once")
def gcra_bursts(t):
    _, sluice = limited(t, "algorithm = gcra\nrate = 10 per 1h\nburst = 1")
    client = t.client(sluice)
    began = time.monotonic()
    equal(client.ask("/").status, 200, "the first")
    refused = client.ask("/")
    equal(refused.status, 429, "the second")
    least = 360_000 - (time.monotonic() - began) * 1000 - 1
    true(least <= wait_ms(refused) <= 360_000, f"wait of {wait_ms(refused)} ms")
    _, sluice = limited(t, "algorithm = gcra\nrate = 10 per 1h")
    client = t.client(sluice)
    equal([client.ask("/").status for _ in range(11)], [200] * 10 + [429], "statuses")


# ---- calendar ----------------------------------------------------------------------------------

def next_begin(moment, period, zone):
    """When the next period of a zone begins, after an instant in UTC; by Python's zoneinfo."""
    local = moment.astimezone(zone)
    if period == "hour":
        # The next instant that the zone's clock shows a full hour.
        return moment + datetime.timedelta(minutes=60 - local.minute) - datetime.timedelta(
            seconds=local.second, microseconds=local.microsecond)
    day = local.date()
    if period == "day":
        day += datetime.timedelta(days=1)
    elif period == "week":
        day += datetime.timedelta(days=7 - day.weekday())
    else:
        day = (day.replace(day=28) + datetime.timedelta(days=4)).replace(day=1)
    return datetime.datetime.combine(day, datetime.time(), zone).astimezone(UTC)


def asked(client, shift=0):
    """An answer, with the instants between which sluice judged it."""
    before = time.time() + shift
    answer = client.ask("/")
    return answer, before, time.time() + shift


ZONES = ["UTC", "Europe/Oslo", "Asia/Kolkata", "America/St_Johns", "Pacific/Chatham"]


def zone_of(t, name):
    try:
        return UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
    except zoneinfo.ZoneInfoNotFoundError:
        return t.skip("there are no time zones (tzdata)")


def judge_calendar(t, period, name, shift=0, **options):
    """Three admitted, the fourth refused until exactly the zone's next period."""
    zone = zone_of(t, name)
    for _ in range(3):  # a period may end while this looks; not three times
        _, sluice = limited(t, f"rate = 3 per {period} {name}", **options)
        client = t.client(sluice)
        seen = [asked(client, shift) for _ in range(4)]
        resets = {next_begin(datetime.datetime.fromtimestamp(at, UTC), period, zone)
                  for _, before, after in seen for at in (before, after)}
        if len(resets) == 1:
            break
    reset = resets.pop().timestamp()
    equal([answer.status for answer, _, _ in seen], [200, 200, 200, 429], f"statuses, {name}")
    equal([told(answer).left["it"]["r"] for answer, _, _ in seen], [2, 1, 0, 0], "remaining")
    for answer, before, after in seen:
        left = told(answer).left["it"]["t"]
        # In whole seconds, rounded up.
        true(reset - after - CLOCK_SLACK_S <= left <= reset - before + 1 + CLOCK_SLACK_S,
             f"t={left} for a reset in {reset - before:.3f} s ({period}, {name})")
    refused, before, after = seen[3]
    at = after + wait_ms(refused) / 1000
    true(-CLOCK_SLACK_S <= at - reset <= after - before + CLOCK_SLACK_S + 0.001,
         f"the wait ends {at - reset:.4f} s from the reset, asked within {after - before:.4f} s")


@group("calendar", workers=[1])
def calendar(t):
    for period in ("hour", "day", "week", "month"):
        for name in ZONES:
            with t.point(f"3 per {period} {name}: the reset is that of the zone"):
                judge_calendar(t, period, name)


# Days on which something is unlike other days, by libfaketime where it is installed.
SPECIAL = [
    ("2027-03-28T00:30", "day", "Europe/Oslo", "a day of 23 hours"),
    ("2027-03-28T00:59", "hour", "Europe/Oslo", "the hour before the one left out"),
    ("2027-10-31T01:30", "day", "Europe/Oslo", "a day of 25 hours"),
    ("2027-10-31T00:30", "hour", "Europe/Oslo", "the first of two hours of one name"),
    ("2027-10-30T12:00", "week", "America/New_York", "a week before one with a change"),
    ("2027-11-05T12:00", "month", "America/New_York", "a month with a change in it"),
    ("2028-02-28T23:30", "day", "UTC", "the day before a leap day"),
    ("2028-02-10T00:00", "month", "Asia/Tokyo", "a February of 29 days"),
    ("2027-02-10T00:00", "month", "Asia/Tokyo", "a February of 28 days"),
    ("2027-12-31T12:00", "month", "Pacific/Chatham", "the next month is in another year, here not yet"),
    ("2027-04-03T14:30", "day", "Australia/Lord_Howe", "a change by half an hour"),
]


@group("calendar, on special days", workers=[1])
def calendar_special(t):
    library = find_library("faketime/libfaketime.so.1")
    if not library or SANITIZER:
        t.skip("libfaketime is not installed" if not SANITIZER else "libfaketime and a sanitizer")
    for moment, period, name, what in SPECIAL:
        with t.point(f"{moment}Z, per {period} {name}: {what}"):
            at = datetime.datetime.fromisoformat(moment + "+00:00").timestamp()
            shift = round(at - time.time())
            judge_calendar(t, period, name, shift, environment={
                "LD_PRELOAD": library, "FAKETIME": f"{shift:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"})


@group("the clock is set while sluice runs", workers=[1, 4])
def clock_set(t):
    library = find_library("faketime/libfaketime.so.1")
    if not library or SANITIZER:
        t.skip("libfaketime is not installed" if not SANITIZER else "libfaketime and a sanitizer")
    shift, access = t.path("shift"), t.path("access.log")

    def set_clock(seconds):
        with open(shift + ".new", "w", encoding="utf-8") as out:
            out.write(f"{seconds:+d}s\n")
        os.replace(shift + ".new", shift)

    def dated(text, pattern):
        return datetime.datetime.strptime(text, pattern).replace(tzinfo=datetime.timezone.utc).timestamp()

    set_clock(0)
    # No Date from the origin, so that the one seen is sluice's.
    sluice = t.sluice("[limit day]\nrate = 2 per day\n[limit ring]\nrate = 5 per 30d\n",
                      to(t.origin(lambda x: x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")),
                         route="limits = day, ring"), settings=f"access_log = file:{access}",
                      environment={"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": shift,
                                   "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    client = t.client(sluice)
    count = 0

    def ask():
        nonlocal count
        count += 1
        return client.ask("/")

    def judge(name, seconds, admitted, answers):
        with t.point(f"{name}: Date and the access log follow"):
            answer = answers[-1]
            near = (time.time() + seconds - 60, time.time() + seconds + 60)
            true(near[0] < dated(answer.all("Date")[0], "%a, %d %b %Y %H:%M:%S GMT") < near[1], answer.all("Date")[0])
            until(lambda: read(access).count("\n") >= count, "the line in the log")
            line = read(access).splitlines()[-1]
            true(near[0] < dated(line[line.index("[") + 1:line.index("]")], "%d/%b/%Y:%H:%M:%S +0000") < near[1], line)
        with t.point(f"{name}: calendar limits follow, windows do not notice"):
            equal([answer.status for answer in answers], admitted)

    judge("at the start", 0, [200, 200, 429], [ask() for _ in range(3)])
    set_clock(3 * 86400)
    judge("three days ahead", 3 * 86400, [200, 200, 429], [ask() for _ in range(3)])
    # What was charged in the later day stays charged: nothing is forgiven.
    set_clock(0)
    judge("and back", 0, [429], [ask()])
    set_clock(40 * 86400)
    judge("forty days ahead: the ring has one left, and is 30 days long", 40 * 86400, [200, 429], [ask(), ask()])
    for words in ("the system clock was set forward by", "the system clock was set back by"):
        sluice.process.wait_output(words)


# ---- concurrency -------------------------------------------------------------------------------

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n"


HOLD, HALF, CUT = (request_bytes(target) for target in ("/hold", "/half", "/cut"))


class Held:
    """A proxy that lets one request through at a time, and an origin that holds on."""

    def __init__(self, t, route="", upstream=""):
        self.t = t
        self.release = t.event()
        self.origin, self.sluice = limited(t, "concurrency = 1", route=f"upgrade = shout\n{route}",
                                           upstream=upstream, handler=self.handle)
        self.probe = t.client(self.sluice)

    def handle(self, x):
        target = x.request.target
        if target == "/upload":
            for _ in x.body_pieces():
                pass
        x.read_body()
        if target == "/tunnel":
            x.complete = True
            x.send(SWITCH)
            while x.stream.read_some():
                pass
            x.close()
            return
        if target in ("/half", "/cut"):
            x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 50000)
        if target in ("/hold", "/half", "/cut"):
            self.release.wait(120)
        if target == "/half":
            x.send(b"x" * 50000)
        elif target == "/cut":
            x.reset()
        else:
            x.reply(200, b"done")

    def client(self):
        """A connection on which the place is free: another worker may tell its client that all is
        over the moment before it gives the place back, on one connection that can't be seen."""
        client = self.t.client(self.sluice)
        until(lambda: client.ask("/").status == 200, "a place")
        return client

    def begin(self, data):
        """A request that is at the origin, with its client."""
        client = self.client()
        count = len(self.origin.requests)
        client.send(data)
        self.origin.wait_requests(count + 1)
        return client

    def is_taken(self):
        answer = self.probe.ask("/")
        equal(answer.status, 429, "status of a second request")
        equal(json.loads(answer.body)["violated-policies"], ["it"], "violated-policies")
        equal(told(answer).left["it"], {"r": 0}, "what is left")
        equal(answer.get("Retry-After"), "1", "Retry-After")

    def is_free(self):
        """The place comes back, and there is one: not two, not none."""
        self.release.clear()
        client = self.begin(HOLD)
        self.is_taken()
        self.release.set()
        equal(client.response().status, 200, "status of the one that held it")


@group("concurrency: the place comes back however the exchange ends")
def concurrency(t):
    held = Held(t, route="request_buffering = off")

    with t.point("finished"):
        client = held.begin(HOLD)
        held.is_taken()
        held.release.set()
        equal(client.response().status, 200, "status")
        held.is_free()

    with t.point("on one connection the place is free for the next request at once"):
        client = held.client()
        equal([client.ask("/").status for _ in range(50)], [200] * 50, "statuses")

    with t.point("what was refused takes no place"):
        held.release.clear()
        client = held.begin(HOLD)
        for _ in range(20):
            held.is_taken()
        held.release.set()
        client.response()
        held.is_free()

    with t.point("the client goes in the middle of the response's body"):
        held.release.clear()
        client = held.begin(HALF)
        client.read_exactly(20000)
        held.is_taken()
        client.reset()
        held.is_taken()  # the server is still at work
        held.release.set()
        held.is_free()

    with t.point("the client goes in the middle of its own body"):
        client = held.begin(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
                            + b"x" * 1000)
        held.is_taken()
        client.reset()
        held.is_free()

    with t.point("the client goes in the middle of its own body, which is read before it is sent"):
        reading = Held(t, route="host = api.test")
        client = reading.client()
        client.send(b"POST /upload HTTP/1.1\r\nHost: api.test\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000)
        Barrier(t, reading.sluice, [client]).passed_by(client)
        reading.is_taken()
        client.reset()
        reading.is_free()

    with t.point("the upstream dies in the middle of its response"):
        held.release.clear()
        client = held.begin(CUT)
        client.read_exactly(20000)
        held.is_taken()
        held.release.set()
        client.read_to_any_end()
        held.is_free()

    with t.point("a tunnel holds it until it ends"):
        client = held.begin(request_bytes("/tunnel", fields=[("Connection", "Upgrade"),
                                                             ("Upgrade", "shout")]))
        equal(client.response_head().status, 101, "status")
        held.is_taken()
        client.close()
        held.is_free()


@test("concurrency: an upstream that says nothing: 504 after first_byte_timeout, and the place is back")
def concurrency_timeout(t):
    held = Held(t, upstream="first_byte_timeout = 4s")
    client = held.begin(HOLD)
    held.is_taken()
    equal(client.response().status, 504, "status")
    held.release.set()
    equal(held.client().ask("/").status, 200, "status of the next")


@test("concurrency: a client that leaves the queue gives its place back")
def concurrency_queue(t):
    release = t.event()

    def handler(x):
        x.read_body()
        if x.request.target == "/hold":
            release.wait(120)
        x.reply(200)

    # 2 places, one request at the upstream: the second one waits in the queue.
    origin, sluice = limited(t, "concurrency = 2", route="host = api.test",
                             upstream="max_in_flight = 1", handler=handler)
    one, two, three = (t.client(sluice) for _ in range(3))
    barrier = Barrier(t, sluice, [two, three])
    one.request("/hold")
    origin.wait_requests(1)
    two.request("/queued")
    barrier.passed_by(two)
    equal(three.ask("/third").status, 429, "status with both places taken")
    leave(sluice, two, "reset")
    three.request("/third")
    barrier.passed_by(three)
    true(quiet(three, 0), "refused, though a place was given back")
    release.set()
    equal(one.response().status, 200, "status of the first")
    equal(three.response().status, 200, "status of the third")
    equal(origin.targets(), ["/hold", "/third"], "targets")


main()
