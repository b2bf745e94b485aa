"""What must hold of a life, whatever happened in it."""
import asyncio
import json
import os
import re
import subprocess

from lib.process import REPORTS

from .asks import Ask
from .net import Ended, Late, Malformed, dial

# After SIGTERM, with all of sluice's timeouts below a second.
END_SECONDS = 60.0

REPORT_BYTES = 12_000


# ---- while it lives -----------------------------------------------------------------------------

def check_in_flight(life, server):
    """What a server is bound to, as it sees it: from a head to the end of the answer to it."""
    bound = life.fixed.get("in_flight")
    if not bound:
        return
    here = [visit for visit in server.in_flight if visit.ask.route == "a"]
    if len(here) > bound:  # one that sluice gave up is not at the server for it
        here = [visit for visit in here if not visit.link.peer_gone()]
    if len(here) > bound:
        life.fail(f"{len(here)} requests at a server bounded to {bound}: "
                  f"{[visit.ask.identity for visit in here]}")


async def probe_places(life):
    """All places of a bounded upstream are free again: as many requests as it has are there at once."""
    bound = life.fixed.get("in_flight")
    if not bound or life.only:
        return
    crowd = life.servers[0].crowd
    crowd.expect(bound)

    async def one(n):
        link = await dial(life.address)
        try:
            ask = Ask(f"probe{n}", 0, route="a", do="hold", fields=[("X-Session", f"p{n}"), ("X-Turn", f"p{n}")])
            life.sent([ask])
            await link.send(ask.bytes())
            return (await link.body(await link.head())).status
        finally:
            link.close()

    try:
        statuses = await asyncio.gather(*(one(n) for n in range(bound * 3)))
    except (Ended, Late, Malformed) as wrong:
        life.fail(f"a probe of the places: {wrong}")
        return
    if set(statuses) != {200} or crowd.peak != bound:
        life.fail(f"of {bound} places, {crowd.peak} were free when all was calm; answers {statuses}")


def descriptors(pid):
    lines = []
    for number in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        try:
            lines.append(f"    {number}: {os.readlink(f'/proc/{pid}/fd/{number}')}")
        except OSError:
            pass
    return "\n".join(lines[-40:])


# ---- its end ------------------------------------------------------------------------------------

def wait_end(child):
    """The exit status, or None when it did not end."""
    try:
        status = child.popen.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    child.wait()
    return status


def judge_end(life, status):
    output = life.sluice.log()
    for report in REPORTS:
        at = output.find(report)
        if at >= 0:
            life.fail(f"a sanitizer's report:\n{output[max(0, at - 100):at + REPORT_BYTES]}")
            return
    if status is None:
        life.fail(f"sluice did not end within {END_SECONDS:.0f} s of SIGTERM")
    elif status != 0:
        life.fail(f"sluice ended with {status}:\n{output[-3000:]}")
    elif "still held at exit" in output:
        life.fail(output[output.find("still held at exit"):].splitlines()[0])


def judge_access_log(life):
    """Each line is JSON, each request has one, and it has the status that its client read."""
    logged, count = {}, 0
    try:
        with open(life.access_path, encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                count += 1
                try:
                    entry = json.loads(line)
                except ValueError:
                    life.fail(f"a line of the access log is not JSON: {line[:500]!r}")
                    return
                if entry["id"] in logged and "." in entry["id"] and entry["id"] != "0.0":
                    logged[entry["id"]].append(entry)
                else:
                    logged[entry["id"]] = [entry]
    except OSError as error:
        life.fail(f"access log: {error}")
        return
    if "lines dropped" in life.sluice.log() or life.failures:
        return
    tally = re.search(r"served (\d+) requests", life.sluice.log())
    if not tally or int(tally.group(1)) != count:
        life.fail(f"{count} lines in the access log; the tally says {tally and tally.group(0)}")
    for identity, status in life.statuses.items():
        found = [entry["status"] for entry in logged.get(identity, [])]
        if found != [status]:
            life.fail(f"request {identity} was answered {status}; the access log says {found}")
            return
    for _, asked in life.arrivals:
        if asked.identity not in logged and asked.identity in life.sent_at:
            life.fail(f"request {asked.identity} reached a server and is not in the access log")
            return


def judge_bound(life):
    """The bound at the origin: requests that were both sent and read within one window were judged
    within it, so no window may hold more of them than the limit admits."""
    from .themes import BOUND, BOUND_SECONDS
    spans = {}
    seen = set()
    for at, asked in life.arrivals:
        if asked.route != "bound" or asked.identity in seen:
            continue
        seen.add(asked.identity)
        sent = life.sent_at.get(asked.identity)
        if sent is not None:
            spans.setdefault(asked.head.get("X-Bound"), []).append((sent, at))
    for key, of_key in spans.items():
        for begin, _ in of_key:
            inside = sum(1 for sent, at in of_key if sent >= begin and at < begin + BOUND_SECONDS)
            if inside > BOUND:
                life.fail(f"{inside} requests of {key} were sent and had arrived within "
                          f"{BOUND_SECONDS} s; the limit is {BOUND}")
                return
