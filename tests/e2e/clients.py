"""Clients in the field: parsers of rate-limit fields, and clients that retry by themselves, as they
come from npm. Each family of fields is read by those that read it, and Retry-After is obeyed."""
import json
import threading
import time

from lib import node
from lib.process import DEADLINE_SECONDS
from lib.sluice import to
from lib.tap import equal, group, main, true

LIMITS = """
[limit burst]
rate = 3 per 1h
[limit daily]
key = header:X-Api-Key | ip
rate = 4 per 2h
[limit flow]
rate = 1125899GB per 1s
[limit paced]
rate = 5 per 100s
algorithm = gcra
burst = 10
[limit open]
concurrency = 5
[limit tried]
rate = 1 per 1h
mode = shadow
"""
ROUTE = "limits = burst, daily, flow, paced, open, tried\n"


def families(t, family, handler=None):
    return t.sluice(LIMITS, to(t.origin(handler), route=ROUTE), listener=f"ratelimit_headers = {family}")


def parse(sluice, count):
    """What so many answers, one after the other, tell."""
    return node.run("parse.mjs", f"http://{sluice.address}/", str(count))


def near(found, expected, passed=0):
    """`found` is a span of seconds that the parser's clock allows; so much may have passed."""
    true(found[0] - 1 <= expected and expected - passed <= found[1] + 1,
         f"reset in {found}, expected {expected}, {passed} s ago")


@group("draft-11, read by structured-headers", workers=[1])
def draft_11(t):
    node.install(t)
    answers = parse(families(t, "draft-11"), 4)

    with t.point("an admitted answer: every limit's policy and state"):
        seen = answers[0]
        equal(seen["status"], 200, "status")
        equal(seen["policy"], [
            ["burst", {"q": 3, "w": 3600}], ["daily", {"q": 4, "w": 7200}],
            # An integer of a structured field has at most 15 digits.
            ["flow", {"q": 999999999999999, "qu": "content-bytes", "w": 1}],
            ["paced", {"q": 10, "w": 200}],
            ["open", {"q": 5, "qu": "concurrent-requests"}]], "RateLimit-Policy")
        state = dict(seen["state"])
        equal({name: value["r"] for name, value in state.items()},
              {"burst": 2, "daily": 3, "flow": 999999999999999, "paced": 9, "open": 4}, "remaining")
        equal(sorted(name for name, value in state.items() if "t" in value),
              ["burst", "daily", "flow", "paced"], "those that have a reset")
        true(3590 <= state["burst"]["t"] <= 3600 and state["paced"]["t"] == 20, f"resets {state}")

    with t.point("a refusal"):
        seen = answers[3]
        state = dict(seen["state"])
        equal((seen["status"], state["burst"]["r"], state["burst"]["t"]),
              (429, 0, int(seen["retry_after"])), "status, remaining, reset")


@group("draft-7 and both kinds of x-ratelimit, read by ratelimit-header-parser", workers=[1])
def plain(t):
    node.install(t)
    for family in ("draft-7", "x-ratelimit", "x-ratelimit-unix"):
        began = time.monotonic()
        answers = parse(families(t, family), 4)
        passed = time.monotonic() - began

        with t.point(f"{family}: the limit with the least left"):
            for remaining, answer in zip((2, 1, 0), answers):
                seen = answer["plain"]
                equal((seen["limit"], seen["remaining"], seen["used"]), (3, remaining, 3 - remaining))
                near(seen["reset_s"], 3600, passed)

        with t.point(f"{family}: a refusal"):
            seen = answers[3]
            equal((seen["status"], seen["plain"]["remaining"]), (429, 0), "status and remaining")
            near(seen["plain"]["reset_s"], int(seen["retry_after"]))

        with t.point(f"{family}: refused by a limit that it has no words for: nothing is left for now"):
            other = t.sluice("[limit many]\nrate = 9 per 1h\n[limit flow]\nrate = 1kB per 100h\n",
                             to(t.origin(lambda x: x.reply(200, b"x" * 3000)), route="limits = many, flow"),
                             listener=f"ratelimit_headers = {family}")
            first, seen = parse(other, 2)
            equal(first["plain"]["remaining"], 8, "remaining")
            equal((seen["status"], seen["plain"]["limit"], seen["plain"]["remaining"]), (429, 9, 0))
            near(seen["plain"]["reset_s"], int(seen["retry_after"]))


@group("retrying clients wait as told and then get through", workers=[4])
def retrying(t):
    node.install(t)
    found = {}

    def one(name):
        # Admitted: one in three seconds. The first is the test's own.
        sluice = t.sluice("[limit it]\nrate = 1 per 3s\n", to(t.origin(), route="limits = it"),
                          settings="access_log = stdout\naccess_log_format = json")
        client = t.client(sluice)
        try:
            result = node.run_when_ready(
                "retry.mjs", name, f"http://{sluice.address}/",
                then=lambda: equal(client.ask("/first").status, 200, "status of the first"))
        except AssertionError as error:
            result = {"status": None, "error": str(error)}
        client.close()
        sluice.terminate()
        sluice.wait()
        lines = [json.loads(line) for line in sluice.log().splitlines() if '"verdict"' in line]
        found[name] = (result, [line["verdict"] for line in lines])

    names = ("got", "axios", "undici")
    # Until one of them was refused, the window may pass on a slow machine: then it is asked
    # again. What must never be is more than one refusal before it gets through.
    left = set(names)
    for _ in range(5):
        threads = [threading.Thread(target=one, args=(name,), daemon=True) for name in left]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
        left = {name for name in left if found[name][1] == ["admit", "admit"]}
        if not left:
            break
    for name in names:
        with t.point(f"{name}: refused once, then served"):
            result, verdicts = found[name]
            equal(verdicts, ["admit", "refuse", "admit"], f"verdicts; it says {result}")
            equal(result["status"], 200, "status")


main()
