"""Semaphores at a broker that lies, stalls or ends connections: commands end, nodes go on as without a broker, and both say
why."""
import os
import re
import threading
import time

from lib.amqp import DECLARE
from lib.broker import Broker
from lib.client import Client
from lib.names import SilentNames
from lib.process import BINARY, DEADLINE_SECONDS, Lateness, Process, until
from lib.slots import SIZE, CountingOrigin, shown, start
from lib.tap import equal, group, main, true

SHARE = "1 at once by this node's share"


# The second where all questions were late before it was looked at the time.
UNKNOWN = "host broker.test: (the name servers do not answer|non-recoverable failure)"


def played(t, name):
    """A broker with all slots, and a node at it that has not begun."""
    broker = Broker(t)
    broker.put_slots("legacy", SIZE)
    return broker, lambda origin, more="broker_timeout = 500ms", **options: start(
        t, origin, name, broker.url, "semaphore_down = local", more=more, **options)


def says(node, verb, status, text):
    child = Process([BINARY, "semaphore", verb, "legacy", "-c", node.ini_path], "semaphore")
    equal(child.wait(), status, child.output())
    true(text in child.output(), child.output())


def ends(node):
    node.terminate()
    equal(node.wait(), 0)


def lies(t, origin):
    with t.point("confirms of messages that were never sent are ignored"):
        broker, begin = played(t, "confirms")
        broker.on_message = lambda peer, channel, queue, number: peer.socket.sendall(
            peer.acknowledged(channel, 2 ** 64 - 1))
        node = begin(origin)
        node.process.wait_output(SHARE)
        says(node, "status", 3, "the broker does not answer")
        equal(Client(node.address).ask("/").status, 200)
        ends(node)
    with t.point("a broker that says something again and again, but answers nothing, is given up"):
        broker, begin = played(t, "talks")
        over = t.event()

        def talk(peer, channel):
            while not over.wait(0.1):  # sooner than broker_timeout: the subject
                try:
                    peer.socket.sendall(peer.returned(channel, "nothing"))
                except OSError:
                    return

        def begin_talk(peer, channel, _, number):
            if number == 1:
                threading.Thread(target=talk, args=(peer, channel), daemon=True).start()
        broker.on_message = begin_talk
        node = begin(origin)
        node.process.wait_output(SHARE)
        says(node, "status", 3, "the broker does not answer")
        ends(node)
    with t.point("what it says is written as one line, without control characters"):
        broker, begin = played(t, "writes")
        broker.on[DECLARE] = lambda peer, channel, _: peer.end(541, "INTERNAL\n2026-01-01 forged\x1b[31m")
        node = begin(origin)
        node.process.wait_output("INTERNAL?2026-01-01 forged?[31m")
        says(node, "create", 3, "INTERNAL?2026-01-01 forged?[31m\n")
        ends(node)


def without_a_pause(t, seconds, client):
    """Asks again and again, and looks at the time that the slowest answer takes."""
    slowest, end = 0, time.monotonic() + seconds
    with Lateness() as lateness:
        while time.monotonic() < end:
            began = time.monotonic()
            equal(client.ask("/").status, 200)
            slowest = max(slowest, time.monotonic() - began)
    t.note(f"the slowest answer came after {slowest:.1f} s; a thread woke up to {lateness.worst:.1f} s late")
    true(slowest < 1.5 + 2 * lateness.worst, f"{slowest} s")


def stalls(t, origin):
    with t.point("a broker that lets in and then answers nothing is away: the share is used without a pause"):
        broker, begin = played(t, "stalls")
        broker.on_message = lambda *_: None
        node = begin(origin, more="")
        node.process.wait_output(SHARE)
        without_a_pause(t, 12, Client(node.address))  # longer than broker_timeout: the subject
        ends(node)


