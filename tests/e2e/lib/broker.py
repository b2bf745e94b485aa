"""A broker that a test plays: as much of AMQP 0-9-1 as sluice asks of one, and what a test would have it say instead.

    broker = Broker(t)                    its queues: {name: its connection, or None for a durable one}
    broker.put_slots("legacy", 6)
    broker.on[DECLARE] = handler          handler(connection, channel, arguments): in place of the honest answer
    broker.on_message = handler           handler(connection, channel, queue, number)
"""
import socket
import struct
import threading

from .amqp import (CHANNEL_CLOSE, CHANNEL_OPEN, CHANNEL_OPEN_OK, CLOSE, CLOSE_OK, DECLARE, DECLARE_OK, DELETE, DELETE_OK, END,
                   METHOD, OPEN, OPEN_OK, START, START_OK, TUNE, TUNE_OK, long, short)
from .wire import stop_listening

HEADER, HEARTBEAT = 2, 8
CHANNEL_CLOSE_OK, CONFIRM, CONFIRM_OK = (20, 41), (85, 10), (85, 11)
PUBLISH, RETURN, ACK = (60, 40), (60, 50), (60, 80)
PASSIVE, EXCLUSIVE = 1, 4
NOBODYS = "nobody's"  # of a queue that is not there


class Peer:
    """A connection to the broker."""

    def __init__(self, broker, sock):
        self.broker, self.socket = broker, sock
        self.file = sock.makefile("rb")
        self.messages = 0
        self.answers = {
            START_OK: lambda *_: self.send(0, TUNE, struct.pack(">HIH", 2047, 131072, 60)),
            TUNE_OK: lambda *_: None,
            OPEN: lambda *_: self.send(0, OPEN_OK, short("")),
            CHANNEL_OPEN: lambda channel, _: self.send(channel, CHANNEL_OPEN_OK, long(b"")),
            CHANNEL_CLOSE_OK: lambda *_: None,
            CONFIRM: lambda channel, _: self.send(channel, CONFIRM_OK),
            DECLARE: self._declare, DELETE: self._delete, PUBLISH: self._publish, CLOSE: self._close,
        }

    # ---- what it says -------------------------------------------------------------------------

    @staticmethod
    def frame(kind, channel, payload):
        return struct.pack(">BHI", kind, channel, len(payload)) + payload + END

    def method(self, channel, method, arguments=b""):
        return self.frame(METHOD, channel, struct.pack(">HH", *method) + arguments)

    def returned(self, channel, queue):
        reason = struct.pack(">H", 312) + short("NO_ROUTE") + short("") + short(queue)
        return self.method(channel, RETURN, reason) + self.frame(HEADER, channel, struct.pack(">HHQH", 60, 0, 0, 0))

    def acknowledged(self, channel, number, multiple=False):
        return self.method(channel, ACK, struct.pack(">QB", number, multiple))

    def send(self, channel, method, arguments=b""):
        self.socket.sendall(self.method(channel, method, arguments))

    def refuse(self, channel, code, text):
        self.send(channel, CHANNEL_CLOSE, struct.pack(">H", code) + short(text) + struct.pack(">HH", 0, 0))

    def end(self, code, text):
        self.send(0, CLOSE, struct.pack(">H", code) + short(text) + struct.pack(">HH", 0, 0))

    def cut(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    # ---- what it answers ----------------------------------------------------------------------

    def serve(self):
        try:
            self.file.read(8)
            self.send(0, START, b"\0\x09" + long(b"") + long(b"PLAIN") + long(b"en_US"))
            while True:
                kind, channel, size = struct.unpack(">BHI", self.file.read(7))
                payload = self.file.read(size + 1)[:-1]
                if kind == HEARTBEAT:
                    self.socket.sendall(self.frame(HEARTBEAT, 0, b""))
                elif kind == METHOD:
                    self._answer(channel, struct.unpack(">HH", payload[:4]), payload[4:])
        except (OSError, struct.error):  # it has ended, and with it what was its own
            pass
        with self.broker.lock:
            for queue in [queue for queue, owner in self.broker.queues.items() if owner is self]:
                del self.broker.queues[queue]
        self.file.close()
        self.socket.close()

    def _answer(self, channel, method, arguments):
        handler = self.broker.on.get(method)
        if handler:
            handler(self, channel, arguments)
        else:
            self.answers[method](channel, arguments)

    def _close(self, channel, _):
        self.send(channel, CLOSE_OK)
        self.cut()

    @staticmethod
    def queue_of(arguments):
        return arguments[3:3 + arguments[2]].decode()

    def _declare(self, channel, arguments):
        queue, bits = self.queue_of(arguments), arguments[3 + arguments[2]]
        mine = self if bits & EXCLUSIVE else None
        with self.broker.lock:
            if not bits & PASSIVE:
                self.broker.queues.setdefault(queue, mine)
            owner = self.broker.queues.get(queue, NOBODYS)
        if owner is NOBODYS:
            self.refuse(channel, 404, f"NOT_FOUND - no queue '{queue}'")
        elif owner not in (self, None) or (mine and not owner):
            self.refuse(channel, 405, f"RESOURCE_LOCKED - queue '{queue}'")
        else:
            self.send(channel, DECLARE_OK, short(queue) + struct.pack(">II", 0, 0))

    def _delete(self, channel, arguments):
        with self.broker.lock:
            self.broker.queues.pop(self.queue_of(arguments), None)
        self.send(channel, DELETE_OK, struct.pack(">I", 0))

    def _publish(self, channel, arguments):
        rest = arguments[3 + arguments[2]:]
        self.messages += 1
        self.broker.on_message(self, channel, rest[1:1 + rest[0]].decode(), self.messages)


class Broker:
    def __init__(self, t):
        self.queues, self.on, self.lock = {}, {}, threading.Lock()
        self.on_message = self.look
        self.peers, self.ended = [], False
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.number = self.listener.getsockname()[1]
        self.url = f"amqp://127.0.0.1:{self.number}"
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()
        t.defer(self.end)

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(self, sock)
            self.peers.append(peer)
            threading.Thread(target=peer.serve, daemon=True).start()

    def look(self, peer, channel, queue, number):
        """A message that is mandatory: it comes back when its queue is not there, and is confirmed in any case."""
        with self.lock:
            is_there = queue in self.queues
        peer.socket.sendall((b"" if is_there else peer.returned(channel, queue)) + peer.acknowledged(channel, number))

    def put_slots(self, name, count):
        with self.lock:
            self.queues.update({f"{name}-{n}-A": None for n in range(1, count + 1)})

    def end(self):
        for peer in self.peers:
            peer.cut()
        stop_listening(self.listener, self.acceptor)
