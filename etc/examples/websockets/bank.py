#!/usr/bin/env python3
"""A bank that takes orders by WebSocket and by HTTP, and knows HTTP only: sluice terminates the WebSockets
(`websocket = gateway`) and sends what comes on them as POST requests. Python's standard library, nothing else.

  POST /account?name=ann         withdraw 50             -> 200, withdraw 50: 50
  the same path as a WebSocket   each message an order, each answer a message

Orders are `deposit N`, `withdraw N` and `balance`; `ref=TEXT` behind them is written to the journal. An account
begins with 100. Every order is in the journal, on disk, before it is answered: after kill -9 and another start the
bank goes on from there.

Behind several sluices with `session_scope = fleet`, each order comes with a Sluice-Fence. The bank remembers the
largest one of each account, in the journal as well, and refuses an order with a smaller one: 409.

With --control, each change is also published to the channel of its account, through the admin interface of sluice:
all sockets of the account see it, also when another one, or an HTTP request, made it. GRIP_KEY in the environment is
the secret that both have (grip_key of sluice): events must carry sluice's signature then, and what is published
carries the bank's.

  bank.py [--port 9000] [--journal FILE] [--control http://127.0.0.1:8081/api/v1] [--delay SECONDS]
"""
import argparse
import base64
import hashlib
import hmac
import json
import os
import random
import threading
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EVENTS = "application/websocket-events"
FIRST_BALANCE = 100


class Stale(Exception):
    """The order comes from a sluice that does not own the account's session any more."""


