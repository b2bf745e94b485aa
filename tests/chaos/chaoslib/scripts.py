"""What clients do, well and badly behaved: each script is one connection. Every connection must end
when its time is over, whatever its client does."""
import asyncio
import time

from .net import Late

SCRIPTS = {}


def script(function):
    SCRIPTS[function.__name__] = function
    return function


# ---- well-behaved -------------------------------------------------------------------------------

@script
async def asks(c):
    """One request after the other."""
    link = await c.dial()
    for _ in range(c.random.randrange(1, 7)):
        ask = c.ask()
        await c.send(link, [ask])
        await c.answer(link, ask)
        if link.tainted:
            return
        if c.random.random() < 0.2:
            await asyncio.sleep(c.random.uniform(0, 0.1))


@script
async def pipelines(c):
    link = await c.dial()
    for _ in range(c.random.randrange(1, 4)):
        batch = [c.ask() for _ in range(c.random.randrange(2, 12))]
        await c.send(link, batch)
        for ask in batch:
            await c.answer(link, ask)
        if link.tainted:
            return


@script
async def drips(c):
    """A head in pieces, with a reload now and then between two of them."""
    link = await c.dial()
    for _ in range(c.random.randrange(1, 3)):
        ask = c.ask()
        data = ask.bytes()
        c.world.sent([ask])
        cuts = sorted(c.random.randrange(1, len(ask.head())) for _ in range(c.random.randrange(1, 6)))
        c.note(f"drips {ask} in {len(cuts) + 1} pieces")
        for begin, end in zip([0] + cuts, cuts + [len(data)]):
            await link.send(data[begin:end])
            await asyncio.sleep(c.random.uniform(0, 0.04))
        await c.answer(link, ask)
        if link.tainted:
            return


@script
async def half_closes(c):
    """Closes its half behind its requests and still wants the answers."""
    link = await c.dial()
    batch = [c.ask() for _ in range(c.random.randrange(1, 4))]
    await c.send(link, batch)
    link.finish_sending()
    for ask in batch:
        await c.answer(link, ask)
    await link.to_end()


@script
async def expects(c):
    """Waits a moment for 100 Continue."""
    link = await c.dial()
    ask = c.ask(method="POST", body=b"z" * 20_000, fields=c.fields() + [("Expect", "100-continue")])
    c.world.sent([ask])
    await link.send(ask.head())
    link.tainted = True  # an answer instead of 100 ends the connection
    await asyncio.sleep(c.random.uniform(0, 0.05))
    await link.try_send(ask.payload())
    await c.answer(link, ask)


@script
async def reads_slowly(c):
    link = await c.dial(receive_buffer=4096)
    ask = c.ask(method="GET", size=300_000, status=200)
    await c.send(link, [ask])
    link.tainted = True
    for _ in range(c.random.randrange(1, 8)):
        await asyncio.sleep(c.random.uniform(0, 0.05))
        if not await link.more(most=2000):
            return
    await c.answer(link, ask)


@script
async def speaks_1_0(c):
    """HTTP/1.0 with keep-alive, and then half a head or another request."""
    link = await c.dial()
    ask = c.ask(method="GET", version="1.0", fields=c.fields() + [("Connection", "keep-alive")])
    more = c.ask(method="GET", version="1.0").head()
    cut = c.random.choice((len(more), c.random.randrange(1, len(more))))
    if c.random.random() < 0.5:
        await c.send(link, [ask], ask.bytes() + more[:cut])
        await c.answer(link, ask)
    else:
        await c.send(link, [ask])
        await asyncio.sleep(c.random.uniform(0, 0.03))
        await link.try_send(more[:cut])
        await c.answer(link, ask)
        await link.try_send(more[:cut])
    await link.to_end()


# ---- those that leave ---------------------------------------------------------------------------

@script
async def leaves(c):
    """Asks, and is gone before the answers are."""
    link = await c.dial(receive_buffer=c.random.choice((None, 4096)))
    batch = [c.ask() for _ in range(c.random.choice((1, 1, 2, 6)))]
    data = b"".join(ask.bytes() for ask in batch)
    if c.random.random() < 0.3:
        data = data[:c.random.randrange(1, len(data))]
    await c.send(link, batch, data)
    await asyncio.sleep(c.random.choice((0, 0.001, c.random.uniform(0, 0.2))))
    if c.random.random() < 0.2:
        await link.more()
    link.reset() if c.random.random() < 0.5 else link.close()


