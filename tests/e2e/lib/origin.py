"""Scripted origins: what stands behind sluice, on threads of the test.

    def handler(x):                    called for each request, when its head was read
        x.read_body()                  x.request: the head (and body); x.number: 0, 1, ... here
        x.reply(200, b"text")          or x.send(raw bytes), x.close(), x.reset()

Without a handler every request is read and answered with 200 and its own body.
"""
import os
import socket
import threading
import time

from . import wire
from .process import DEADLINE_SECONDS, Hung, Port
from .wire import Ended, Stream, fields_bytes, stamp_arrivals, stop_listening

REASONS = {200: "OK", 201: "Created", 204: "No Content", 304: "Not Modified", 404: "Not Found",
           500: "Internal Server Error", 503: "Service Unavailable"}


class Exchange:
    """One request at the origin, and the means to answer it."""

    def __init__(self, origin, stream, connection, number, request):
        self.origin = origin
        self.stream = stream
        self.connection = connection  # 0, 1, ... in order of acceptance
        self.number = number          # of the request, over all connections
        self.request = request
        self.arrived = stream.received or time.monotonic()  # the end of its head
        self.complete = False         # its body was read to the end
        self.cut = False              # the peer went away before that
        self.closed = False

    def read_body(self):
        if not self.complete:
            self.stream.read_body(self.request)
            self._set_complete()
        return self.request.body

    def body_pieces(self):
        yield from self.stream.body_pieces(self.request)
        self._set_complete()

    def _set_complete(self):
        with self.origin.changed:
            self.complete = True
            self.origin.changed.notify_all()

    def reply(self, status=200, body=b"", fields=(), version="1.1", length=True):
        head = f"HTTP/{version} {status} {REASONS.get(status, 'Whatever')}\r\n".encode()
        head += fields_bytes(fields)
        if length and status not in (204, 304):
            head += b"Content-Length: %d\r\n" % len(body)
        self.send(head + b"\r\n" + (b"" if self.request.method == "HEAD" else body))

    def send(self, data):
        self.stream.send(data)

    def close(self):
        self.closed = True
        self.stream.close()

    def reset(self):
        self.closed = True
        self.stream.reset()


def echo(x):
    x.read_body()
    x.reply(200, x.request.body)


