"""Chromium opens WebSockets through sluice, to both kinds of backends: it sends, gets what comes back, and sees how
they close."""
import json

from lib import websocket as ws
from lib.admin import with_admin
from lib.browser import Browser
from lib.gateway import Backend
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main

# What the page's script is: opens, sends all, closes when all came back. null stands for three bytes.
TALK = """new Promise((done) => {
	const [path, messages, closes] = %s;
	const socket = new WebSocket(location.origin.replace('http', 'ws') + path), came = [];
	window.opened = socket;
	socket.binaryType = 'arraybuffer';
	socket.onopen = () => messages.forEach((m) => socket.send(m === null ? new Uint8Array([0, 255, 1]) : m));
	socket.onmessage = (event) => {
		came.push(typeof event.data === 'string' ? event.data : [...new Uint8Array(event.data)]);
		if (closes && came.length === messages.length)
			socket.close(4001, 'done');
	};
	socket.onclose = (event) => done([came, event.code, event.reason, event.wasClean]);
})"""
MESSAGES = ["hello", "blåbær", None, "", "x" * 70000]
CAME = ["hello", "blåbær", [0, 255, 1], "", "x" * 70000]


def page(other):
    """An origin that has the page besides its WebSockets."""
    def handler(x):
        if x.request.method == "GET" and not x.request.get("Upgrade"):
            x.read_body()
            x.reply(200, b"<!DOCTYPE html><title>a page</title>", fields=[("Content-Type", "text/html")])
        else:
            other(x)
    return handler


def talk(browser, path, messages, closes=True):
    return browser.run(TALK % json.dumps([path, messages, closes]))


@group("a page in Chromium, WebSocket servers behind (messages)", workers=[4])
def messages(t):
    def on_message(socket, message):
        if message == "close":
            socket.send_close(4002, "as you wish")
        else:
            socket.send(message)
    sluice = t.sluice(to(t.origin(page(ws.server(on_message))), route="websocket = messages"))
    browser = Browser(t)
    browser.open(f"http://{sluice.address}/")
    with t.point("messages come back, and its close frame is answered"):
        equal(talk(browser, "/echo", MESSAGES), [CAME, 4001, "done", True])
    with t.point("a close of the server"):
        equal(talk(browser, "/echo", ["close"], False), [[], 4002, "as you wish", True])


@group("a page in Chromium, an HTTP backend behind (gateway)", workers=[4])
def gateway(t):
    def on_event(call, kind, content):
        if content == b"close":
            call.close(4003, "enough")
        elif content == b"subscribe":
            call.event("TEXT", b'c:{"type":"subscribe","channel":"news"}')
        elif kind in ("TEXT", "BINARY"):
            call.event(kind, b"m:" + content)
        elif kind == "CLOSE":
            call.event(kind, content)
    backend = Backend(on_event=on_event,
                      on_open=lambda call: call.fields.append(("Sec-WebSocket-Extensions", "grip")))
    sluice, admin = with_admin(t, to(t.origin(page(backend)), route="websocket = gateway"))
    browser = Browser(t)
    browser.open(f"http://{sluice.address}/")
    with t.point("messages come back, and its close frame is answered"):
        equal(talk(browser, "/echo", MESSAGES), [CAME, 4001, "done", True])
    with t.point("a close of the backend"):
        equal(talk(browser, "/echo", ["close"], False), [[], 4003, "enough", True])
    with t.point("what is published, and a close that is"):
        browser.run("window.ended = null; (" + "() => {" + (TALK % json.dumps(["/echo", ["subscribe"], False]))
                    + ".then((result) => { window.ended = result; }); })()")

        def publish(**message):
            body = json.dumps({"items": [{"channel": "news", "formats": {"ws-message": message}}]}).encode()
            return admin.json("/api/v1/publish", "POST", body=body)[1]["subscriptions"]
        until(lambda: publish(content="extra") == 1, "the page is subscribed")
        publish(action="close", code=4004, reason="no more news")
        until(lambda: browser.run("window.ended !== null"), "the page's socket has ended")
        came, code, reason, clean = browser.run("window.ended")
        equal((set(came), code, reason, clean), ({"extra"}, 4004, "no more news", True))


if __name__ == "__main__":
    main()
