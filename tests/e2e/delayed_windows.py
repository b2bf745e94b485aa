"""on_exceed = delay: whatever a request waits for after its verdict - its session, a place at its upstream, a
connection -, no window at the origin gets more than the limit, and each request is served or told when
to come back. Schedules are random; SEED=n in the environment runs one again.

Times are those at which the system had a request for the origin, however late that reads it. A verdict may be older
than that, more so on a busy machine: a window counts a quarter shorter than it is, or less by twice as much as this
test's threads were late. What was admitted in one window and left in the next would still show."""
import os
import random
import threading
import time

from lib.gateway import Backend
from lib.process import Lateness
from lib.sluice import to
from lib.spans import most_within
from lib.tap import equal, main, test, true
from lib.websocket import open_socket

QUOTA, WINDOW = 12, 3
KEY = [("X-Api-Key", "caller")]


class Schedule:
    """What many clients of one caller do at once."""

    def __init__(self, t):
        seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
        t.note(f"SEED={seed}")
        self.t, self.random = t, random.Random(seed)
        self.lock, self.arrived, self.statuses = threading.Lock(), [], []
        self.busy = self.random.choice([0, 0, 0.01, 0.05])

    def sections(self, origin, delay, route=""):
        draw = self.random.choice
        places = draw([0, 1, 2, 5])
        self.t.note(f"busy for {self.busy} s, max_in_flight = {places}")
        return (f"[limit l]\nkey = header:X-Api-Key\nrate = {QUOTA} per {WINDOW}s\non_exceed = delay {delay}\n"
                + to(origin, upstream=f"max_in_flight = {places}",
                     route=f"limits = l\nqueue_timeout = 60s\nordering = {draw(['strict', 'writes', 'none'])}\n"
                           f"session = {draw(['header:X-Api-Key', 'header:X-Session', 'ip'])}\n{route}"))

    def note_arrival(self, x):
        with self.lock:
            self.arrived.append(x.arrived)

    def serve(self, x):
        self.note_arrival(x)
        time.sleep(self.busy)
        x.reply(200, b"x")

    def ask(self, sluice, after, method, session):
        time.sleep(after)
        body = b"" if method == "POST" else None
        status = self.t.client(sluice).ask("/", method, [*KEY, ("X-Session", session)], body).status
        with self.lock:
            self.statuses.append(status)

    def requests(self, sluice, count):
        draw = self.random
        return [threading.Thread(target=self.ask, args=(
            sluice, draw.choice([0, 0, draw.uniform(0, WINDOW)]), draw.choice(["GET", "POST"]),
            draw.choice("abc"))) for _ in range(count)]

    def run(self, threads):
        with Lateness() as lateness:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.window = WINDOW - max(WINDOW / 4, 2 * lateness.worst)

    def judge(self):
        most = most_within([(at, at) for at in self.arrived], self.window)
        self.t.note(f"{len(self.arrived)} arrived, at most {most} within {self.window:.2f} s")
        true(most <= QUOTA, f"{most} arrived within {self.window:.2f} s, of {QUOTA} in {WINDOW} s")


@test("requests that wait behind delayed ones, for places and for slow servers", workers=[1, 4])
def requests(t):
    schedule = Schedule(t)
    sluice = t.sluice(schedule.sections(t.origin(schedule.serve), "60s"))
    schedule.run(schedule.requests(sluice, 42))
    equal(set(schedule.statuses), {200}, "answers")
    equal(len(schedule.arrived), 42, "arrived")
    schedule.judge()


@test("those whose delay is over are told when to come back", workers=[1, 4])
def refused(t):
    schedule = Schedule(t)
    sluice = t.sluice(schedule.sections(t.origin(schedule.serve), "4s"))
    schedule.run(schedule.requests(sluice, 60))
    equal(set(schedule.statuses), {200, 429}, "answers")
    equal(len(schedule.statuses), 60, "answered")
    equal(len(schedule.arrived), schedule.statuses.count(200), "arrived and served")
    schedule.judge()


@test("requests and messages of one session", workers=[1, 4])
def messages(t):
    schedule, echoed = Schedule(t), []

    def on_event(call, kind, content):
        if kind == "TEXT":
            schedule.note_arrival(call.x)
            call.send(content.decode())
    gateway = Backend(on_event=on_event)

    def handler(x):
        if x.request.get("Connection-Id"):
            gateway(x)
        else:
            schedule.serve(x)

    def talk(socket, count):
        for n in range(count):
            socket.send(str(n))
        echoed.extend(socket.message() for _ in range(count))

    charged = "websocket = gateway\nmessage_limits = l\n"
    sluice = t.sluice(schedule.sections(t.origin(handler), "60s", charged)
                      + "[route open]\nupstream = origin\npath = /open\nsession = header:X-Api-Key\n" + charged)
    sockets = [open_socket(t, sluice, "/open", KEY) for _ in range(3)]
    schedule.run(schedule.requests(sluice, 24)
                 + [threading.Thread(target=talk, args=(socket, 6)) for socket in sockets])
    equal(set(schedule.statuses), {200}, "answers")
    equal(len(echoed), 18, "echoed")
    equal(len(schedule.arrived), 42, "arrived")
    schedule.judge()


main()
