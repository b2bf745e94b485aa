"""Servers behind sluice, well and badly behaved: each request names its behaviour.

A behaviour is `whole` when its response is complete and correct, so that its client may insist on it.
The others break off, stall, lie or send what no server may."""
import array
import asyncio
import fcntl
import socket
import time

from lib import wire
from lib.process import Port
from lib.wire import Malformed

from .asks import Asked, chunks
from .net import Ended, Late, Wire

# A server's own patience, longer than all of sluice's timeouts: what waits that long was forgotten.
FORGOTTEN_SECONDS = 45.0

TCP_ESTABLISHED = 1
SIOCOUTQ = 0x5411

BEHAVIOURS = {}
WHOLE = set()


def behaviour(whole):
    def keep(function):
        BEHAVIOURS[function.__name__] = function
        if whole:
            WHOLE.add(function.__name__)
        return function
    return keep


class Visit:
    """One request at a server."""

    def __init__(self, server, link, head):
        self.server = server
        self.link = link
        self.ask = Asked(head)
        self.random = self.ask.random
        self.body_read = False

    async def read_body(self):
        if not self.body_read:
            self.body_read = True
            await self.link.body(self.ask.head, seconds=FORGOTTEN_SECONDS)

    def head(self, *fields, status=None):
        status = status or self.ask.status
        return (f"HTTP/1.1 {status} Text\r\nX-Chaos-Id: {self.ask.identity}\r\n"
                + "".join(f"{field}\r\n" for field in fields) + "\r\n").encode()

    def reply(self, *fields):
        """A whole response with its length."""
        if self.ask.bodiless():
            return self.head(*fields)
        return self.head(f"Content-Length: {self.ask.size}", *fields) + self.ask.content()

    async def send(self, data):
        await self.link.send(data, FORGOTTEN_SECONDS)

    async def until_gone(self):
        await self.link.to_end(FORGOTTEN_SECONDS)


# ---- whole --------------------------------------------------------------------------------------
# Each returns whether the connection serves on.

@behaviour(whole=True)
async def plain(v):
    await v.read_body()
    await v.send(v.reply())
    return True


@behaviour(whole=True)
async def pauses(v):
    await v.read_body()
    await asyncio.sleep(v.random.uniform(0.001, 0.02))
    await v.send(v.reply())
    return True


@behaviour(whole=True)
async def hold(v):
    """Answers when as many are here at once as the probe expects, or when that never happens."""
    await v.server.crowd.arrive()
    await v.send(v.reply())
    return True


@behaviour(whole=True)
async def chunked(v):
    await v.read_body()
    if v.ask.bodiless():
        await v.send(v.reply())
        return True
    data = v.head("Transfer-Encoding: chunked") + chunks(v.ask.content(), v.random)
    cut = v.random.randrange(1, len(data))
    await v.send(data[:cut])
    if v.random.random() < 0.5:
        await asyncio.sleep(0.002)
    await v.send(data[cut:])
    return True


@behaviour(whole=True)
async def until_close(v):
    await v.read_body()
    await v.send(v.head() + (b"" if v.ask.bodiless() else v.ask.content()))
    return v.ask.bodiless() and v.ask.head.method != "HEAD"


@behaviour(whole=True)
async def last(v):
    await v.read_body()
    await v.send(v.reply("Connection: close"))
    return False


@behaviour(whole=True)
async def closes(v):
    """Keeps the connection by what it says, and closes it."""
    await v.read_body()
    await v.send(v.reply())
    return False


@behaviour(whole=True)
async def interim(v):
    for _ in range(v.random.randrange(1, 4)):
        await v.send(v.random.choice((b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 P\r\n\r\n",
                                      b"HTTP/1.1 103 E\r\nLink: </a>\r\n\r\n")))
    await v.read_body()
    await v.send(v.reply())
    return True


