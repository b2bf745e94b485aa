"""GRIP's Grip-Hold: responses of ordinary requests that wait for what is published, long polls and streams."""
import base64
import json
import time

from lib.admin import value, with_admin
from lib.process import DEADLINE_SECONDS, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.workers import leave

HOLD = "grip_hold = on\n"


def server(x):
    """/response/a,b and /stream/a,b hold; what follows a ? are fields, as Grip-Timeout:1&X:y. Others do not."""
    x.read_body()
    path, _, query = x.request.target.partition("?")
    fields = [tuple(pair.split(":", 1)) for pair in query.replace("%20", " ").split("&") if pair]
    word, _, channels = path[1:].partition("/")
    if word in ("response", "stream"):
        fields += [("Grip-Hold", word), ("Grip-Channel", channels)]
    x.reply(200, b"" if word == "empty" else b"at first\n", [("Content-Type", "text/x-first"), *fields])


def held(t, route="", upstream="", **more):
    origin = t.origin(server)
    sluice, admin = with_admin(t, to(origin, upstream=upstream, route=HOLD + route), **more)
    return sluice, admin, origin


def publish(admin, channel, status=200, **formats):
    formats = {name.replace("_", "-"): content for name, content in formats.items()}
    content = json.dumps({"items": [{"channel": channel, "formats": formats}]}).encode()
    found, answer = admin.json("/api/v1/publish", "POST", body=content)
    equal(found, status, answer)
    return answer


def subscribed(admin, count):
    until(lambda: value(admin.metrics()[1], "sluice_channel_subscriptions") == count, f"{count} subscriptions")


def wait_for(client, target, method="GET", **more):
    client.request(target, method, **more)
    return client


@group("a long poll", workers=[1, 4])
def long_polls(t):
    sluice, admin, origin = held(t)
    client = t.client(sluice)
    with t.point("a response without Grip-Hold is passed on"):
        equal(client.ask("/plain").body, b"at first\n")
    with t.point("is answered with what is published, and its connection goes on"):
        for _ in range(3):
            wait_for(client, "/response/a,b")
            subscribed(admin, 2)
            publish(admin, "b", http_response={"code": 201, "reason": "Well done", "headers": {"X-Two": "2"}, "body": "hellö"})
            answer = client.response()
            equal((answer.status, answer.body.decode(), answer.get("X-Two"), answer.get("Content-Type")),
                  (201, "hellö", "2", None))
            equal(answer.reason, "Well done")
            subscribed(admin, 0)
    with t.point("of many, each gets it"):
        clients = [wait_for(t.client(sluice), "/response/a") for _ in range(60)]
        subscribed(admin, 60)
        big = "x" * 300_000
        publish(admin, "a", http_response={"headers": [["X-A", "1"], ["X-A", "2"]], "body": big})
        for one in clients:
            answer = one.response()
            equal((answer.status, len(answer.body)), (200, len(big)))
            equal([field for field in answer.fields if field[0] == "X-A"], [("X-A", "1"), ("X-A", "2")])
    with t.point("a body in base64, an empty one, and HEAD"):
        for method, message, body in (("GET", {"body-bin": base64.b64encode(bytes(range(256))).decode()}, bytes(range(256))),
                                      ("GET", {}, b""), ("HEAD", {"body": "hello"}, b"")):
            wait_for(client, "/response/a", method)
            subscribed(admin, 1)
            publish(admin, "a", http_response=message)
            equal(client.response(method).body, body)
    with t.point("what is published for others does not end it"):
        wait_for(client, "/response/a")
        subscribed(admin, 1)
        publish(admin, "a", ws_message={"content": "no"}, http_stream={"content": "no"})
        publish(admin, "other", http_response={"body": "no"})
        publish(admin, "a", http_response={"body": "yes"})
        equal(client.response().body, b"yes")
    with t.point("after Grip-Timeout it is the server's own answer, without GRIP's fields"):
        begun = time.monotonic()
        answer = wait_for(client, "/response/a?Grip-Timeout:1&Grip-Status:404&X-Own:yes").response()
        true(time.monotonic() - begun >= 0.9, "it waits")
        equal((answer.status, answer.body, answer.get("X-Own"), answer.get("Content-Type")),
              (404, b"at first\n", "yes", "text/x-first"))
        equal([name for name, _ in answer.fields if name.lower().startswith("grip-")], [])
        subscribed(admin, 0)
    with t.point("an answer without content has no Content-Length, which would not be that of the content"):
        for method, status in (("HEAD", 200), ("GET", 304)):
            answer = wait_for(client, f"/response/a?Grip-Timeout:1&Grip-Status:{status}", method).response(method)
            equal((answer.status, answer.get("Content-Length")), (status, None), method)
    with t.point("requests behind it on its connection are answered behind it"):
        wait_for(client, "/response/a")
        wait_for(client, "/plain")
        subscribed(admin, 1)
        publish(admin, "a", http_response={"body": "first"})
        equal([client.response().body for _ in range(2)], [b"first", b"at first\n"])
    with t.point("HTTP/1.0"):
        old = wait_for(t.client(sluice), "/response/a", version="1.0")
        subscribed(admin, 1)
        publish(admin, "a", http_response={"body": "old"})
        equal(old.response().body, b"old")


