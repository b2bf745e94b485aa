"""The promise: 100 per 3 s (SLUICE_CHECK=long: per 10 s) for one caller, hammered from 64 connections for 2.5 windows. In
no window do more than 100 reach the origin, and what may reach it does.

What is claimed of arrival times. sluice admits a request at an instant between the client's sending
it and the origin's reading it; the way behind the verdict takes a while, so arrivals can stand
closer together than verdicts did, by as much as one way was slower than another. Rather than to
allow for that with some tolerance, each request carries its own: were 101 requests both sent and
read within one window, their verdicts were too, and the promise is broken for certain. So that is what is
looked for, over all windows; nothing slow can make it seem so. What arrival times alone show is
printed beside it.
"""
import bisect
import selectors
import time

from lib import wire
from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS
from lib.sluice import to
from lib.spans import most_within
from lib.tap import IS_LONG, alone, equal, main, test, true

LIMIT, CONNECTIONS = 100, 64
WINDOW, SECONDS = (10.0, 25.0) if IS_LONG else (3.0, 7.5)


class Hammer:
    """One connection that asks, reads the answer, and asks again."""

    def __init__(self, address, sent, answers):
        self.socket = wire.dial(address)
        self.sent = sent
        self.answers = answers
        self.buffer = b""

    def ask(self):
        number = len(self.sent)
        data = request_bytes("/", fields=[("X-Number", str(number)), ("X-Api-Key", "one caller")])
        self.sent.append(time.monotonic())
        self.socket.sendall(data)

    def take(self):
        """Reads; True when the answer is whole."""
        data = self.socket.recv(65536)
        if not data:
            raise AssertionError("sluice closed a connection")
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = wire.parse_head(self.buffer[:end + 4])
        size = end + 4 + int(head.get("Content-Length"))
        if len(self.buffer) < size:
            return False
        equal(len(self.buffer), size, "bytes of an answer")
        self.buffer = b""
        self.answers[head.status] = self.answers.get(head.status, 0) + 1
        return True


alone("its clients take all of the processors")


def hammer(address, seconds):
    """Times of sending by number, and the answers counted by status."""
    sent, answers = [], {}
    with selectors.DefaultSelector() as selector:
        for _ in range(CONNECTIONS):
            one = Hammer(address, sent, answers)
            selector.register(one.socket, selectors.EVENT_READ, one)
        hammers = [key.data for key in selector.get_map().values()]
        begin = time.monotonic()
        for one in hammers:
            one.ask()
        waiting = len(hammers)
        while waiting:
            ready = selector.select(DEADLINE_SECONDS)
            true(ready, "no answer within the deadline")
            for key, _ in ready:
                if key.data.take():
                    if time.monotonic() - begin < seconds:
                        key.data.ask()
                    else:
                        waiting -= 1
        for one in hammers:
            one.socket.close()
    return sent, answers


def most_arrivals(times, window):
    times = sorted(times)
    return max(bisect.bisect_left(times, at + window) - n for n, at in enumerate(times))


@test(f"{LIMIT} per {WINDOW:.0f} s, hammered for {SECONDS:g} s from {CONNECTIONS} connections", workers=[4])
def promise(t):
    origin = t.origin(lambda x: x.reply(200, b"x"))
    sluice = t.sluice(f"[limit burst]\nkey = header:X-Api-Key | ip\nrate = {LIMIT} per {WINDOW:.0f}s\n"
                      + to(origin, route="limits = burst"), listener="max_connections = 0")
    sent, answers = hammer(sluice.address, SECONDS)
    spans = [(sent[int(x.request.get("X-Number"))], x.arrived) for x in origin.requests]
    arrivals = [x.arrived for x in origin.requests]
    slowest = max(end - begin for begin, end in spans)
    t.note(f"{len(sent)} requests, answers {answers}, {len(arrivals)} arrived; the slowest took "
           f"{slowest * 1000:.1f} ms to the origin")
    t.note(f"arrivals in the fullest {WINDOW:.0f} s: {most_arrivals(arrivals, WINDOW)}; less the slowest "
           f"way: {most_arrivals(arrivals, WINDOW - slowest)}")
    equal(set(answers), {200, 429}, "kinds of answers")
    equal(answers[200], len(arrivals), "admitted answers and arrivals")
    most = most_within(spans, WINDOW)
    true(most <= LIMIT, f"{most} were sent and had arrived within {WINDOW:.0f} s")
    true(len(arrivals) >= 290, f"only {len(arrivals)} arrived in {SECONDS:.0f} s")


main()
