"""The tests' own frame: whatever a test does, its file reports all points, in order, and leaves nothing behind."""
import os
import re
import subprocess
import sys

from lib import beside
from lib.process import until
from lib.tap import equal, main, test, true

BEGIN = """
import os, signal, sys, threading, time
sys.path.insert(0, {here!r})
from lib import tap
from lib.process import Process, until
from lib.tap import equal, group, main, test
"""


def run(t, text, *arguments, **environment):
    """(exit status, what it wrote) of a file of tests."""
    path = t.file("file.py", BEGIN.format(here=os.path.dirname(os.path.abspath(__file__))) + text + "\nmain()\n")
    child = subprocess.run([sys.executable, path, *arguments], stdout=subprocess.PIPE, text=True, check=False,
                           env={**os.environ, "SLUICE_E2E_SEED": "1", "SLUICE_CHECK": "long", "top_builddir": t.folder,
                                **environment})
    return child.returncode, child.stdout


def points(output):
    return [line for line in output.splitlines() if re.match("(not )?ok |1\\.\\.", line)]


@test("points are in order, whichever test ends first", workers=[1])
def order(t):
    status, output = run(t, """
done = os.path.join(os.environ["top_builddir"], "done")
@group("slow", workers=[1, 4])
def slow(t):
    with t.point("one"):
        while not os.path.exists(done + str(t.workers)):
            time.sleep(0.01)
    with t.point("two"):
        equal(1, 1)
@test("quick")
def quick(t):
    open(done + str(t.workers), "w").close()
""")
    equal(status, 0, output)
    equal(points(output), [f"ok {n} - {title}" for n, title in enumerate(
        [f"{point} (workers = {workers}){end}" for workers in (1, 4)
         for point, end in (("one", ""), ("two", ""), ("slow", ": clean end"))]
        + ["quick (workers = 1)", "quick (workers = 4)"], 1)] + ["1..8"])
    equal(len(re.findall("^# took [0-9.]+ s, [0-9.]+ s of processor: ", output, re.M)), 4, "times")


@test("a test that fails, is skipped, hangs or dies is told, and the others run", workers=[1])
def bad(t):
    status, output = run(t, """
tap.HANG_SECONDS = 5
@test("fails", workers=[1])
def fails(t):
    print("ok 7 is no point")
    equal(1, 2, "sum")
@test("skips", workers=[1])
def skips(t):
    t.skip("the moon is missing")
@test("hangs", workers=[1])
def hangs(t):
    child = Process(["sleep", "1000"])
    loose = os.fork() or os.execvp("sleep", ["sleep", "1000"])
    t.note(f"children {child.pid} {loose}")
    threading.Event().wait()
@test("dies", workers=[1])
def dies(t):
    os.kill(os.getpid(), signal.SIGKILL)
@test("passes", workers=[1])
def passes(t):
    pass
""")
    equal(status, 1, output)
    equal(points(output), ["not ok 1 - fails (workers = 1)", "ok 2 - skips (workers = 1) # SKIP the moon is missing",
                           "not ok 3 - hangs (workers = 1)", "not ok 4 - dies (workers = 1)",
                           "ok 5 - passes (workers = 1)", "1..5"])
    for text in ("sum: found 1, expected 2", "in hangs", "its process ended with -9", "# ok 7 is no point"):
        true(text in output, f"{text} is not in {output}")
    for pid in re.search("children ([0-9]+) ([0-9]+)", output).groups():
        until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), "a child of the hung test has ended")


@test("the number of workers is drawn by the seed; each test runs with both where all is asked for", workers=[1])
def numbers(t):
    text = "".join(f"""
@test("number {n}")
def number{n}(t):
    pass
""" for n in range(20))

    def workers(**environment):
        return re.findall("^ok .*workers = ([0-9]+)", run(t, text, **environment)[1], re.M)
    drawn = workers(SLUICE_CHECK="")
    equal((len(drawn), set(drawn)), (20, {"1", "4"}), "drawn")
    equal(workers(SLUICE_CHECK=""), drawn, "again with this seed")
    true(workers(SLUICE_CHECK="", SLUICE_E2E_SEED="2") != drawn, "another seed draws others")
    equal(workers(), ["1", "4"] * 20, "all")
    equal(workers(SLUICE_E2E_WORKERS="4"), ["4"] * 20, "named")


@test("no more tests than there are places run beside each other, and one that is alone has none beside it", workers=[1])
def places(t):
    path = t.path("log")
    text = f"""
def log(word):
    with open({path!r}, "a") as out:
        out.write(word + "\\n")
def begun():
    with open({path!r}, encoding="ascii") as log:
        return log.read().count("begin")
{{alone}}
def register(n):
    @test(f"number {{{{n}}}}", workers=[1])
    def one(t):
        log("begin {{name}}")
        until(lambda: begun() >= {{first}}, "as many as are to meet have begun")
        log("end {{name}}")
for n in range(20):
    register(n)
"""
    environment = {**os.environ, "top_builddir": t.folder}

    def start(name, first, alone=""):
        file = t.file(f"{name}.py", BEGIN.format(here=os.path.dirname(os.path.abspath(__file__)))
                      + text.format(alone=alone, name=name, first=first) + "\nmain()\n")
        return subprocess.Popen([sys.executable, file], stdout=subprocess.DEVNULL, env=environment)

    def end(*children):
        equal([child.wait() for child in children], [0 for _ in children], "exit status")
        with open(path, encoding="ascii") as log:
            return [line.split() for line in log]
    running, most = 0, 0
    for what, _ in end(start("a", beside.PLACES)):
        running += 1 if what == "begin" else -1
        most = max(most, running)
    equal(most, beside.PLACES, "beside each other")
    os.unlink(path)
    running = {"a": 0, "b": 0}
    for what, name in end(start("a", 1), start("b", 1, "tap.alone('for the test')")):
        running[name] += 1 if what == "begin" else -1
        true(running["b"] == 0 or sum(running.values()) == 1, f"alone, but {running}")

main()
