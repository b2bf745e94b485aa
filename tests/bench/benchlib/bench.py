"""What the bench's three programs (run, sweep, cost) have in common: options, folders, subjects that start together."""
import argparse
import contextlib
import os
import tempfile

from . import machine, subjects
from .load import Origin

SUBJECTS = ("relay", "haproxy", "nginx", "sluice")


def parser(description):
    """The options that all of them take."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--bin", default="tests/bench", help="folder of relay, origin and load [%(default)s]")
    options.add_argument("--sluice", default="./sluice", help="the sluice to measure [%(default)s]")
    options.add_argument("--subjects", default=",".join(SUBJECTS), help="which of %(default)s")
    options.add_argument("--out", default="bench-out", help="folder for figures and configurations [%(default)s]")
    options.add_argument("--seconds", type=float, default=3.0, help="length of each measurement [%(default)s]")
    return options


class Bench:
    """Where things are and what is running."""

    def __init__(self, options, scratch):
        self.source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        self.bin = os.path.abspath(options.bin)
        self.sluice = os.path.abspath(options.sluice)
        self.out = os.path.abspath(options.out)
        self.seconds = options.seconds
        self.scratch = scratch
        self.logs = os.path.join(self.out, "log")
        self.scenario = "all"
        self.origin = None
        self.wrapper = {}  # of a subject's command: {name: [command before it]}
        self.variables = {}  # of a subject's environment: {name: {variable: value}}
        for folder in (self.out, self.logs, os.path.join(self.out, "conf")):
            os.makedirs(folder, exist_ok=True)
        machine.raise_file_limit()
        self.subject_cpu, self.load_cpu = machine.two_processors()
        os.sched_setaffinity(0, {self.load_cpu})

    def tool(self, name):
        path = os.path.join(self.bin, name)
        if not os.access(path, os.X_OK):
            raise SystemExit(f"bench: {path} is not built; `make bench` builds it")
        return path

    def publish(self, name, text):
        """Writes a configuration into the output folder, and returns its path."""
        path = os.path.join(self.out, "conf", name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def wrap(self, command, name):
        return self.wrapper.get(name, []) + command

    def environment(self, name):
        return {**os.environ, **self.variables.get(name, {})}

    def started(self, names, setup, stack):
        """Starts the subjects. Returns ({name: subject}, {name: why it is missing})."""
        running, skipped = {}, {}
        for name in names:
            why = subjects.missing(name, self)
            if why is None:
                subject = stack.enter_context(subjects.Subject(name, self, setup, self.origin.port, {self.subject_cpu}))
                why = None if subject.serves else f"it does not start, see {self.logs}/{name}.log"
            if why is None:
                running[name] = subject
            else:
                skipped[name] = why
        return running, skipped


@contextlib.contextmanager
def opened(options):
    """A bench with its origin running, in a temporary folder of its own."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as scratch:
        bench = Bench(options, scratch)
        with Origin(bench, {bench.load_cpu}) as bench.origin:
            yield bench
