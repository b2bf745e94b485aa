#!/usr/bin/env python3
"""GET /api/v1/events: what happens, once a second, to a bounded number of listeners."""
import contextlib
import socket

from lib.admin import with_admin
from lib.process import Lateness, kept_waiting_seconds, resident_bytes, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true

LIMIT = "[limit burst]\nkey = header:X-Key\nrate = 2 per 1h\n"
LISTENERS = 16


def sums(seconds, rows, name, member):
    """What the events count for the row of that name."""
    found = [row[member] for second in seconds for row in second[rows] if row[name[0]] == name[1]]
    return sum(found)


def verdicts(seconds, route):
    counts = {}
    for second in seconds:
        for row in second["routes"]:
            if row["route"] == route:
                for verdict, count in row["verdicts"].items():
                    counts[verdict] = counts.get(verdict, 0) + count
    return counts


def follow(events, done):
    """Events until what came is as it should be."""
    seconds = []
    while not done(seconds):
        second = events.next()
        true(second is not None, "the stream ended")
        seconds.append(second)
    return seconds


def id_of(block):
    """Of an event, in a small part of the time that it takes to look at all of it."""
    found, = (int(line.removeprefix("id: ")) for line in block if line.startswith("id: "))
    return found


class Late(Lateness):
    """Whether the test or the sluice was kept from running, so that even a quick listener may have missed an event."""

    def __init__(self, sluice):
        self.pid = sluice.pid

    def __enter__(self):
        self.waited = kept_waiting_seconds(self.pid)
        return super().__enter__()

    def judge_ids(self, ids):
        late = max(self.worst, kept_waiting_seconds(self.pid) - self.waited)
        true(ids == list(range(ids[0], ids[0] + len(ids))) or late > 0.5 and ids == sorted(set(ids)),
             f"ids {ids}, up to {late:.2f} s late")


def join(stack, admin):
    """A stream, as soon as there is a place."""
    found = []

    def joined():
        found.append(stack.enter_context(admin.events()))
        return found[-1].status == 200
    until(joined, "a place is free", pause=0.1)
    return found[-1]


@group("each second says what happened in it")
def counts(t):
    origin = t.origin(lambda x: x.reply(200, b"hello"))
    sluice, admin = with_admin(t, LIMIT + to(origin, route="limits = burst"))
    client = t.client(sluice)
    client.ask("/before", fields=[("X-Key", "a")])

    with admin.events() as events, Late(sluice) as late:
        with t.point("the response is a stream that nobody keeps"):
            equal((events.status, events.fields["content-type"], events.fields["cache-control"]),
                  (200, "text/event-stream", "no-store"))
        with t.point("it begins with what was before, which does not count"):
            first = events.next()
            equal((first["routes"], first["limits"]), ([], []))
            true(500 <= first["span_ms"], f"span {first['span_ms']}")
        with t.point("requests by route and verdict, limits' refusals, upstreams"):
            for key in ("a", "a", "b", "b", "b"):
                client.ask("/", fields=[("X-Key", key)])
            seconds = follow(events, lambda seconds: sum(verdicts(seconds, "origin").values()) == 5)
            equal({name: n for name, n in verdicts(seconds, "origin").items() if n}, {"admit": 3, "refuse": 2})
            equal(sums(seconds, "limits", ("limit", "burst"), "refused"), 2, "refused")
            equal(sums(seconds, "upstreams", ("upstream", "origin"), "responses"), 3, "responses")
        with t.point("a second in which nothing happens names no route"):
            follow(events, lambda seconds: seconds and not seconds[-1]["routes"])
        with t.point("ids rise by one for a listener that keeps up"):
            late.judge_ids(events.ids)

    with t.point("a reload does not end it, and is counted"):
        with admin.events() as events:
            before = events.next()["reloads"]
            sluice.reload(sluice.sections + "[limit other]\nkey = ip\nrate = 1 per 1s\n")
            follow(events, lambda seconds: seconds and seconds[-1]["reloads"] > before)


