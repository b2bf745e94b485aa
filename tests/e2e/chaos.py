"""Everything that queues at once, and everything that can happen to it: pinned connections, bounds,
pace, shedding, timeouts, delays; clients that leave, an origin that drops and dies, reloads that
change it all, and a drain at the end. Nothing particular is expected of an answer but that it
comes, whole, and that sluice lives, ends well and leaves nothing behind: the sanitizers look on.

SLUICE_E2E_SECONDS sets how long."""
import os
import threading
import time

from lib.client import request_bytes
from lib.process import DEADLINE_SECONDS, Hung
from lib.tap import equal, main, member, test, true
from lib.wire import Ended

SECONDS = float(os.environ.get("SLUICE_E2E_SECONDS") or 4)
ASKERS = 12


def sections(random, origins):
    """One of very many configurations, all with the routes /a to /d."""
    def pick(*lines):
        return random.choice(lines)

    def upstream(name):
        servers = random.sample(origins, random.randrange(1, len(origins) + 1))
        lines = "".join(f"server = {one}{pick('', ' max_in_flight=3')}\n" for one in servers)
        return (f"[upstream {name}]\n{lines}"
                + pick("", "max_in_flight = 2\n", "max_in_flight = 5\n", "max_in_flight = auto\n")
                + pick("", "pace = 30 per 100ms\n", "pace = 100 per 1s\n")
                + pick("", "shed_target = 10ms\nshed_interval = 10ms\n")
                + pick("", "quantum = 20\n", "connect_timeout = 3s\n", "keepalive = 1\n", "keepalive = 0\n")
                + "fail_timeout = 20ms\nfail_timeout_max = 50ms\nfirst_byte_timeout = 5s\n")

    def route(letter):
        return (f"[route {letter}]\npath = /{letter}\nupstream = {pick('u', 'v')}\n"
                f"session = header:X-Api-Key | ip\nordering = {pick('writes', 'strict', 'none')}\n"
                f"queue_timeout = {pick('1ms', '20ms', '10s')}\nqueue_depth = {pick('2', '1000')}\n"
                f"session_idle_timeout = {pick('10ms', '1m')}\nhigh_burst = {pick('1', '4')}\n"
                + pick("", "upstream_affinity = session\n", "upstream_affinity = session\n")
                + pick("", "session_in_flight = 2\n") + pick("", "queue_bytes = 30k\n")
                + pick("", "limits = slow\n", "limits = few\n"))

    return ("[limit slow]\nkey = header:X-Api-Key\nrate = 20 per 100ms\non_exceed = delay 50ms\n"
            "[limit few]\nkey = header:X-Api-Key\nconcurrency = 3\n"
            + upstream("u") + upstream("v") + "".join(route(letter) for letter in "abcd"))


def origin_of(t, random):
    def handler(x):
        if random.random() < 0.5:
            x.read_body()
        dice = random.random()
        if dice < 0.1:
            time.sleep(random.random() * 0.02)
        if dice > 0.99:
            x.reset()
        elif dice > 0.98:
            x.read_body()
            x.close()
        elif dice > 0.97:
            x.read_body()
            x.reply(200, b"last", [("Connection", "close")])
            x.close()
        elif dice > 0.965:
            x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut short")
            x.close()
        else:
            x.read_body()
            x.reply(random.choice([200, 200, 200, 404, 503]), b"x" * random.choice([0, 10, 40_000]))
    return t.origin(handler)


class Asker:
    def __init__(self, t, sluice, number, random):
        self.t, self.sluice, self.number, self.random = t, sluice, number, random
        self.statuses = {}
        self.broken = 0
        self.error = None

    def run(self, until):
        try:
            while time.monotonic() < until:
                self._connection()
        except BaseException as error:
            self.error = error

    def _connection(self):
        client = self.t.client(self.sluice)
        try:
            for _ in range(self.random.randrange(1, 6)):
                methods = [self.random.choice(["GET", "GET", "HEAD", "POST", "PUT"])
                           for _ in range(self.random.randrange(1, 12))]
                client.send(b"".join(self._request(method) for method in methods))
                leaves = self.random.random() < 0.1
                for method in methods[:self.random.randrange(len(methods))] if leaves else methods:
                    status = client.response(method).status
                    self.statuses[status] = self.statuses.get(status, 0) + 1
                if leaves:
                    client.reset() if self.random.random() < 0.5 else client.close()
                    return
        except (Ended, OSError):
            self.broken += 1  # a response that the origin cut, or one that closes
        client.close()

    def _request(self, method):
        # Mostly a few that ask much; with the others there are more sessions than there may be.
        fields = [("X-Api-Key", str(self.random.randrange(self.random.choice([5, 5, 5, 200]))))]
        if self.random.random() < 0.2:
            fields.append(("X-Long", "y" * self.random.randrange(3000)))
        if self.random.random() < 0.3:
            fields.append(("Priority", f"u={self.random.randrange(8)}"))
        body = b"z" * self.random.choice([0, 5, 30_000]) if method in ("POST", "PUT") else None
        return request_bytes(f"/{self.random.choice('abcd')}", method, fields, body)


@test("all of it at once")
def chaos(t):
    random = t.random
    origins = [origin_of(t, random) for _ in range(3)]
    sluice = t.sluice(sections(random, origins), listener="trust_priority = on",
                      settings="shutdown_timeout = 30s\nlog_level = warn\nqueue_total_bytes = 1M\nsessions = 100")
    until = time.monotonic() + SECONDS
    askers = [Asker(t, sluice, number, random) for number in range(ASKERS)]
    threads = [threading.Thread(target=asker.run, args=(until,), daemon=True) for asker in askers]
    for thread in threads:
        thread.start()
    reloads = deaths = 0
    while time.monotonic() < until - 0.3:
        time.sleep(random.uniform(0.02, 0.2))
        if random.random() < 0.6:
            sluice.reload(sections(random, origins))
            reloads += 1
        else:
            origin = random.choice(origins)
            origin.refuse()
            time.sleep(random.uniform(0, 0.05))
            origin.reopen()
            deaths += 1
    sluice.terminate()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    statuses = {}
    for asker in askers:
        true(not isinstance(asker.error, Hung), f"{asker.error}: {sluice.log()[-3000:]}")
        true(asker.error is None or isinstance(asker.error, OSError), f"{asker.error!r}")
        for status, count in asker.statuses.items():
            statuses[status] = statuses.get(status, 0) + count
    t.note(f"{dict(sorted(statuses.items()))}, {sum(a.broken for a in askers)} connections ended early, "
           f"{reloads} reloads, {deaths} deaths")
    for status in statuses:
        member(status, {200, 404, 429, 502, 503, 504}, "status")
    true(statuses.get(200, 0) > 0, "nothing was served")
    equal(sluice.wait(), 0, "exit status")


main()
