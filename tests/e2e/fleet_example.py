"""The example of etc/examples/fleet runs as it stands there."""
import os
import shutil
import signal
import subprocess

from lib import process
from lib.client import Client
from lib.example import check_compose
from lib.fields import wait_ms
from lib.process import Hung, Port, run, until
from lib.rabbit import SCRIPTS, START_SECONDS
from lib.tap import equal, group, main, true
from lib.wire import dial

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../etc/examples/fleet")
NAMES = ("STORE_PORT", "BANK_PORT", "BROKER_PORT", "MAPPER_PORT", "DISTRIBUTION_PORT", "P1", "P2", "P3", "A1", "A2", "A3")


def start(t):
    """Where its nodes listen, and the environment for commands to the first."""
    ports = {name: Port() for name in NAMES}  # held: RabbitMQ listens seconds later only
    number = {name: str(port.number) for name, port in ports.items()}
    binary = os.path.abspath(process.BINARY)
    environment = {**os.environ, **number, "PORTS": " ".join(number[p] for p in ("P1", "P2", "P3")),
                   "ADMIN_PORTS": " ".join(number[p] for p in ("A1", "A2", "A3")), "SLUICE": binary, "STORE_TIMEOUT": "5s",
                   "DEMO": os.path.join(os.path.dirname(binary), "sluice-demo")}
    for port in ports.values():
        t.defer(port.release)
    log = open(t.path("log"), "wb")
    child = subprocess.Popen([os.path.join(EXAMPLE, "run")], env=environment, stdout=log, stderr=log,
                             cwd=t.folder, start_new_session=True)

    def end():
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(process.DEADLINE_SECONDS)
        finally:
            log.close()
    t.defer(end)

    def check():
        if child.poll() is not None:
            with open(t.path("log"), encoding="utf-8", errors="replace") as text:
                raise AssertionError(f"run ended with {child.returncode}:\n{text.read()}")
    addresses = [f"127.0.0.1:{number[p]}" for p in ("P1", "P2", "P3")]
    for address in (*addresses, f"127.0.0.1:{number['BANK_PORT']}"):
        until(lambda address=address: check() or listens(address), "the nodes and the bank listen")
    return addresses, {"ADMIN_PORTS": environment["ADMIN_PORTS"], "ADMIN_PORT": number["A1"], "NODE": "x",
                       "PORT": number["P1"]}, check


def listens(address):
    try:
        dial(address).close()
    except OSError:
        return False
    return True


def has_broker():
    return any(os.access(path, os.X_OK) for path in SCRIPTS if path) and shutil.which("epmd")


def await_slots(check):
    """Until a node counts the slots and the nodes: before there are slots, requests are refused."""
    said = []

    def counts():
        check()
        said[:] = [run([process.BINARY, "upstreams", "-c", os.path.join(EXAMPLE, "sluice.ini")])[1]]
        return "holds, 0 held and 0 wanted of 6 slots for 3 nodes" in said[0]
    try:
        until(counts, "the node counts the slots and the nodes", pause=0.5, seconds=START_SECONDS)
    except Hung as hung:
        raise AssertionError(f"{hung}:\n{said[0]}") from None


@group("etc/examples/fleet/run", workers=[1])
def example(t):
    if not shutil.which("redis-server") and not shutil.which("valkey-server"):
        t.skip("neither redis-server nor valkey-server is installed")
    addresses, environment, check = start(t)
    os.environ.update(environment)
    ports = environment["ADMIN_PORTS"].split()
    status, text = run([process.BINARY, "fleet", "--wait-nodes", "3", "-c", os.path.join(EXAMPLE, "sluice.ini")])
    with t.point("its nodes find each other"):
        equal(status, 0, text)
    with t.point("its nodes take slots of one semaphore"):
        if has_broker():
            for port in ports:
                os.environ["ADMIN_PORT"] = port
                await_slots(check)
        else:
            t.skip("rabbitmq-server is not installed")
    with t.point("five deposits pass, whichever node they reach, and the sixth waits"):
        answers = []
        for n in range(6):
            client = Client(addresses[n % 3])
            t.defer(client.close)
            answers.append(client.ask("/deposit?amount=1", method="POST", fields=[("Content-Length", "0")]))
        equal([a.status for a in answers], [200] * 5 + [429])
        true(0 < wait_ms(answers[5]) <= 10_000, answers[5].fields)


@group("etc/examples/fleet/compose.yaml", workers=[1])
def compose(t):
    services = check_compose(t, EXAMPLE, ["./run", "./README.md"], ["bank", "broker", "slots", "sluice1", "sluice2", "sluice3", "store"])
    with t.point("the second node has its own name"):
        if not services:
            t.skip("python3-yaml is not installed")
        equal(services["sluice2"]["environment"]["NODE"], "two")


main()
