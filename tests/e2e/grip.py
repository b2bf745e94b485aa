"""GRIP: sockets of a gateway subscribe to channels and get what is published to these."""
import base64
import hashlib
import hmac
import json
import time

from lib import websocket as ws
from lib.admin import command, value, with_admin
from lib.gateway import Backend
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.websocket import open_socket

KEY = "grip's own secret"
GRIP = ("Sec-WebSocket-Extensions", "grip")
ROUTE = "websocket = gateway\n"


def control(call, **message):
    call.event("TEXT", b"c:" + json.dumps(message).encode())


class Chat(Backend):
    """Subscribes each socket to the channels of its target: /a,b. Texts `+c`, `-c` and `detach` do so later."""

    def __init__(self, more=None):
        super().__init__(on_open=self.opened, on_event=self.came)
        self.more = more

    def opened(self, call):
        call.fields.append(GRIP)
        for channel in call.x.request.target[1:].split(","):
            if channel:
                control(call, type="subscribe", channel=channel)
        if self.more:
            self.more(call)

    def came(self, call, kind, content):
        if kind != "TEXT":
            if kind == "CLOSE":
                call.event(kind, content)
            return
        if content == b"detach":
            control(call, type="detach")
        elif content[:1] == b"+":
            control(call, type="subscribe", channel=content[1:].decode())
        elif content[:1] == b"-":
            control(call, type="unsubscribe", channel=content[1:].decode())
        call.event("TEXT", b"m:done")


def chat(t, more="", settings="", tokens=None, backend=None):
    """(sluice, Admin, Chat)"""
    backend = backend or Chat()
    sluice, admin = with_admin(t, to(t.origin(backend), route=ROUTE + more), tokens=tokens, settings=settings)
    return sluice, admin, backend


def item(channel, content=None, **message):
    if content is not None:
        message["content"] = content
    return {"channel": channel, "formats": {"ws-message": message}}


def publish(admin, *items, path="/api/v1/publish", status=200, token=None):
    found, answer = admin.json(path, "POST", body=json.dumps({"items": items}, ensure_ascii=False).encode(), token=token)
    equal(found, status, f"status of publishing: {answer}")
    return answer


def metric(admin, name):
    return value(admin.metrics()[1], name)


def subscribed(admin, count):
    until(lambda: metric(admin, "sluice_channel_subscriptions") == count, f"{count} subscriptions")