@script
async def half_head(c):
    """Half a head, then its other half after a while, an end, or nothing more."""
    link = await c.dial()
    ask = c.ask()
    data = ask.bytes()
    cut = c.random.randrange(1, len(ask.head()))
    c.world.sent([ask])
    before = c.ask(method="GET") if c.random.random() < 0.3 else None
    if before:
        await c.send(link, [before])
        if c.random.random() < 0.5:
            await c.answer(link, before)
            before = None
    await link.try_send(data[:cut])
    c.note(f"{cut} bytes of {ask}")
    ending = c.random.randrange(4)
    await asyncio.sleep(c.random.uniform(0, 0.25))
    if ending == 0:
        link.reset()
    elif ending == 1:
        await link.try_send(data[cut:])
        link.used = True
        if before:
            await c.answer(link, before)
        await c.answer(link, ask)
    elif ending == 2:
        link.finish_sending()
        await link.to_end()
    else:
        await link.to_end()


@script
async def half_body(c):
    link = await c.dial()
    ask = c.ask(method=c.random.choice(("POST", "PUT")), body=b"z" * 20_000,
                chunked=c.random.random() < 0.5)
    data = ask.bytes()
    cut = c.random.randrange(len(ask.head()), len(data))
    await c.send(link, [ask], data[:cut])
    await asyncio.sleep(c.random.uniform(0, 0.1))
    ending = c.random.randrange(3)
    if ending == 0:
        link.reset()
    else:
        if ending == 1:
            link.finish_sending()
        await link.to_end()


# ---- those that offend --------------------------------------------------------------------------

@script
async def upgrades(c):
    """Asks for another protocol, perhaps with bytes behind it before the 101, and talks."""
    link = await c.dial()
    ask = c.ask(do=c.random.choice(("tunnel", "tunnel", "tunnel", "plain", "unasked_101", "stalls")),
                method="GET", status=200,
                fields=c.fields() + [("Connection", "Upgrade"), ("Upgrade", "websocket")])
    link.tainted = True
    early = c.random.choice((b"", b"GE", b"GET / HTTP/1.1\r\nHo", b"\x81\x05hello", b"z" * 100_000))
    await c.send(link, [ask], ask.bytes() + (early if c.random.random() < 0.5 else b""))
    if c.random.random() < 0.3:
        await asyncio.sleep(c.random.uniform(0, 0.02))
        await link.try_send(early)
    if await c.answer(link, ask) != 101:
        await link.to_end()
        return
    for _ in range(c.random.randrange(4)):
        await link.send(c.random.randbytes(c.random.choice((1, 1000, 100_000))))
        await link.more()
    ending = c.random.randrange(4)
    if ending == 0:
        link.reset()
    elif ending < 3:
        link.finish_sending()
        await link.to_end()
    else:
        await link.to_end()  # tunnel_timeout


@script
async def sends_garbage(c):
    link = await c.dial()
    r = c.random
    ask = c.ask(mark="g")  # with a digit changed, it is still no other client's
    head = ask.head()
    data = r.choice((
        r.randbytes(r.choice((1, 50, 5000))),
        bytes(b if r.random() > 0.02 else r.randrange(256) for b in head),
        head.replace(b"\r\n", b"\n"),
        head[:-2] + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        head[:-2] + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        head[:-2] + b"X-Long: " + b"y" * r.choice((17_000, 2_000_000)) + b"\r\n\r\n",
        head[:-2] + b"Connection: " + b"close, " * 1000 + b"\r\n\r\n",
        head[:-2] + b"X: 1\r\n" * 200 + b"\r\n",
        b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        c.ask(method="POST", body=b"").head()[:-2] + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello",
        b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX",
        b"GET /a/x?do=plain HTTP/1.1\r\nHost: a b c\r\n\r\n",
        b"\r\n" * 20_000,
    ))
    c.note(f"{len(data)} bytes of garbage: {data[:80]!r}")
    await link.try_send(data)
    if r.random() < 0.5:
        link.finish_sending()
    await link.to_end()


@script
async def floods(c):
    """Many cheap requests at once: refused, unknown, empty lines. Reads all answers, or is gone."""
    link = await c.dial()
    r = c.random
    one = r.choice((
        b"GET /nowhere HTTP/1.1\r\nHost: api.test\r\n\r\n",
        b"\r\n",
        b"GET /deny/x?id=0.0 HTTP/1.1\r\nHost: api.test\r\n\r\n",
        b"GET /bound/x?id=0.0&do=plain HTTP/1.1\r\nHost: api.test\r\nX-Bound: flood\r\n\r\n",
    ))
    count = r.choice((100, 400))
    c.note(f"{count} times {one!r}")
    if not await link.try_send(one * count):
        return
    if r.random() < 0.3:
        link.reset()
        return
    link.finish_sending()
    await link.to_end()


