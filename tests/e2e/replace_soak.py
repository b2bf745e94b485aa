#!/usr/bin/env python3
"""Upgrades and reloads for as long as it takes (`make soak-upgrade`): 10 and 20, under wrk with kept
connections and clients that connect for each request. Prints what happened; exits with 0 when no
request failed and the origin saw exactly what the limits allow."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib.chain import Chain, Load, sections
from lib.process import DEADLINE_SECONDS
from lib.tap import equal, main, test, true

UPGRADES = int(os.environ.get("UPGRADES", "10"))
RELOADS_EACH = 2


class Wrk:
    """wrk with kept connections, until it is stopped."""

    def __init__(self, t, address, connections):
        self.child = subprocess.Popen(
            ["wrk", "-t2", f"-c{connections}", "-d3600s", "--timeout", "30s", f"http://{address}/kept"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        t.defer(self.child.kill)

    def stop(self):
        """Its report, what failed, and how many were answered."""
        self.child.send_signal(signal.SIGINT)
        report, _ = self.child.communicate(timeout=DEADLINE_SECONDS)
        failed = [line.strip() for line in report.splitlines()
                  if "Socket errors" in line or "Non-2xx" in line]
        answered = re.search(r"(\d+) requests in", report)
        return report, failed, int(answered.group(1)) if answered else 0


@test("nothing fails, and the bound holds at the origin", workers=[2])
def soak(t):
    if not shutil.which("wrk"):
        t.skip("no wrk")
    for state in (None, t.path("state")):
        run(t, state)


def run(t, state):
    origin = t.origin()
    if state:
        os.mkdir(state)
    settings = "lame_duck = 500ms" + (f"\nstate = {state}" if state else "")
    chain = Chain(t, sections(origin, rate=500), settings=settings)
    load = Load(t, chain.sluice.address)
    load.add(4, "/once", True).add(2, "/kept", False).add(1, "/limited/a", True, "a").add(1, "/limited/b", False, "b")
    wrk = Wrk(t, chain.sluice.address, 16)
    reloads = 0
    for number in range(UPGRADES):
        for _ in range(RELOADS_EACH):
            load.goes_on()
            more = f"[limit other{reloads}]\nrate = 1 per 1s\n"
            chain.sluice.write_ini(sections(origin, rate=500, more=more))
            os.kill(chain.pid, signal.SIGHUP)
            reloads += 1
            chain.sluice.process.wait_output(": reloaded", reloads)
        load.goes_on()
        before = chain.pid
        chain.replace()
        load.goes_on()
        equal(chain.ended(before), 0, "exit status of the one before")
        chain.pids.remove(before)
    report, failed, answered = wrk.stop()
    load.goes_on()
    load.stop()
    with origin.changed:
        seen = [x.request.target for x in origin.requests]
    limited = {caller: seen.count(f"/limited/{caller}") for caller in "ab"}
    t.note(f"{'folder' if state else 'memory'}: {UPGRADES} upgrades, {reloads} reloads; wrk {answered} "
           f"answered, failed {failed}; clients {load.answered} answered, failed {len(load.failed)}; "
           f"of callers with 500 an hour the origin saw {limited}")
    equal(failed, [], f"wrk: {report}")
    equal(load.failed[:5], [], "failed")
    equal(limited, {"a": 500, "b": 500}, "at the origin")
    true(answered > 1000, f"wrk had only {answered} answers")
    chain.end()


main()
