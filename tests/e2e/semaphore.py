"""`sluice semaphore` with a real RabbitMQ: administrators, holders, and what goes wrong."""
import json
import os
import re
import signal
import socket
import threading

from lib.process import BINARY, Process, until
from lib.rabbit import Rabbit
from lib.tap import equal, group, main, true

ODD_VHOST, ODD_USER, ODD_PASSWORD = "a/b c%", "me@here", "p:ss/w@rd%"
QUORUM_VHOST = "quorum"

BASE = """[listener main]
bind = 127.0.0.1:1
[upstream api]
server = 127.0.0.1:2
[route all]
upstream = api
"""


class Semaphore:
    """A [semaphore] in a file of its own."""

    def __init__(self, t, rabbit, name="s", url=None, lines="", size=3):
        self.t, self.rabbit, self.name = t, rabbit, name
        url = url or f"amqp://{rabbit.address}"
        self.path = t.file(f"{name}-{os.urandom(4).hex()}.ini",
                           f"{BASE}[semaphore {name}]\nbroker = {url}\nsize = {size}\n{lines}")
        self.broker_line = BASE.count("\n") + 2

    def command(self, verb, *words):
        return [BINARY, "semaphore", verb, self.name, *map(str, words), "-c", self.path]

    def run(self, verb, *words):
        """(exit status, what it wrote)"""
        child = Process(self.command(verb, *words), "semaphore")
        return child.wait(), child.output()

    def do(self, verb, *words):
        """Its answer, when all went well."""
        status, output = self.run(verb, *words, "--json")
        equal(status, 0, output)
        return json.loads(output)

    def refused(self, status, text, verb, *words):
        found, output = self.run(verb, *words)
        equal(found, status, output)
        true(text in output, f"{text!r} in {output!r}")
        return output

    def max(self):
        return self.do("status")["max"]

    def clean(self):
        self.run("destroy")


def life(t, rabbit):
    one = Semaphore(t, rabbit)
    with t.point("a semaphore is created, and only once"):
        one.refused(1, "there is no such semaphore", "status")
        equal(one.do("create"), {"name": "s", "max": 3, "added": 3, "removed": 0, "strays": 0})
        one.refused(1, "create: it exists, with 3 slots", "create")
        equal(one.do("create", "--ensure")["added"], 0)
        equal(one.do("status"), {"name": "s", "max": 3, "held": 0, "holders": []})
    with t.point("slots are added and removed"):
        equal(one.do("add", 4)["max"], 7)
        equal(one.do("remove", 5), {"name": "s", "max": 2, "added": 0, "removed": 5, "strays": 0})
        one.refused(1, "it has 2 slots", "remove", 3)
        equal(one.max(), 2)
        equal(one.do("remove", 2), {"name": "s", "max": 0, "added": 0, "removed": 2, "strays": 0})
        one.refused(1, "there is no such semaphore", "status")
        equal(one.do("create")["max"], 3)
    with t.point("looking leaves no message behind"):
        connection = rabbit.connect()
        connection.declare("s-1-B", exclusive=True)
        equal(one.do("status")["held"], 1)
        equal(connection.declare("s-1-A", passive=True), 0)
        equal(connection.declare("s-1-B", passive=True), 0)
        connection.close()
    with t.point("it is destroyed, and text for people says so"):
        status, output = one.run("destroy")
        equal(status, 0)
        true(re.search(r"removed +3\n", output), output)
        one.refused(1, "there is no such semaphore", "destroy")


def queue_types(t, rabbit):
    with t.point("slots are classic queues, also where the virtual host's queues are quorum queues"):
        one = Semaphore(t, rabbit, url=f"amqp://{rabbit.address}/{QUORUM_VHOST}")
        equal(one.do("create")["added"], 3)
        equal(one.do("add", 2)["max"], 5)
        equal(one.do("remove", 3)["removed"], 3)
        equal(one.do("destroy")["removed"], 2)


