"""A scripted server of HTTP/2, with prior knowledge or by TLS: it answers as the test says (HPACK by python3-hpack).

    server = Http2Server(t, serve)     serve(request) is called when a request has ended, on its connection's thread
    request.reply(200, b"body"), .head(...), .data(...), .trailers(...), .reset(code); request.peer is the connection
    peer.goaway(last, code), peer.send_frame(...)

`early`: serve is called at the end of a request's head. `mute`: PINGs are not acknowledged.
"""
import socket
import struct
import threading

from .http2 import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PREFACE,
                    RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, hpack)
from .process import until


class Request:
    def __init__(self, peer, stream, fields):
        self.peer, self.stream, self.fields = peer, stream, fields
        self.body, self.ended, self.reset_by, self.got_trailers = b"", False, None, {}

    @property
    def path(self):
        return self.fields[":path"]

    def head(self, status=200, fields=(), end=False, raw=()):
        block = self.peer.encoder.encode([(":status", str(status)), *fields]) + b"".join(raw)
        self.peer.send_frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), self.stream, block)

    def data(self, content, end=False):
        for at in range(0, len(content) or 1, 16384):
            last = at + 16384 >= len(content)
            self.peer.send_frame(DATA, END_STREAM if end and last else 0, self.stream, content[at:at + 16384])

    def trailers(self, fields):
        self.peer.send_frame(HEADERS, END_HEADERS | END_STREAM, self.stream, self.peer.encoder.encode(fields))

    def reply(self, status=200, body=b"", fields=()):
        self.head(status, fields, end=not body)
        if body:
            self.data(body, end=True)

    def reset(self, code=8):
        self.peer.send_frame(RST_STREAM, 0, self.stream, struct.pack(">I", code))


class Peer:
    """A connection of the server's, on its own thread."""

    def __init__(self, server, stream):
        self.server, self.socket = server, stream
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.requests, self.settings, self.goaways, self.pings = {}, {}, [], 0
        self.kinds, self.acks = [], 0  # of all frames, in their order; PINGs that were acknowledged
        self.window, self.lock, self.ended = {0: 65535}, threading.Lock(), False

    def send(self, data):
        with self.lock:
            try:
                self.socket.sendall(data)
            except OSError:
                pass

    def send_frame(self, kind, flags=0, stream=0, payload=b""):
        self.send(frame(kind, flags, stream, payload))

    def goaway(self, last, code=0):
        self.send_frame(GOAWAY, 0, 0, struct.pack(">II", last, code))

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _read(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def run(self):
        try:
            if self._read(len(PREFACE)) != PREFACE:
                raise EOFError
            if self.server.speaks:
                self.send(self.server.speaks)
            else:
                self.send_frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *each) for each in self.server.settings))
            while True:
                head = self._read(9)
                payload = self._read(int.from_bytes(head[:3], "big"))
                self._act(head[3], head[4], int.from_bytes(head[5:], "big") & 0x7fffffff, payload)
        except (EOFError, OSError):
            pass
        with self.server.changed:
            self.ended = True
            self.server.changed.notify_all()
        self.socket.close()

    def _act(self, kind, flags, stream, payload):
        request = self.requests.get(stream)
        self.kinds.append(kind)
        if kind == HEADERS:
            while not flags & END_HEADERS:
                more = self._read(9)
                assert more[3] == CONTINUATION
                flags |= more[4] & END_HEADERS
                payload += self._read(int.from_bytes(more[:3], "big"))
            fields = dict(self.decoder.decode(payload))
            if request:
                request.got_trailers = fields
            else:
                request = self.requests[stream] = Request(self, stream, fields)
                with self.server.changed:
                    self.server.requests.append(request)
                    self.server.changed.notify_all()
                if self.server.early:
                    self.server.serve(request)
        elif kind == DATA:
            assert not flags & PADDED
            if request:
                request.body += payload
            if payload and self.server.auto:
                for each in (0, stream):
                    self.send_frame(WINDOW_UPDATE, 0, each, struct.pack(">I", len(payload)))
        elif kind == RST_STREAM and request:
            request.reset_by = int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACK:
            self.settings.update(struct.iter_unpack(">HI", payload))
            self.send_frame(SETTINGS, ACK)
        elif kind == PING and not flags & ACK:
            self.pings += 1
            if not self.server.mute:
                self.send_frame(PING, ACK, 0, payload)
        elif kind == PING:
            self.acks += 1
        elif kind == GOAWAY:
            self.goaways.append(struct.unpack(">II", payload[:8]))
        elif kind == WINDOW_UPDATE:
            self.window[stream] = self.window.get(stream, 65535) + int.from_bytes(payload, "big")
        if kind in (HEADERS, DATA) and flags & END_STREAM and request:
            request.ended = True
            if not self.server.early:
                self.server.serve(request)
        with self.server.changed:
            self.server.changed.notify_all()


class Http2Server:
    def __init__(self, t, serve=None, settings=(), tls=None, early=False, mute=False, auto=True, speaks=None):
        if not hpack:
            t.skip("python3-hpack is not installed")
        self.serve = serve or (lambda request: request.reply(200, request.body or b"hello"))
        self.settings, self.tls, self.early, self.mute, self.auto = settings, tls, early, mute, auto
        self.speaks, self.peers, self.requests, self.changed = speaks, [], [], threading.Condition()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        t.defer(self.end)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._begin, args=(stream,), daemon=True).start()

    def _begin(self, stream):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls:
            try:
                stream = self.tls.wrap_socket(stream, server_side=True)
            except OSError:
                return
        peer = Peer(self, stream)
        with self.changed:
            self.peers.append(peer)
            self.changed.notify_all()
        peer.run()

    @property
    def open(self):
        return [peer for peer in self.peers if not peer.ended]

    def until(self, claim, what):
        until(claim, what)

    def end(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        for peer in self.peers:
            peer.close()
