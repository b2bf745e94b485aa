"""A client and what it may insist on: a well-behaved request to a server that answers it whole is
answered, with its own response or with one of sluice's own. scripts.py says what clients do."""
import asyncio
import time

from lib.wire import Malformed

from .asks import Ask
from .net import Ended, Late, dial
from .servers import WHOLE

# Statuses that sluice may answer by itself to a request without a fault.
OF_LOAD = {429, 502, 503, 504}
OF_FAULTS = OF_LOAD | {400, 408, 411, 413, 414, 417, 431, 500, 501, 505}


class Client:
    """One of the wave's clients: its number, its random draws, what it did."""

    def __init__(self, world, number, script, random):
        self.world = world
        self.number = number
        self.script = script
        self.name = script.__name__
        self.random = random
        self.asked = 0
        self.notes = []
        self.links = []
        self.began = time.monotonic()

    def __str__(self):
        return f"client {self.number} ({self.name})"

    def note(self, text):
        self.notes.append(f"{time.monotonic() - self.world.began:8.3f} {text}")

    async def run(self):
        try:
            await self.script(self)
        except Ended as ended:
            self.note(f"ended: {ended}")
        except (Late, Malformed) as wrong:
            self.fail(f"{type(wrong).__name__}: {wrong}")
        finally:
            for link in self.links:
                link.close()

    def fail(self, text):
        self.world.fail(f"{self}: {text}", self)

    async def dial(self, **options):
        since = time.monotonic()
        link = await dial(self.world.address, **options)
        link.since = since    # when its connection stood we know only when we run again
        self.links.append(link)
        link.used = False     # a response was read: the next request may meet sluice's idle close
        link.tainted = False  # what was asked on it may end it
        link.port = link.socket.getsockname()[1]
        self.note(f"connected from port {link.port}")
        return link

    # ---- asking ---------------------------------------------------------------------------------

    def ask(self, do=None, mark="", **options):
        """A request; its identity is its client's number and its own, behind a mark."""
        self.asked += 1
        r = self.random
        do = do or self.world.theme.behaviour(r)
        options.setdefault("method", r.choice(("GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE")))
        options.setdefault("route", r.choice(self.world.theme.routes))
        options.setdefault("size", r.choice(self.world.theme.sizes))
        options.setdefault("status", r.choice((200, 200, 200, 200, 204, 304, 404, 503)))
        options.setdefault("fields", self.fields())
        if options["method"] in ("POST", "PUT") and "body" not in options:
            options["body"] = b"z" * r.choice((0, 5, 3000, 30_000, 200_000))
            options["chunked"] = r.random() < 0.4
        return Ask(f"{mark}{self.number}.{self.asked}", r.randrange(1 << 30), do=do, **options)

    def fields(self):
        r = self.random
        fields = [("X-Api-Key", str(r.randrange(r.choice((3, 3, 50))))),
                  ("X-Bound", str(r.randrange(3)))]
        if r.random() < 0.3:
            fields.append(("Priority", f"u={r.randrange(8)}"))
        if r.random() < 0.1:
            fields.append(("User-Agent", r.choice(('x" 200 "y', "tab\there", "\xe9\xff", "a\\b", "{}"))))
        if r.random() < 0.1:
            fields.append(("X-Long", "y" * r.randrange(3000)))
        return fields

    async def send(self, link, asks, data=None):
        """Sends requests in one piece."""
        draw = self.random if self.random.random() < 0.5 else None
        data = data or b"".join(ask.bytes(draw) for ask in asks)
        self.note(f"sends {len(data)} bytes: {', '.join(map(str, asks))}")
        self.world.sent(asks)
        await link.send(data)

    async def answer(self, link, ask):
        """The response to this request, held to what it must be. Returns its status."""
        # A client of HTTP/1.0 here sends on before its answer has ended, which may meet the close.
        link.tainted |= ask.do not in WHOLE or ask.version == "1.0"
        began = self.world.sent_at[ask.identity]
        if not link.used:
            began = min(began, link.since)
        try:
            message = await self._response(link, ask)
        except (Ended, Late, Malformed) as wrong:
            await self._judge_end(link, ask, wrong, began)
            raise
        self.note(f"{message.status} to {ask.identity} ({message.get('X-Chaos-Id') or 'own'}, "
                  f"{len(message.body)} bytes)")
        link.used = True
        self.judge(ask, message, began)
        if "close" in message.tokens("Connection") or message.framing == "close":
            link.tainted = True
        return message.status

    async def _response(self, link, ask):
        seconds = self.world.theme.patience
        while True:
            message = await link.head(seconds)
            if message.status >= 200 or message.status == 101:
                break
        if message.status == 101:
            return message
        return await link.body(message, bodiless=ask.method == "HEAD", seconds=seconds)

    async def _judge_end(self, link, ask, wrong, began):
        """A connection that ends instead of an answer: whose fault?"""
        await asyncio.sleep(0.5)  # sluice may be ending with it
        if isinstance(wrong, Late):
            raise Late(f"no answer to {ask}: {wrong}")
        if isinstance(wrong, Malformed):
            return
        # What its server wrote and sluice's kernel never had, as the server reset the connection.
        lost = self.world.lost.get(ask.identity, 0)
        excused = (link.tainted or ask.identity in self.world.cut or wrong.missing <= lost > 0
                   or (link.used and not link.buffer) or self.world.ending or self.world.was_starved(began))
        if not excused:
            self.fail(f"no whole answer to {ask}: {wrong}")

    def judge(self, ask, message, began):
        identity = message.get("X-Chaos-Id")
        if message.status == 101 and any(name == "Upgrade" for name, _ in ask.fields):
            return
        if identity is None:
            allowed = self.world.theme.own_statuses if ask.do in WHOLE else OF_FAULTS
            if message.status not in allowed and not self.world.was_starved(began):
                self.fail(f"{message.status} to {ask}: {message.body[-200:]!r}")
            return
        if identity != ask.identity:
            self.fail(f"the response of request {identity} to {ask}")
        elif ask.do in WHOLE and (message.status != ask.status or message.body != ask.expected_content()):
            self.fail(f"a wrong response to {ask}: {len(message.body)} bytes, expected "
                      f"{len(ask.expected_content())}: {message}")
        self.world.answered(ask, message.status)
