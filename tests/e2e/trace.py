#!/usr/bin/env python3
"""W3C Trace Context: traceparent is passed on, begun or dropped, and its ids are in the access log."""
import json
import re

from lib.sluice import to
from lib.tap import equal, group, main, true

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{PARENT}-01"
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
BAD = [f"00-{TRACE}-{PARENT}-01-more", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01",
       f"00-{TRACE}-{'0' * 16}-01", GOOD.upper(), f"00-{TRACE}-{PARENT}", "", "x"]


def start(t, mode, log="json", route=""):
    got = []

    def handler(x):
        got.append((x.request.all("traceparent"), x.request.all("tracestate")))
        x.reply(200)
    setting = f"traceparent = {mode}\n" if mode else ""
    sluice = t.sluice(to(t.origin(handler), route=route),
                      settings=f"{setting}access_log = stdout\naccess_log_format = {log}")
    client = t.client(sluice)

    def ask(*fields):
        """(traceparent, tracestate) that the server gets, and the log's line."""
        lines = len(sluice.log().splitlines())
        equal(client.ask("/", fields=fields).status, 200)
        sluice.process.wait_output('"status":200' if log == "json" else '" 200 ', len(got))
        line = [one for one in sluice.log().splitlines()[lines:] if " 200 " in one or '"status":200' in one][-1]
        return got[-1], json.loads(line) if log == "json" else line
    return ask


@group("pass, the default: a valid one passes as it came, with tracestate", workers=[1])
def passes(t):
    ask = start(t, None)
    with t.point("valid"):
        for value in (GOOD, f"cc-{TRACE}-{PARENT}-01-more", f"  {GOOD}\t"):
            (parents, states), line = ask(("Traceparent", value), ("tracestate", STATE))
            equal((parents, states), ([value.strip()], [STATE]), "what the server gets")
            equal((line["trace_id"], line["parent_id"]), (TRACE, PARENT), "ids in the log")
    with t.point("several tracestate pass in their order"):
        (_, states), _line = ask(("traceparent", GOOD), ("tracestate", "a=1"), ("tracestate", "b=2"))
        equal(states, ["a=1", "b=2"])
    with t.point("none: none is begun, and the log names none"):
        (parents, _), line = ask()
        equal((parents, "trace_id" in line), ([], False))
    with t.point("invalid ones are dropped, and tracestate with them"):
        for value in BAD:
            (parents, states), line = ask(("traceparent", value), ("tracestate", STATE))
            equal((parents, states, "trace_id" in line), ([], [], False), value)
    with t.point("so are two"):
        (parents, states), line = ask(("traceparent", GOOD), ("traceparent", GOOD), ("tracestate", STATE))
        equal((parents, states, "trace_id" in line), ([], [], False))
    with t.point("one that Connection names is none"):
        (parents, states), line = ask(("traceparent", GOOD), ("tracestate", STATE), ("Connection", "traceparent"))
        equal((parents, states, "trace_id" in line), ([], [], False))


@group("begin: a request without a valid one gets one")
def begins(t):
    ask = start(t, "begin")
    begun = set()
    with t.point("without, invalid, and two: a new one, without the tracestate"):
        for fields in [[]] + [[("traceparent", value)] for value in BAD] + [[("traceparent", GOOD)] * 2]:
            (parents, states), line = ask(*fields, ("tracestate", STATE))
            equal((len(parents), states), (1, []), "what the server gets")
            found = re.fullmatch("00-([0-9a-f]{32})-([0-9a-f]{16})-01", parents[0])
            true(found and TRACE not in parents[0], parents)
            equal((line["trace_id"], line["parent_id"]), found.groups(), "ids in the log")
            begun.add(found.groups())
        equal(len(begun), len(BAD) + 2, "different ones")
    with t.point("a valid one passes as it came"):
        (parents, states), line = ask(("traceparent", GOOD), ("tracestate", STATE))
        equal((parents, states, line["trace_id"]), ([GOOD], [STATE], TRACE))


@group("off: nothing is looked at", workers=[1])
def off(t):
    ask = start(t, "off")
    for value in (GOOD, "x"):
        (parents, states), line = ask(("traceparent", value), ("tracestate", STATE))
        equal((parents, states, "trace_id" in line), ([value], [STATE], False))


@group("the combined log has the ids, and a route's own field wins", workers=[1])
def combined(t):
    ask = start(t, "begin", log="combined", route=f"request_header_set = traceparent: {GOOD}")
    (parents, _), line = ask()
    equal(parents, [GOOD], "what the server gets")
    true(re.search(" trace_id=[0-9a-f]{32} parent_id=[0-9a-f]{16}", line), line)


main()
