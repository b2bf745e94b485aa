"""A sluice and those that take its place (SIGUSR2), and clients that ask all the while."""
import os
import shutil
import signal
import time

from . import process
from .client import Client
from .crowd import Crowd
from .process import BINARY, until
from .sluice import to
from .tap import equal
from .wire import Ended

# Between the look at an idle connection and the request on it: so long, and it may have been closed meanwhile.
STOOD_STILL_SECONDS = 0.05

LIMITED = """[limit few]
key = header:X-Caller
rate = {rate} per 1h
[route limited]
path = /limited
upstream = origin
limits = few
"""


def sections(origin, rate=20, more=""):
    return to(origin) + LIMITED.format(rate=rate) + more


class Chain:
    """A sluice and those that take its place: children of each other, which all write to one output."""

    def __init__(self, t, text, binary=None, **options):
        self.t = t
        # Orphans are this process's, so that their ends can be waited for.
        process.adopt_orphans()
        self.binary = t.path("sluice")
        shutil.copy2(binary or BINARY, self.binary)
        self.sluice = t.sluice(text, command=[self.binary], **options)
        self.pids = [self.sluice.pid]
        self.replaced = 0
        self.sluice.process.wait_output("sluice is ready")
        t.defer(self.kill)

    @property
    def pid(self):
        return self.pids[-1]

    def log(self):
        return self.sluice.log()

    def replace(self):
        """Sends the signal and waits until another process has taken over."""
        self.replaced += 1
        os.kill(self.pid, signal.SIGUSR2)
        line = self.sluice.process.wait_output("has taken over", self.replaced)
        self.pids.append(int(line.split("process ")[1].split()[0]))

    def ended(self, pid):
        """Waits for a process's end and returns its exit status."""
        if pid == self.sluice.pid:
            self.sluice.ended = True
            return self.sluice.process.popen.wait(process.DEADLINE_SECONDS)
        deadline = time.monotonic() + process.DEADLINE_SECONDS
        while time.monotonic() < deadline:
            got, status = os.waitpid(pid, os.WNOHANG)
            if got == pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        raise process.Hung(f"process {pid} did not end:\n{self.log()}")

    def end(self):
        """Stops the last; all have ended well."""
        statuses = []
        os.kill(self.pid, signal.SIGTERM)
        for pid in self.pids:
            statuses.append(self.ended(pid))
        self.pids = []
        equal(set(statuses), {0}, "exit statuses")

    def kill(self):
        for pid in self.pids[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (OSError, ChildProcessError):
                pass


class Load(Crowd):
    """Clients that ask all the time until they are stopped; each failure is kept. A caller's answers
    are counted by status."""

    def __init__(self, t, address):
        super().__init__(t)
        self.address = address
        self.failed, self.statuses, self.answered = [], {}, 0

    def add(self, count, target, once, caller=None):
        return self.start(count, lambda number: self._ask(target, once, caller))

    def _ask(self, target, once, caller):
        client = None
        while not self._stop.is_set():
            looked = time.monotonic()
            if client and client.has_ended():
                client.close()  # before anything was sent: nothing is lost
                client = None
            was_idle, sent = client is not None, looked
            try:
                client = client or Client(self.address)
                client.request(target, fields=[("X-Caller", caller)] if caller else [])
                sent = time.monotonic()
                answer = client.response()
            except (Ended, OSError) as error:
                if not was_idle or sent - looked < STOOD_STILL_SECONDS:
                    with self._lock:
                        self.failed.append(f"{target}: {type(error).__name__} {error}")
                client = None  # else the drain has closed it while this thread stood still
                continue
            closes = once or (answer.get("Connection") or "").lower() == "close"
            with self._lock:
                self.answered += 1
                key = caller, answer.status
                self.statuses[key] = self.statuses.get(key, 0) + 1
                if answer.status not in (200, 429) or (answer.status == 429 and not caller):
                    self.failed.append(f"{target}: {answer.status}")
            if closes:
                client.close()
                client = None
        if client:
            client.close()

    def goes_on(self, count=200):
        goal = self.answered + count
        until(lambda: self.answered >= goal, f"{count} more answers")
