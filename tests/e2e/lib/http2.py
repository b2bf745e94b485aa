"""A scripted client of HTTP/2: it sends whatever frames a test wants, well formed or not (HPACK by python3-hpack).

    client = Http2(t, sluice)          connected by prior knowledge, and greeted
    stream = client.request("/")       HEADERS; the ids of streams are 1, 3, ...
    client.response(stream)            a Response, when the stream has ended
    client.send_frame(...), client.send(raw bytes), client.until(claim)
"""
import collections
import struct

from .wire import dial

try:
    import hpack
except ImportError:
    hpack = None

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 3
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CALM = 6, 7, 8, 9, 11
WINDOW = 0x7fffffff - 65535


class Response:
    def __init__(self):
        self.heads = []     # of each HEADERS frame: interim ones, the final one, trailers
        self.body = b""
        self.ended = False  # END_STREAM
        self.reset = None   # an error code

    def over(self):
        return self.ended or self.reset is not None

    @property
    def fields(self):
        return next((head for head in self.heads if not head[":status"].startswith("1")), {})

    @property
    def status(self):
        return int(self.fields[":status"]) if self.fields else None

    @property
    def interim(self):
        return [int(head[":status"]) for head in self.heads if head.get(":status", "")[:1] == "1"]

    @property
    def trailers(self):
        return self.heads[-1] if self.heads and ":status" not in self.heads[-1] else {}


class Http2:
    """`window`: of each stream of responses, and `auto`: it is opened again as content comes."""

    def __init__(self, t, sluice, window=65535, auto=True, greet=True, stream=None, settings=()):
        self.socket = stream or dial(getattr(sluice, "address", sluice))
        t.defer(self.socket.close)
        self.socket.settimeout(30)
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.responses = collections.defaultdict(Response)
        self.settings, self.goaways, self.frames, self.pings = {}, [], [], []
        self.auto, self.ended, self.next, self._data, self.acked = auto, False, 1, b"", False
        if greet:
            self.send(PREFACE)
            values = [(4, window), *settings]
            self.send_frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *value) for value in values))
            if auto:
                self.send_frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW))

    # ---- out ----------------------------------------------------------------------------------

    def send(self, data):
        self.socket.sendall(data)

    def send_frame(self, kind, flags=0, stream=0, payload=b""):
        self.send(frame(kind, flags, stream, payload))

    def head(self, path="/", method="GET", host="api.test", fields=(), scheme="http"):
        return self.encoder.encode([(":method", method), (":scheme", scheme), (":authority", host), (":path", path),
                                    *fields])

    def request(self, path="/", method="GET", fields=(), end=True, host="api.test"):
        return self.raw_request(self.head(path, method, host, fields), end)

    def raw_request(self, block, end=True):
        stream, self.next = self.next, self.next + 2
        self.send_frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block)
        return stream

    def data(self, stream, content, end=False):
        """Without regard for windows."""
        for at in range(0, len(content) or 1, 16384):
            last = at + 16384 >= len(content)
            self.send_frame(DATA, END_STREAM if end and last else 0, stream, content[at:at + 16384])

    def trailers(self, stream, fields):
        self.send_frame(HEADERS, END_HEADERS | END_STREAM, stream, self.encoder.encode(fields))

    def reset(self, stream, code=CANCEL):
        self.send_frame(RST_STREAM, 0, stream, struct.pack(">I", code))

    def open_window(self, stream, size):
        self.send_frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", size))

    # ---- in -----------------------------------------------------------------------------------

    def _read(self, count):
        while len(self._data) < count:
            piece = self.socket.recv(65536)
            if not piece:
                self.ended = True
                return None
            self._data += piece
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def read_frame(self):
        """The next frame, acted on; None: the connection has ended."""
        try:
            head = self._read(9)
            length, kind, flags = (int.from_bytes(head[:3], "big"), head[3], head[4]) if head else (0, None, None)
            payload = self._read(length) if head else None
        except ConnectionResetError:
            self.ended = True
            return None
        if payload is None:
            return None
        stream = int.from_bytes(head[5:], "big") & 0x7fffffff
        self.frames.append((kind, flags, stream, payload))
        self._act(kind, flags, stream, payload)
        return self.frames[-1]

    def _act(self, kind, flags, stream, payload):
        response = self.responses[stream]
        if kind == HEADERS:
            block = payload
            while not flags & END_HEADERS:
                more = self._read(9)
                flags |= more[4] & END_HEADERS
                block += self._read(int.from_bytes(more[:3], "big"))
            fields = {}
            for name, value in self.decoder.decode(block):
                fields[name] = f"{fields[name]}, {value}" if name in fields else value
            response.heads.append(fields)
        elif kind == DATA:
            response.body += payload
            if self.auto and payload:
                self.open_window(stream, len(payload))
        elif kind == RST_STREAM:
            response.reset = int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACK:
            self.settings.update(struct.iter_unpack(">HI", payload))
            self.send_frame(SETTINGS, ACK)
        elif kind == SETTINGS:
            self.acked = True
        elif kind == PING and not flags & ACK:
            self.send_frame(PING, ACK, 0, payload)
        elif kind == PING:
            self.pings.append(payload)
        elif kind == GOAWAY:
            self.goaways.append(struct.unpack(">II", payload[:8]))
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            response.ended = True

    def until(self, claim):
        """Reads until the claim holds, or the connection has ended."""
        while not claim():
            if self.read_frame() is None:
                return claim()
        return True

    def response(self, stream):
        self.until(lambda: self.responses[stream].over())
        return self.responses[stream]

    def ask(self, path="/", **options):
        return self.response(self.request(path, **options))

    def ping(self):
        """What was sent before has been read."""
        count = len(self.pings)
        self.send_frame(PING, 0, 0, b"sequence")
        return self.until(lambda: len(self.pings) > count)

    def end_code(self):
        """The error code of the last GOAWAY, when the connection has ended."""
        self.until(lambda: False)
        return self.goaways[-1][1] if self.goaways else None


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A field of HPACK that no encoder would send."""
    name, value = (text.encode("latin-1") if isinstance(text, str) else text for text in (name, value))
    return b"\0" + _length(len(name)) + name + _length(len(value)) + value


def _length(number):
    if number < 127:
        return bytes([number])
    number, out = number - 127, b"\x7f"
    while number >= 128:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])