class Origin:
    """Listens until the test ends. `requests` holds every exchange, in order of arrival."""

    def __init__(self, handler=None, family=socket.AF_INET, path=None, backlog=1024, listen=True,
                 host=None, port=0, tls=None, counts_open=False):
        """`counts_open`: most_open is counted."""
        self.tls = tls  # an ssl.SSLContext
        self.handshakes = []  # of those that were done: was its session resumed?
        self.refused = []  # why others were not
        self.handler = handler or echo
        self.requests = []
        self.connections = 0
        self.open_connections = 0
        self.most_open = 0  # of them at once, whose ends had not arrived when another one was accepted
        self._counts_open = counts_open
        self.faults = []  # requests that no proxy may send
        self.changed = threading.Condition()
        self._streams = set()
        self._ending = False
        self._held = None if path else Port(family, host, port)  # also while nobody listens
        if path:
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.listener.bind(path)
            self.address = "unix:" + path
        else:
            self.listener = self._held.bind_another()
            if not tls:
                stamp_arrivals(self.listener)
            host, self.port = self.listener.getsockname()[:2]
            self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._backlog, self._acceptor = backlog, None
        if listen:
            self.listen()

    def listen(self):
        self.listener.listen(self._backlog)
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def __str__(self):
        return self.address

    # ---- its threads --------------------------------------------------------------------------

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with self.changed:
                if self._ending:
                    sock.close()
                    return
                stream = Stream(sock, is_stamped=self._held is not None and not self.tls)
                self._streams.add(stream)
                number = self.connections
                self.connections += 1
                self.open_connections += 1
                if self._counts_open:
                    self.most_open = max(self.most_open, sum(each.is_established() for each in self._streams))
                self.changed.notify_all()
            threading.Thread(target=self._serve, args=(stream, number), daemon=True).start()

    def _serve(self, stream, connection):
        try:
            if self.tls and not self._shake_hands(stream):
                return
            while self._serve_one(stream, connection):
                pass
        except (Ended, Hung):
            pass
        except (wire.Malformed, AssertionError, ValueError, OSError) as error:
            if not self._ending:
                self.faults.append(f"{type(error).__name__}: {error}")
        finally:
            stream.close()
            with self.changed:
                self._streams.discard(stream)
                self.open_connections -= 1
                self.changed.notify_all()

    def _shake_hands(self, stream):
        try:
            stream.socket = self.tls.wrap_socket(stream.socket, server_side=True)
        except OSError as error:
            with self.changed:
                self.refused.append(str(error))
                self.changed.notify_all()
            return False
        with self.changed:
            self.handshakes.append(stream.socket.session_reused)
            self.changed.notify_all()
        return True

    def _serve_one(self, stream, connection):
        if not stream.buffer and not stream._more():
            return False
        head = stream.read_head()
        wire.framing(head)
        with self.changed:
            x = Exchange(self, stream, connection, len(self.requests), head)
            self.requests.append(x)
            self.changed.notify_all()
        try:
            self.handler(x)
        except Ended:
            with self.changed:
                x.cut = not x.complete
                self.changed.notify_all()
            raise
        if not x.closed and not x.complete:
            x.read_body()
        return not x.closed

    # ---- what tests ask -----------------------------------------------------------------------

    def wait(self, claim, what):
        with self.changed:
            if not self.changed.wait_for(claim, DEADLINE_SECONDS):
                raise Hung(f"at the origin never came: {what}; it has {self.targets()}")

    def wait_requests(self, count):
        self.wait(lambda: len(self.requests) >= count, f"{count} requests")
        return self.requests[:count]

    def wait_connections_gone(self):
        self.wait(lambda: self.open_connections == 0, "the end of all connections")

    def targets(self):
        return [x.request.target for x in self.requests]

    def last(self):
        return self.requests[-1].request

    # ---- its end ------------------------------------------------------------------------------

    def refuse(self):
        """From now on nobody is let in; open connections are cut."""
        with self.changed:
            self._ending = True
            streams = list(self._streams)
        stop_listening(self.listener, self._acceptor)
        for stream in streams:
            try:
                stream.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def reopen(self):
        """Listens on the same port again after refuse()."""
        self._ending = False
        self.listener = self._held.bind_another()
        if not self.tls:
            stamp_arrivals(self.listener)
        self.listen()

    def end(self):
        self.refuse()
        if self._held:
            self._held.release()
        if self.address.startswith("unix:") and os.path.exists(self.address[5:]):
            os.unlink(self.address[5:])
        if self.faults:
            raise AssertionError("the origin was sent what no proxy may send:\n"
                                 + "\n".join(self.faults))


class AccountOrigin(Origin):
    """A bank account: POST /deposit and /withdraw; keeps an ordered log of what arrived."""

    def __init__(self, closes_every=None, **options):
        self.closes_every = closes_every  # so many requests: then it says and does Connection: close
        self.log = []  # (operation, sequence number) in order of arrival
        self.log_lock = threading.Lock()
        self.balance = 0
        super().__init__(self._operate, **options)

    def _operate(self, x):
        with self.log_lock:
            self.log.append((x.request.target.strip("/").split("?")[0], x.request.get("X-Sequence")))
        x.read_body()
        amount = int(x.request.get("X-Amount") or 0)
        with self.log_lock:
            if x.request.target.startswith("/deposit"):
                self.balance += amount
            elif x.request.target.startswith("/withdraw"):
                if amount > self.balance:
                    x.reply(409, b"not enough")
                    return
                self.balance -= amount
            text = b"%d" % self.balance
        closes = self.closes_every and (x.number + 1) % self.closes_every == 0
        x.reply(200, text, fields=[("Connection", "close")] if closes else [])
        if closes:
            x.close()

    def sequence(self):
        with self.log_lock:
            return [int(number) for _, number in self.log if number]
