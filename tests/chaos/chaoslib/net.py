"""HTTP/1 over asyncio sockets for both sides of sluice: strict where it reads, careless where it writes.

Each wait has an end. `Late` is a wait that took longer than anything sluice may take, so it is a
finding; `Ended` is a connection that ended, which a script judges."""
import asyncio
import errno
import socket
import struct

from lib import wire
from lib.wire import Malformed

# Longer than the sum of all timeouts that one exchange may use up in any of the configurations, on any machine.
PATIENCE_SECONDS = 30.0


class Ended(Exception):
    """The peer closed or reset the connection; `missing`: bytes of a body whose length is known."""

    def __init__(self, text, missing=0):
        super().__init__(text)
        self.missing = missing


class Late(Exception):
    """Nothing happened within the patience: a hang."""


class Wire:
    """A connected socket, its unread bytes, and what happened on it."""

    def __init__(self, sock):
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = sock
        self.buffer = bytearray()
        self.loop = asyncio.get_running_loop()

    # ---- writing ------------------------------------------------------------------------------

    async def send(self, data, seconds=PATIENCE_SECONDS):
        try:
            async with asyncio.timeout(seconds):
                await self.loop.sock_sendall(self.socket, data)
        except TimeoutError:
            raise Late(f"could not send {len(data)} bytes in {seconds} s") from None
        except OSError as error:
            raise Ended(f"while sending: {error}") from None

    async def try_send(self, data, seconds=PATIENCE_SECONDS):
        """For when the peer may have closed already. False: it has."""
        try:
            await self.send(data, seconds)
        except Ended:
            return False
        return True

    def poke(self, data):
        """Sends without a wait. False: the peer is gone; None: there is no room."""
        try:
            self.socket.send(data)
        except BlockingIOError:
            return None
        except OSError:
            return False
        return True

    def finish_sending(self):
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    # ---- reading ------------------------------------------------------------------------------

    async def more(self, seconds=PATIENCE_SECONDS, most=262144):
        """False at the end."""
        try:
            async with asyncio.timeout(seconds):
                data = await self.loop.sock_recv(self.socket, most)
        except TimeoutError:
            raise Late(f"nothing came for {seconds} s; unread {bytes(self.buffer[:200])!r}") from None
        except OSError as error:
            raise Ended(f"while reading: {error}") from None
        self.buffer += data
        return bool(data)

    async def through(self, mark, seconds=PATIENCE_SECONDS):
        begin = 0
        while (at := self.buffer.find(mark, begin)) < 0:
            begin = max(0, len(self.buffer) - len(mark))
            if not await self.more(seconds):
                raise Ended(f"closed before {mark!r}; unread {bytes(self.buffer[:200])!r}")
        return self.take(at + len(mark))

    def take(self, count):
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    async def exactly(self, count, seconds=PATIENCE_SECONDS):
        while len(self.buffer) < count:
            if not await self.more(seconds):
                missing = count - len(self.buffer)
                raise Ended(f"closed {missing} bytes early", missing)
        return self.take(count)

    async def to_end(self, seconds=PATIENCE_SECONDS):
        """All until the end, however it comes."""
        try:
            while await self.more(seconds):
                pass
        except Ended:
            pass
        return self.take(len(self.buffer))

    async def head(self, seconds=PATIENCE_SECONDS):
        return wire.parse_head(await self.through(b"\r\n\r\n", seconds))

    async def body(self, message, bodiless=False, seconds=PATIENCE_SECONDS):
        message.framing, length = wire.framing(message, bodiless)
        if message.framing == "length":
            message.body = await self.exactly(length, seconds)
        elif message.framing == "chunked":
            message.body = await self._chunks(message, seconds)
        elif message.framing == "close":
            while await self.more(seconds):
                pass
            message.body = self.take(len(self.buffer))
        return message

    async def _chunks(self, message, seconds):
        pieces = []
        while True:
            line = (await self.through(b"\r\n", seconds))[:-2]
            if not line or any(c not in b"0123456789abcdefABCDEF" for c in line):
                raise Malformed(f"chunk size line {line!r}")
            size = int(line, 16)
            if size == 0:
                break
            pieces.append(await self.exactly(size, seconds))
            if await self.exactly(2, seconds) != b"\r\n":
                raise Malformed("no CRLF after a chunk")
        while (line := await self.through(b"\r\n", seconds)) != b"\r\n":
            message.trailers += wire.parse_fields([line[:-2].decode("latin-1")])
        return b"".join(pieces)

    # ---- the end ------------------------------------------------------------------------------

    def reset(self):
        """Closes so that the peer gets a reset, behind what was sent."""
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        self.socket.close()

    def close(self):
        self.socket.close()


async def dial(address, receive_buffer=None, seconds=PATIENCE_SECONDS):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.setblocking(False)
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
    except TimeoutError:
        sock.close()
        raise Late(f"could not connect in {seconds} s") from None
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise  # the machine's own bound, not sluice's doing
        raise Ended(f"while connecting: {error}") from None
    return Wire(sock)
