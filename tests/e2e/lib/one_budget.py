"""One limit, spent half by requests and half by WebSocket messages: is it one bound for both?"""
import threading
import time

from .sluice import to
from .spans import most_within
from .tap import equal, true
from .websocket import open_socket

KEY = [("X-Api-Key", "caller")]
CHARGED = """session = header:X-Api-Key
websocket = {mode}
message_limits = l
on_message_exceed = drop
message_notice = no
"""


class OneBudget:
    """`quota` per `window` seconds. The origin reports the number of each request (X-Number) and each
    message to `log`, and answers messages with "ok"."""

    def __init__(self, t, quota, window):
        self.t, self.quota, self.window = t, quota, window
        self.lock = threading.Lock()
        self.sent = []  # times, by number
        self.admitted = {"request": 0, "message": 0}

    def sections(self, origin, mode):
        """Requests to /work are charged; sockets are opened at /open, where the handshake is not."""
        charged = CHARGED.format(mode=mode)
        return (f"[limit l]\nkey = header:X-Api-Key\nrate = {self.quota} per {self.window}s\n"
                + to(origin, route="path = /work\nlimits = l\n" + charged)
                + "[route open]\nupstream = origin\npath = /open\n" + charged)

    def _number(self):
        with self.lock:
            self.sent.append(time.monotonic())
            return str(len(self.sent) - 1)

    def _count(self, kind):
        with self.lock:
            self.admitted[kind] += 1

    def _one_client(self, sluice, end):
        client = self.t.client(sluice)
        socket = open_socket(self.t, sluice, "/open", KEY)
        while time.monotonic() < end:
            if client.ask("/work", fields=[*KEY, ("X-Number", self._number())]).status == 200:
                self._count("request")
            socket.send(self._number())
            if socket.message() == "ok":
                self._count("message")

    def spend(self, sluice, log, clients, seconds=7.0):
        """Clients ask and send all the time; then judges what the log of the origin has."""
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self._one_client, args=(sluice, end)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spans = [(self.sent[int(number)], at) for at, number in log.items]
        most = most_within(spans, self.window)
        self.t.note(f"{len(spans)} of {len(self.sent)} reached the origin, {self.admitted}; "
                    f"at most {most} within {self.window} s")
        equal(len(spans), sum(self.admitted.values()), "as many reached the origin as were admitted")
        true(most <= self.quota, f"{most} were sent and read within {self.window} s, of {self.quota}")
        true(len(spans) >= self.quota * (int(seconds / self.window) - 1), f"only {len(spans)} were admitted")
        true(min(self.admitted.values()) >= len(spans) // 10, f"about half each: {self.admitted}")