def holders(t, rabbit):
    one = Semaphore(t, rabbit)
    one.do("create")
    holder = rabbit.connect()
    holder.declare("s-1-B", exclusive=True)
    holder.declare("s-3-B", exclusive=True)
    with t.point("holders are seen, also those of removed slots"):
        equal(one.do("status"), {"name": "s", "max": 3, "held": 2, "holders": [
            {"slot": 1, "removed": False}, {"slot": 3, "removed": False}]})
        equal(one.do("remove", 1)["max"], 2)
        equal(one.do("status"), {"name": "s", "max": 2, "held": 1, "holders": [
            {"slot": 1, "removed": False}, {"slot": 3, "removed": True}]})
    with t.point("wait waits for the holders of removed slots, and for no others"):
        one.refused(75, "wait: 1 removed slot is still held", "wait", "--timeout", "300ms")
        equal(one.do("remove", 2)["max"], 0, "the last one, too")
        equal(one.do("status")["holders"], [{"slot": 1, "removed": True}, {"slot": 3, "removed": True}])
        waiter = Process(one.command("wait"), "wait")
        true(waiter.running(), "it waits")
        holder.abort()
        equal(waiter.wait(), 0, waiter.output())
        rabbit.until_gone("s-1-B")
        one.refused(1, "there is no such semaphore", "status")
    one.clean()


