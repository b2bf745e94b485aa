"""Long polls of socket.io, as it comes from npm, whose client is known by a field: its emits do not wait for its polls."""
import os

from lib import node, process
from lib.peers import find
from lib.sluice import to
from lib.tap import equal, group, main, true

EMITS = 10
HOLD_SECONDS = 5  # more than a step takes on a busy machine


def server(t):
    """Its address."""
    script = os.path.join(node.install(t), "socketio.mjs")
    return process.serve(t, [find("node"), script, "serve"])


@group("emits beside long polls of the same client", workers=[1])
def emits(t):
    sluice = t.sluice(to(server(t), route=f"session = header:X-Api-Key | ip\nread_hold = {HOLD_SECONDS}s"))
    with t.point("at most one waits for read_hold"):
        times = node.run("socketio.mjs", "emit", f"http://{sluice.address}", str(EMITS))
        equal(len(times), 1 + EMITS, "steps")
        held = [time for time in times if time >= 1000 * HOLD_SECONDS]
        true(len(held) <= 1, f"milliseconds of each step: {times}")


main()
