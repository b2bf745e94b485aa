"""WebSockets (RFC 6455) by the letter, both sides: every frame is read strictly, and any can be sent."""
import base64
import hashlib
import os
import struct
import threading
import time

from . import wire
from .client import request_bytes
from .wire import Ended, Malformed

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept_of(key):
    return base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest()).decode()


def frame(opcode, payload=b"", fin=True, rsv=0, mask=None):
    """The bytes of a frame; `mask` is the key of a masked one."""
    head = bytes([fin << 7 | rsv << 4 | opcode])
    bit = 0 if mask is None else 128
    if len(payload) < 126:
        head += bytes([bit | len(payload)])
    elif len(payload) < 65536:
        head += struct.pack("!BH", bit | 126, len(payload))
    else:
        head += struct.pack("!BQ", bit | 127, len(payload))
    return head if mask is None and not payload else head + (mask or b"") + masked(payload, mask)


def masked(payload, key):
    if not key:
        return payload
    size = len(payload)
    long_key = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(long_key, "big")).to_bytes(size, "big")


def close_payload(code=None, reason=""):
    return b"" if code is None else struct.pack("!H", code) + reason.encode()


class Frame:
    def __init__(self, opcode, payload, fin, rsv):
        self.opcode, self.payload, self.fin, self.rsv = opcode, payload, fin, rsv

    @property
    def closes_with(self):
        """Of a close frame: (code, reason); code None: there is none."""
        if self.opcode != CLOSE:
            raise AssertionError(f"no close frame: {self}")
        if not self.payload:
            return None, ""
        return struct.unpack("!H", self.payload[:2])[0], self.payload[2:].decode()

    def __repr__(self):
        return f"frame {self.opcode} fin {self.fin} rsv {self.rsv} {self.payload[:200]!r}"


class Socket:
    """One end, over a stream. `masks`: as clients do; the peer's frames must then not be masked."""

    def __init__(self, stream, masks):
        self.stream = stream
        self.masks = masks
        self.keys = []  # of the frames that came

    # ---- frames -------------------------------------------------------------------------------

    def bytes_of(self, opcode, payload=b"", fin=True, rsv=0):
        return frame(opcode, payload, fin, rsv, os.urandom(4) if self.masks else None)

    def send_frame(self, opcode, payload=b"", fin=True, rsv=0):
        self.stream.send(self.bytes_of(opcode, payload, fin, rsv))

    def read_frame(self):
        first, second = self.stream.read_exactly(2)
        length = second & 127
        if length == 126:
            length = struct.unpack("!H", self.stream.read_exactly(2))[0]
        elif length == 127:
            length = struct.unpack("!Q", self.stream.read_exactly(8))[0]
        if bool(second & 128) == self.masks:
            raise Malformed(f"a frame {'is' if self.masks else 'is not'} masked")
        key = self.stream.read_exactly(4) if second & 128 else None
        if key:
            self.keys.append(key)
        read = Frame(first & 15, masked(self.stream.read_exactly(length), key), bool(first & 128),
                     first >> 4 & 7)
        if read.opcode & 8 and (not read.fin or length > 125 or read.rsv):
            raise Malformed(f"control {read}")
        return read

    # ---- messages -----------------------------------------------------------------------------

    def send(self, message, rsv=0):
        if isinstance(message, str):
            self.send_frame(TEXT, message.encode(), rsv=rsv)
        else:
            self.send_frame(BINARY, message, rsv=rsv)

    def read(self):
        """The next frame that is no ping (these are answered); a message's is its last, with all of it."""
        begun = None
        while True:
            read = self.read_frame()
            if read.opcode == PING:
                self.send_frame(PONG, read.payload)
            elif read.opcode & 8:
                return read
            elif begun is None:
                if read.opcode == CONTINUATION:
                    raise Malformed(f"continues nothing: {read}")
                begun = read
            else:
                if read.opcode != CONTINUATION or read.rsv:
                    raise Malformed(f"within a message: {read}")
                begun.payload += read.payload
                begun.fin = read.fin
            if begun and not read.opcode & 8 and read.fin:
                return begun

    def message(self):
        """The next message, as str or bytes."""
        read = self.read()
        if read.opcode == TEXT:
            return read.payload.decode()
        if read.opcode == BINARY:
            return read.payload
        raise AssertionError(f"no message: {read}, {read.closes_with if read.opcode == CLOSE else ''}")

    # ---- the end ------------------------------------------------------------------------------

    def send_close(self, code=None, reason=""):
        self.send_frame(CLOSE, close_payload(code, reason))

    def closed_with(self):
        """The peer closes: answers, reads to the end of the connection, returns (code, reason)."""
        read = self.read()
        said = read.closes_with
        self.stream.try_send(self.bytes_of(CLOSE, read.payload))
        rest = self.stream.read_to_any_end()
        if rest:
            raise Malformed(f"behind a close frame: {rest[:100]!r}")
        return said

    def close(self, code=1000, reason=""):
        """Closes, and returns what the peer answers."""
        self.send_close(code, reason)
        while True:
            read = self.read()
            if read.opcode == CLOSE:
                break
        self.stream.expect_end()
        return read.closes_with


