"""Tests beside each other: each in a process of its own, PLACES at a time over all files that run at this moment.

A place is a lock on a file of the build folder. The process of the test holds it, so it is free again however that
process ends. Who waits for one waits behind `queue`, so that only one looks; a test that must be alone has `room`
for itself, the others share it."""
import ctypes
import fcntl
import os
import signal
import sys
import tempfile
import time

PLACES = 12

FOLDER = os.path.join(os.environ.get("top_builddir", "."), "tests", "e2e", "places")

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

# What a process ends with when it has written all of its points.
PASSED, FAILED = 0, 3


def _lock(name, how):
    """A descriptor that holds it, or None."""
    held = os.open(os.path.join(FOLDER, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(held, how)
    except BlockingIOError:
        os.close(held)
        return None
    return held


def _free_place():
    while True:
        for number in range(PLACES):
            held = _lock(f"place-{number}", fcntl.LOCK_EX | fcntl.LOCK_NB)
            if held is not None:
                return held
        time.sleep(0.02)


def take_place(alone):
    """Waits for one; returns the descriptors that hold it."""
    os.makedirs(FOLDER, exist_ok=True)
    queue = _lock("queue", fcntl.LOCK_EX)
    held = [_lock("room", fcntl.LOCK_EX)] if alone else [_lock("room", fcntl.LOCK_SH), _free_place()]
    os.close(queue)
    return held


class Run:
    """A function in a process of its own. What it writes is kept until it is asked for."""

    def __init__(self, title, function, alone):
        self.title = title
        self.output = tempfile.TemporaryFile()
        held = take_place(alone)
        sys.stdout.flush()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._child(function, parent)
        for descriptor in held:
            os.close(descriptor)

    def _child(self, function, parent):
        status = 1
        try:
            os.setpgid(0, 0)
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            status = PASSED if function() else FAILED
            sys.stdout.flush()
        finally:
            os._exit(status)  # a thread that still waits somewhere must not hold it back

    def has_ended(self):
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def finish(self, report):
        """Waits for its end, kills what it has left behind, and reports its points."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.output.seek(0)
        report.pass_on(self.output.read().decode("utf-8", "replace"))
        self.output.close()
        if status not in (PASSED, FAILED):
            report.point(False, self.title, f"its process ended with {status}")


def run(report, jobs, alone=False, in_turn=False):
    """Runs each (title, function); reports in this order."""
    runs = []
    for title, function in jobs:
        runs.append(Run(title, function, alone))
        while runs and (in_turn or runs[0].has_ended()):
            runs.pop(0).finish(report)
    for each in runs:
        each.finish(report)
