"""Processes under test: started so that they die with the test, and looked at through /proc."""
import ctypes
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

PR_SET_CHILD_SUBREAPER = 36
DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"]  # not preexec_fn: copying this process costs far more
_libc = ctypes.CDLL(None, use_errno=True)

BINARY = os.environ.get("SLUICE") or os.path.join(os.environ.get("top_builddir", "."), "sluice")

# How long anything may take before the test gives up: only a hang gets there.
DEADLINE_SECONDS = float(os.environ.get("SLUICE_E2E_DEADLINE", "60"))


class Hung(AssertionError):
    """Something that should happen did not within the overall deadline."""


def binary_content():
    built = os.path.join(os.path.dirname(BINARY), ".libs", os.path.basename(BINARY))
    with open(built if os.path.exists(built) else BINARY, "rb") as binary:
        return binary.read()


def sanitizer():
    """The sanitizer the binary was built with, or None."""
    content = binary_content()
    for name in ("asan", "tsan", "msan", "ubsan"):
        if b"__%s_" % name.encode() in content:
            return name
    return None


def sanitizer_library():
    """The library of gcc's AddressSanitizer that the binary is linked with, or None."""
    name = re.search(rb"libasan\.so\.\d+", binary_content())
    return name and name[0].decode()


SANITIZER = sanitizer() if os.path.exists(BINARY) else None

REPORTS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer",
           "runtime error:", "ERROR: UndefinedBehaviorSanitizer", "WARNING: MemorySanitizer")


def describe():
    return f"sluice at {BINARY}, sanitizer {SANITIZER}"


