#!/usr/bin/env python3
"""Reloads: what is in flight counts on, whatever changes; what is taken away is taken away."""
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib.process import until
from lib.tap import equal, group, main, test, true
from lib.sluice import to


class Held:
    """An origin that answers /hold on request of the test, and notes the most that it had at once."""

    def __init__(self, t):
        self.gate = t.event()
        self.now = self.most = 0
        self.origin = t.origin(self.answer)

    def answer(self, x):
        with self.origin.changed:
            self.now += 1
            self.most = max(self.most, self.now)
        x.read_body()
        if x.request.target.startswith("/hold"):
            self.gate.wait(120)
        with self.origin.changed:
            self.now -= 1
        x.reply(200, x.request.target.encode())


def reloaded(sluice, sections):
    mark = sluice.log().count(": reloaded")
    sluice.reload(sections)
    sluice.process.wait_output(": reloaded", mark + 1)


# Any key of an upstream that bounds nothing: [what it is, what it becomes].
OTHER_KEYS = ["connect_timeout = 7s", "retries = 1", "keepalive = 3", "balance = least_in_flight",
              "max_fails = 9", "idle_timeout = 50s", "quantum = 20"]


@group("a bound holds over reloads that change another key")
def bound_holds(t):
    for bound, server in (("max_in_flight = 1", ""), ("", " max_in_flight=1")):
        with t.point(f"of {'the server' if server else 'the upstream'}"):
            held = Held(t)
            sections = lambda more: to(f"{held.origin}{server}", upstream=f"{bound}\n{more}",
                                       route="host = api.test\nqueue_timeout = 20s")
            sluice = t.sluice(sections(""))
            clients = [t.client(sluice)]
            clients[0].request("/hold/0")
            held.origin.wait_requests(1)
            for number, key in enumerate(OTHER_KEYS):
                reloaded(sluice, sections(key))
                clients.append(t.client(sluice))
                clients[-1].request(f"/hold/{number + 1}")
            equal(t.client(sluice).ask("/", host="nowhere.test").status, 404, "status of a probe of no route")
            held.gate.set()
            equal([client.response().status for client in clients], [200] * len(clients), "statuses")
            equal(held.most, 1, "most at the origin at once")
            sluice.end()


@test("a server that a file in between did not have still counts what is in flight")
def gone_and_back(t):
    held, other = Held(t), t.origin()
    with_it = to(f"{held.origin} max_in_flight=1", f"{other} max_in_flight=1",
                 upstream="balance = least_in_flight\nmax_in_flight = 2")
    sluice = t.sluice(to(f"{held.origin} max_in_flight=1", upstream="max_in_flight = 2"))
    client = t.client(sluice)
    client.request("/hold")
    held.origin.wait_requests(1)
    reloaded(sluice, to(other))
    reloaded(sluice, with_it)
    asker = t.client(sluice)
    for _ in range(6):
        equal(asker.ask("/").status, 200, "status")
    equal(len(held.origin.requests), 1, "requests at the one that is full")
    held.gate.set()
    equal(client.response().status, 200, "status of the one in flight")


@test("trusted_proxies taken away are not believed any more, on open connections either")
def distrusted(t):
    origin = t.origin()
    sluice = t.sluice(to(origin), listener="trusted_proxies = 127.0.0.0/8")
    client = t.client(sluice)
    said = [("X-Forwarded-For", "203.0.113.9")]
    client.ask("/", fields=said)
    equal(origin.last().get("X-Forwarded-For"), "203.0.113.9, 127.0.0.1", "believed")
    sluice.listener = ""
    reloaded(sluice, sluice.sections)
    until(lambda: client.ask("/", fields=said) and
          origin.last().get("X-Forwarded-For") == "127.0.0.1", "not believed")
    sluice.listener = "trusted_proxies = 127.0.0.0/8"
    reloaded(sluice, sluice.sections)
    until(lambda: client.ask("/", fields=said) and
          origin.last().get("X-Forwarded-For") == "203.0.113.9, 127.0.0.1", "believed again")
    equal(origin.connections <= sluice.workers, True, "connections to the server live on")


@test("connections to a server live through a reload that changes its upstream")
def pool_lives(t):
    origin = t.origin()
    sluice = t.sluice(to(origin))
    client = t.client(sluice)
    client.ask("/")
    for key in OTHER_KEYS:
        reloaded(sluice, to(origin, upstream=key))
        equal(client.ask("/").status, 200, "status")
    equal(origin.connections, 1, "connections")