@group("clients that leave free their places", workers=[1])
def leaving(t):
    origin = t.origin(server)
    sluice, admin = with_admin(t, "[limit one]\nkey = ip\nconcurrency = 1\n"
                               + to(origin, upstream="max_streams = 1\n", route=HOLD + "limits = one\n"))
    for target in ("/response/z", "/stream/z"):
        for version in ("1.1", "1.0"):
            for how in ("close", "reset", "finish_sending"):
                with t.point(f"{target}, HTTP/{version}, {how}"):
                    one = wait_for(t.client(sluice), target, version=version)
                    if target == "/stream/z":
                        one.response_head()
                    subscribed(admin, 1)
                    equal(t.client(sluice).ask(target).status, 429)
                    leave(sluice, one, how)
                    subscribed(admin, 0)


@group("a stream", workers=[1, 4])
def streams(t):
    sluice, admin, _ = held(t)
    for version in ("1.1", "1.0"):
        with t.point(f"begins with the server's answer, continues with what is published, and ends with close (HTTP/{version})"):
            client = wait_for(t.client(sluice), "/stream/a,b", version=version)
            subscribed(admin, 2)
            publish(admin, "a", http_stream={"content": "one\n"})
            publish(admin, "b", http_stream={"content-bin": base64.b64encode(b"\xff\n").decode()})
            publish(admin, "b", http_response={"body": "no"})
            publish(admin, "a", http_stream={"content": "end\n", "action": "close"})
            answer = client.response()
            equal((answer.status, answer.get("Content-Type")), (200, "text/x-first"))
            equal(answer.body, b"at first\none\n\xff\nend\n")
            subscribed(admin, 0)
    with t.point("each piece reaches the client at once"):
        client = wait_for(t.client(sluice), "/stream/a")
        equal(client.response_head().get("Transfer-Encoding"), "chunked")
        client.read_through(b"at first\n")
        for n in range(20):
            publish(admin, "a", http_stream={"content": f"{n}\n"})
            client.read_through(f"{n}\n".encode())
        publish(admin, "a", http_stream={"action": "close"})
        equal(client.read_through(b"0\r\n\r\n")[-5:], b"0\r\n\r\n")
        equal(client.ask("/plain").status, 200, "and its connection goes on")
    with t.point("HEAD has no stream"):
        equal(wait_for(client, "/stream/a", "HEAD").response("HEAD").status, 200)
        subscribed(admin, 0)
    with t.point("keep-alives, when nothing was published"):
        client = wait_for(t.client(sluice), "/stream/a?Grip-Keep-Alive:alive\\n;%20format=cstring;%20timeout=1")
        client.response_head()
        client.read_through(b"at first\n")
        client.read_through(b"alive\n")
        client.read_through(b"alive\n")
        client.close()
        subscribed(admin, 0)
    with t.point("one who reads nothing is cut, and others are not"):
        slow = wait_for(t.client(sluice, receive_buffer=4096), "/stream/s")
        fast = wait_for(t.client(sluice), "/stream/s")
        fast.response_head()
        subscribed(admin, 2)
        for n in range(40):
            publish(admin, "s", http_stream={"content": "s" * 500_000 + f"{n}\n"})
            fast.read_through(f"s{n}\n".encode())
        subscribed(admin, 1)
        slow.close()


@test("max_streams, a concurrency and socket_channels bound what is held; ordered requests are not behind it", workers=[1])
def bounds(t):
    origin = t.origin(server)
    sluice, admin = with_admin(t, "[limit few]\nkey = header:X-Key\nconcurrency = 2\n"
                               + to(origin, upstream="max_streams = 3\nmax_in_flight = 1\n",
                                    route=HOLD + "limits = few\nsession = header:X-Key\nordering = strict\nsocket_channels = 2\n"
                                                 "gateway_answer_size = 1k\n"))
    key = lambda n: [("X-Key", f"k{n}")]
    first = wait_for(t.client(sluice), "/response/a", fields=key(1))
    subscribed(admin, 1)
    second = wait_for(t.client(sluice), "/stream/a", fields=key(1))
    second.response_head()
    subscribed(admin, 2)
    equal(t.client(sluice).ask("/plain", fields=key(1)).status, 429, "the concurrency is used up")
    wait_for(t.client(sluice), "/response/a", fields=key(2))
    subscribed(admin, 3)
    equal(t.client(sluice).ask("/response/a", fields=key(3)).status, 503, "max_streams are there")
    equal(t.client(sluice).ask("/plain", fields=key(2)).status, 200, "what is held takes no place, nor a turn")
    publish(admin, "a", http_response={"body": "go"})
    equal(first.response().body, b"go")
    equal(t.client(sluice).ask("/response/a,b,c", fields=key(4)).status, 503, "socket_channels")
    subscribed(admin, 1)


