"""A server that reads headers of the PROXY protocol."""
import socket
import struct
import threading

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


class RawServer:
    """Takes a header and a request on each connection, and remembers both."""

    def __init__(self, t, tls=None):
        self.seen = []
        self.tls = tls
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()
        t.defer(self.socket.close)

    def _run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            try:
                self._serve(connection)
            except OSError:
                pass
            connection.close()

    def _serve(self, connection):
        connection.settimeout(10)
        header = b""
        while not header.endswith(b"\n") or (header.startswith(b"\r\n") and len(header) < 12):
            piece = connection.recv(1)
            if not piece:
                return
            header += piece
        if header == SIGNATURE:
            header += connection.recv(4, socket.MSG_WAITALL)
            header += connection.recv(struct.unpack(">H", header[14:16])[0], socket.MSG_WAITALL)
        if self.tls:
            connection = self.tls.wrap_socket(connection, server_side=True)
        served = 0
        while True:
            request = b""
            while b"\r\n\r\n" not in request:
                piece = connection.recv(4096)
                if not piece:
                    return
                request += piece
            served += 1
            self.seen.append((header, request, served))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
