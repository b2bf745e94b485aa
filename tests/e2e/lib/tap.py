"""TAP points from plain functions.

    @test("what is promised")          one point for each number of workers
    def name(t): ...                   t: makes peers that are gone when the test is over

    @group("what it is about")         many points of one set-up: `with t.point(title):`, then one
    def name(t): ...                   more that says that the set-up ended cleanly

Each runs in a process of its own, beside others (lib/beside.py); nothing that one keeps is there for the next.

    alone("why")                       the tests of this file run with no other test beside them

A failure prints the traceback, then for each sluice of the test its ini and its error log.
The number of workers is drawn by the seed; SLUICE_CHECK=long runs each. SLUICE_E2E_SEED repeats a run's random
choices, SLUICE_E2E_WORKERS=4 or an argument narrows it.
"""
import contextlib
import faulthandler
import functools
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback

from . import beside, process
from .client import Client
from .origin import Origin
from .sluice import Sluice

sys.dont_write_bytecode = True

SEED = int(os.environ.get("SLUICE_E2E_SEED") or time.time_ns() % 1_000_000_000)
RUN = f"{os.getpid()}-{time.time_ns()}"  # of the file: the same in all of its processes
IS_LONG = os.environ.get("SLUICE_CHECK") == "long"
ONLY_WORKERS = [int(n) for n in os.environ.get("SLUICE_E2E_WORKERS", "").split(",") if n]
WORKERS = (1, 4)
# A hung test ends its process with every thread's stack; its children die with it.
HANG_SECONDS = 900
FILES = 16384  # descriptors

_tests = []
_alone = []  # why


def alone(why):
    """No other test is beside this file's."""
    _alone.append(why)


def longer(number):
    """Of a random search: a third of it where not all of it is asked for."""
    return number if IS_LONG else max(1, number // 3)


class Skip(Exception):
    """The test can't be run here; says why."""


def test(title, workers=None):
    return _register(title, workers, grouped=False)


def group(title, workers=None):
    return _register(title, workers, grouped=True)


def _register(title, workers, grouped):
    def keep(function):
        _tests.append((title, function, _workers(title, workers), grouped))
        return function
    return keep


def _workers(title, few):
    if few is None and ONLY_WORKERS:
        return ONLY_WORKERS
    if IS_LONG:
        return few or WORKERS
    return [random.Random(f"{SEED} {title}").choice(few or WORKERS)]


POINT = re.compile(r"(not )?ok \d+ - (.*)")


class Report:
    """Numbers the points and prints them."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def point(self, passed, title, diagnostics="", skip=None):
        self.count += 1
        self.failed += not passed
        title = title.replace("#", "no.")
        suffix = f" # SKIP {skip}" if skip else ""
        print(f"{'ok' if passed else 'not ok'} {self.count} - {title}{suffix}")
        self.note(diagnostics)

    def pass_on(self, output):
        """What the report of another process has written, and whatever else came there."""
        for line in output.splitlines():
            found = POINT.fullmatch(line)
            if found:
                self.count += 1
                self.failed += bool(found[1])
                print(f"{found[1] or ''}ok {self.count} - {found[2]}")
            else:
                self.note(line.removeprefix("# "))

    def took(self, title, seconds):
        """For the table of the slowest; with the processor's time of this process and of those that it has waited for."""
        used = sum(sum(resource.getrusage(whose)[:2]) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        self.note(f"took {seconds:.1f} s, {used:.1f} s of processor: {os.path.basename(sys.argv[0])}, {title}")

    def note(self, text):
        for line in text.splitlines():
            print("# " + "".join(c if c.isprintable() or c == "\t" else "?" for c in line))
        sys.stdout.flush()

    def end(self):
        print(f"1..{self.count}", flush=True)


class Test:
    """What a test function is given. Everything it makes is stopped in reverse order."""

    def __init__(self, report, workers, title):
        self.report = report
        self.workers = workers
        self.title = title
        self.random = random.Random(f"{SEED} {title} {workers}")
        self.folder = tempfile.mkdtemp(prefix="sluice-e2e-")
        self._cleanups = []
        self._events = []
        self._sluices = []
        self.problems = []

    # ---- what tests build from ----------------------------------------------------------------

    def sluice(self, *sections, **options):
        options.setdefault("workers", self.workers)
        made = Sluice(self.folder, "\n".join(sections), **options)
        self._sluices.append(made)
        self.defer(made.end)
        made.start()
        return made

    def origin(self, handler=None, **options):
        made = Origin(handler, **options)
        self.defer(made.end)
        return made

    def client(self, address, **options):
        """A raw connection to an address, or to a sluice."""
        made = Client(getattr(address, "address", address), **options)
        self.defer(made.close)
        return made

    def event(self):
        """An event that is set when the test is over, so that nobody waits for ever."""
        made = threading.Event()
        self._events.append(made)
        return made

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as out:
            out.write(text)
        return self.path(name)

    def defer(self, action):
        self._cleanups.append(action)

    def note(self, text):
        self.report.note(text)

    def skip(self, why):
        raise Skip(why)

    # ---- what tests claim ---------------------------------------------------------------------

    @contextlib.contextmanager
    def point(self, title):
        title = f"{title} (workers = {self.workers})"
        try:
            yield
        except Skip as why:
            self.report.point(True, title, skip=str(why))
        except Exception:
            self.report.point(False, title, traceback.format_exc() + self._state())
        else:
            self.report.point(True, title)

    # ---- the end ------------------------------------------------------------------------------

    def end(self):
        """Stops everything; returns what went wrong while doing so."""
        wrong = []
        for event in self._events:
            event.set()
        for action in reversed(self._cleanups):
            try:
                action()
            except Exception:
                wrong.append(traceback.format_exc())
        shutil.rmtree(self.folder, ignore_errors=True)
        return wrong

    def _state(self):
        return "".join(sluice.describe() for sluice in self._sluices)


def _run(title, function, workers, grouped):
    """Of one process; returns whether all passed."""
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    report, began = Report(), time.monotonic()
    t = Test(report, workers, title)
    title = f"{title} (workers = {workers})"
    wrong, skip = [], None
    try:
        function(t)
    except Skip as why:
        skip = str(why)
    except Exception:
        wrong.append(traceback.format_exc())
    wrong += t.end()
    report.point(not wrong, title + ": clean end" if grouped else title,
                 "\n".join(wrong) + (t._state() if wrong else ""), skip)
    report.took(title, time.monotonic() - began)
    return not report.failed


def allow_files():
    """Debian allows a process 1,024 descriptors unless it asks for more: too few for some tests' clients and peers."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, FILES), most))


def _jobs(wanted):
    for title, function, workers, grouped in _tests:
        if not wanted or any(w in title or w == function.__name__ for w in wanted):
            for count in workers:
                yield (f"{title} (workers = {count})", functools.partial(_run, title, function, count, grouped))


def main():
    """Runs the tests that were registered, or those that the arguments name."""
    allow_files()
    # A shell ignores it for what it starts in the background, and the commands under test heed that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")]
    report = Report()
    report.note(f"seed {SEED} (SLUICE_E2E_SEED), {process.describe()}")
    beside.run(report, _jobs(wanted), alone=bool(_alone))
    report.end()
    sys.exit(1 if report.failed else 0)


def equal(found, expected, what="value"):
    if found != expected:
        raise AssertionError(f"{what}: found {found!r}, expected {expected!r}")


def member(found, expected, what="value"):
    if found not in expected:
        raise AssertionError(f"{what}: found {found!r}, expected one of {expected!r}")


def true(claim, what):
    if not claim:
        raise AssertionError(what)
