"""The peers of the WebSockets that tests/bench/websockets measures: an origin, and holders of many idle sockets.

A holder is a process of its own, for the descriptors. It does what comes on its standard input, and writes a line when
that is done:

    open COUNT   opens so many more sockets
    exchange     sends a message on each of its sockets, and reads the answers
"""
import contextlib
import os
import select
import socket
import subprocess
import sys

from . import machine
from .subjects import ORIGIN_HOSTS

BYTES = 128
MESSAGE = bytes([0x81, 0x80 | 126]) + BYTES.to_bytes(2, "big") + b"\1\2\3\4" + b"m" * BYTES
ANSWER = bytes([0x82, 126]) + BYTES.to_bytes(2, "big") + b"a" * BYTES
HANDSHAKE = (b"GET /chat HTTP/1.1\r\nHost: chat.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"  # a browser's
             b"Pragma: no-cache\r\nCache-Control: no-cache\r\nOrigin: https://chat.example\r\n"
             b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 "
             b"Safari/537.36\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9\r\n"
             b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
             b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n")
ACCEPTED = (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: application/websocket-events\r\nContent-Length: %d\r\n\r\n%s"
ECHO = b"BINARY %x\r\n%s\r\n" % (BYTES, b"a" * BYTES)
PORTS = 20000  # connections from one address
BATCH = 100  # messages of a holder's under way at once


def more_hosts():
    """Addresses of the origin for sluice's servers: each has ports for some of many sockets."""
    return [f"127.0.1.{number + 1}" for number in range(16)]


# ---- the origin -------------------------------------------------------------------------------------------------------

def serve(port):
    """Accepts WebSockets and requests of gateways on each subject's address, and answers each message; never returns."""
    ready, open_sockets, unread = select.epoll(), {}, {}
    for host in sorted({*ORIGIN_HOSTS.values(), *more_hosts()}):
        listening = socket.create_server((host, port), backlog=4096)
        open_sockets[listening.fileno()] = listening
        ready.register(listening, select.EPOLLIN)
    print("listening", flush=True)
    while True:
        for number, _ in ready.poll():
            sock = open_sockets[number]
            if number not in unread and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                sock = sock.accept()[0]
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                open_sockets[sock.fileno()], unread[sock.fileno()] = sock, None
                ready.register(sock, select.EPOLLIN)
                continue
            if not answer(sock, unread):
                ready.unregister(sock)
                del open_sockets[number], unread[number]
                sock.close()


def answer(sock, unread):
    """Of a connection that is to be read. `unread`: bytes of a message that has begun; None: no handshake so far."""
    number = sock.fileno()
    try:
        data = sock.recv(65536)
        if not data:
            return False
        if unread[number] is None and data.startswith(b"POST "):
            events = b"OPEN\r\n" if data.endswith(b"\r\n\r\nOPEN\r\n") else ECHO * data.count(b"TEXT ")
            sock.sendall(EVENTS % (len(events), events))
            return True
        if unread[number] is None:
            sock.sendall(ACCEPTED)
            unread[number] = 0
            return True
        whole, unread[number] = divmod(unread[number] + len(data), len(MESSAGE))
        sock.sendall(ANSWER * whole)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def peer(bench, *arguments):
    """A process of this module, whose first line has come."""
    process = machine.start([sys.executable, "-B", "-m", __name__, *map(str, arguments)], {bench.load_cpu},
                            cwd=bench.source, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if not process.stdout.readline():
            raise SystemExit(f"bench: {' '.join(map(str, arguments))}: does not start")
        yield process
    finally:
        machine.stop(process)
        process.stdin.close()
        process.stdout.close()


@contextlib.contextmanager
def origin(bench):
    """Its port."""
    port = machine.free_port()
    with peer(bench, "serve", port):
        yield port


# ---- sockets ----------------------------------------------------------------------------------------------------------

def opened(port, host):
    """A socket through the subject of that port, from that address."""
    sock = socket.create_connection(("127.0.0.1", port), 60, (host, 0))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(HANDSHAKE)
    head = b""
    while b"\r\n\r\n" not in head:
        part = sock.recv(4096)
        if not part:
            break
        head += part
    if not head.startswith(b"HTTP/1.1 101 "):
        raise RuntimeError(f"port {port} answers {head[:100]!r}")
    return sock


def exchange_all(sockets):
    """A message on each, and its answer."""
    for at in range(0, len(sockets), BATCH):
        for sock in sockets[at:at + BATCH]:
            sock.sendall(MESSAGE)
        for sock in sockets[at:at + BATCH]:
            if len(sock.recv(len(ANSWER), socket.MSG_WAITALL)) < len(ANSWER):
                raise RuntimeError("a socket was closed")


def hold(port, host):
    """A holder: does what comes on standard input, until that ends."""
    sockets = []
    print("ready", flush=True)
    for line in sys.stdin:
        what, *count = line.split()
        if what == "open":
            sockets += [opened(port, host) for _ in range(int(count[0]))]
        else:
            exchange_all(sockets)
        print("done", flush=True)


class Holder:
    """Of many sockets through the subject of a port, in a process of its own."""

    def __init__(self, bench, port, number, stack):
        self.process = stack.enter_context(peer(bench, "hold", port, f"127.0.2.{number % 250 + 1}"))

    def begin(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def finish(self):
        if self.process.stdout.readline() != b"done\n":
            raise SystemExit("bench: a holder of sockets has failed")


def do_all(holders, text):
    """Has all of them do it at once."""
    for holder in holders:
        holder.begin(text)
    for holder in holders:
        holder.finish()


if __name__ == "__main__":
    machine.raise_file_limit()
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    hold(int(sys.argv[2]), sys.argv[3])
    os._exit(0)  # without closing one socket after the other
