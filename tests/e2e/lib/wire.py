"""HTTP/1 messages read strictly: what sluice sends must be exactly right, so nothing is forgiven."""
import select
import socket
import struct
import time

from .process import DEADLINE_SECONDS, Hung


class Malformed(AssertionError):
    """The peer sent what no HTTP/1.1 message may look like."""


class Ended(Exception):
    """The peer closed (or reset) in the middle of something."""


class Message:
    """A request or response; body and trailers are filled when they were read."""

    def __init__(self, start, fields):
        self.start = start
        self.fields = fields
        self.body = b""
        self.trailers = []
        self.framing = None  # "none", "length", "chunked" or "close"
        self.interim = []    # responses: the 1xx before it

    @property
    def status(self):
        return int(self.start[1])

    @property
    def reason(self):
        return self.start[2]

    @property
    def method(self):
        return self.start[0]

    @property
    def target(self):
        return self.start[1]

    @property
    def version(self):
        return self.start[0] if self.start[0].startswith("HTTP/") else self.start[2]

    def all(self, name):
        return [value for field, value in self.fields if field.lower() == name.lower()]

    def get(self, name):
        values = self.all(name)
        return ", ".join(values) if values else None

    def tokens(self, name):
        return [token.strip().lower() for token in (self.get(name) or "").split(",") if token.strip()]

    def __repr__(self):
        return f"{' '.join(self.start)} {self.fields} body {self.body[:200]!r}"


def parse_fields(lines):
    fields = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or " " in name or "\t" in name:
            raise Malformed(f"field line {line!r}")
        fields.append((name, value.strip(" \t")))
    return fields


def parse_head(head):
    """From the start line through the empty line, CRLF everywhere."""
    text = head.decode("latin-1")
    if not text.endswith("\r\n\r\n"):
        raise Malformed(f"head {text!r}")
    lines = text[:-4].split("\r\n")
    for line in lines:
        if "\n" in line or "\r" in line or "\0" in line:
            raise Malformed(f"control byte in {line!r}")
    start = lines[0].split(" ", 2)
    if len(start) != 3:
        raise Malformed(f"start line {lines[0]!r}")
    return Message(start, parse_fields(lines[1:]))


def framing(message, bodiless=False):
    """How the body is delimited (RFC 9112 section 6.3); ("length", n) or (kind, None)."""
    is_response = message.start[0].startswith("HTTP/")
    codings = message.all("Transfer-Encoding")
    lengths = message.all("Content-Length")
    if codings and lengths:
        raise Malformed(f"Transfer-Encoding and Content-Length in {message}")
    if len(lengths) > 1 or any(not value.isdigit() for value in lengths):
        raise Malformed(f"Content-Length {lengths}")
    if is_response and (bodiless or message.status < 200 or message.status in (204, 304)):
        if message.status < 200 or message.status == 204:
            if codings or lengths:
                raise Malformed(f"framing fields in {message}")
        return "none", None
    if codings:
        if [c.lower() for c in codings] != ["chunked"]:
            raise Malformed(f"Transfer-Encoding {codings}")
        return "chunked", None
    if lengths:
        return "length", int(lengths[0])
    return ("close" if is_response else "none"), None


SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@ll")


def stamp_arrivals(listener):
    """The kernel notes when bytes come on its connections, however late they are read."""
    listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


