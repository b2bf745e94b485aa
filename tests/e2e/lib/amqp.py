"""AMQP 0-9-1, as far as tests need it: a connection that declares and deletes queues."""
import socket
import struct

from .process import DEADLINE_SECONDS

METHOD, END = 1, b"\xce"
START, START_OK, TUNE, TUNE_OK, OPEN, OPEN_OK = (10, 10), (10, 11), (10, 30), (10, 31), (10, 40), (10, 41)
CLOSE, CLOSE_OK = (10, 50), (10, 51)
CHANNEL_OPEN, CHANNEL_OPEN_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK = (20, 10), (20, 11), (20, 40), (20, 41)
DECLARE, DECLARE_OK, DELETE, DELETE_OK = (50, 10), (50, 11), (50, 40), (50, 41)


class Refused(Exception):
    """The broker closed the channel: .code and .text say why. The channel is open again."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code, self.text = code, text


def short(text):
    data = text.encode()
    return bytes([len(data)]) + data


def long(data):
    return struct.pack(">I", len(data)) + data


class Connection:
    def __init__(self, port, user="guest", password="guest", vhost="/"):
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS)
        self.file = self.socket.makefile("rb")
        self.socket.sendall(b"AMQP\0\0\x09\x01")
        self._expect(START)
        self._send(0, START_OK, long(b"") + short("PLAIN") + long(f"\0{user}\0{password}".encode())
                   + short("en_US"))
        channels, frame, _ = struct.unpack(">HIH", self._expect(TUNE))
        self._send(0, TUNE_OK, struct.pack(">HIH", channels, frame, 0))  # no heartbeats
        self._send(0, OPEN, short(vhost) + short("") + b"\0")
        self._expect(OPEN_OK)
        self._open_channel()

    def _open_channel(self):
        self._send(1, CHANNEL_OPEN, short(""))
        self._expect(CHANNEL_OPEN_OK)

    def _send(self, channel, method, arguments):
        payload = struct.pack(">HH", *method) + arguments
        self.socket.sendall(struct.pack(">BHI", METHOD, channel, len(payload)) + payload + END)

    def _expect(self, method):
        while True:
            head = self.file.read(7)
            if len(head) < 7:
                raise ConnectionError("the broker closed the connection")
            kind, _, size = struct.unpack(">BHI", head)
            payload = self.file.read(size + 1)[:-1]
            if kind != METHOD:
                continue
            found, rest = struct.unpack(">HH", payload[:4]), payload[4:]
            if found == method:
                return rest
            if found not in (CLOSE, CHANNEL_CLOSE):
                raise ConnectionError(f"the broker sent {found}, not {method}")
            code, text = struct.unpack(">H", rest[:2])[0], rest[3:3 + rest[2]].decode()
            if found == CLOSE:
                raise ConnectionError(f"{code} {text}")
            self._send(1, CHANNEL_CLOSE_OK, b"")
            self._open_channel()
            raise Refused(code, text)

    def declare(self, queue, passive=False, durable=False, exclusive=False, auto_delete=False):
        """How many messages wait in it."""
        bits = passive | durable << 1 | exclusive << 2 | auto_delete << 3
        self._send(1, DECLARE, struct.pack(">H", 0) + short(queue) + bytes([bits]) + long(b""))
        answer = self._expect(DECLARE_OK)
        return struct.unpack(">I", answer[1 + answer[0]:5 + answer[0]])[0]

    def delete(self, queue):
        self._send(1, DELETE, struct.pack(">H", 0) + short(queue) + b"\0")
        self._expect(DELETE_OK)

    def has(self, queue):
        """Is there a queue of that name, of any connection?"""
        try:
            self.declare(queue, passive=True)
        except Refused as refused:
            return refused.code == 405
        return True

    def close(self):
        """In good order: when it returns, what was exclusive to it is gone."""
        self._send(0, CLOSE, struct.pack(">H", 200) + short("") + struct.pack(">HH", 0, 0))
        self._expect(CLOSE_OK)
        self.abort()

    def abort(self):
        """As when its process dies."""
        self.file.close()
        self.socket.close()
