"""The work that is measured: one function a scenario, which takes one round of one subject (or of all) and returns figures.

A figure is a dict of numbers: `cpu_us` (processor time a request), `rate` (requests a second), `errors` (part of the answers
that were not as they should be) and what else the scenario is about.
"""
import contextlib
import dataclasses
import time
from typing import Callable

from . import load, machine
from .subjects import Setup, Subject

CALLERS = 100_000
POST_CALLERS = 1024
POST_BYTES = 16384
PIPELINE_DEPTH = 16
BUSY = 32
MIDDLE = 256
MANY = 1000
IDLE = 10_000
LATENCY_CONNECTIONS = 64
LATENCY_LOAD = 0.7  # of saturation
LATENCY_SLICES = 3


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One kind of work. `round_of` measures all subjects once: {name: figure}."""

    name: str
    title: str
    round_of: Callable
    setup: Setup = Setup()
    prepare: Callable = lambda bench, subject: None
    starts_subjects: bool = True  # else the scenario starts its own
    rounds: int = 0  # 0: as many as asked for
    slices: int = 1  # so many times the rounds, each so much shorter: where the noise is that of the machine's moods
    without: tuple = ()  # subjects that can't do it
    needs: tuple = ("wrk",)  # programs
    note: Callable = lambda: ""  # what can't be as the title says, on this machine


def each(measure):
    """A round in which the subjects take their turns."""
    return lambda bench, subjects: {name: measure(bench, subject) for name, subject in subjects.items()}


def one_caller(bench, subject):
    return load.wrk_window(bench, subject, bench.seconds, connections=BUSY)


def refused(bench, subject):
    return load.wrk_whole(bench, subject, bench.seconds, expect_refused=True, connections=BUSY)


def use_up_limit(bench, subject):
    load.generate(bench, subject.port, "--count", 2000)


def many_callers(bench, subject):
    return load.wrk_window(bench, subject, bench.seconds, connections=BUSY, script="callers.lua", callers=CALLERS)


def meet_callers(bench, subject):
    """Each caller once, so that a round measures finding callers, not making them."""
    load.generate(bench, subject.port, "--count", CALLERS, "--callers", CALLERS, "--sequential")


def large_answers(bench, subject):
    return load.wrk_window(bench, subject, bench.seconds, connections=BUSY, path="/64k")


def posts(bench, subject):
    return load.wrk_window(bench, subject, bench.seconds, connections=BUSY, script="post.lua", callers=POST_CALLERS,
                           body=POST_BYTES)


def connection_each(bench, subject):
    return load.wrk_window(bench, subject, bench.seconds, connections=BUSY, fields=["Connection: close"])


def pipelined(bench, subject):
    return load.wrk_window(bench, subject, bench.seconds, connections=BUSY, script="pipeline.lua", depth=PIPELINE_DEPTH)


def idle_count():
    """As many as fit in the limit of descriptors of every subject: the relay has a connection to the origin for each of its
    clients, and sluice keeps half of the descriptors for servers and a tenth for files."""
    return min(IDLE, (machine.raise_file_limit() - 4000) // 2)


def fewer_idle():
    """Why there are fewer than the title says; nothing where there are not."""
    if idle_count() == IDLE:
        return ""
    return f"{idle_count():,} idle connections instead of {IDLE:,}: the limit is {machine.raise_file_limit():,} descriptors"


def connections(bench, subject):
    """32, 256, 1,000, and 32 beside 10,000 idle ones, in one round: what is asked for is the ratio."""
    few = load.wrk_window(bench, subject, bench.seconds, connections=BUSY)
    middle = load.wrk_window(bench, subject, bench.seconds, connections=MIDDLE, lead=1.0)
    many = load.wrk_window(bench, subject, bench.seconds, connections=MANY, lead=1.0)
    with load.idle_connections(bench, subject.port, idle_count()):
        idle = load.wrk_window(bench, subject, bench.seconds, connections=BUSY)
    time.sleep(0.5)  # for the idle ones to be closed on the subject's side too
    return {
        "cpu_us": few["cpu_us"], "cpu_us_middle": middle["cpu_us"], "cpu_us_many": many["cpu_us"],
        "cpu_us_idle": idle["cpu_us"], "growth_middle": middle["cpu_us"] / few["cpu_us"],
        "growth_many": many["cpu_us"] / few["cpu_us"], "growth_idle": idle["cpu_us"] / few["cpu_us"],
        "idle_connections": idle_count(), "errors": max(f["errors"] for f in (few, middle, many, idle)),
    }


def _open_loop(bench, subject, rate):
    warmup = 0.25
    return load.generate(bench, subject.port, "--mode", "open", "--rate", round(rate), "--warmup", warmup, "--seconds",
                         bench.seconds / LATENCY_SLICES + warmup, "--connections", LATENCY_CONNECTIONS, "--buckets")


def _saturate(bench, subject):
    return load.generate(bench, subject.port, "--seconds", bench.seconds / LATENCY_SLICES / 2, "--connections",
                         LATENCY_CONNECTIONS)["rate"]


def latency(bench, subjects):
    """Saturation of each and an open loop at 70 % of it, then one of each at 70 % of the slowest subject's.

    Load and origin share a processor, and who is faster is asked for more: what that alone makes of the latency, the
    relay shows at the same rate.
    """
    saturated, own, floor = {}, {}, {}
    for name, subject in subjects.items():
        saturated[name] = _saturate(bench, subject)
        own[name] = _open_loop(bench, subject, LATENCY_LOAD * saturated[name])
        if "relay" in subjects and name != "relay":
            floor[name] = _open_loop(bench, subjects["relay"], LATENCY_LOAD * saturated[name])
    slowest = LATENCY_LOAD * min(saturated.values())
    same = {name: _open_loop(bench, subject, slowest) for name, subject in subjects.items()}
    return {name: {
        "saturation": saturated[name], "rate": own[name]["rate"], "p50_us": own[name]["p50_us"],
        "p99_us": own[name]["p99_us"], "p999_us": own[name]["p999_us"], "latencies": own[name]["latencies"],
        "same_rate": slowest, "p50_us_same": same[name]["p50_us"], "p99_us_same": same[name]["p99_us"],
        "latencies_same": same[name]["latencies"],
        **({"p99_us_relay": floor[name]["p99_us"], "latencies_relay": floor[name]["latencies"]} if name in floor else {}),
        "errors": (own[name]["broken"] + own[name]["status_other"]) / max(own[name]["requests"], 1),
    } for name in subjects}


def _all_on(bench, name, cpus):
    """As many workers, origins and threads of wrk as processors, all of them sharing those processors."""
    count = len(cpus)
    port = machine.free_port()
    with contextlib.ExitStack() as stack:
        for cpu in cpus:
            stack.enter_context(load.Origin(bench, {cpu}, port))
        subject = stack.enter_context(Subject(name, bench, Setup(workers=count), port, set(cpus)))
        if not subject.serves:
            return None
        load.generate(bench, subject.port, "--count", 2000)
        return load.wrk_whole(bench, subject, bench.seconds, expect_refused=False, connections=BUSY * count,
                              cpus=set(cpus), threads=count)


def workers(bench, subjects):
    """One worker with origin and load on one processor, then two of each on two processors."""
    figures = {}
    for name in subjects:
        one = _all_on(bench, name, [bench.subject_cpu])
        two = _all_on(bench, name, [bench.subject_cpu, bench.load_cpu])
        if one and two:
            figures[name] = {
                "rate_one": one["rate"], "rate_two": two["rate"], "scaling": two["rate"] / one["rate"],
                "cpu_us_one": one["cpu_us"], "cpu_us_two": two["cpu_us"], "cpu_growth": two["cpu_us"] / one["cpu_us"],
                "errors": max(one["errors"], two["errors"]),
            }
    return figures


def memory(bench, subjects):
    """Resident bytes: idle, for each idle connection, for each caller. Each figure from a fresh start."""
    figures = {}
    for name in subjects:
        with Subject(name, bench, Setup(), bench.origin.port, {bench.subject_cpu}) as subject:
            if not subject.serves:
                continue
            time.sleep(0.3)
            idle = subject.resident()
            load.generate(bench, subject.port, "--count", 20000)
            warm = subject.resident()
            meet_callers(bench, subject)
            known = subject.resident()
            count = idle_count()
            with load.idle_connections(bench, subject.port, count):
                time.sleep(0.3)
                held = subject.resident()
        figures[name] = {"idle_bytes": idle, "warm_bytes": warm, "caller_bytes": (known - warm) / CALLERS,
                         "connection_bytes": (held - known) / count, "errors": 0.0}
    return figures


ALL = [
    Scenario("1k", "1 KiB answers, 32 connections, one caller", each(one_caller)),
    Scenario("refused", "refused requests", each(refused), Setup(refuse=True), use_up_limit, without=("relay",)),
    Scenario("callers", "100,000 callers at random", each(many_callers), prepare=meet_callers),
    Scenario("64k", "64 KiB answers", each(large_answers)),
    Scenario("post", "16 KiB POST bodies", each(posts)),
    Scenario("connections", "256 and 1,000 connections; 10,000 idle beside 32 busy", each(connections), note=fewer_idle),
    Scenario("close", "a connection for each request", each(connection_each)),
    Scenario("pipeline", "pipelined requests, 16 deep", each(pipelined), Setup(pipeline=2)),
    Scenario("latency", "p99 at 70 % of saturation, open loop", latency, slices=LATENCY_SLICES, needs=()),
    Scenario("workers", "two workers on two processors", workers, starts_subjects=False, without=("relay",)),
    Scenario("memory", "resident memory", memory, starts_subjects=False, rounds=1, needs=(), note=fewer_idle),
]
