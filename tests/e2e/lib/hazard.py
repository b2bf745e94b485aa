"""A way to a server on which bytes are late, stop, or are cut off: what a network with lost packets makes of a TCP
connection (a lost packet is sent again: what is behind it waits)."""
import queue
import random
import socket
import struct
import threading
import time

from .process import Port
from .wire import stop_listening


def reset(sock):
    """Ends it so that the peer sees a reset, not an end."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RD)
    except OSError:
        pass
    sock.close()


class Connection:
    def __init__(self, hazard, near):
        self.hazard, self.near = hazard, near
        self.far = socket.create_connection(("127.0.0.1", hazard.to))
        self.ended = threading.Event()
        self.is_answered = True  # all that was sent has had a reply, of a server that replies to each
        for source, sink, is_reply in ((near, self.far, False), (self.far, near, True)):
            chunks = queue.Queue()
            hazard.run(self._read, source, chunks)
            hazard.run(self._write, sink, chunks, is_reply)

    def _read(self, source, chunks):
        latest = 0
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            latest = max(latest, time.monotonic() + self.hazard.delay())  # in order
            chunks.put((latest, data))
            if not data:
                return

    def _write(self, sink, chunks, is_reply):
        while True:
            at, data = chunks.get()
            self.ended.wait(max(0, at - time.monotonic()))
            for gate in (self.hazard.passes, self.hazard.replies if is_reply else self.hazard.passes):
                while not gate.wait(0.05) and not self.ended.is_set():
                    pass
            if not data or self.ended.is_set():
                self.cut()
                return
            cut = is_reply and self.hazard.take_cut()
            self.is_answered = is_reply
            try:
                sink.sendall(data[:max(1, len(data) // 2)] if cut else data)
            except OSError:
                cut = True
            if cut:
                self.cut()
                return

    def cut(self):
        if not self.ended.is_set():
            self.ended.set()
            reset(self.near)
            reset(self.far)


class Hazard:
    """`to`: the server's port. Connect to `number` instead, or `url`."""

    def __init__(self, t, to):
        self.to, self.port = to, Port(socket.AF_INET)
        self.least, self.most = 0, 0  # seconds that bytes are late, in each direction
        self.random = random.Random(t.random.random())
        self.passes, self.replies, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.passes.set()
        self.replies.set()
        self.refuses, self.cuts = False, 0
        self.accepted, self.connections = [], []  # when, and what
        self.listener = socket.create_server(("127.0.0.1", self.number), reuse_port=True)
        t.defer(self.end)
        self.acceptor = self.run(self._accept)

    @property
    def number(self):
        return self.port.number

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.number}"

    @staticmethod
    def run(function, *args):
        thread = threading.Thread(target=function, args=args, daemon=True)
        thread.start()
        return thread

    def _accept(self):
        while not self.ended.is_set():
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.accepted.append(time.monotonic())
            if self.refuses:
                reset(near)
                continue
            try:
                self.connections.append(Connection(self, near))
            except OSError:
                reset(near)

    def delay(self):
        return self.random.uniform(self.least, self.most)

    def take_cut(self):
        if self.cuts <= 0:
            return False
        self.cuts -= 1
        return True

    # ---- what a test does -----------------------------------------------------------------------

    def late(self, least, most):
        self.least, self.most = least, most

    def stall(self):
        """No byte passes any more, until go_on."""
        self.passes.clear()

    def hold_replies(self):
        """The server gets all, and what it answers does not come, until go_on."""
        self.replies.clear()

    def go_on(self):
        self.passes.set()
        self.replies.set()

    def is_quiet(self):
        """No server has a request that is not answered."""
        return all(one.is_answered or one.ended.is_set() for one in self.connections)

    def reset_all(self):
        connections, self.connections = self.connections, []
        for connection in connections:
            connection.cut()

    def cut_replies(self, count):
        """So many replies end after their first half, with a reset."""
        self.cuts = count

    def end(self):
        self.ended.set()
        stop_listening(self.listener, self.acceptor)
        self.go_on()
        self.reset_all()
        self.port.release()
