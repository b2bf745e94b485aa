#!/usr/bin/env python3
"""Small simulated fleets: what their leases cost, leave unused and take to come back is within what its README.md says, and a
store that gives too much is found. TAP. All is drawn from a seed: the machine's speed changes nothing."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from lib.store_function import function_text  # noqa: E402

FUNCTION = function_text("lease")
PROGRAM = os.path.abspath("tests/simulation/simulate_fleet")
FLEET = {"nodes": 20, "callers": 2000, "rate": 2000, "seconds": 12, "quota": 1000, "window": 5, "exponent": 1.3,
         "service-us": 73}
BUSY = {**FLEET, "nodes": 3, "callers": 1, "exponent": 0}
# What the function does, and a mistake in its place.
MISTAKES = {
    "leases are as large as the quota": ("ceil((quota[rule] - total[k]) / 2)", "quota[rule]"),
    "what is used counts until its slot ends only": ("(slot + 1) * q > ended", "(slot + 1) * q > now"),
    "what is reported as used is free again": ("math.min(slot, floor(now / q)), uses, 0)", "slot, 0, 0)"),
}
count = failed = 0


def point(title, passed, found=""):
    global count, failed
    count += 1
    failed += not passed
    print(f"{'ok' if passed else 'not ok'} {count} - {title}")
    if not passed:
        print(f"# {found}", flush=True)


def simulate(settings, function=FUNCTION):
    """Its figures. The exit status is that of a fleet of which a window was too full, or none."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua", encoding="utf-8") as text:
        text.write(function)
        text.flush()
        words = [PROGRAM, text.name, os.path.join(HERE, "latencies.txt")]
        for name, value in settings.items():
            words += [f"--{name}", str(value)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or done.stderr:
        sys.exit(f"Bail out! {words}: exit status {done.returncode}, {done.stderr}")
    found = {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}
    if (found["violations"] > 0) != (done.returncode == 1):
        sys.exit(f"Bail out! {words}: exit status {done.returncode} of {found}")
    return found


def simulate_mistake(right, wrong):
    if FUNCTION.count(right) != 1:
        sys.exit(f"Bail out! {right!r} is not once in the function")
    return simulate(BUSY, FUNCTION.replace(right, wrong))


def main():
    if not os.path.exists(PROGRAM):
        print("1..0 # SKIP Lua 5.1 (liblua5.1-0-dev) was not there when this was configured")
        return
    found = simulate({**BUSY, "seconds": 30})
    point("a caller that is busy on three nodes gets at least 91 %, and the store few calls",
          found["violations"] == 0 and found["unused"] <= 0.09 and found["calls_a_request"] < 0.05, found)
    found = simulate(FLEET)
    point("two thousand callers on twenty nodes: no window is too full",
          found["violations"] == 0 and found["calls_a_request"] < 0.75 and found["unavailable"] == 0, found)
    found = simulate({**FLEET, "deaths": 0.3})
    point("nodes die: no window is too full", found["violations"] == 0, found)
    found = simulate({**FLEET, "nodes": 50, "rate": 1000, "seconds": 22, "quota": 5000, "away-at": 8, "away": 5})
    point("the store is away: all nodes have it back within 5 s",
          found["violations"] == 0 and 0 < found["half_back_s"] <= found["all_back_s"] < 5, found)
    for title, (right, wrong) in MISTAKES.items():
        found = simulate_mistake(right, wrong)
        point(f"a mistake is found: {title}", found["violations"] > 0, found)
    print(f"1..{count}")


main()
sys.exit(failed > 0)
