"""Places at servers of HTTP/2 in bad times: connections that die, requests that stop."""
import socket
import threading

from lib.http2 import PING, RST_STREAM, WINDOW_UPDATE, Http2
from lib.http2_server import Http2Server
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, test

H2 = "protocol = h2\nmax_fails = 0\nretries = 0\n"
BOTH = "protocols = h2, http/1.1"
HOUR = "idle_timeout = 1h\nfirst_byte_timeout = 1h\nsend_timeout = 1h\n"


def scene(t, server, upstream="", route=""):
    return t.sluice(to(server.address, upstream=H2 + upstream, route=route), listener=BOTH, workers=1)


@group("a place whose server dies within a response that is not read is given back when the client leaves")
def lost(t):
    def serve(request):
        if request.path == "/long":
            request.head(200)
            request.data(b"z" * 60_000)
            request.peer.socket.shutdown(socket.SHUT_WR)
        else:
            request.reply(200)

    for method in ("GET", "POST"):
        with t.point("whose request was " + ("whole" if method == "GET" else "not")):
            server = Http2Server(t, serve, early=True)
            sluice = scene(t, server, HOUR + "max_in_flight = 1\n",
                           route="response_buffering = off\nrequest_buffering = off")
            client = Http2(t, sluice, window=1, auto=False)
            stream = client.request("/long", method, end=method == "GET")
            client.until(lambda: client.responses[stream].body)
            until(lambda: server.peers[0].ended, "the connection to the server has ended")
            client.reset(stream)
            equal(client.ask("/second").status, 200, "the next has the place")


@test("a PING proves the reset that precedes it")
def order(t):
    server = Http2Server(t, lambda request: request.path == "/second" and request.reply(200, b"served"), early=True)
    sluice = scene(t, server, HOUR + "max_in_flight = 1\n", route="request_buffering = off")
    client, other = Http2(t, sluice), Http2(t, sluice)
    stream = client.request("/stopped", method="POST", end=False)
    client.data(stream, b"some")
    until(lambda: server.requests and server.requests[0].body == b"some", "it is at the server")
    second = other.request("/second")
    client.reset(stream)
    equal(other.response(second).body, b"served", "the next has the place")
    equal([kind for kind in server.peers[0].kinds if kind in (RST_STREAM, PING)], [RST_STREAM, PING], "frames")


@test("a server that acknowledges no PING, but sends on, gives its place back all the same")
def drips(t):
    server = Http2Server(t, lambda request: request.path == "/second" and request.reply(200, b"served"), early=True,
                         mute=True)
    sluice = scene(t, server, HOUR + "max_in_flight = 1\nconnect_timeout = 500ms\n", route="request_buffering = off")
    client, other = Http2(t, sluice), Http2(t, sluice)
    stream = client.request("/stopped", method="POST", end=False)
    client.data(stream, b"some")
    until(lambda: server.requests and server.requests[0].body == b"some", "it is at the server")
    over = threading.Event()
    t.defer(over.set)

    def drip():
        while not over.wait(0.1):
            try:
                server.peers[0].send_frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1")
            except OSError:  # it is closed
                return
    threading.Thread(target=drip, daemon=True).start()
    second = other.request("/second")
    client.reset(stream)
    equal(other.response(second).body, b"served", "the next has the place")


if __name__ == "__main__":
    main()
