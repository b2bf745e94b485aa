"""A scripted client: sends the bytes it is given, reads responses strictly."""
import socket

from . import process, wire
from .wire import dial, fields_bytes


class Client(wire.Stream):
    def __init__(self, address, local=None, receive_buffer=None, host="api.test"):
        super().__init__(dial(address, local, receive_buffer))
        self.host = host

    def local_port(self):
        return self.socket.getsockname()[1]

    def has_ended(self):
        """The other side has closed or reset the connection, and nothing is left to read. Waits for nothing."""
        try:
            self.socket.setblocking(False)
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.socket.settimeout(process.DEADLINE_SECONDS)

    def request(self, target="/", method="GET", fields=(), body=None, host=None, version="1.1"):
        """Sends one request; a body gets a Content-Length."""
        self.send(request_bytes(target, method, fields, body, host or self.host, version))

    def response(self, method="GET"):
        """The next final response, whole; 1xx ones are in `.interim`."""
        message = self.response_head()
        return self.read_body(message, bodiless=method == "HEAD")

    def expect_cut(self):
        """The next response ends before it is whole, and can't seem whole."""
        try:
            self.response()
        except wire.Ended:
            return
        raise AssertionError("a cut response seemed whole")

    def response_head(self):
        interim = []
        while True:
            message = self.read_head()
            if not message.version.startswith("HTTP/1."):
                raise wire.Malformed(f"version {message.version}")
            if message.status >= 200 or message.status == 101:
                message.interim = interim
                return message
            wire.framing(message)
            interim.append(message)

    def ask(self, target="/", method="GET", fields=(), body=None, host=None, version="1.1"):
        """A request and its response."""
        self.request(target, method, fields, body, host, version)
        return self.response(method)


def request_bytes(target="/", method="GET", fields=(), body=None, host="api.test", version="1.1"):
    head = f"{method} {target} HTTP/{version}\r\n".encode("latin-1")
    if host is not None:
        head += f"Host: {host}\r\n".encode("latin-1")
    head += fields_bytes(fields)
    if body is not None:
        head += b"Content-Length: %d\r\n" % len(body)
    return head + b"\r\n" + (body or b"")
