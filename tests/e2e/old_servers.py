"""Servers that know only a part of HTTP/1.1: what they are sent, and what is made of their responses."""
import threading
import wsgiref.simple_server
import wsgiref.validate

from lib.client import request_bytes
from lib.sluice import to
from lib.tap import equal, group, main, true
from lib.wire import chunked

MIB = 1 << 20
CHUNKED = [("Transfer-Encoding", "chunked")]


# ---- WSGI --------------------------------------------------------------------------------------

def echo(environ, start_response):
    """Reads as much as PEP 3333 lets it: nothing beyond CONTENT_LENGTH."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


def wsgi(t):
    """The address of Python's own WSGI server."""
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, wsgiref.validate.validator(echo), handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()

    def end():
        server.shutdown()
        thread.join()
        server.server_close()
    t.defer(end)
    return f"127.0.0.1:{server.server_port}"


def post(target="/", fields=()):
    return request_bytes(target, "POST", [*CHUNKED, *fields])


@group("a WSGI server reads all of a chunked request", workers=[1])
def chunked_to_wsgi(t):
    address = wsgi(t)
    sluice = t.sluice(to(address))

    with t.point("directly it reads nothing"):
        client = t.client(address)
        client.send(post() + chunked(b"hello"))
        equal(client.response().body, b"", "body")

    client = t.client(sluice)
    for what, pieces in (("one chunk", [b"hello"]), ("many chunks", [b"%d," % i for i in range(500)]), ("nothing", [])):
        body = b"".join(pieces)
        with t.point(f"{what}, with the head"):
            client.send(post() + chunked(*pieces))
            equal(client.response().body, body)
        with t.point(f"{what}, behind the head"):
            client.send(post())
            t.client(sluice).ask("/meanwhile")
            client.send(chunked(*pieces)[:-2])
            client.send(b"\r\n")
            equal(client.response().body, body)
    with t.point("a body of 3 MiB, which is kept in a file"):
        body = bytes(range(256)) * (3 * MIB // 256)
        client.send(post() + chunked(*(body[i:i + 10_000] for i in range(0, len(body), 10_000))))
        true(client.response().body == body, "it is another body")
    with t.point("one that waits for a 100"):
        client.send(post(fields=[("Expect", "100-continue")]))
        equal(client.read_head().status, 100, "interim status")
        client.send(chunked(b"hello"))
        equal(client.response().body, b"hello")
    with t.point("several that come at once"):
        client.send((post() + chunked(b"one")) * 2 + post() + chunked() + request_bytes("/", "POST", body=b"four"))
        equal([client.response().body for _ in range(4)], [b"one", b"one", b"", b"four"])
    with t.point("without request_buffering it is sent as it comes, and read by none"):
        client = t.client(t.sluice(to(address, route="request_buffering = off")))
        client.send(post() + chunked(b"hello"))
        equal(client.response().body, b"", "body")


@group("what is sent in place of chunks")
def framed_by_length(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, route="max_body_size = 1000000"))
    client = t.client(sluice)

    def sent(*data):
        for piece in data:
            client.send(piece)
            t.client(sluice).ask("/meanwhile")
        answer = client.response()
        request = next(x.request for x in reversed(origin.requests) if x.request.method == "POST")
        equal(answer.body, request.body, "the body that came back")
        return request.framing, request.all("Transfer-Encoding"), request.all("Content-Length"), request.body

    with t.point("its length, whether it comes with its head or behind it"):
        for data in ([post() + chunked(b"ab", b"cde")], [post(), chunked(b"ab", b"cde")], [post() + b"2\r\na", b"b\r\n3;x=y\r\ncde\r\n0\r\n\r\n"]):
            equal(sent(*data), ("length", [], ["5"], b"abcde"))
        equal(sent(post() + chunked()), ("length", [], ["0"], b""))
        equal(sent(post(), chunked()), ("length", [], ["0"], b""))
    with t.point("chunks, where trailers are behind them"):
        for data in ([post() + chunked(b"ab", trailers=[("Digest", "x")])], [post(), chunked(b"ab", trailers=[("Digest", "x")])]):
            equal(sent(*data), ("chunked", ["chunked"], [], b"ab"))
    with t.point("each body that is cut at any byte, with another request behind it"):
        data = post() + chunked(b"ab", b"cde") + request_bytes("/behind")
        for cut in range(1, len(data)):
            client.send(data[:cut])
            client.send(data[cut:])
            equal((client.response().body, client.response().status), (b"abcde", 200), f"cut at {cut}")
    with t.point("nothing, where the framing is malformed"):
        for data in (b"5\r\nhello!\r\n0\r\n\r\n", b"5\nhello\n0\n\n", b"5 \r\nhello\r\n0\r\n\r\n", b"\r\n0\r\n\r\n"):
            other = t.client(sluice)
            other.send(post("/malformed") + data)
            equal((other.response().status, data), (400, data))
        true(not any(x.complete for x in origin.requests if x.request.target == "/malformed"), "one arrived whole")
    with t.point("a PUT in chunks is sent once more on a connection that the server had closed"):
        ends = t.origin(lambda x: (x.read_body(), x.reply(200, x.request.body), x.close() if x.number == 0 else None))
        client = t.client(t.sluice(to(ends)))
        equal(client.ask("/first").status, 200, "status of the first")
        client.send(request_bytes("/", "PUT", CHUNKED) + chunked(b"again"))
        equal(client.response().body, b"again")


main()