def blocks(pid, number):
    """For good: libc blocks all signals for a moment where it forks."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        mask, = re.findall(r"^SigBlk:\s+(\w+)", status.read(), re.M)
    return int(mask, 16) >> (number - 1) & 1 and not int(mask, 16) >> (signal.SIGCHLD - 1) & 1


def commands(t, rabbit):
    one = Semaphore(t, rabbit, name="h", size=2, lines="broker_timeout = 2s\n")

    def start(script, *options):
        child = Process([*one.command("hold"), *options, "--", "sh", "-c", script], "hold")
        t.defer(child.kill)
        return child

    def begun(*options):
        child = start("echo begun; while :; do sleep 0.1; done", *options)
        child.wait_output("begun")
        return child

    def ended(child, status, text=""):
        equal(child.wait(), status, child.output())
        true(text in child.output(), child.output())

    with t.point("a command runs while it holds a slot, and its status is passed on"):
        ended(start("true"), 1, "hold: there is no such semaphore")
        one.do("create")
        ended(start("echo slot $SLUICE_SLOT; exit 5"), 5, "slot 1\n")
        equal(one.do("status")["held"], 0)
        ended(Process([*one.command("hold"), "--", "/no/such"], "hold"), 127, "/no/such: No such file")
    with t.point("without a free slot it ends at once, or waits, for so many attempts or so long"):
        first, second = begun(), begun()
        equal(one.do("status")["held"], 2)
        ended(start("echo ran"), 75, "hold: all 2 slots are held\n")
        ended(start("echo ran", "--wait", "--attempts", "3"), 75, "all 2 slots are held\n")
        ended(start("echo ran", "--wait", "--timeout", "300ms"), 75, "all 2 slots are held\n")
        third = start("echo slot $SLUICE_SLOT", "--wait")
        true(third.running(), "it waits")
        first.signal(signal.SIGTERM)
        ended(first, 128 + signal.SIGTERM)
        ended(third, 0, "slot 1\n")
        waiter = begun()
        third = start("echo ran", "--wait")
        until(lambda: blocks(third.popen.pid, signal.SIGINT), "it reads signals")
        third.signal(signal.SIGINT)
        ended(third, 128 + signal.SIGINT)
        true("ran" not in third.output(), third.output())
    with t.point("a slot that is removed stays held until the command ends"):
        equal(one.do("remove", 2)["max"], 0)
        equal(one.do("status")["holders"], [{"slot": 1, "removed": True}, {"slot": 2, "removed": True}])
        other = Process(one.command("wait"), "wait")
        for child in second, waiter:
            true(child.running(), child.output())
            child.signal(signal.SIGTERM)
            ended(child, 128 + signal.SIGTERM)
        equal(other.wait(), 0, other.output())
        one.do("create")
    with t.point("one that is killed takes its command with it, and frees the slot"):
        child = start("echo pid $$; while :; do sleep 0.1; done")
        command = int(child.wait_output("pid ").split()[1])
        child.kill()
        until(lambda: not os.path.exists(f"/proc/{command}"), "the command's end")
        rabbit.until_gone("h-1-B")
    with t.point("a command whose slot is lost is terminated: the broker hangs, or dies"):
        child = begun()
        rabbit.stop()
        ended(child, 76, "the slot is lost: ")
        rabbit.go_on()
        until(lambda: one.run("status")[0] == 0 and one.do("status")["held"] == 0, "the broker notices")
        child = start("trap '' TERM; echo begun; while :; do sleep 0.1; done", "--grace", "100ms")
        child.wait_output("begun")
        rabbit.kill()
        ended(child, 76, "the slot is lost: ")
        ended(start("true"), 3, "broker: ")
        rabbit.start()
    with t.point("holders never exceed the slots"):
        place = t.path("places")
        os.mkdir(place)
        script = f"mkdir {place}/$SLUICE_SLOT || exit 9; sleep 0.05; rmdir {place}/$SLUICE_SLOT"
        crowd = [start(script, "--wait") for _ in range(8)]
        for child in crowd:
            ended(child, 0)
    one.clean()


def administrators(t, rabbit):
    one = Semaphore(t, rabbit)
    one.do("create")
    with t.point("one administrator at a time"):
        other = rabbit.connect()
        other.declare("s", exclusive=True)
        one.refused(75, "another administrator is at work", "add", 1, "--timeout", "100ms")
        equal(one.max(), 3)
        waiter = Process(one.command("add", 1, "--timeout", "10m"), "add")
        other.abort()
        equal(waiter.wait(), 0, waiter.output())
        equal(one.max(), 4)
    with t.point("what several do at once is all done"):
        children = [Process(one.command("add", 2, "--timeout", "10m"), "add") for _ in range(3)]
        equal([child.wait() for child in children], [0] * 3)
        equal(one.max(), 10)
    with t.point("strays behind a gap are removed, and not joined"):
        other = rabbit.connect()
        other.delete("s-3-A")
        equal(one.max(), 2)
        equal(one.do("add", 2), {"name": "s", "max": 4, "added": 2, "removed": 0, "strays": 6})
        other.delete("s-2-A")
        equal(one.do("prune"), {"name": "s", "max": 1, "added": 0, "removed": 0, "strays": 2})
        other.close()
    one.clean()


def deaths(t, rabbit):
    one = Semaphore(t, rabbit, name="dying", size=5)
    with t.point("an administrator that is killed leaves what the next one repairs"):
        most = 5
        for _ in range(8):
            before = one.do("create", "--ensure")["max"]
            verb = t.random.choice(["add", "remove", "destroy"])
            words = [] if verb == "destroy" else [t.random.randint(1, 8 if verb == "add" else before - 1)]
            child = Process(one.command(verb, *words), verb)
            killer = threading.Timer(t.random.uniform(0, 0.2), child.kill)
            killer.start()
            child.popen.wait()
            killer.cancel()
            most = before + (words[0] if verb == "add" else 0)
            found = one.do("create", "--ensure", "--timeout", "10m")
            equal(found["strays"], 0, "strays")
            true(5 <= found["max"] <= most, f"{verb} {words} of {before} slots left {found}")
        one.do("destroy")
        look = rabbit.connect()
        equal([n for n in range(1, most + 2) if look.has(f"dying-{n}-A")], [])
        look.close()


def foreign_queues(t, rabbit):
    one = Semaphore(t, rabbit)
    other = rabbit.connect()
    with t.point("a queue in the place of the mutex is reported"):
        other.declare("s", durable=True)
        one.refused(1, "queue 's' exists and is not exclusive: it can't be the mutex", "create")
        other.delete("s")
    with t.point("a slot that was declared in another way is reported, and stays"):
        other.declare("s-1-A")
        output = one.refused(1, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 's-1-A'",
                             "create", "--ensure")
        true(output.startswith(f"{one.path}:{one.broker_line - 1}: [semaphore s] create: "), output)
        one.refused(1, "PRECONDITION_FAILED", "destroy")
        true(other.has("s-1-A"), "it stays")
        other.delete("s-1-A")
    with t.point("a slot that is another connection's own is reported"):
        other.declare("s-2-A", exclusive=True)
        one.refused(1, "RESOURCE_LOCKED", "create")
        equal(one.do("status")["max"], 2)
        other.close()
        one.clean()


def entries(t, rabbit):
    def at(url, status, text, lines="", verb="status"):
        one = Semaphore(t, rabbit, url=url, lines=lines)
        output = one.refused(status, text, verb)
        if status == 3:
            true(output.startswith(f"{one.path}:{one.broker_line}: [semaphore s] broker: "), output)
        true("secret" not in output, output)

    with t.point("a wrong password, a virtual host that is not there, a user without rights"):
        at(f"amqp://guest:secret@{rabbit.address}", 3, "ACCESS_REFUSED - Login was refused")
        at(f"amqp://{rabbit.address}/nowhere", 3, "vhost nowhere not found")
        at(f"amqp://stranger:secret@{rabbit.address}", 3, "access to vhost '/' refused for user 'stranger'")
        at(f"amqp://reader:secret@{rabbit.address}", 1, "ACCESS_REFUSED", verb="create")
    with t.point("nobody listens, or nobody answers"):
        closed = socket.socket()
        closed.bind(("127.0.0.1", 0))
        at(f"amqp://127.0.0.1:{closed.getsockname()[1]}", 3, "no connection can be made")
        closed.listen()
        at(f"amqp://127.0.0.1:{closed.getsockname()[1]}", 3, "the broker does not answer",
           "broker_timeout = 200ms\n")
        closed.close()
        rabbit.stop()
        at(f"amqp://{rabbit.address}", 3, "the broker does not answer", "broker_timeout = 500ms\n")
        rabbit.go_on()
    with t.point("names and passwords with odd characters, and a password in a file"):
        one = Semaphore(t, rabbit, name="odd.name-1_A", url="amqp://me%40here:p%3Ass%2Fw%40rd%25@"
                        f"{rabbit.address}/a%2Fb%20c%25", size=2)
        equal(one.do("create")["max"], 2)
        connection = rabbit.connect(user=ODD_USER, password=ODD_PASSWORD, vhost=ODD_VHOST)
        true(connection.has("odd.name-1_A-2-A"), "it is in that virtual host")
        connection.close()
        t.file("broker.password", "guest\n")
        one = Semaphore(t, rabbit, url=f"amqp://{rabbit.address}", lines="password = file:broker.password\n")
        one.refused(1, "there is no such semaphore", "status")


def command_lines(t, rabbit):
    one = Semaphore(t, rabbit)

    def run(status, text, *words):
        child = Process([BINARY, "semaphore", *words, "-c", one.path], "semaphore")
        equal(child.wait(), status, child.output())
        true(text in child.output(), child.output())

    with t.point("command lines that are wrong"):
        run(2, "a command is needed")
        run(2, 'unknown command "crate", did you mean "create"?', "crate", "s")
        run(2, "expected NAME COUNT", "add", "s")
        run(2, "expected NAME\n", "create", "s", "4")
        run(2, 'invalid COUNT "none"', "add", "s", "none")
        run(2, 'invalid COUNT "0"', "add", "s", "0")
        run(2, 'invalid --timeout "soon"', "wait", "s", "--timeout", "soon")
        run(2, "unexpected option --ensure", "destroy", "s", "--ensure")
        run(1, "there is no [semaphore other]", "status", "other")
        run(2, "status: unexpected option --wait", "status", "s", "--wait")
        run(2, "hold: unexpected option --json", "hold", "s", "--json", "--", "true")

        def hold(status, text, *words):
            child = Process([BINARY, "semaphore", "hold", "-c", one.path, *words], "semaphore")
            equal(child.wait(), status, child.output())
            true(text in child.output(), child.output())

        hold(2, "a command is needed behind --", "s")
        hold(2, "a command is needed behind --", "s", "--")
        hold(2, "expected NAME\n", "s", "true")
        hold(2, "--timeout and --attempts are of --wait", "s", "--attempts", "3", "--", "true")
        hold(2, 'invalid --attempts "0"', "s", "--wait", "--attempts", "0", "--", "true")
        hold(2, 'invalid --grace "2h"', "s", "--grace", "2h", "--", "true")
        hold(1, "there is no [semaphore other]", "other", "--", "true")
        run(2, "unexpected command", "status", "s", "--", "true")


def restart(t, rabbit):
    one = Semaphore(t, rabbit)
    with t.point("slots outlive the broker, and holders and the mutex do not"):
        one.do("create")
        holder = rabbit.connect()
        holder.declare("s-1-B", exclusive=True)
        holder.declare("s", exclusive=True)
        rabbit.kill()
        one.refused(3, "broker: ", "status")
        rabbit.start()
        equal(one.do("status"), {"name": "s", "max": 3, "held": 0, "holders": []})
        equal(one.do("destroy")["removed"], 3)


@group("semaphores at a RabbitMQ", workers=[1])
def semaphores(t):
    rabbit = Rabbit(t, users={ODD_USER: (ODD_PASSWORD, {ODD_VHOST: ".*"}),
                              "stranger": ("secret", {}), "reader": ("secret", {"/": "^$"})},
                    vhosts=[ODD_VHOST, QUORUM_VHOST], types={QUORUM_VHOST: "quorum"})
    for part in (life, queue_types, holders, commands, administrators, deaths, foreign_queues, entries, command_lines, restart):
        part(t, rabbit)


if __name__ == "__main__":
    main()
