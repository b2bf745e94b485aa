"""Real peers of WebSockets: ws from npm and python3-websockets, as clients and as servers."""
import json
import os
import subprocess
import sys

from lib import node, process
from lib.gateway import Backend
from lib.peers import find
from lib.sluice import to
from lib.tap import equal, group, main, true

ROUTE = "websocket = messages\nmessage_limits = l\nping_interval = 20ms"
LIMIT = "[limit l]\nrate = 1000000 per 1s\n"
COUNT = 100


def python_with_websockets(t):
    """An interpreter that has python3-websockets: this one, or the system's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import websockets"], check=False,
                                                      stderr=subprocess.DEVNULL).returncode == 0:
            return python
    t.skip("python3-websockets is not installed")
    return None


def command(t, peer):
    if peer == "ws":
        return [find("node"), os.path.join(node.install(t), "websocket.mjs")]
    return [python_with_websockets(t), os.path.join(node.E2E, node.CLIENTS, "websocket.py")]


def serve(t, peer):
    """Its address."""
    return process.serve(t, [*command(t, peer), "server"])


@group("each client with each server")
def peers(t):
    for server in ("ws", "python3-websockets"):
        for client in ("ws", "python3-websockets"):
            with t.point(f"{client} to {server}, compressed"):
                sluice = t.sluice(LIMIT, to(serve(t, server), route=ROUTE))
                status, output = process.run([*command(t, client), "client", f"ws://{sluice.address}/",
                                              str(COUNT)])
                equal(status, 0, output)
                found = json.loads(output)
                equal((found.get("same"), found.get("messages"), found.get("code")), (True, 2 * COUNT, 4000), output)
                true("permessage-deflate" in found["extensions"], output)


@group("each client through a gateway to an HTTP backend")
def through_gateway(t):
    backend = Backend()
    sluice = t.sluice(to(t.origin(backend), route="websocket = gateway\nping_interval = 20ms"))
    for client in ("ws", "python3-websockets"):
        with t.point(client):
            status, output = process.run([*command(t, client), "client", f"ws://{sluice.address}/", str(COUNT)])
            equal(status, 0, output)
            found = json.loads(output)
            equal((found.get("same"), found.get("messages"), found.get("code")), (True, 2 * COUNT, 4000), output)
    equal(backend.faults, [])


@group("ws learns why its message was refused, whatever it still sends")
def refused(t):
    for mode, server in (("messages", serve(t, "ws")), ("gateway", t.origin(Backend()))):
        with t.point(mode):
            sluice = t.sluice(to(server, route=f"websocket = {mode}\nmax_message_size = 1k"))
            status, output = process.run([*command(t, "ws"), "big", f"ws://{sluice.address}/", "24"])
            equal((status, json.loads(output)), (0, [1009] * 24))


if __name__ == "__main__":
    main()