class Stream:
    """A socket read by HTTP's units. Every wait ends at the overall deadline. `is_stamped`: its listener had
    `stamp_arrivals`."""

    def __init__(self, sock, is_stamped=False):
        self.socket = sock
        self.buffer = bytearray()
        self.is_stamped, self.received = is_stamped, None  # when the last bytes came, by time.monotonic
        self.socket.settimeout(DEADLINE_SECONDS)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    # ---- writing ------------------------------------------------------------------------------

    def send(self, data):
        try:
            self.socket.sendall(data)
        except TimeoutError:
            raise Hung("the peer does not read") from None
        except OSError as error:
            raise Ended(str(error)) from None

    def try_send(self, data):
        """For when the peer may have closed already, which is no news."""
        try:
            self.send(data)
        except Ended:
            pass

    def send_bytewise(self, data, cuts=None):
        """Each piece in a segment of its own (TCP_NODELAY); one byte each, or cut at offsets."""
        offsets = list(range(1, len(data))) if cuts is None else sorted(cuts)
        for begin, end in zip([0] + offsets, offsets + [len(data)]):
            self.send(data[begin:end])

    def is_established(self):
        """Neither end of a TCP connection has come to an end, as the system knows it, whether or not it was read."""
        try:
            return self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == b"\x01"
        except OSError:
            return False

    def finish_sending(self):
        self.socket.shutdown(socket.SHUT_WR)

    # ---- reading ------------------------------------------------------------------------------

    def was_reset(self):
        """By the peer, as the system knows: what has come and was not read is lost. Waits for nothing."""
        poll = select.poll()
        poll.register(self.socket, 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))

    def _receive(self, most):
        if not self.is_stamped:
            return self.socket.recv(most)
        data, notes, _, _ = self.socket.recvmsg(most, socket.CMSG_SPACE(_TIMESPEC.size))
        for level, kind, content in notes:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                seconds, nanoseconds = _TIMESPEC.unpack(content)
                self.received = seconds + nanoseconds / 1e9 - time.time() + time.monotonic()
        return data

    def _more(self, most=65536):
        try:
            data = self._receive(most)
        except TimeoutError:
            raise Hung(f"the peer sends nothing; so far {bytes(self.buffer[:500])!r}") from None
        except OSError as error:
            raise Ended(str(error)) from None
        self.buffer += data
        return bool(data)

    def _take(self, count):
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def read_through(self, mark):
        while (at := self.buffer.find(mark)) < 0:
            if not self._more():
                raise Ended(f"ended before {mark!r}, after {bytes(self.buffer[:500])!r}")
        return self._take(at + len(mark))

    def read_exactly(self, count):
        while len(self.buffer) < count:
            if not self._more():
                raise Ended(f"ended {count - len(self.buffer)} bytes early")
        return self._take(count)

    def read_some(self):
        """Whatever comes next, b"" at the end."""
        if not self.buffer and not self._more():
            return b""
        return self._take(len(self.buffer))

    def read_to_end(self):
        while self._more():
            pass
        return self._take(len(self.buffer))

    def read_to_any_end(self):
        """As above; a reset counts as an end too."""
        try:
            return self.read_to_end()
        except Ended:
            return self._take(len(self.buffer))

    def read_head(self):
        return parse_head(self.read_through(b"\r\n\r\n"))

    def body_pieces(self, message, bodiless=False):
        """The body as it comes; sets the message's framing and trailers."""
        message.framing, length = framing(message, bodiless)
        if message.framing == "length":
            while length:
                if not self.buffer and not self._more():
                    raise Ended(f"body ended {length} bytes early")
                piece = self._take(min(length, len(self.buffer)))
                length -= len(piece)
                yield piece
        elif message.framing == "chunked":
            yield from self._chunks(message)
        elif message.framing == "close":
            while piece := self.read_some():
                yield piece

    def _chunks(self, message):
        while True:
            line = self.read_through(b"\r\n")[:-2]
            if not line or any(c not in b"0123456789abcdefABCDEF" for c in line):
                raise Malformed(f"chunk size line {line!r} (extensions are to be dropped)")
            size = int(line, 16)
            if size == 0:
                break
            yield self.read_exactly(size)
            if self.read_exactly(2) != b"\r\n":
                raise Malformed("no CRLF after chunk data")
        lines = []
        while (line := self.read_through(b"\r\n")) != b"\r\n":
            lines.append(line[:-2].decode("latin-1"))
        message.trailers = parse_fields(lines)

    def read_body(self, message, bodiless=False):
        message.body = b"".join(self.body_pieces(message, bodiless))
        return message

    # ---- the end ------------------------------------------------------------------------------

    def expect_end(self):
        """The peer closes, and sends nothing before that."""
        rest = self.read_to_any_end()
        if rest:
            raise AssertionError(f"expected the end, found {rest[:500]!r}")

    def reset(self):
        """Close so that the peer gets a reset (SO_LINGER 0)."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def close(self):
        self.socket.close()


def stop_listening(listener, acceptor):
    """Closes it when the thread that accepts there has ended: one that is still about to would accept from the next
    socket that gets the same number."""
    try:
        listener.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it did not listen, or was closed already
    if acceptor:
        acceptor.join(DEADLINE_SECONDS)
    listener.close()


def dial(address, local=None, receive_buffer=None):
    """Connects to `a.b.c.d:port`, `[v6]:port` or `unix:/path`."""
    if address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        where = address[5:]
    else:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        where = (host, int(port))
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    if local:
        sock.bind((local, 0))
    sock.settimeout(DEADLINE_SECONDS)
    try:
        sock.connect(where)
    except BaseException:
        sock.close()
        raise
    return sock


def chunked(*pieces, trailers=()):
    """A chunked body of these pieces."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)
    return body + b"0\r\n" + fields_bytes(trailers) + b"\r\n"


def fields_bytes(fields):
    return b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in fields)


def quiet(stream, seconds):
    """True when the peer says nothing (and does not close) for so long. Only for claims that
    something does NOT happen: a slow machine can make them pass too easily, never fail."""
    return not stream.buffer and not select.select([stream.socket], [], [], seconds)[0]