@script
async def idles(c):
    """Says nothing at all, and is closed."""
    link = await c.dial()
    await link.to_end()


# ---- those that would never end -----------------------------------------------------------------

async def poke_until_closed(c, link, pokes, what, pause):
    """Reads nothing, sends something now and then. Its time must be over all the same."""
    end = time.monotonic() + c.world.theme.poke_seconds
    while time.monotonic() < end:
        if link.poke(c.random.choice(pokes)) is False:
            c.note("closed")
            return
        await asyncio.sleep(pause)
    if not c.world.was_starved(end - c.world.theme.poke_seconds, 1):
        c.fail(f"{what} is still open after {c.world.theme.poke_seconds} s")


@script
async def pokes_unread(c):
    """Reads nothing of a large response, and sends a byte each tenth of a second."""
    link = await c.dial(receive_buffer=4096)
    ask = c.ask(do="plain", method="GET", size=8_000_000, status=200, route=c.world.theme.free_route)
    await c.send(link, [ask])
    pokes = c.random.choice(((b"\r\n",), (b"G", b"E", b"T"), (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",)))
    await poke_until_closed(c, link, pokes, "a client that reads nothing and sends a byte at a time", 0.1)


@script
async def unread_trickle(c):
    """Reads nothing of a response whose server trickles on. It is looked at late, by one byte."""
    link = await c.dial(receive_buffer=4096)
    ask = c.ask(do="trickles_for_long", method="GET", size=8_000_000, status=200,
                route=c.world.theme.free_route)
    await c.send(link, [ask])
    await asyncio.sleep(2.5)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        if link.poke(b"\r") is False:
            return
        await asyncio.sleep(0.3)
    if not c.world.was_starved(c.began, 1):
        c.fail("a client that reads nothing is still open after 3.5 s, as its server trickles")


@script
async def pokes_idle(c):
    """Empty lines and no request: the idle time runs all the same."""
    link = await c.dial()
    await poke_until_closed(c, link, (b"\r\n",), "a client that sends empty lines only", 0.1)


@script
async def pokes_head(c):
    """A head that never ends."""
    link = await c.dial()
    await link.send(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ")
    await poke_until_closed(c, link, (b"y",), "a client whose head never ends", 0.1)


@script
async def uploads_to_stalled(c):
    """All of a body is offered at once; the server reads nothing of it. Not the client's fault."""
    link = await c.dial()
    ask = c.ask(do="stalls", method="POST", body=b"z" * 12_000_000, chunked=False,
                route=c.world.theme.free_route)
    c.world.sent([ask])
    upload = asyncio.create_task(link.try_send(ask.bytes()))
    try:
        message = await link.head(c.world.theme.patience)
        c.note(f"{message.status} to the upload")
        if message.status == 408 and not c.world.was_starved(c.began):
            c.fail("408 to a client whose body waits for a server that reads nothing")
    finally:
        upload.cancel()
        await asyncio.wait([upload])


@script
async def body_stalls(c):
    """Half a body, and then nothing: 408 in body_timeout, whatever the server does."""
    link = await c.dial()
    ask = c.ask(do=c.random.choice(("plain", "stalls")), method="POST", body=b"z" * 20_000,
                chunked=c.random.random() < 0.5, route=c.world.theme.free_route)
    await c.send(link, [ask], ask.bytes()[:-5])
    await asyncio.sleep(2.0)
    link.socket.setblocking(False)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        try:
            if await link.more(1.0) is False:
                return
        except Late:
            break
    if not link.buffer and not c.world.was_starved(c.began, 1):
        c.fail("a body that stopped short is waited for after 3 s")


# ---- those that hold each other up --------------------------------------------------------------

def in_turn(c):
    """One session a connection, so that what is pipelined goes side by side."""
    fields = [("X-Session", str(c.number)), ("X-Turn", c.random.choice(("hot", "warm", f"cold{c.number}"))),
              ("Priority", f"u={c.random.choice((1, 3, 5))}")]
    method = c.random.choice(("GET", "GET", "GET", "POST"))
    body = b"z" * c.random.choice((0, 1000)) if method == "POST" else None
    return c.ask(method=method, body=body, chunked=False, status=200, fields=fields)


@script
async def asks_in_turn(c):
    link = await c.dial()
    for _ in range(c.random.randrange(1, 5)):
        ask = in_turn(c)
        await c.send(link, [ask])
        await c.answer(link, ask)


@script
async def pipelines_in_turn(c):
    link = await c.dial()
    for _ in range(c.random.randrange(1, 3)):
        batch = [in_turn(c) for _ in range(c.random.randrange(2, 5))]
        await c.send(link, batch)
        for ask in batch:
            await c.answer(link, ask)