def handshake_fields(fields=(), key=None, version="13"):
    return [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", version),
            ("Sec-WebSocket-Key", key or base64.b64encode(os.urandom(16)).decode()), *fields]


def open_socket(t, address, target="/", fields=(), more=b"", **options):
    """A client's socket; `more` is sent with the handshake. `.answer` is the 101."""
    key = base64.b64encode(os.urandom(16)).decode()
    client = t.client(address, **options)
    client.send(request_bytes(target, fields=handshake_fields(fields, key)) + more)
    answer = client.response_head()
    if answer.status != 101 or answer.get("Sec-WebSocket-Accept") != accept_of(key):
        raise AssertionError(f"no WebSocket: {answer}")
    socket = Socket(client, True)
    socket.answer = answer
    return socket


class Log:
    """What the servers of a test have had, in order of arrival, over all connections."""

    def __init__(self):
        self.changed = threading.Condition()
        self.items = []  # (time, what)

    def add(self, what):
        with self.changed:
            self.items.append((time.monotonic(), what))
            self.changed.notify_all()

    def all(self):
        with self.changed:
            return [what for _, what in self.items]

    def times(self):
        with self.changed:
            return [at for at, _ in self.items]

    def wait_for(self, count):
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.items) >= count, wire.DEADLINE_SECONDS):
                raise AssertionError(f"{len(self.items)} of {count} came: {self.items}")
        return self.all()


def accept(x, fields=(), protocol=None):
    """The server's half of the handshake, in an origin's handler."""
    x.read_body()
    head = ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept_of(x.request.get('Sec-WebSocket-Key'))}\r\n")
    head += "".join(f"{name}: {value}\r\n" for name, value in fields)
    if protocol:
        head += f"Sec-WebSocket-Protocol: {protocol}\r\n"
    x.send(head.encode() + b"\r\n")
    return Socket(x.stream, False)


def server(on_message=None, log=None, fields=(), on_open=None):
    """A handler: accepts WebSockets, calls on_message(socket, message) (else sends it back) and
    answers a close frame; plain requests get 200. All of it goes into the log."""
    def handler(x):
        if x.request.get("Upgrade") is None:
            x.read_body()
            if log:
                log.add(x.request.method + " " + x.request.target)
            x.reply(200, b"plain")
            return
        socket = accept(x, fields)
        if on_open:
            on_open(socket)
        try:
            while True:
                read = socket.read()
                if read.opcode == CLOSE:
                    if log:
                        log.add(("close", *read.closes_with))
                    x.stream.try_send(frame(CLOSE, read.payload))
                    break
                if read.opcode == PONG:
                    continue
                message = read.payload.decode() if read.opcode == TEXT and not read.rsv else read.payload
                if log:
                    log.add(message)
                if on_message:
                    on_message(socket, message)
                else:
                    socket.send_frame(read.opcode, read.payload, rsv=read.rsv)
        except Ended:
            if log:
                log.add("gone")
        x.close()
    return handler