@group("queues and servers as they are now", workers=[2])
def now(t):
    release = t.event()
    origin = t.origin(lambda x: (release.wait(60), x.reply(200)))
    _sluice, admin = with_admin(t, to(origin, upstream="max_in_flight = 1"))
    clients = [t.client(_sluice) for _ in range(3)]
    with admin.events() as events:
        with t.point("what waits and what is in flight"):
            for client in clients:
                client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            second = follow(events, lambda seconds: seconds and seconds[-1]["upstreams"][0]["queued"] == 2)[-1]
            upstream = second["upstreams"][0]
            equal((upstream["in_flight"], upstream["max_in_flight"]), (1, 1), "in flight")
            equal(upstream["servers"][0]["in_flight"], 1, "at the server")
        with t.point("how long requests waited"):
            release.set()
            for client in clients:
                equal(client.response().status, 200)
            seconds = follow(events, lambda seconds: sum(
                row["queue_wait"]["count"] for s in seconds for row in s["routes"]) == 3)
            rows = [row for second in seconds for row in second["routes"]]
            true(any(row["queue_wait"]["mean_ms"] > 0 for row in rows), "mean waits")
        with t.point("a server's mode and health"):
            admin.ask(f"/api/v1/upstreams/origin/servers/{origin}/drain", "POST")
            follow(events, lambda seconds: seconds and
                   seconds[-1]["upstreams"][0]["servers"][0]["mode"] == "draining")


@group("listeners are bounded, and slow ones cost nothing", workers=[2])
def bounds(t):
    """Takes half a minute: buffers are to be full of events that come once a second."""
    sluice, admin = with_admin(t, LIMIT + to(t.origin(lambda x: x.reply(200)), route="limits = burst"))
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(admin.events()) for _ in range(LISTENERS)]
        with t.point("one more than there may be gets 503, and others are served as before"):
            equal([stream.status for stream in streams], [200] * LISTENERS)
            equal(admin.ask("/api/v1/events")[0], 503)
            true(all(stream.next() for stream in streams), "events")
            equal(admin.ask("/api/v1/status")[0], 200)
        with t.point("the place of one that leaves is free"):
            streams.pop().sock.shutdown(socket.SHUT_RDWR)
            until(lambda: admin.ask("/api/v1/events", "HEAD")[0] == 200, "a place is free")

    with t.point("one that reads nothing misses events, and the others none"):
        # So many servers that the socket's buffers are full after a few seconds.
        servers = "".join(f"server = 127.0.0.1:{port}\n" for port in range(1, 65))
        more = "".join(f"[upstream u{i}]\n{servers}" for i in range(200))
        sluice.reload(sluice.sections + more)
        sluice.process.wait_output(": reloaded")
        with contextlib.ExitStack() as stack:
            slow = join(stack, admin)
            quick = join(stack, admin)
            begin = resident_bytes(sluice.process.pid)
            quick.block()  # when to come back
            with Late(sluice) as late:
                late.judge_ids([id_of(quick.block()) for _ in range(7)])
            true(resident_bytes(sluice.process.pid) - begin < 8 << 20, "memory grew")
            missed, count = False, 0
            while not missed:
                # Where this takes longer than 30 s it is cut, and has missed the rest.
                missed = slow.next() is None or slow.ids[-1] - slow.ids[0] >= len(slow.ids)
                count += 1
                true(count < 40, f"all came: {slow.ids}")


@test("who may listen: a token with role read", workers=[1])
def tokens(t):
    _sluice, admin = with_admin(t, to(t.origin()), tokens="a read secret\n")
    equal(admin.ask("/api/v1/events")[0], 401)
    with admin.events(token="secret") as events:
        true(events.next() is not None, "an event")


@test("a stop ends the streams, and takes no longer", workers=[1])
def stop(t):
    sluice, admin = with_admin(t, to(t.origin()))
    with admin.events() as events:
        true(events.next() is not None, "an event")
        sluice.terminate()
        while events.next() is not None:
            pass
        equal(sluice.wait(), 0, "exit status")


main()