@group("subscribed sockets get what is published", workers=[1, 4])
def published(t):
    sluice, admin, _ = chat(t)
    sockets = {target: open_socket(t, sluice, target="/" + target) for target in ("a", "b", "a,b", "")}
    subscribed(admin, 4)

    with t.point("and no others"):
        equal(publish(admin, item("a", "to a")), {"published": 1, "subscriptions": 2})
        equal(publish(admin, item("b", "to b"), item("none", "to nobody")), {"published": 2, "subscriptions": 2})
        equal(sockets["a"].message(), "to a")
        equal([sockets["a,b"].message() for _ in range(2)], ["to a", "to b"])
        equal(sockets["b"].message(), "to b")
        sockets[""].send("+c")
        equal(sockets[""].message(), "done")
        publish(admin, item("c", "to c"))
        equal(sockets[""].message(), "to c")
    with t.point("binary, empty, and of all lengths"):
        for size in (0, 1, 125, 126, 65535, 65536, 300000):
            publish(admin, {"channel": "b", "formats": {"ws-message": {
                "content-bin": base64.b64encode(b"\xff" * size).decode()}}}, item("b", "å" * (size // 2)))
            for name in ("b", "a,b"):
                equal(sockets[name].message(), b"\xff" * size, f"{size} bytes")
                equal(sockets[name].message(), "å" * (size // 2), f"text of {size} bytes")
    with t.point("not after they left the channel"):
        sockets["a,b"].send("-a")
        equal(sockets["a,b"].message(), "done")
        equal(publish(admin, item("a", "again"))["subscriptions"], 1)
        publish(admin, item("b", "next"))
        equal(sockets["a,b"].message(), "next")
        equal(sockets["a"].message(), "again")
    with t.point("a channel ends with its last socket"):
        equal(metric(admin, "sluice_channels"), 3)
        sockets["b"].close()
        sockets["a,b"].stream.reset()
        sockets["a"].close()
        until(lambda: metric(admin, "sluice_channels") == 1, "one channel")
        subscribed(admin, 1)
        equal(publish(admin, item("b", "nobody"))["subscriptions"], 0)
    with t.point("the figures"):
        true(metric(admin, "sluice_published_items_total") >= 20, "items")
        true(metric(admin, "sluice_published_deliveries_total") >= 36, "deliveries")


@group("filters of subscriptions, values of sockets, pings and requests by publications", workers=[4])
def filtered(t):
    def more(call):
        user = call.x.request.target.partition("?")[2]
        control(call, type="set-meta", name="user", value=user)
        control(call, type="subscribe", channel="all", filters=["skip-self", "skip-users", "require-sub"])
        control(call, type="subscribe", channel="refused", filters=["skip-users", "build-id"])
        call.event("TEXT", b"m:ready")
    backend = Chat(more)
    sluice, admin, _ = chat(t, backend=backend)
    ann, bob = (open_socket(t, sluice, target=target) for target in ("/a,?ann", "/b,?bob"))
    equal([ann.message(), bob.message()], ["ready", "ready"])

    def to_all(content, **meta):
        return {**item("all", content), "meta": meta}
    with t.point("each socket gets what its filters let through"):
        publish(admin, to_all("not ann's", sender="ann"), to_all("neither's", skip_users="bob, ann"),
                to_all("not bob's", skip_users="bob"), to_all("in a", require_sub="a"),
                to_all("in none", require_sub="z"), to_all("last"))
        equal([ann.message() for _ in range(3)], ["not bob's", "in a", "last"])
        equal([bob.message() for _ in range(2)], ["not ann's", "last"])
    with t.point("a subscription with an unknown filter is refused and counted"):
        equal(publish(admin, item("refused", "x"))["subscriptions"], 0)
        equal(metric(admin, "sluice_refused_controls_total"), 2)
    with t.point("a publication with filters of its content is refused"):
        publish(admin, item("all", "x", **{"content-filters": ["skip-users"]}), status=400)
    with t.point("pings are published"):
        publish(admin, item("a", "beat", type="ping"))
        frame = ann.read_frame()
        equal((frame.opcode, frame.payload), (ws.PING, b"beat"))
    with t.point("refresh: the backend gets a request without events, and its answer is passed on"):
        before = len(backend.calls)
        backend.before = lambda call: None if call.events else call.event("TEXT", b"m:fresh")
        publish(admin, item("a", action="refresh"))
        equal(ann.message(), "fresh")
        equal([call.events for call in backend.calls[before:]], [[]])


@group("sockets are found by their channels, and sent to and ended by them", workers=[4])
def found(t):
    sluice, admin, _ = chat(t)
    sockets = {target: open_socket(t, sluice, target="/" + target) for target in ("a", "b", "a,b", "stays,b", "")}
    subscribed(admin, 6)

    def count(query):
        status, answer = admin.json("/api/v1/sockets?" + query)
        equal(status, 200, answer)
        return len(answer["sockets"])

    def operate(operation, query, body=None):
        status, answer = admin.json(f"/api/v1/sockets/all/{operation}?{query}", "POST",
                                    body=b"" if body is None else json.dumps(body).encode())
        equal(status, 200, answer)
        return answer["found"]

    with t.point("alone, and combined with other terms"):
        equal([count("channel=" + name) for name in ("a", "b", "stays", "none", "%C3%A5")], [2, 3, 1, 0, 0])
        equal([count("channel=a&" + more) for more in ("min_age=1h", "max_age=1h", "type=other", "address=127.0.0.0/8")],
              [0, 2, 0, 2])
        equal([admin.json("/api/v1/sockets?channel=" + name)[0] for name in ("", "%FF", "c" * 1025)], [400] * 3)
    with t.point("by the command line"):
        listed = json.loads(command("sockets", "--channel", "a", "--json", "-c", sluice.ini_path))["sockets"]
        equal(len(listed), 2)
        command("sockets", "post", "all", "by hand", "--channel", "a", "--find", "max_age=1h", "-c", sluice.ini_path)
        command("sockets", "--channel", "", "-c", sluice.ini_path, status=1)
        for name in ("a", "a,b"):
            equal(sockets[name].message(), "by hand")
    with t.point("posted to"):
        equal(operate("post", "channel=b&wait=sent", {"text": "to b"}), 3)
        for name in ("b", "a,b", "stays,b"):
            equal(sockets[name].message(), "to b")
    with t.point("not after they left the channel"):
        sockets["stays,b"].send("-b")
        equal(sockets["stays,b"].message(), "done")
        equal(count("channel=b"), 2)
    with t.point("drained and closed"):
        equal(operate("drain", "channel=a"), 2)
        for name in ("a", "a,b"):
            equal(sockets[name].closed_with()[0], 1001)
        until(lambda: count("channel=b") == 1, "one is left")
        equal(operate("close", "channel=b", {"code": 4009}), 1)
        equal(sockets["b"].closed_with()[0], 4009)
        equal(count("channel=stays"), 1)
        equal(publish(admin, item("stays", "still here"))["subscriptions"], 1)
        equal(sockets["stays,b"].message(), "still here")


@test("a close that is published ends the sockets behind what was published before", workers=[4])
def closes(t):
    sluice, admin, backend = chat(t)
    sockets = [open_socket(t, sluice, target="/room") for _ in range(8)]
    subscribed(admin, 8)
    publish(admin, item("room", "last words"), item("room", action="hint"),
            item("room", action="close", code=4007, reason="enough"), item("room", "too late"))
    for socket in sockets:
        equal(socket.message(), "last words")
        equal(socket.closed_with(), (4007, "enough"))
    until(lambda: sum(isinstance(what, tuple) and what[0] in ("DISCONNECT", "CLOSE") for what in backend.log.all())
          == 8, "the backend hears of each end")
    subscribed(admin, 0)


@test("each socket gets all in the order of publication: 20,000 items to 60 sockets", workers=[4])
def order(t):
    sluice, admin, _ = chat(t, settings="socket_queue_total_bytes = 0",
                            more="socket_queue_messages = 100k\nsocket_queue_bytes = 100M\n")
    sockets = [open_socket(t, sluice, target="/x") for _ in range(60)]
    subscribed(admin, 60)
    count = 0
    for size in [1, 2, 31, 32, 33, 34, 63, 64, 65, 255, 256, 257, 1000, 1000, 6000, 10000]:
        publish(admin, *(item("x", str(count + n)) for n in range(size)))
        count += size
    for socket in sockets:
        equal([socket.message() for _ in range(count)], [str(n) for n in range(count)])


@group("invalid publications are refused with what was expected")
def wrong(t):
    sluice, admin, _ = chat(t)
    socket = open_socket(t, sluice, target="/a")
    subscribed(admin, 1)
    cases = [(b"", "invalid JSON"), (b"{", "invalid JSON"), (b"[]", "items: invalid value; expected an array of 1 to"),
             (b'{"items":[]}', "expected an array of 1 to 10000 items"),
             (json.dumps({"items": [item("a", "x")] * 10001}).encode(), "expected an array of 1 to 10000 items"),
             (json.dumps({"items": [item("a", "x"), item("", "x")]}).encode(), "items[1].channel: invalid value"),
             (json.dumps({"items": [item("a", "x"), item("c" * 1025, "x")]}).encode(), "1 to 1024 bytes"),
             (json.dumps({"items": [item("a", 5)]}).encode(), "content: invalid type; expected a text"),
             (b'{"items":[{"channel":"a","formats":{"ws-message":{"content":"\xff"}}}]}', "invalid JSON"),
             (json.dumps({"items": [item("a", **{"content-bin": "?"})]}).encode(), "invalid base64"),
             (json.dumps({"items": [item("a", action="close", code=1006)]}).encode(), "expected a close code")]
    for body, expected in cases:
        with t.point(f"{body[:60]}: {expected}"):
            status, _, content = admin.ask("/api/v1/publish", "POST", body=body)
            equal(status, 400)
            true(expected in json.loads(content)["detail"], content)
    with t.point("nothing of it was sent"):
        publish(admin, item("a", "first"))
        equal(socket.message(), "first")


def token(key, claims, header=None):
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    text = part(json.dumps(header or {"alg": "HS256", "typ": "JWT"}).encode()) + "." + part(json.dumps(claims).encode())
    return text + "." + part(hmac.new(key.encode(), text.encode(), hashlib.sha256).digest())


@group("who may publish")
def allowed(t):
    sluice, admin, backend = chat(t, settings=f"grip_key = file:{t.file('grip.key', KEY + chr(10))}",
                                  tokens="ann read reads\nbob write writes\n")
    now = int(time.time())
    with t.point("a token that may write"):
        publish(admin, item("a", "x"), token="writes")
    with t.point("a token signed with grip_key, for publishing only"):
        signed = token(KEY, {"iss": "anybody", "exp": now + 60})
        publish(admin, item("a", "x"), token=signed)
        equal(admin.ask("/api/v1/status", token=signed)[0], 401)
        equal(admin.ask("/api/v1/reload", "POST", token=signed)[0], 401)
    with t.point("not one that may read only"):
        publish(admin, item("a", "x"), status=403, token="reads")
    open_socket(t, sluice, target="/a")
    request = backend.calls[0].x.request
    for name, bad in (("what a request to the backend was signed with", request.get("Grip-Sig")), ("no token", None), ("an unknown one", "other"), ("one that has expired", token(KEY, {"exp": now - 300})),
                      ("of another key", token("other", {"exp": now + 60})), ("without an end", token(KEY, {"iss": "x"})),
                      ("unsigned", token(KEY, {"exp": now + 60}, {"alg": "none"}))):
        with t.point(f"not {name}"):
            publish(admin, item("a", "x"), status=401, token=bad)


@test("requests to the backend are signed; signatures of clients are removed")
def signature(t):
    key = t.file("grip.key", "base64:" + base64.b64encode(KEY.encode()).decode())
    sluice, admin, backend = chat(t, settings=f"grip_key = file:{key}\ngrip_iss = the gateway")
    socket = open_socket(t, sluice, target="/a", fields=[("Grip-Sig", "forged")])
    socket.send("hello")
    equal(socket.message(), "done")
    found = [call.x.request.get("Grip-Sig") for call in backend.calls]
    equal(len(found), 2)
    claims = json.loads(base64.urlsafe_b64decode(found[0].split(".")[1] + "=="))
    equal(claims["iss"], "the gateway")
    true(0 < claims["exp"] - time.time() <= 3600, claims)
    head, body, mac = found[0].split(".")
    equal(mac, base64.urlsafe_b64encode(hmac.new(KEY.encode(), f"{head}.{body}".encode(), hashlib.sha256).digest())
          .rstrip(b"=").decode(), "signature")


@test("without a key requests have no signature, and a client's is not passed on")
def unsigned(t):
    sluice, _, backend = chat(t)
    open_socket(t, sluice, target="/a", fields=[("Grip-Sig", "forged")])
    equal([call.x.request.get("Grip-Sig") for call in backend.calls], [None])


@test("a detached socket's messages are discarded, and it still gets what is published")
def detached(t):
    sluice, admin, backend = chat(t)
    socket = open_socket(t, sluice, target="/a")
    socket.send("detach")
    equal(socket.message(), "done")
    for n in range(20):
        socket.send(f"lost {n}")
    publish(admin, item("a", "published"))
    equal(socket.message(), "published")
    equal(socket.close(4001, "bye")[0], 4001)
    subscribed(admin, 0)
    equal([what for what in backend.log.all() if "lost" in str(what)], [])


@test("socket_channels and channels bound the subscriptions; more are refused and counted")
def bounds(t):
    sluice, admin, _ = chat(t, settings="channels = 5", more="socket_channels = 3\n")
    one = open_socket(t, sluice, target="/1,2,3,4")
    subscribed(admin, 3)
    until(lambda: metric(admin, "sluice_refused_controls_total") == 1, "the fourth is refused")
    two = open_socket(t, sluice, target="/5,6,7")
    subscribed(admin, 5)
    until(lambda: metric(admin, "sluice_refused_controls_total") == 2, "the sixth of all is refused")
    equal(publish(admin, *(item(str(n), str(n)) for n in range(1, 8))), {"published": 7, "subscriptions": 5})
    equal([one.message() for _ in range(3)], ["1", "2", "3"])
    equal([two.message() for _ in range(2)], ["5", "6"])


@test("wrong control messages do no harm")
def controls(t):
    def more(call):
        for text in (b"", b"{", b"[]", b'{"type":"subscribe"}', b'{"type":"unknown"}', b"\xff", b"{" * 20000):
            call.event("TEXT", b"c:" + text)
        call.event("BINARY", b"c:" + json.dumps({"type": "subscribe", "channel": "b"}).encode())
        call.event("TEXT", b"m:welcome")
        call.event("TEXT", b"neither")
    sluice, admin, _ = chat(t, backend=Chat(more))
    socket = open_socket(t, sluice, target="/a")
    equal(socket.message(), "welcome")
    equal(metric(admin, "sluice_refused_controls_total"), 7)
    publish(admin, item("a", "x"), item("b", "y"))
    equal([socket.message() for _ in range(2)], ["x", "y"])


@test("a keep-alive message comes while nothing else does")
def keep_alive(t):
    def more(call):
        control(call, type="keep-alive", content="beat", timeout=1)
    sluice, _, _ = chat(t, backend=Chat(more))
    began = time.monotonic()
    socket = open_socket(t, sluice, target="/a")
    equal([socket.message() for _ in range(2)], ["beat", "beat"])
    true(time.monotonic() - began >= 1.9, "not too early")


@test("a client that reads nothing holds up no other", workers=[1])
def slow(t):
    sluice, admin, _ = chat(t, more="socket_queue_bytes = 200k\n")
    stuck = open_socket(t, sluice, target="/x")
    quick = open_socket(t, sluice, target="/x")
    subscribed(admin, 2)
    text = "x" * 100000
    for n in range(100):
        publish(admin, item("x", text + str(n)))
        equal(quick.message(), text + str(n))
        if metric(admin, "sluice_channel_subscriptions") == 1:
            break
    until(lambda: publish(admin, item("x", "-"))["subscriptions"] == 1, "the one that is stuck is gone")
    true(stuck.stream is not None, "")


if __name__ == "__main__":
    main()
