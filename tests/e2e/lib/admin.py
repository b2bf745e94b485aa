"""A client of the admin interface, and a sluice that has one."""
import contextlib
import json
import re
import socket

from . import process
from .openapi import Document
from .process import Port
from .tap import equal
from .wire import dial


DOCUMENT = Document()


class Admin:
    """A client of the admin server: one connection a request. Each request and response must be as the OpenAPI document
    says."""

    def __init__(self, address, token=None):
        self.address = address
        self.token = token

    def ask(self, path, method="GET", body=b"", fields=(), token=None, host="localhost"):
        """(status, fields by lower-case name, body)"""
        token = token or self.token
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close",
                 f"Content-Length: {len(body)}", *fields]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        with dial(self.address) as sock:
            sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            data = b""
            while part := sock.recv(65536):
                data += part
        head, _, content = data.partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        status = int(first.split()[1])
        fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in rest)}
        if fields.get("transfer-encoding") == "chunked" and method != "HEAD":
            content = whole_content(content)
        DOCUMENT.check_call(method, path, body, status, fields, content)
        return status, fields, content

    def json(self, path, method="GET", **more):
        status, fields, content = self.ask(path, method, **more)
        return status, json.loads(content)

    @contextlib.contextmanager
    def events(self, token=None):
        """The stream of server-sent events, as an Events."""
        with dial(self.address) as sock:
            lines = ["GET /api/v1/events HTTP/1.1", "Host: localhost"]
            token = token or self.token
            if token:
                lines.append(f"Authorization: Bearer {token}")
            sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
            yield Events(sock)

    def metrics(self, accept=None):
        fields = [f"Accept: {accept}"] if accept else []
        status, fields, content = self.ask("/metrics", fields=fields)
        equal(status, 200, "status of /metrics")
        return fields, content.decode()


def whole_content(chunked):
    """What the chunks hold; they must have an end."""
    content, at = [], 0
    while True:
        end = chunked.find(b"\r\n", at)
        size = chunked[at:end] if end >= 0 else b""
        if int(size or b"-1", 16) <= 0:
            equal((size, chunked[end:]), (b"0", b"\r\n\r\n"), "the end of chunks")
            return b"".join(content)
        content.append(chunked[end + 2:end + 2 + int(size, 16)])
        at = end + 2 + int(size, 16) + 2


class Events:
    """What comes on such a stream: each event's data as JSON, held against the document."""

    def __init__(self, sock):
        self.sock = sock
        self.file = sock.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.fields = {}
        while (line := self.file.readline().decode().strip()):
            name, _, text = line.partition(":")
            self.fields[name.lower()] = text.strip()
        self.ids = []
        self._text = b""
        if self.status == 200:
            DOCUMENT.check_call("GET", "/api/v1/events", b"", self.status, self.fields, b"")

    def _more(self):
        """Another chunk; False at the end."""
        size = int(self.file.readline() or b"0", 16)
        self._text += self.file.read(size)
        self.file.readline()
        return size > 0

    def block(self):
        """The next block's lines, or None at the end."""
        while b"\n\n" not in self._text:
            if not self._more():
                return None
        block, _, self._text = self._text.partition(b"\n\n")
        return block.decode().split("\n")

    def next(self):
        """The next event's data, or None at the end."""
        lines = self.block()
        while lines and lines[0].startswith("retry:"):
            lines = self.block()
        if lines is None:
            return None
        fields = dict(line.split(": ", 1) for line in lines)
        equal((sorted(fields), fields["event"]), (["data", "event", "id"], "second"), "an event")
        self.ids.append(int(fields["id"]))
        second = json.loads(fields["data"])
        DOCUMENT.check(second, {"$ref": "#/components/schemas/Second"}, "an event's data")
        return second


def value(text, name, **labels):
    """The value of one sample, or None."""
    for line in text.splitlines():
        found = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line)
        if not found or found.group(1) != name:
            continue
        if dict(re.findall(r'(\w+)="([^"]*)"', found.group(2) or "")) == labels:
            return float(found.group(3))
    return None


def with_admin(t, sections, tokens=None, **more):
    """(sluice, Admin) with an [admin] on a port of its own."""
    port = Port(socket.AF_INET)
    admin = f"[admin]\nbind = 127.0.0.1:{port.number}\n"
    if tokens is not None:
        admin += f"token = file:{t.file('admin.token', tokens)}\n"
    t.defer(port.release)
    sluice = t.sluice(sections + admin, **more)
    sluice.process.wait_output("sluice is ready")
    return sluice, Admin(f"127.0.0.1:{port.number}")


def command(*words, status=0):
    """What `sluice WORDS...` prints; it must end with this status."""
    found, output = process.run([process.BINARY, *words])
    equal(found, status, f"exit status of {words}: {output}")
    return output
