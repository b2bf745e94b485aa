"""The load: the origin, wrk, the bench's own generator, and the way a figure is taken.

A figure is the subject's processor time in a window in the middle of the load, over the requests that the origin answered
in that window: the opening and closing of connections is outside. Refused requests don't reach the origin; for them the
whole run counts, by wrk's own number of requests.
"""
import contextlib
import json
import math
import mmap
import os
import re
import select
import struct
import subprocess
import tempfile
import time

from . import machine, subjects

LEAD_SECONDS = 0.4  # of load before the window
TRAIL_SECONDS = 0.2
IDLE_SECONDS = 60  # for all idle connections to have had their answers


class Origin:
    """The server behind the subjects, and its count of answers."""

    def __init__(self, bench, cpus, port=None):
        self.port = port or machine.free_port()
        with tempfile.NamedTemporaryFile(dir=bench.scratch, prefix="answered-") as counter:
            counter.truncate(8)
            self.counter = mmap.mmap(counter.fileno(), 8, prot=mmap.PROT_READ)
            places = [f"{host}:{self.port}" for host in subjects.ORIGIN_HOSTS.values()]
            self.process = machine.start([bench.tool("origin"), *places, counter.name], cpus, stdout=subprocess.PIPE)
            if self.process.stdout.readline() != b"listening\n":
                raise SystemExit("bench: the origin does not start")

    def answered(self):
        return struct.unpack("=Q", self.counter[:8])[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        machine.stop(self.process)
        self.process.stdout.close()


class Wrk:
    """A run of wrk. One caller and GET, unless a script of tests/bench/wrk says otherwise."""

    def __init__(self, bench, port, seconds, connections=32, path="/1k", script=None, fields=(), cpus=None, threads=1,
                 **settings):
        command = ["wrk", "-t", str(threads), "-c", str(connections), "-d", f"{round(seconds)}s", "--timeout", "10s"]
        if script:
            command += ["-s", os.path.join(bench.source, "wrk", script)]
        else:
            command += ["-H", "X-Api-Key: caller-0000000"]
        for field in fields:
            command += ["-H", field]
        environment = {**os.environ, **{f"BENCH_{name.upper()}": str(value) for name, value in settings.items()}}
        self.process = machine.start([*command, f"http://127.0.0.1:{port}{path}"], cpus or {bench.load_cpu},
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)

    def result(self):
        text = self.process.communicate()[0]
        requests = re.search(r"(\d+) requests in ([\d.]+)(\w+)", text)
        if self.process.returncode != 0 or requests is None:
            raise RuntimeError(f"wrk: {text.strip()}")
        refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
        broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
        return {
            "requests": int(requests[1]),
            "rate": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
            "not_2xx": int(refused[1]) if refused else 0,
            "broken": sum(map(int, broken.groups())) if broken else 0,
        }


def generate(bench, port, *arguments):
    """A run of the bench's own generator, to its end. Returns what it prints."""
    command = [bench.tool("load"), *map(str, arguments), str(port)]
    with machine.start(command, {bench.load_cpu}, stdout=subprocess.PIPE) as running:
        output = running.communicate()[0]
    if running.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed")
    return json.loads(output)


@contextlib.contextmanager
def idle_connections(bench, port, count):
    """Holds keep-alive connections that have each had one answer and say nothing more."""
    command = [bench.tool("load"), "--mode", "idle", "--connections", str(count), str(port)]
    with machine.start(command, {bench.load_cpu}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        came, _, _ = select.select([holder.stdout], [], [], IDLE_SECONDS)
        ready = holder.stdout.readline() if came else b""
        if ready.split() != [b"ready", str(count).encode()]:
            holder.kill()
            raise RuntimeError(f"{count} idle connections: got {ready!r}")
        yield
        holder.stdin.close()
        holder.stdout.read()


def window(subject, origin, seconds):
    """Processor time and answers over `seconds` from now."""
    began, cpu, answered = time.monotonic(), subject.cpu_ns(), origin.answered()
    time.sleep(seconds)
    cpu, answered = subject.cpu_ns() - cpu, origin.answered() - answered
    took = time.monotonic() - began
    return {"cpu_us": cpu / 1000 / max(answered, 1), "rate": answered / took, "busy": cpu / 1e9 / took}


def await_answers(origin, before, run):
    """Until the load has begun: a script of wrk prepares its requests first."""
    while origin.answered() == before and run.process.poll() is None:
        time.sleep(0.01)


def wrk_window(bench, subject, seconds, lead=LEAD_SECONDS, **how):
    """A figure from the middle of a run of wrk."""
    before = bench.origin.answered()
    run = Wrk(bench, subject.port, math.ceil(seconds + lead + TRAIL_SECONDS), **how)
    await_answers(bench.origin, before, run)
    time.sleep(lead)
    figure = window(subject, bench.origin, seconds)
    done = run.result()
    return {**figure, "errors": (done["not_2xx"] + done["broken"]) / max(done["requests"], 1)}


def wrk_whole(bench, subject, seconds, expect_refused, **how):
    """A figure from a whole run of wrk."""
    before = subject.cpu_ns()
    done = Wrk(bench, subject.port, seconds, **how).result()
    cpu = subject.cpu_ns() - before
    requests = max(done["requests"], 1)
    served_wrong = requests - done["not_2xx"] if expect_refused else done["not_2xx"]
    return {"cpu_us": cpu / 1000 / requests, "rate": done["rate"], "errors": (served_wrong + done["broken"]) / requests}