class Process:
    """A child with its stderr collected. It is killed when this program ends, however it ends."""

    def __init__(self, command, name=None, nofile=None, pass_fds=(), environment=None):
        self.name = name or os.path.basename(command[0])
        self._lines, self._answer = [], []
        self._changed = threading.Condition()
        if not shutil.which(command[0]):
            raise FileNotFoundError(command[0])
        limits = ["prlimit", f"--nofile={nofile}:{nofile}"] if nofile else []
        self.popen = subprocess.Popen(
            [*DIES_WITH_US, *limits, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, pass_fds=pass_fds,
            env={**os.environ, "SLUICE_CHECK_WAITS": "1", **sanitizer_options(), **(environment or {})})
        self.pid = self.popen.pid
        self._readers = [self._reader(self.popen.stdout), self._reader(self.popen.stderr)]

    def _reader(self, pipe):
        thread = threading.Thread(target=self._collect, args=(pipe,), daemon=True)
        thread.start()
        return thread

    def _collect(self, pipe):
        for line in pipe:
            with self._changed:
                self._lines.append(line.decode("utf-8", "replace"))
                if pipe is self.popen.stdout:
                    self._answer.append(self._lines[-1])
                self._changed.notify_all()
        pipe.close()

    def output(self):
        """All it has written to stdout and stderr so far."""
        with self._changed:
            return "".join(self._lines)

    def answer(self):
        """What it has written to stdout so far, without what it says of a store that is late."""
        with self._changed:
            return "".join(self._answer)

    def wait_output(self, text, count=1):
        """Waits until `text` stands `count` times in what it wrote; returns the last such line."""
        def found():
            return [line for line in self._lines if text in line]
        with self._changed:
            if not self._changed.wait_for(lambda: len(found()) >= count, DEADLINE_SECONDS):
                raise Hung(f"{self.name} never wrote {text!r} {count} times:\n"
                           + "".join(self._lines))
            return found()[-1]

    def running(self):
        return self.popen.poll() is None

    def signal(self, number):
        self.popen.send_signal(number)

    def stop(self):
        """SIGSTOP; returns when all of its threads stand still, as that takes a moment on a busy machine, or when it has
        ended before."""
        self.signal(signal.SIGSTOP)
        until(lambda: not self.running() or {state for _, state in _threads(self.pid)} == {"T"},
              f"{self.name} standing still")

    def wait(self):
        """Its exit status, with all output collected."""
        try:
            status = self.popen.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Hung(f"{self.name} did not end:\n{self.output()}") from None
        for reader in self._readers:
            reader.join(DEADLINE_SECONDS)
        return status

    def kill(self):
        if self.running():
            self.popen.kill()
        self.popen.wait()
        for reader in self._readers:
            reader.join(DEADLINE_SECONDS)


def adopt_orphans():
    """Processes whose parent, a child of this one, has ended become children of this one."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def sanitizer_options():
    """Reports go to stderr and to the exit status; the user's own options win."""
    def option(name, value):
        return f"{value}:{os.environ[name]}" if os.environ.get(name) else value
    return {
        "ASAN_OPTIONS": option("ASAN_OPTIONS", "exitcode=99:detect_leaks=1"),
        "TSAN_OPTIONS": option("TSAN_OPTIONS", "exitcode=99:second_deadlock_stack=1"),
        "UBSAN_OPTIONS": option("UBSAN_OPTIONS", "print_stacktrace=1"),
    }


def run(command, **options):
    """Runs to its end; returns (exit status, what it wrote)."""
    child = Process(command, **options)
    return child.wait(), child.output()


def serve(t, command):
    """Starts a server that prints its port and ends with its input. Its address."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end():
        child.stdin.close()
        child.wait(DEADLINE_SECONDS)
        child.stdout.close()
    t.defer(end)
    return f"127.0.0.1:{int(child.stdout.readline())}"


def _status_kib(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(name + ":"):
                return int(line.split()[1])
    raise AssertionError(f"no {name} of process {pid}")


def _of_threads(pid, name):
    """What this file says of each thread that has not ended meanwhile."""
    for path in glob.glob(f"/proc/{pid}/task/*/{name}"):
        try:
            with open(path, encoding="ascii") as file:
                yield file.read()
        except (FileNotFoundError, ProcessLookupError):
            pass


def _threads(pid):
    """The name and the state of each."""
    for stat in _of_threads(pid, "stat"):
        name, _, rest = stat.partition("(")[2].rpartition(")")
        yield name, rest.split()[0]


def is_held_up(pid):
    """Does a worker of this sluice wait for a disk, or for a tracer, at this moment?"""
    return any(state in "Dt" for name, state in _threads(pid) if name.startswith("worker-"))


def find_library(name):
    """The path of a library that is preloaded, or None."""
    found = glob.glob(f"/usr/lib/*/{name}") + glob.glob(f"/usr/lib*/{name}")
    return found[0] if found else None


def temporary_files(process):
    """Files that a process has open and no folder lists."""
    folder = f"/proc/{process.pid}/fd"
    found = 0
    for fd in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{fd}")
        except OSError:
            continue
        found += target.endswith("(deleted)")
    return found


def resident_bytes(pid):
    return _status_kib(pid, "VmRSS") * 1024


def peak_resident_bytes(pid):
    """The most it ever held, so that nothing between two looks is missed."""
    return _status_kib(pid, "VmHWM") * 1024


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kept_waiting_seconds(pid):
    """How long in all its threads could run and got no processor; 0 where the kernel does not count it."""
    return sum(int(counts.split()[1]) for counts in _of_threads(pid, "schedstat")) / 1e9


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Port:
    """A free TCP port, held so that no other test is given it.

    A bound socket that does not listen gets no connections, and with SO_REUSEPORT lets sluice's
    own listeners in beside it; the kernel hands its port to nobody who asks for any port. `host`: of which address;
    "0.0.0.0" for a program that looks whether the port is free at every one.
    """

    def __init__(self, family=socket.AF_INET, host=None, number=0):
        self.family, self.number = family, number
        self.host = host or ("::1" if family == socket.AF_INET6 else "127.0.0.1")
        self.socket = self.bind_another()
        self.number = self.socket.getsockname()[1]

    def bind_another(self):
        """A socket at this port, for a listener of the test's own."""
        made = socket.socket(self.family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # lets sluice look whether anybody listens
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind((self.host, self.number))
        return made

    def release(self):
        self.socket.close()


SHORTEST_PAUSE, LONGEST_PAUSE = 0.002, 0.03


def until(claim, what, pause=None, seconds=DEADLINE_SECONDS):
    """Waits for what only the kernel knows (a listener, a file, /proc): looks again and again, each `pause` or, without
    one, ever less often, since looking takes the processors from what it waits for."""
    end = time.monotonic() + seconds
    next_pause = SHORTEST_PAUSE if pause is None else pause
    while True:
        result = claim()
        if result:
            return result
        if time.monotonic() > end:
            raise Hung(f"never came: {what}")
        time.sleep(next_pause)
        if pause is None:
            next_pause = min(1.25 * next_pause, LONGEST_PAUSE)


def pid_in(path):
    """The process that a pid file names; 0 while there is none: in an upgrade the old file is put aside before the
    new process writes its own."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read()
    except FileNotFoundError:
        return 0
    return int(text) if text.endswith("\n") else 0


class Lateness:
    """How late this machine lets a thread wake, at the worst: what a test that looks at times must
    forgive, as the other side's clock readings are late by as much."""

    def __enter__(self):
        self.worst = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self):
        last = time.monotonic()
        while not self._ended.wait(0.001):
            now = time.monotonic()
            self.worst = max(self.worst, now - last - 0.001)
            last = now

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