@behaviour(whole=True)
async def trickles(v):
    await v.read_body()
    data = v.reply()
    pieces = v.random.randrange(2, 8)
    for n in range(pieces):
        if n > 0:
            await asyncio.sleep(v.random.uniform(0, 0.04))
        await v.send(data[len(data) * n // pieces:len(data) * (n + 1) // pieces])
    return True


# ---- early --------------------------------------------------------------------------------------

@behaviour(whole=False)
async def early(v):
    """Answers before the request's body, then reads that."""
    await v.send(v.reply())
    await v.read_body()
    return True


@behaviour(whole=False)
async def early_close(v):
    await v.send(v.reply())
    return False


@behaviour(whole=False)
async def early_reset(v):
    await v.send(v.reply())
    v.link.reset()
    return False


@behaviour(whole=False)
async def reply_reset(v):
    """The whole response and a reset, which sluice may see in one wake."""
    await v.read_body()
    await v.send(v.reply())
    if v.random.random() < 0.3:
        await asyncio.sleep(v.random.uniform(0, 0.01))
    v.link.reset()
    return False


@behaviour(whole=False)
async def reply_then_reset(v):
    """A kept connection that is reset while it is idle or has just been used again."""
    await v.read_body()
    await v.send(v.reply())
    await asyncio.sleep(v.random.uniform(0, 0.05))
    v.link.reset()
    return False


# ---- broken -------------------------------------------------------------------------------------

async def break_off(v):
    kind = v.random.randrange(3)
    if kind == 0:
        v.link.reset()
    elif kind == 1:
        await v.until_gone()
    return False


@behaviour(whole=False)
async def silent(v):
    return await break_off(v)


@behaviour(whole=False)
async def half_head(v):
    data = v.head("Content-Length: 10")
    await v.send(data[:v.random.randrange(1, len(data))])
    return await break_off(v)


@behaviour(whole=False)
async def half_body(v):
    data = v.head(f"Content-Length: {v.ask.size + 10}") + v.ask.content()
    await v.send(data)
    return await break_off(v)


@behaviour(whole=False)
async def half_chunks(v):
    data = v.head("Transfer-Encoding: chunked") + chunks(v.ask.content(), v.random)
    await v.send(data[:-v.random.randrange(1, 12)])
    return await break_off(v)


@behaviour(whole=False)
async def stalls(v):
    """Reads nothing and says nothing."""
    deadline = time.monotonic() + FORGOTTEN_SECONDS
    while time.monotonic() < deadline and not v.link.peer_gone():
        await asyncio.sleep(0.05)
    return False


@behaviour(whole=False)
async def trickles_for_long(v):
    """A byte at a time, for longer than any client's send_timeout but for no longer than 4 s."""
    await v.read_body()
    await v.send(v.head("Transfer-Encoding: chunked") + b"%x\r\n%s\r\n" % (v.ask.size, v.ask.content()))
    end = time.monotonic() + 4
    while time.monotonic() < end:
        await v.send(b"1\r\nx\r\n")
        await asyncio.sleep(0.05)
    await v.send(b"0\r\n\r\n")
    return False


@behaviour(whole=False)
async def garbage(v):
    await v.send(v.random.randbytes(v.random.choice((1, 30, 4000))))
    return await break_off(v)


@behaviour(whole=False)
async def bad_chunks(v):
    bad = v.random.choice((b"zz\r\nx\r\n0\r\n\r\n", b"-1\r\nx\r\n0\r\n\r\n", b"1\r\nxx0\r\n\r\n",
                           b"ffffffffffffffffff\r\nx", b"1 1\r\nx\r\n0\r\n\r\n", b"\r\n0\r\n\r\n"))
    before = chunks(b"good", None)[:-5] if v.random.random() < 0.5 else b""
    data = v.head("Transfer-Encoding: chunked") + before + bad
    cut = v.random.choice((len(data), data.find(b"\r\n\r\n") + 4))
    await v.send(data[:cut])
    if cut < len(data):
        await asyncio.sleep(0.002)
        await v.send(data[cut:])
    return await break_off(v)


@behaviour(whole=False)
async def bad_framing(v):
    fields = v.random.choice((("Content-Length: 5", "Content-Length: 6"), ("Content-Length: -1",),
                              ("Transfer-Encoding: chunked", "Content-Length: 5"),
                              ("Transfer-Encoding: gzip",), ("Bad Name: x",),
                              ("X-Long: " + "y" * 300_000,)))
    await v.send(v.head(*fields) + b"5\r\nhello\r\n0\r\n\r\n")
    return await break_off(v)


@behaviour(whole=False)
async def extra(v):
    """More bytes than its length says, or a second response, in one piece with the first."""
    await v.read_body()
    await v.send(v.reply() + v.random.choice((b"x", b"\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")))
    return v.random.random() < 0.5


@behaviour(whole=False)
async def interim_flood(v):
    await v.send(b"HTTP/1.1 103 E\r\n\r\n" * 200)
    await v.read_body()
    await v.send(v.reply())
    return True


@behaviour(whole=False)
async def unasked_101(v):
    await v.send(b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello")
    return await break_off(v)


@behaviour(whole=False)
async def tunnel(v):
    """Switches protocols where it was asked to, then echoes."""
    if not v.ask.head.get("Upgrade"):
        return await plain(v)
    await asyncio.sleep(v.random.uniform(0, 0.02))
    await v.send(b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX-Chaos-Id: "
                 + v.ask.identity.encode() + b"\r\n\r\n")
    v.server.in_flight_ends(v)
    if v.random.random() < 0.2:
        return await break_off(v)
    while v.link.buffer or await v.link.more(FORGOTTEN_SECONDS):
        await v.send(v.link.take(len(v.link.buffer)))
    return False


# ---- the server ---------------------------------------------------------------------------------

class Crowd:
    """Holds visits until a number of them is there at once."""

    def __init__(self):
        self.expected = 1
        self.here = 0
        self.peak = 0
        self.full = asyncio.Event()

    def expect(self, count):
        self.expected, self.here, self.peak = count, 0, 0
        self.full = asyncio.Event()

    async def arrive(self):
        self.here += 1
        self.peak = max(self.peak, self.here)
        if self.here >= self.expected:
            self.full.set()
        try:
            async with asyncio.timeout(4):
                await self.full.wait()
        except TimeoutError:
            pass
        await asyncio.sleep(0.02)  # one too many would be seen
        self.here -= 1


class Server:
    """Listens, accepts, and does as it is asked. What no proxy may send goes into world.fail."""

    def __init__(self, world, name, crowd):
        self.world = world
        self.name = name
        self.crowd = crowd
        self.in_flight = set()
        self.serving = set()
        self.listener = None
        self.held = Port()  # also while it is dead: else another test may be given it
        self.port = self.held.number
        self.task = None
        self.open()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def open(self):
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.listener.listen(1024)
        self.listener.setblocking(False)
        self.task = asyncio.create_task(self._accept(self.listener))

    def die(self):
        """Refuses connections and cuts the open ones, until open()."""
        self.task.cancel()
        if self.listener.fileno() >= 0:  # it may be dead already
            asyncio.get_running_loop().remove_reader(self.listener)  # or it would find another socket of this number
        self.listener.close()
        self.world.cut.update(visit.ask.identity for visit in self.in_flight)
        for task in list(self.serving):
            task.cancel()  # resets its connection

    async def _accept(self, listener):
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError:
                return
            task = self.world.spawn(self._serve(ServerWire(sock)))
            self.serving.add(task)
            task.add_done_callback(self.serving.discard)

    async def _serve(self, link):
        try:
            while await self._serve_one(link):
                pass
        except Ended:
            pass
        except asyncio.CancelledError:
            if link.last:
                self.world.lost[Asked(link.last).identity] = link.unacknowledged()
            link.reset()
        except Late as late:
            self.world.fail(f"server {self.name}: {late}: forgotten, after {link.last}")
        except (Malformed, ValueError) as error:
            if link.socket.fileno() >= 0:
                self.world.fail(f"server {self.name} was sent what no proxy may send: {error}")
        finally:
            link.close()

    async def _serve_one(self, link):
        if not link.buffer and not await link.more(3600):
            return False
        visit = Visit(self, link, await link.head(FORGOTTEN_SECONDS))
        wire.framing(visit.ask.head)
        link.last = visit.ask.head
        self.in_flight.add(visit)
        self.world.arrived(self, visit.ask)
        try:
            serves_on = await BEHAVIOURS.get(visit.ask.do, plain)(visit)
            if serves_on:
                await visit.read_body()
            return serves_on
        finally:
            self.in_flight_ends(visit)

    def in_flight_ends(self, visit):
        self.in_flight.discard(visit)


class ServerWire(Wire):
    last = None  # the head of the last request on it

    def unacknowledged(self):
        """Bytes that were written and that the peer's kernel does not have: a reset throws them away."""
        count = array.array("i", [0])
        fcntl.ioctl(self.socket, SIOCOUTQ, count)
        return count[0]

    def peer_gone(self):
        """Whether the peer has closed or reset, be bytes of its still unread or not."""
        try:
            info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
        except OSError:
            return True
        return info[0] != TCP_ESTABLISHED
