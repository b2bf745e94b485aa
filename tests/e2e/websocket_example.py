"""The example of etc/examples/websockets runs as it stands there."""
import os
import signal
import subprocess

from lib import process
from lib.example import check_compose
from lib.process import Port, until
from lib.tap import equal, group, main, true
from lib.websocket import open_socket
from lib.wire import dial

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../etc/examples/websockets")


def listens(port):
    try:
        dial(f"127.0.0.1:{port}").close()
    except OSError:
        return False
    return True


def start(t):
    """The address of its sluice."""
    ports = {name: Port() for name in ("PORT", "ADMIN_PORT", "BANK_PORT")}
    environment = {**os.environ, **{name: str(port.number) for name, port in ports.items()},
                   "SLUICE": os.path.abspath(process.BINARY), "JOURNAL": t.path("journal")}
    for port in ports.values():
        t.defer(port.release)
    log = open(t.path("log"), "wb")
    child = subprocess.Popen([os.path.join(EXAMPLE, "run")], env=environment, stdout=log, stderr=log,
                             start_new_session=True)

    def end():
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(process.DEADLINE_SECONDS)
        finally:
            log.close()
        equal(child.returncode, 0, "status of run")
        true(not listens(ports["BANK_PORT"].number) and not listens(ports["PORT"].number), "both have ended")
    t.defer(end)

    def is_ready():
        if child.poll() is not None:
            with open(t.path("log"), encoding="utf-8") as text:
                raise AssertionError(f"run ended: {text.read()}")
        return all(listens(port.number) for port in ports.values())
    until(is_ready, "the example listens")
    return f"127.0.0.1:{ports['PORT'].number}"


@group("etc/examples/websockets/run", workers=[1])
def example(t):
    address = start(t)
    target = "/account?name=ann"
    with t.point("the page"):
        page = t.client(address).ask("/")
        equal((page.status, page.get("Content-Type")), (200, "text/html"))
        true(b"new WebSocket" in page.body, "the page opens a WebSocket")
    ann, other = open_socket(t, address, target=target), open_socket(t, address, target=target)
    with t.point("orders by WebSocket and by HTTP, and the news of them on all sockets of the account"):
        ann.send("withdraw 50")
        equal(sorted(ann.message() for _ in range(2)), ["news: withdraw 50: 50", "withdraw 50: 50"])
        equal(other.message(), "news: withdraw 50: 50")
        client = t.client(address)
        equal(client.ask(target, method="POST", body=b"deposit 100").body, b"deposit 100: 150\n")
        equal([socket.message() for socket in (ann, other)], ["news: deposit 100: 150"] * 2)
        other.send("withdraw 151")
        equal(other.message(), "withdraw 151: refused")
        other.send("nonsense")
        equal(other.message(), "expected deposit N, withdraw N or balance")
    with t.point("another account has its own"):
        bob = open_socket(t, address, target="/account?name=bob")
        bob.send("balance")
        equal(bob.message(), "balance: 100")
    with t.point("one limit for both"):
        left = 0
        while client.ask(target, method="POST", body=b"balance").status == 200:
            left += 1
        true(left < 20, f"{left} of 20 were left")
    with t.point("the close frame is answered"):
        equal(bob.close(1000, "bye"), (1000, "bye"))


@group("etc/examples/websockets/compose.yaml", workers=[1])
def compose(t):
    check_compose(t, EXAMPLE, ["./run", "./sluice.ini", "./bank.py"], ["bank", "sluice"])


if __name__ == "__main__":
    main()
