#!/usr/bin/env python3
"""Tries the bench's own programs on each other: a figure is worth no more than the tools that made it.

Prints TAP. Needs nothing but the programs that `make check` has just built.
"""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from benchlib import latency  # noqa: E402

BIN = os.path.join(os.environ.get("top_builddir", "."), "tests", "bench")
DEADLINE_SECONDS = 60  # only a hang gets there


def held_port():
    """A free port, which is nobody else's as long as this socket is open: those that listen there share it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def until(claim, what):
    end = time.monotonic() + DEADLINE_SECONDS
    while not claim():
        if time.monotonic() > end:
            raise RuntimeError(f"it never came: {what}")
        time.sleep(0.002)


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS).close()
    except OSError:
        return False
    return True


def start(name, *arguments):
    return subprocess.Popen([os.path.join(BIN, name), *map(str, arguments)], stdout=subprocess.DEVNULL)


def load(port, *arguments):
    command = [os.path.join(BIN, "load"), *map(str, arguments), str(port)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def exchange(port, request, until):
    """Sends bytes, reads until the given number of bytes came or the peer closed."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS) as connection:
        connection.sendall(request)
        while len(answer) < until:
            piece = connection.recv(1 << 20)
            if not piece:
                break
            answer += piece
    return answer


def counted(path):
    """Answers; one may arrive a moment before it is counted, but is counted before its connection ends."""
    with open(path, "rb") as counter:
        return struct.unpack("=Q", counter.read(8))[0]


def checks(port, counter):
    get = b"GET /1k HTTP/1.1\r\nHost: a\r\n\r\n"
    closing = get[:-2] + b"Connection: close\r\n\r\n"
    size = len(exchange(port, closing, 1 << 20)) - len(b"Connection: close\r\n")
    before = counted(counter)

    answer = exchange(port, get * 200, 200 * size)
    yield "200 pipelined requests, 200 answers", answer.count(b"HTTP/1.1 200 OK") == 200
    until(lambda: counted(counter) - before >= 200, "the count of all")
    yield "each of them counted", counted(counter) - before == 200

    large = exchange(port, b"GET /64k HTTP/1.1\r\nHost: a\r\n\r\n" * 40, 40 * (65536 + 100))
    yield "40 pipelined answers of 64 KiB are whole", large.count(b"x") == 40 * 65536 + 40

    post = b"POST /1k HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + b"b" * 300000
    answer = exchange(port, post + get, 2 * size)
    yield "a body is discarded, the request after it answered", answer.count(b"200 OK") == 2

    answer = exchange(port, closing + get, 2 * size)
    yield "Connection: close ends it after one answer", answer.count(b"200 OK") == 1

    result = load(port, "--count", 5000, "--connections", 20, "--callers", 1000)
    yield "5,000 requests, no more", result["status_2xx"] == 5000 == result["requests"]

    result = load(port, "--count", 300, "--body-bytes", 16384, "--header-bytes", 8000)
    yield "POST with a large head", result["status_2xx"] == 300 and result["broken"] == 0

    result = load(port, "--mode", "open", "--rate", 2000, "--seconds", 0.5)
    yield "an open loop of 2,000/s for 0.5 s", result["requests"] == 1000
    yield "its percentiles rise", 0 < result["p50_us"] <= result["p99_us"] <= result["max_us"]
    yield "no histogram unless asked for", "latencies" not in result

    result = load(port, "--mode", "open", "--rate", 2000, "--seconds", 0.5, "--buckets")
    yield "all latencies are in the histogram", sum(count for _, count in result["latencies"]) == 1000
    yield "its p99 is that of the histogram", abs(latency.pooled_us([result["latencies"]], 99) - result["p99_us"]) <= 0.1 \
        or result["p99_us"] == result["max_us"]


def stalled(port, process, counter):
    """The result of an open loop of 1,000 requests in a second, and how many were answered before a stall of 300 ms."""
    command = [os.path.join(BIN, "load"), "--mode", "open", "--rate", "1000", "--seconds", "1", str(port)]
    before = counted(counter)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        until(lambda: counted(counter) > before, "the first answer")
        process.send_signal(signal.SIGSTOP)
        answered = counted(counter) - before
        time.sleep(0.3)
        process.send_signal(signal.SIGCONT)
        return json.loads(running.communicate()[0]), answered


def stalls(port, process, counter):
    """An open loop must charge a stall of 300 ms to all that was due in it, not to one request."""
    result, answered = stalled(port, process, counter)
    while answered > 600:  # this machine stood still before it
        result, answered = stalled(port, process, counter)
    yield "all 1,000 due were sent and answered", result["requests"] == 1000
    yield "a stall shows in p90 as well as in the maximum", result["p90_us"] > 100_000


def idles(port):
    command = [os.path.join(BIN, "load"), "--mode", "idle", "--connections", "200", str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        ready = running.stdout.readline()
        running.stdin.close()
        running.wait()
    yield "200 idle connections", ready == b"ready 200\n"


def run_all(counter):
    """Every check against the origin itself, then through the relay."""
    holders = held_port(), held_port()
    origin_port, relay_port = (holder.getsockname()[1] for holder in holders)
    origin = start("origin", origin_port, counter)
    relay = start("relay", relay_port, origin_port)
    try:
        until(lambda: listens(origin_port) and listens(relay_port), "both listen")
        for way, port in (("origin", origin_port), ("relay", relay_port)):
            for what, passed in [*checks(port, counter), *idles(port)]:
                yield f"{way}: {what}", passed
        for what, passed in stalls(relay_port, relay, counter):
            yield f"stalled relay: {what}", passed
    finally:
        for process in (relay, origin):
            process.kill()
            process.wait()
        for holder in holders:
            holder.close()


def main():
    failed = number = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (what, passed) in enumerate(run_all(os.path.join(folder, "count")), 1):
            failed += not passed
            print(f"{'ok' if passed else 'not ok'} {number} - {what}", flush=True)
    print(f"1..{number}")
    return 1 if failed else 0


sys.exit(main())
