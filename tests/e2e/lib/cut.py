"""A way to a server of loopback that a test can cut and mend: what a node's network is to its store."""
import select
import socket
import threading

from .wire import stop_listening


class Way:
    """Passes each connection on to `port`, until `cut`: then those there are end, and new ones get no
    answer; `mend` ends these and passes new ones on again. `lose` ends the one that sends such bytes next, when the server
    has answered them: the answer is lost."""

    def __init__(self, t, port):
        self.port = port
        self.lock = threading.Lock()
        self.is_cut, self.ended = False, False
        self.lost = None
        self.open, self.held = set(), set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.number = self.listener.getsockname()[1]
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()
        t.defer(self.end)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.number}"

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                if self.is_cut or self.ended:
                    self.held.add(near)
                    continue
            try:
                far = socket.create_connection(("127.0.0.1", self.port), 5)
            except OSError:
                near.close()
                continue
            with self.lock:
                self.open.add((near, far))
                is_cut = self.is_cut
            if is_cut:
                self._shut(near, far)
            threading.Thread(target=self._pass, args=(near, far), daemon=True).start()

    @staticmethod
    def _shut(*ends):
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _pass(self, near, far):
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                ready, _, _ = select.select([near, far], [], [])
                for end in ready:
                    data = end.recv(65536)
                    if not data:
                        return
                    (far if end is near else near).sendall(data)
                    if end is near and self.lost and self.lost in data:
                        self.lost = None
                        far.recv(65536)
                        return
        except OSError:
            pass
        finally:
            with self.lock:
                self.open.discard((near, far))
            near.close()
            far.close()

    def lose(self, data):
        self.lost = data

    def cut(self):
        with self.lock:
            self.is_cut = True
            ends = [end for pair in self.open for end in pair]
        self._shut(*ends)

    def mend(self):
        with self.lock:
            self.is_cut = False
            held, self.held = self.held, set()
        for near in held:
            self._shut(near)
            near.close()

    def end(self):
        with self.lock:
            self.ended = True
        self.cut()
        stop_listening(self.listener, self.acceptor)