def has_a_name(t, origin):
    names = SilentNames(t)
    if names.refused:
        t.note(f"names are not tried: {names.refused}")
        return
    more = f"nodes = {SIZE // 2}\nbroker_timeout = 1s"
    with t.point("a broker whose name no name server knows in time is away: the share is used without a pause"):
        node = start(t, origin, "named", "amqp://broker.test", "semaphore_down = local", more=more,
                     command=[*names.command, BINARY])
        node.process.wait_output("; 2 at once by this node's share")
        true(re.search(UNKNOWN, node.log()), node.log())
        without_a_pause(t, 12, Client(node.address))  # longer than a share goes on without another try: the subject
    with t.point("and broker_timeout bounds a command"):
        began = time.monotonic()
        child = Process([*names.command, BINARY, "semaphore", "status", "legacy", "-c", node.ini_path], "semaphore")
        equal(child.wait(), 3, child.output())
        took = time.monotonic() - began
        true(re.search(UNKNOWN, child.output()), child.output())
        t.note(f"it ended after {took:.1f} s")
        true(took < 4, f"{took} s")
        ends(node)
    with t.point("one whose name /etc/hosts knows is found"):
        broker, _ = played(t, "hosts")
        node = start(t, origin, "hosts", broker.url.replace("127.0.0.1", "localhost"))
        until(lambda: (shown(node) or {}).get("slots") == SIZE, "it has counted")
        says(node, "status", 0, f"max                     {SIZE}")
        ends(node)
    with t.point("also where /etc/resolv.conf names no server"):
        names.write("# none\n")
        node = start(t, origin, "alone", broker.url.replace("127.0.0.1", "localhost"), command=[*names.command, BINARY])
        until(lambda: (shown(node) or {}).get("slots") == SIZE, "it has counted")
        ends(node)


def ends_connections(t, origin):
    with t.point("a broker that ends each connection is asked less and less often, and then is away"):
        broker, begin = played(t, "ends")

        def cut_holder(peer, channel, arguments):
            if peer.queue_of(arguments).endswith("-B"):
                peer.cut()
            else:
                peer.answers[DECLARE](channel, arguments)
        broker.on[DECLARE] = cut_holder
        node = begin(origin)
        until(lambda: (shown(node) or {}).get("slots") == SIZE, "it has counted")
        client = Client(node.address)
        equal(client.ask("/").status, 200)
        node.process.wait_output("the broker is away")
        before, began = len(broker.peers), time.monotonic()
        time.sleep(5)  # how often it asks is the subject
        rate = (len(broker.peers) - before) / (time.monotonic() - began)
        t.note(f"{rate:.1f} connections a second")
        true(rate < 3, f"{rate:.1f} connections a second")
        ends(node)


def stops_answering(t, origin):
    def at_a_silent_broker(name, upstream):
        broker, begin = played(t, name)
        node = start(t, origin, name, broker.url, upstream, more="broker_timeout = 10m")
        until(lambda: (shown(node) or {}).get("slots") == SIZE, "it has counted")
        waits = t.event()

        def be_silent(*_):
            waits.set()
        broker.on_message = be_silent
        true(waits.wait(DEADLINE_SECONDS), "it asks")
        return node

    with t.point("the end does not wait for a broker that does not answer"):
        node = at_a_silent_broker("ending", "semaphore_down = local")
        began = time.monotonic()
        ends(node)
        t.note(f"it ended after {time.monotonic() - began:.1f} s")
    with t.point("and a semaphore that a reload takes away bounds nothing any more, at once"):
        node = at_a_silent_broker("reloading", "max_in_flight = 10")
        time.sleep(4)  # longer than its slots may be used: the subject
        node.reload(node.sections.replace("semaphore = legacy\n", ""))
        node.process.wait_output("reloaded")
        equal(Client(node.address).ask("/").status, 200)
        ends(node)


def is_renamed(t, origin):
    with t.point("what waits at an upstream that a reload takes away still gets slots, and its thread ends then"):
        broker, _ = played(t, "renamed")
        slow = CountingOrigin(t)
        node = start(t, slow, "renamed", broker.url)
        until(lambda: (shown(node) or {}).get("slots") == SIZE, "it has counted")
        threads = len(os.listdir(f"/proc/{node.pid}/task"))
        sections = node.sections
        for turn in range(3):
            slow.go.clear()
            clients = [t.client(node) for _ in range(3 * SIZE)]
            for client in clients:
                client.request("/")
            slow.wait(lambda: sum(slow.by_node.values()) == SIZE, "all slots are used")
            name = f"renamed{turn}"
            node.reload(sections.replace("[upstream legacy]", f"[upstream {name}]").replace(
                "upstream = legacy", f"upstream = {name}"))
            node.process.wait_output("reloaded", turn + 1)
            slow.go.set()
            equal({client.response().status for client in clients}, {200})
            for client in clients:
                client.close()
        true(slow.most <= SIZE, f"{slow.most} in flight of {SIZE}")
        node.reload(sections)
        until(lambda: len(os.listdir(f"/proc/{node.pid}/task")) == threads, "no thread is left")
        equal(Client(node.address).ask("/").status, 200)
        ends(node)


for title, part in (("lies", lies), ("is silent", stalls), ("has a name", has_a_name), ("ends connections", ends_connections),
                    ("stops to answer", stops_answering), ("is renamed", is_renamed)):
    group(f"semaphores at a broker that {title}", workers=[1])(lambda t, part=part: part(t, CountingOrigin(t, hold=0.02)))


if __name__ == "__main__":
    main()