@test("what can't be held is refused, not ignored", workers=[1])
def refusals(t):
    sluice, admin, _ = held(t)
    for target in ("/response/", "/response/a;filter=skip-self", "/response/a?Grip-Link:x", "/response/a?Grip-Timeout:0",
                   "/response/a?Grip-Status:99", "/plain?Grip-Hold:other&Grip-Channel:a", "/plain?Grip-Hold:stream"):
        equal(t.client(sluice).ask(target).status, 502, target)
    subscribed(admin, 0)
    for message in ({"code": 100}, {"code": "200"}, {"headers": {"A B": "c"}}, {"headers": {"A": "b\r\nC: d"}}, {"headers": {"A": 1}},
                    {"headers": ["A"]}, {"body": 1}, {"body-bin": "YQ"}, {"reason": "a\r\nb"}, [],
                    {"body": "x", "content-filters": ["var-subst"]}):
        publish(admin, "a", http_response=message, status=400)
    for message in ({}, {"content": 1}, {"content-bin": "YQ"}, {"action": "shout"}, [],
                    {"content": "x", "content-filters": ["build-id"]}):
        publish(admin, "a", http_stream=message, status=400)
    off, _ = with_admin(t, to(t.origin(server)))
    equal(t.client(off).ask("/response/a").get("Grip-Hold"), "response", "without grip_hold it is a response")


@test("a server knows who holds, and clients can't say it", workers=[1])
def signatures(t):
    sluice, _, origin = held(t, settings=f"grip_key = file:{t.file('grip.key', 'a secret of more than thirty-two bytes' + chr(10))}")
    t.client(sluice).ask("/plain", fields=[("Grip-Sig", "forged"), ("Grip_Sig", "forged")])
    equal([value.count(".") for name, value in origin.last().fields if name == "Grip-Sig"], [2])


@test("the answer to HEAD ends a stream at once, also where its client takes nothing for longer than the keep-alive", workers=[1])
def unsent_head(t):
    server = t.origin(lambda x: x.reply(200, b"", [("Grip-Hold", "stream"), ("Grip-Channel", "a"), ("X-Large", "x" * 30_000),
                                                   ("Grip-Keep-Alive", "\\n; format=cstring; timeout=1")]))
    sluice, admin = with_admin(t, to(server, route=HOLD))
    client, other = t.client(sluice, receive_buffer=4096), t.client(sluice)
    client.send(b"HEAD / HTTP/1.1\r\nHost: api.test\r\n\r\n" * 300)  # 9 MB, more than the system sends ahead
    wait_for(other, "/").read_through(b"\r\n\r\n")
    for _ in range(3):
        other.read_through(b"\n\r\n")  # its keep-alive: one was due on the client's stream, too
    subscribed(admin, 1)
    publish(admin, "a", http_stream={"content": "to other", "action": "close"})
    for _ in range(300):
        equal(client.response("HEAD").status, 200)
    subscribed(admin, 0)


@test("a client leaves before all of the response that is to be held has come: its place is free with the response's end", workers=[1])
def left_while_collected(t):
    go = t.event()

    def serve(x):
        if x.request.target == "/plain":
            x.reply(200)
            return
        x.send(b"HTTP/1.1 200 OK\r\nGrip-Hold: response\r\nGrip-Channel: a\r\nContent-Length: 10\r\n\r\nfirst")
        go.wait(DEADLINE_SECONDS)
        x.send(b"-last")

    origin = t.origin(serve)
    sluice, _ = with_admin(t, to(f"{origin} max_in_flight=1", route=HOLD), settings="log_level = debug\n")
    client = wait_for(t.client(sluice), "/response")
    sluice.process.wait_output("forwarding -> relaying")
    leave(sluice, client)
    other = wait_for(t.client(sluice), "/plain")
    go.set()
    equal(other.response().status, 200)


@test("a drain ends what is held: polls get the server's answer, streams their end", workers=[4])
def drains(t):
    sluice, admin, _ = held(t)
    polls = [wait_for(t.client(sluice), "/response/a") for _ in range(20)]
    streams = [wait_for(t.client(sluice), "/stream/a") for _ in range(20)]
    subscribed(admin, 40)
    sluice.terminate()
    for one in polls + streams:
        answer = one.response()
        equal((answer.status, answer.body), (200, b"at first\n"))
    sluice.wait()


if __name__ == "__main__":
    main()