class Bank:
    def __init__(self, journal, delay):
        self.delay = delay  # up to so long an order takes; so that only their order keeps them apart
        self.lock = threading.Lock()
        self.balances = {}
        self.fences = {}
        self.journal = os.open(journal, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        with open(journal, encoding="utf-8") as lines:
            for line in lines:
                name, _, _, balance, _, *fence = line.split()
                self.balances[name] = int(balance)
                if fence:
                    self.fences[name] = int(fence[0])

    def obey(self, name, text, fence=None):
        """The answer to an order, and whether it changed the balance. Raises Stale."""
        words = text.split()
        ref = next((word[4:] for word in words if word.startswith("ref=")), "-")
        if words[:1] == ["balance"]:
            return f"balance: {self.balances.get(name, FIRST_BALANCE)}", False
        if len(words) < 2 or words[0] not in ("deposit", "withdraw") or not words[1].isdigit():
            return "expected deposit N, withdraw N or balance", False
        time.sleep(random.uniform(0, self.delay))
        order, amount = words[0], int(words[1])
        with self.lock:
            if fence is not None and fence < self.fences.get(name, 0):
                raise Stale
            balance = self.balances.get(name, FIRST_BALANCE) + (amount if order == "deposit" else -amount)
            done = balance >= 0
            if not done:
                balance += amount
            line = f"{name} {order} {amount if done else 0} {balance} {ref}"
            if fence is not None:
                line += f" {fence}"
                self.fences[name] = fence
            os.write(self.journal, f"{line}\n".encode())
            self.balances[name] = balance
        return f"{order} {amount}: {balance if done else 'refused'}", done


# ---- WebSocket-over-HTTP: a body is a series of events, `TYPE LENGTH-IN-HEX CRLF CONTENT CRLF` or `TYPE CRLF`

def decode(body):
    while body:
        line, _, body = body.partition(b"\r\n")
        kind, _, length = line.partition(b" ")
        content = None
        if length:
            size = int(length, 16)
            content, body = body[:size], body[size + 2:]
        yield kind.decode(), content


def encode(kind, content=None):
    return f"{kind}\r\n".encode() if content is None else b"%s %x\r\n%s\r\n" % (kind.encode(), len(content), content)


# ---- Tokens: JSON Web Tokens, signed with HS256

def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def signature(key, text):
    return base64url(hmac.new(key.encode(), text, hashlib.sha256).digest())


def make_token(key):
    text = base64url(b'{"alg":"HS256"}') + b"." + base64url(b'{"iss":"bank","exp":%d}' % (time.time() + 60))
    return (text + b"." + signature(key, text)).decode()


def is_signed(key, token):
    text, _, found = (token or "").encode().rpartition(b".")
    if not hmac.compare_digest(found, signature(key, text)):
        return False
    claims = json.loads(base64.urlsafe_b64decode(text.split(b".")[1] + b"=="))
    return claims.get("exp", 0) > time.time()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "index.html"), "rb") as page:
            self.answer(200, "text/html", page.read())

    def do_POST(self):
        url = urllib.parse.urlsplit(self.path)
        name = urllib.parse.parse_qs(url.query).get("name", [""])[0]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if url.path != "/account" or not name.isalnum():
            self.answer(404, "text/plain", b"expected /account?name=NAME\n")
        elif self.headers.get("Content-Type") == EVENTS:
            if self.server.key and not is_signed(self.server.key, self.headers.get("Grip-Sig")):
                self.answer(403, "text/plain", b"expected the signature of a gateway\n")
            else:
                self.answer_events(name, body)
        else:
            self.answer_order(name, body)

    def answer_order(self, name, body):
        fence = self.headers.get("Sluice-Fence")
        try:
            text, changed = self.server.bank.obey(name, body.decode(), int(fence) if fence else None)
        except Stale:
            self.answer(409, "text/plain", b"the session has another owner\n")
            return
        self.answer(200, "text/plain", text.encode() + b"\n")
        if changed:
            self.publish(name, text)

    def answer_events(self, name, body):
        out, fields, published = b"", [], []
        for kind, content in decode(body):
            if kind == "OPEN":
                # GRIP: what begins with `m:` is for the client, with `c:` for sluice.
                fields.append(("Sec-WebSocket-Extensions", "grip"))
                out += encode("OPEN")
                out += encode("TEXT", b"c:" + json.dumps({"type": "subscribe", "channel": name}).encode())
            elif kind in ("TEXT", "BINARY"):
                text, changed = self.server.bank.obey(name, content.decode(errors="replace"))
                out += encode("TEXT", b"m:" + text.encode())
                if changed:
                    published.append(text)
            elif kind == "CLOSE":
                out += encode("CLOSE", content)
        self.answer(200, EVENTS, out, fields)
        for text in published:
            self.publish(name, text)

    def answer(self, status, kind, body, fields=()):
        self.send_response(status)
        for field, value in [("Content-Type", kind), ("Content-Length", str(len(body))), *fields]:
            self.send_header(field, value)
        self.end_headers()
        self.wfile.write(body)

    def publish(self, name, text):
        if not self.server.control:
            return
        items = {"items": [{"channel": name, "formats": {"ws-message": {"content": f"news: {text}"}}}]}
        fields = {"Content-Type": "application/json"}
        if self.server.key:
            fields["Authorization"] = "Bearer " + make_token(self.server.key)
        request = urllib.request.Request(self.server.control + "/publish/", json.dumps(items).encode(), fields)
        try:
            urllib.request.urlopen(request, timeout=5).close()
        except OSError as error:
            self.log_error("publishing: %s", error)

    def log_request(self, code="-", size="-"):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def main():
    parser = argparse.ArgumentParser(description="A bank that takes orders by WebSocket and by HTTP.")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--journal", default="bank.journal")
    parser.add_argument("--control", help="where to publish: http://HOST:PORT/api/v1 of [admin]")
    parser.add_argument("--delay", type=float, default=0, help="up to so many seconds for each order")
    arguments = parser.parse_args()
    server = Server((arguments.address, arguments.port), Handler)
    server.bank = Bank(arguments.journal, arguments.delay)
    server.control = arguments.control
    server.key = os.environ.get("GRIP_KEY")
    print(f"the bank is open on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
