"""The binary under test: an ini, a process, its log, its clean end."""
import os
import re
import signal
import socket

from . import process
from .process import BINARY, REPORTS, Hung, Port, Process
from .wire import dial


def to(*servers, upstream="", route="", name="origin"):
    """The sections of the simplest proxy: one upstream, one route that takes everything."""
    lines = "\n".join(f"server = {server}" for server in servers)
    return f"[upstream {name}]\n{lines}\n{upstream}\n[route {name}]\nupstream = {name}\n{route}\n"


class Sluice:
    _count = 0

    def __init__(self, folder, sections, workers=1, settings="", listener="", bind=None,
                 family=socket.AF_INET, command=None, nofile=None, pass_fds=(),
                 environment=None):
        Sluice._count += 1
        self.name = f"sluice{Sluice._count}"
        self.folder = folder
        self.ini_path = os.path.join(folder, self.name + ".ini")
        self.sections = sections
        self.workers = workers
        self.settings = settings
        self.listener = listener
        self.command = command or [BINARY]
        self.options = {"nofile": nofile, "pass_fds": pass_fds, "environment": environment}
        self.port = None if bind else Port(family)
        self.host = "[::1]" if family == socket.AF_INET6 else "127.0.0.1"
        self.address = bind or f"{self.host}:{self.port.number}"
        self.process = None
        self.ended = False

    # ---- the ini ------------------------------------------------------------------------------

    def ini(self):
        defaults = {"workers": self.workers, "callers": "10k", "shutdown_timeout": "10s",
                    "access_log": "off"}
        lines = "\n".join(f"{key} = {value}" for key, value in defaults.items()
                          if f"{key} =" not in self.settings)
        return (f"[sluice]\n{lines}\n{self.settings}\n"
                f"[listener main]\nbind = {self.address}\n{self.listener}\n{self.sections}\n")

    def write_ini(self, sections=None):
        """Rewrites the file, for a reload."""
        if sections is not None:
            self.sections = sections
        with open(self.ini_path, "w", encoding="utf-8") as out:
            out.write(self.ini())

    # ---- its life -----------------------------------------------------------------------------

    def start(self):
        """Runs it and waits until it listens; with another port if this one was taken."""
        for _ in range(5):
            self.write_ini()
            self.process = Process([*self.command, "run", "-c", self.ini_path], self.name,
                                   **self.options)
            if self._listens():
                return self
            taken = re.search("in use|is given twice", self.process.output())  # by [admin]'s, if twice
            if not taken or not self.port:
                break
            self.port.release()
            self.port = Port(self.port.socket.family)
            self.address = f"{self.host}:{self.port.number}"
        raise AssertionError(f"{self.name} did not start")

    def _admin_addresses(self):
        """It listens there after it does on the others."""
        admin = re.search(r"^\[admin\]\n([^\[]*)", self.ini(), re.M)
        return re.findall(r"^bind = (\S+)", admin[1], re.M) if admin else []

    def _listens(self):
        def settled():
            if not self.process.running():
                return True
            try:
                for address in [self.address, *self._admin_addresses()]:
                    dial(address).close()
            except OSError:
                return False
            return True
        process.until(settled, f"{self.name} listens or ends")
        return self.process.running()

    @property
    def pid(self):
        return self.process.pid

    def reload(self, sections):
        """Writes the file, sends SIGHUP; the caller waits for what the log says."""
        self.write_ini(sections)
        self.process.signal(signal.SIGHUP)

    def log(self):
        return self.process.output()

    def terminate(self):
        self.process.signal(signal.SIGTERM)

    def wait(self):
        """Its exit status; fails on a sanitizer's report."""
        self.ended = True
        status = self.process.wait()
        self._judge_output()
        return status

    def _judge_output(self):
        output = self.process.output()
        for report in REPORTS:
            if report in output:
                raise AssertionError(f"{self.name}: {report}")

    def end(self):
        """The end of every test: a SIGTERM leads to a clean exit with status 0."""
        if self.port:
            self.port.release()
        if self.ended or not self.process:
            return
        self.ended = True
        if not self.process.running():
            status = self.process.wait()
            self._judge_output()
            raise AssertionError(f"{self.name} ended by itself with {status}")
        self.terminate()
        try:
            status = self.process.wait()
        except Hung as hung:
            raise AssertionError(f"{self.name} did not end after SIGTERM") from hung
        self._judge_output()
        if status != 0:
            raise AssertionError(f"{self.name} ended with {status} after SIGTERM")

    def describe(self):
        """For a failure's diagnostics."""
        log = self.process.output() if self.process else "(never started)"
        if len(log) > 20000:
            log = log[:5000] + "\n[...]\n" + log[-15000:]
        return f"\n--- {self.ini_path}\n{self.ini()}--- error log of {self.name}\n{log}---\n"


def check(path):
    """`sluice check`: (exit status, what it wrote)."""
    return process.run([BINARY, "check", "-c", path])
