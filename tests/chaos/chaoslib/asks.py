"""A request that says, in its own target, what its server is to do with it, so that a client's script
decides both sides and one seed decides them all.

    GET /a/x?id=17.3&do=chunked&s=81273&n=3000&st=200
             |       |          |       |      `- status
             |       |          |       `- bytes of the response's content
             |       |          `- seed of what else the server draws
             |       `- a behaviour of servers.py
             `- client 17's third request
"""
import random
from urllib.parse import parse_qs, urlsplit

CONTENT_SIZES = (0, 1, 10, 3000, 12_000, 40_000, 90_000, 300_000)


def content(identity, size):
    """What a response to this request carries: no other's can be taken for it."""
    unit = (identity + " ").encode()
    return (unit * (size // len(unit) + 1))[:size]


class Ask:
    """One request, and how it must be answered."""

    def __init__(self, identity, seed, method="GET", route="a", do="plain", size=10, status=200,
                 fields=(), body=None, chunked=False, version="1.1"):
        self.identity = identity
        self.method = method
        self.route = route
        self.do = do
        self.size = size
        self.status = status
        self.fields = list(fields)
        self.body = body
        self.chunked = chunked
        self.version = version
        self.target = f"/{route}/x?id={identity}&do={do}&s={seed}&n={size}&st={status}"

    def head(self):
        lines = [f"{self.method} {self.target} HTTP/{self.version}", "Host: api.test",
                 f"X-Request-Id: {self.identity}"]
        lines += [f"{name}: {value}" for name, value in self.fields]
        if self.body is not None:
            lines.append("Transfer-Encoding: chunked" if self.chunked
                         else f"Content-Length: {len(self.body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def payload(self, draw=None):
        if self.body is None:
            return b""
        return chunks(self.body, draw) if self.chunked else self.body

    def bytes(self, draw=None):
        return self.head() + self.payload(draw)

    def expected_content(self):
        if self.method == "HEAD" or self.status in (204, 304):
            return b""
        return content(self.identity, self.size)

    def __str__(self):
        return f"{self.method} {self.target}"


def chunks(body, draw=None, trailers=True):
    """A chunked body; with a draw in odd sizes, with extensions and trailers."""
    pieces, at = [], 0
    while at < len(body):
        size = draw.choice((1, 7, 500, 9000, 70_000)) if draw else len(body)
        piece = body[at:at + size]
        extension = draw.choice(("", "", ";a=b", ';q="x;y"')) if draw else ""
        pieces.append(f"{len(piece):{draw.choice(('x', 'X', '05x')) if draw else 'x'}}{extension}\r\n".encode()
                      + piece + b"\r\n")
        at += size
    pieces.append(draw.choice((b"0\r\n", b"000\r\n", b"0;last\r\n")) if draw else b"0\r\n")
    if draw and trailers and draw.random() < 0.3:
        pieces.append(b"X-Checksum: 1\r\n")
    return b"".join(pieces) + b"\r\n"


def number(text, otherwise):
    return int(text) if text.isascii() and text.isdigit() else otherwise


class Asked:
    """The same as its server reads it. A client that sends garbage may have changed any byte of it."""

    def __init__(self, head):
        self.head = head
        query = parse_qs(urlsplit(head.target).query)
        self.identity = query.get("id", ["?"])[0]
        self.do = query.get("do", ["plain"])[0]
        self.size = min(number(query.get("n", [""])[0], 10), 10_000_000)
        self.status = number(query.get("st", [""])[0], 200)
        self.random = random.Random(query.get("s", ["0"])[0])
        self.route = head.target[1:].partition("/")[0]

    def content(self):
        return content(self.identity, self.size)

    def bodiless(self):
        return self.head.method == "HEAD" or self.status in (204, 304)