@test("a reload of a file that has become a pipe fails at once, where it would wait for a writer")
def pipe_for_a_file(t):
    sluice = t.sluice(to(t.origin()))
    text = sluice.ini()
    os.unlink(sluice.ini_path)
    os.mkfifo(sluice.ini_path)
    sluice.process.signal(signal.SIGHUP)
    sluice.process.wait_output("not a regular file")
    sluice.process.wait_output("reload failed; keeping the running configuration")
    equal(t.client(sluice).ask("/").status, 200, "status")
    os.unlink(sluice.ini_path)
    t.file(os.path.basename(sluice.ini_path), text)
    sluice.process.signal(signal.SIGHUP)
    sluice.process.wait_output("reloaded")


@test("a failed reload changes nothing: no limit, no bound, no socket, no log")
def nothing_changes(t):
    origin, path, log = t.origin(), t.path("front.sock"), t.path("error.log")
    limit = lambda n: f"[limit burst]\nrate = {n} per 1h\n"
    sluice = t.sluice(limit(3) + to(origin, route="limits = burst"))
    client = t.client(sluice)
    equal(client.ask("/").status, 200, "status")
    sluice.settings = f"error_log = file:{t.path('no/such/folder/log')}"
    sluice.listener = f"bind = unix:{path}"
    sluice.reload(limit(9) + to(origin, upstream="max_in_flight = 1", route="limits = burst"))
    sluice.process.wait_output("reload failed")
    equal([client.ask("/").status for _ in range(3)], [200, 200, 429], "statuses")
    true(not os.path.exists(path), "the socket of the failed reload is there")
    sluice.settings = f"error_log = file:{log}"
    sluice.reload(sluice.sections)
    until(lambda: os.path.exists(log) and ": reloaded" in open(log, encoding="utf-8").read(),
          "the good one, in the new log")
    true(os.path.exists(path), "the socket is missing")


@test("included files are read again as one with the main file: all of it, or nothing")
def included(t):
    os.mkdir(t.path("conf.d"))
    limit = t.file("conf.d/limit.ini", "[limit few]\nkey = ip\nrate = 1 per 1h\n")
    header = lambda text: f"response_header_set = X-Version: {text}"
    t.file("conf.d/routes.ini", to(t.origin(), route=f"limits = few\n{header('${SLUICE_VERSION}')}"))
    sluice = t.sluice("", settings="include = conf.d/*.ini",
                      environment={"SLUICE_VERSION": "first"})
    client = t.client(sluice)

    def answer():
        response = client.ask("/")
        return response.status, response.get("X-Version")

    equal([answer(), answer()], [(200, "first"), (429, "first")], "before")
    # Right in one file, wrong in another: nothing of it.
    t.file("conf.d/routes.ini", to(t.origin(), route=header("second")))
    t.file("conf.d/limit.ini", "[limit few]\nkey = ip\nrate = 1 per fortnight\n")
    sluice.reload("")
    sluice.process.wait_output("reload failed; keeping the running configuration")
    true(f"{limit}:3: [limit few] rate:" in sluice.log(), "the included file and line")
    equal(answer(), (429, "first"), "after a failed reload")
    t.file("conf.d/limit.ini", "[limit few]\nkey = ip\nrate = 2 per 1h\n")
    t.file("conf.d/more.ini", "[limit more]\nkey = ip\nrate = 5 per 1h\n")
    reloaded(sluice, "")
    true("[limit few] rate has changed" in sluice.log(), "the change of an included file")
    true("[limit more] is new" in sluice.log(), "the section of a new file")
    equal(answer(), (200, "second"), "after a reload")


@test("health checks follow a reload: one that brings them has its servers probed, one that removes them ends that")
def health_checks(t):
    def handler(x):
        x.read_body()
        x.reply(503 if x.request.target == "/health" else 200, b"bad")

    bad, good = t.origin(handler), t.origin(lambda x: (x.read_body(), x.reply(200, b"good")))
    sections = lambda more: to(bad, good, upstream=more)
    sluice = t.sluice(sections(""))
    client = t.client(sluice)

    def answers():
        return {client.ask("/").body for _ in range(4)}

    equal(answers(), {b"bad", b"good"}, "without checks")
    reloaded(sluice, sections("health_path = /health\nhealth_interval = 100ms\nhealth_timeout = 30s"))
    until(lambda: answers() == {b"good"}, "the server that fails its probes left out")
    reloaded(sluice, sections(""))
    until(lambda: answers() == {b"bad", b"good"}, "both in use without checks")


main()
