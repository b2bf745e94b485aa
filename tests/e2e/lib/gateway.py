"""Backends of the WebSocket-over-HTTP protocol: plain HTTP, events in bodies, in plain Python.

    backend = Backend()                       answers OPEN, sends messages back, logs all that comes
    backend = Backend(on_event=function)      function(call, kind, content) for all but OPEN
    origin = t.origin(backend)

`call` collects the answer: call.send("text"), call.event("PING", b"x"), call.close(4000, "why"),
call.fields, call.status.
"""
import threading

from .websocket import Log, close_payload

TYPE = "application/websocket-events"


def encode(kind, content=None):
    if content is None:
        return kind.encode() + b"\r\n"
    return b"%s %x\r\n%s\r\n" % (kind.encode(), len(content), content)


def decode(body):
    """[(kind, content or None)]; strict."""
    events = []
    while body:
        line, _, body = body.partition(b"\r\n")
        kind, _, length = line.decode().partition(" ")
        content = None
        if length:
            size = int(length, 16)
            content, end, body = body[:size], body[size:size + 2], body[size + 2:]
            if len(content) != size or end != b"\r\n":
                raise ValueError(f"events cut short: {line!r}")
        events.append((kind, content))
    return events


class Call:
    """A gateway's request, and its answer."""

    def __init__(self, x, events):
        self.x = x
        self.events = events
        self.id = x.request.get("Connection-Id")
        self.body = b""
        self.fields = []
        self.status = 200
        self.type = TYPE

    def meta(self, name):
        return self.x.request.get("Meta-" + name)

    def event(self, kind, content=None):
        self.body += encode(kind, content)

    def send(self, message):
        if isinstance(message, str):
            self.event("TEXT", message.encode())
        else:
            self.event("BINARY", message)

    def close(self, code=None, reason=""):
        self.event("CLOSE", close_payload(code, reason) or None)


def readable(kind, content):
    """For the log: texts and binaries as messages, others as (kind, content)."""
    if kind == "TEXT":
        return content.decode()
    return content if kind == "BINARY" else (kind, content)


class Backend:
    def __init__(self, on_event=None, on_open=None, before=None):
        self.on_event = on_event
        self.on_open = on_open
        self.before = before  # called with each call before anything is answered or logged
        self.log = Log()      # what came, in order, over all connections
        self.batches = Log()  # the same, as lists of what came in one request
        self.calls = []
        self.lock = threading.Lock()
        self.under_way = {}   # Connection-Id -> requests that are not answered
        self.faults = []

    def __call__(self, x):
        body = x.read_body()
        if x.request.get("Content-Type") != TYPE or x.request.method != "POST":
            self.log.add(f"{x.request.method} {x.request.target}")
            x.reply(200, b"plain")
            return
        call = Call(x, decode(body))
        with self.lock:
            self.calls.append(call)
            if self.under_way.get(call.id):
                self.faults.append(f"two requests at once of {call.id}")
            self.under_way[call.id] = True
        self._answer(call)
        with self.lock:
            self.under_way[call.id] = False
        x.reply(call.status, call.body, fields=[("Content-Type", call.type), *call.fields])

    def _answer(self, call):
        if self.before:
            self.before(call)
        for kind, content in call.events:
            self.log.add(readable(kind, content))
        self.batches.add([readable(*event) for event in call.events])
        for kind, content in call.events:
            if kind == "OPEN":
                call.event("OPEN")
                if self.on_open:
                    self.on_open(call)
            elif self.on_event:
                self.on_event(call, kind, content)
            elif kind in ("TEXT", "BINARY", "CLOSE"):
                call.event(kind, content)
