"""gRPC by real peers (@grpc/grpc-js from npm) on both sides, and heads by a scripted client."""
import json
import os
import time

from lib import node
from lib.http2 import Http2
from lib.http2_server import Http2Server
from lib.peers import find
from lib.process import run, serve, until
from lib.sluice import to
from lib.tap import equal, group, main, true

H2 = "protocol = h2\nmax_fails = 0\n"
CALL = [("content-type", "application/grpc"), ("te", "trailers")]
FEW = "[limit few]\nkey = header:X-Api-Key\nrate = 1 per 1h\n"


def call(sluice, method, **options):
    """What came of a call by grpc-js."""
    command = [find("node"), os.path.join(node.INSTALLED, "grpc.mjs"), "client", sluice.address, method,
               json.dumps(options)]
    return json.loads(run(command)[1])


@group("calls by a real client to a real server")
def real(t):
    folder = node.install(t)
    server = serve(t, [find("node"), os.path.join(folder, "grpc.mjs"), "server"])
    limits = FEW + "[limit soon]\nkey = header:X-Soon\nrate = 1 per 4s\n"
    sluice = t.sluice(limits, to(server, upstream=H2),
                      "[route limited]\npath = /t.Echo/Fail\nupstream = origin\nlimits = few\n",
                      "[route soon]\npath = /t.Echo/Later\nupstream = origin\nlimits = soon\n",
                      listener="protocols = h2, http/1.1")
    with t.point("unary: the message, and what follows it"):
        got = call(sluice, "Unary", bytes="text")
        equal([got["code"], got["messages"], got["trailers"].get("x-trailer")], [0, ["text"], "late"], "result")
    with t.point("streams both ways, each message behind the answer to the last"):
        got = call(sluice, "Chat", messages=20)
        equal([got["code"], len(got["messages"]), got["messages"][19]], [0, 20, "hello19"], "result")
    with t.point("a long message"):
        got = call(sluice, "Unary", bytes="x" * 60_000)
        equal([got["code"], len(got["messages"][0])], [0, 60_000], "result")
    with t.point("a failure of the server's, which is a head alone"):
        got = call(sluice, "Fail", metadata={"x-api-key": "a"})
        equal([got["code"], got["details"]], [9, "not ready"], "result")
    with t.point("refused: RESOURCE_EXHAUSTED, and how long to wait"):
        got = call(sluice, "Fail", metadata={"x-api-key": "a"})
        equal([got["code"], got["details"]], [8, "Rate limit exceeded"], "result")
        fields = {**got.get("head", {}), **got["trailers"]}
        true(0 < int(fields["grpc-retry-pushback-ms"]) <= 3_600_000, str(fields))
        true("ratelimit" in fields, str(fields))
    with t.point("a client with a retry policy comes back when it is told to, and not by its own backoff"):
        began = time.monotonic()
        got = call(sluice, "Later", metadata={"x-soon": "b"}, retries=3, twice=True)
        equal([got["code"], got["messages"]], [0, ["hello"]], "result")
        true(time.monotonic() - began < 30, "its own backoff would be 30 s")
    with t.point("a deadline ends the call at the server, too"):
        got = call(sluice, "Slow", deadline_ms=3000)
        equal(got["code"], 4, "DEADLINE_EXCEEDED")
        until(lambda: call(sluice, "Cancelled")["messages"] == ["1"], "the server learns of it")


@group("answers of sluice to a call")
def answers(t):
    held = []

    def answer(request):
        if request.path == "/t.Echo/Held":
            held.append(request)
        elif request.path == "/t.Echo/Bad":
            request.head("2x0", end=True)

    server = Http2Server(t, answer)
    sluice = t.sluice(FEW, to(server.address, upstream=H2 + "max_in_flight = 1\nretries = 0"),
                      "[route few]\npath = /t.Echo/Few\nupstream = origin\nlimits = few\n",
                      "[upstream none]\nserver = 127.0.0.1:1\n" + H2 +
                      "[route none]\npath = /t.None/\nupstream = none\n",
                      listener="protocols = h2, http/1.1", workers=1)
    client = Http2(t, sluice)

    def ask(path, fields=(), kind=CALL):
        stream = client.request(path, method="POST", end=False, fields=[*kind, *fields])
        client.data(stream, b"\0\0\0\0\0", end=True)
        return client.response(stream)

    def status(response):
        return [response.status, response.fields.get("grpc-status"), response.fields.get("content-type"),
                len(response.heads), response.body]

    with t.point("502 is UNAVAILABLE, a head alone"):
        equal(status(ask("/t.None/A")), [200, "14", "application/grpc", 1, b""], "answer")
        equal(status(ask("/t.Echo/Bad")), [200, "14", "application/grpc", 1, b""], "answer")
    with t.point("504 is DEADLINE_EXCEEDED: the call's own, and its server is not to blame"):
        began = time.monotonic()
        equal(status(ask("/t.Echo/Held", [("grpc-timeout", "300m")]))[:2], [200, "4"], "answer")
        true(time.monotonic() - began < 30, "it does not wait for first_byte_timeout")
        until(lambda: held[-1].reset_by is not None, "the server learns of it")
        equal(held[-1].fields["grpc-timeout"], "300m", "the server knows it")
    with t.point("so it is where the call waits for its turn"):
        stream = client.request("/t.Echo/Held", method="POST", fields=CALL)
        until(lambda: len(held) == 2, "one is at the server")
        equal(status(ask("/t.Echo/Held", [("grpc-timeout", "300m")]))[:2], [200, "4"], "answer")
        held[1].reply(200)
        equal(client.response(stream).status, 200, "the other one is served")
    with t.point("429 is RESOURCE_EXHAUSTED"):
        key = [("x-api-key", "k")]
        client.request("/t.Echo/Few", method="POST", fields=CALL + key)
        until(lambda: server.requests[-1].path == "/t.Echo/Few", "it is at the server")
        server.requests[-1].reply(200)
        got = ask("/t.Echo/Few", key)
        equal(status(got), [200, "8", "application/grpc", 1, b""], "answer")
        true(int(got.fields["grpc-retry-pushback-ms"]) > 3_000_000, str(got.fields))
        equal(got.fields["grpc-message"], "Rate limit exceeded", "message")
        true("ratelimit-policy" in got.fields, str(got.fields))
    with t.point("others, grpc-web's too, are answered as HTTP is"):
        for kind in ("application/grpc-web", "text/plain"):
            got = ask("/t.Echo/Few", [("x-api-key", "k")], [("content-type", kind)])
            equal([got.status, got.fields.get("grpc-status")], [429, None], kind)


if __name__ == "__main__":
    main()
