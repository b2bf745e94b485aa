"""Follows a page of the documentation: writes its files, runs its commands in order, compares what they print.

A block of the language `console` has commands after `$ ` and, below each, what it prints. A comment on the line before a
block, which readers do not see, says what else a block is:

    <!-- file: NAME -->     the block is saved under that name
    <!-- stays -->          the command keeps running, as in a terminal of its own
    <!-- ends: WORDS -->    Ctrl-C in the terminal of the command that begins with these words; it needs no block

The page's ports are replaced by free ones. What differs from run to run is not compared: decimal fractions, times,
dates, ids and hashes, the width of columns; a line `...` stands for any lines.
"""
import os
import re
import signal
import subprocess

from .process import BINARY, DEADLINE_SECONDS, Port, Process, until
from .tap import equal, true

STEP = re.compile(r"(?ms)^<!-- ends: (?P<ends>[^\n]*?) -->$|(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$")
VARYING = [
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"(?m)^Date: .*", "Date: DATE"),
    (r"\b\d\d/\w{3}/\d{4}:[\d:]+ \+\d{4}", "DATE"),
    (r"\b[0-9a-f]{28}\b", "ID"),
    (r"\b[0-9a-f]{16}\b", "HASH"),
    (r"(Retry-After: |Content-Length: |HTTP/1\.1\" \d+ |\bt=|\"retry-after-ms\":|curl/)[\d.]+", r"\1N"),
    (r"(?<![\d.])(?:\d+[dhm] )?\d+(?:\.\d+)?(?:us|ms|s|m|h)\b|(?<![\d./])\d+\.\d+(?![\d.])", "TIME"),
    (r"\b\d+ workers\b", "N workers"),
    (r"(?m)[ \t]+", " "),
    (r"(?m) $", ""),
]


def alike(text):
    """Without what differs from run to run."""
    for pattern, replacement in VARYING:
        text = re.sub(pattern, replacement, text)
    return text.strip()


def matches(found, quoted):
    """Is the output as quoted, where `...` is for any lines?"""
    parts = [re.escape(part) for part in re.split(r"(?m)\n?^\.\.\.$\n?", alike(quoted))]
    return re.fullmatch(r"(?s)" + r".*?".join(parts), alike(found)) is not None


def commands_of(text):
    """[(command, what it prints)] of a console block."""
    return [(command, output) for command, output in re.findall(r"(?m)^\$ (.*)\n((?:(?!\$ ).*\n)*)", text)]


class Follower:
    """Somebody who follows a page, in a folder of the test's."""

    def __init__(self, t, page, ports):
        self.t, self.page = t, page
        self.ports = {shown: Port() for shown in ports}
        for port in self.ports.values():
            t.defer(port.release)
        self.running = {}  # command: Process

    def _environment(self):
        return {"PATH": os.path.dirname(os.path.abspath(BINARY)) + ":" + os.environ["PATH"], "XDG_RUNTIME_DIR": self.t.folder}

    def _here(self, text):
        for shown, port in self.ports.items():
            text = re.sub(rf":{shown}\b", f":{port.number}", text)
        # Its default is the page's 8080.
        if "sluice protect " in text:
            text = text.replace("sluice protect ", f"sluice protect --listen 127.0.0.1:{self.ports[8080].number} ")
        return text

    def _there(self, text):
        for shown, port in self.ports.items():
            text = re.sub(rf"\b{port.number}\b", str(shown), text)
        return text.replace(self.t.folder, "/run/user/1000")

    def follow(self):
        """Every step of the page. Returns how many commands were run."""
        count = 0
        with open(self.page, encoding="utf-8") as page:
            text = page.read()
        for step in STEP.finditer(text):
            mark = step["mark"] or ""
            if step["ends"]:
                self._end(step["ends"])
            elif mark.startswith("file: "):
                self.t.file(mark.removeprefix("file: "), self._here(step["text"]))
            elif step["language"] == "console":
                for command, quoted in commands_of(step["text"]):
                    (self._start if mark == "stays" else self.run)(command, quoted)
                    count += 1
        return count

    def _start(self, command, quoted):
        words = self._here(command)
        process = Process(["sh", "-c", f"cd '{self.t.folder}' && exec {words}"], name=command, environment=self._environment())
        self.t.defer(process.kill)
        self.running[command] = process
        for line in quoted.splitlines():
            if line.strip() not in ("", "..."):
                self._await(process, line)

    def _await(self, process, line):
        def is_written():
            found = any(alike(self._there(one)) == alike(line) for one in process.output().splitlines())
            return found or not process.running()
        until(is_written, line)
        true(process.running(), f"{process.name}\nhas ended:\n{process.output()}")

    def _end(self, command):
        found = [name for name in self.running if name.startswith(command)]
        equal(len(found), 1, f"commands that stay and begin with {command!r}")
        process = self.running.pop(found[0])
        process.signal(signal.SIGINT)
        process.wait()

    def run(self, command, quoted):
        """A command that ends, and what it must print."""
        done = subprocess.run(["sh", "-c", self._here(command)], cwd=self.t.folder, stdin=subprocess.DEVNULL,
                              env={**os.environ, **self._environment()}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=DEADLINE_SECONDS, check=False)
        found = self._there(done.stdout.decode("utf-8", "replace").replace("\r\n", "\n"))
        true(matches(found, quoted), f"$ {command}\nprinted\n{found}\nand not, as quoted,\n{quoted}")
