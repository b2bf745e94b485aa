#!/usr/bin/env python3
"""sluice protect: what it admits, what it prints, its signals, its errors, and the ini that it stands for."""
import os
import re
import shlex
import signal

from lib import process
from lib.process import BINARY, Port, Process
from lib.tap import equal, group, main, true

START = "sluice is ready"


def started(t, *arguments, **environment):
    """`sluice protect` at a port that is free, as (process, address)."""
    while True:
        port = Port()
        t.defer(port.release)
        address = f"127.0.0.1:{port.number}"
        child = Process([BINARY, "protect", "--listen", address, *arguments], environment=environment)
        t.defer(child.kill)
        process.until(lambda: START in child.output() or not child.running(), "it serves or ends")
        if START in child.output():
            return child, address
        true("in use" in child.output(), child.output())


def statuses(t, address, count, **fields):
    named = [(name.replace("_", "-"), value) for name, value in fields.items()]
    return [t.client(address).ask("/", fields=named).status for _ in range(count)]


def stopped(child):
    child.signal(signal.SIGTERM)
    return child.wait()


def run(*arguments, status=0):
    found, output = process.run([BINARY, "protect", *arguments])
    equal(found, status, f"exit status of {arguments}: {output!r}")
    return output


@group("a server is protected", workers=[1])
def serves(t):
    origin = t.origin(lambda x: x.reply(200))
    child, address = started(t, str(origin), "--rate", "3 per 1h", XDG_RUNTIME_DIR=t.folder)
    admin = f"unix:{t.folder}/sluice-{address.rpartition(':')[2]}.sock"

    with t.point("its callers get the rate, then 429"):
        equal(statuses(t, address, 4), [200, 200, 200, 429])
    with t.point("it says what it does, and each command that it prints works"):
        lines = child.answer().splitlines()
        equal(lines[0], f"http://{address} forwards to {origin}. Each caller (ip) gets at most 3 per 1h.")
        commands = [shlex.split(line) for line in lines if line.startswith("  ")]
        equal([words[0] for words in commands], [BINARY] * 4, "what they begin with")
        equal([" ".join(words[-2:]) for words in commands[:3]], [f"--admin {admin}"] * 3, "where they ask")
        outputs = []
        for words in commands:
            status, output = process.run(words, environment={"XDG_RUNTIME_DIR": t.folder})
            equal(status, 0, f"{words}: {output}")
            outputs.append(output)
        true(re.search(r"burst +3 +1 ", outputs[1]), outputs[1])
        true(re.search(r"burst +ring +3 +1h", outputs[2]), outputs[2])
        true(f"bind = {admin}\n" in outputs[3], outputs[3])
    with t.point("a reload restores the command line's settings"):
        output = process.run([BINARY, "limits", "set", "burst", "rate=20 per 1s", "--admin", admin])[1]
        true(re.search(r"burst +ring +20 +1s", output), output)
        child.signal(signal.SIGHUP)
        child.wait_output("sluice protect: reloaded")
        output = process.run([BINARY, "limits", "--admin", admin])[1]
        true(re.search(r"burst +ring +3 +1h", output), output)
    with t.point("it ends with 0, and leaves no socket"):
        equal(stopped(child), 0, child.output())
        equal([name for name in os.listdir(t.folder) if name.endswith(".sock")], [])


@group("an upgrade", workers=[1])
def upgrade(t):
    process.adopt_orphans()
    origin = t.origin(lambda x: x.reply(200))
    child, address = started(t, str(origin), "--rate", "3 per 1h", XDG_RUNTIME_DIR=t.folder)
    with t.point("goes on with the same settings and counters, and prints the start once"):
        equal(statuses(t, address, 2), [200, 200])
        child.signal(signal.SIGUSR2)
        line = child.wait_output("has taken over")
        equal(child.popen.wait(process.DEADLINE_SECONDS), 0, "exit status of the one before")
        equal(statuses(t, address, 2), [200, 429])
        equal(child.output().count("forwards to"), 1, child.output())
        successor = int(line.split("process ")[1].split()[0])
        os.kill(successor, signal.SIGTERM)
        equal(os.waitstatus_to_exitcode(os.waitpid(successor, 0)[1]), 0, "exit status of the next")


@group("keys of its callers", workers=[1])
def keys(t):
    origin = t.origin(lambda x: x.reply(200))
    child, address = started(t, f"http://{origin}/", "--rate", "1 per 1h", "--key", "header:X-Api-Key",
                             XDG_RUNTIME_DIR=t.folder)
    with t.point("each has the rate, and those without one by their address"):
        equal(statuses(t, address, 2, X_Api_Key="a"), [200, 429])
        equal(statuses(t, address, 2, X_Api_Key="b"), [200, 429])
        equal(statuses(t, address, 2), [200, 429])
    with t.point("it says that callers choose them"):
        true("Callers choose this key" in child.answer(), child.answer())
    equal(stopped(child), 0)


@group("the ini", workers=[1])
def ini(t):
    origin = t.origin(lambda x: x.reply(200))
    with t.point("passes the check, and does the same"):
        printed = run(str(origin), "--rate", "2 per 1h", "--listen", "127.0.0.1:1", "--admin",
                      "unix:" + t.path("admin.sock"), "--print")
        equal(process.run([BINARY, "check", "-c", t.file("printed.ini", printed)])[0], 0, "exit status of check")
        sections = re.sub(r"\[listener public\]\n.*\n", "", printed)
        sluice = t.sluice(sections)
        equal(statuses(t, sluice.address, 3), [200, 200, 429])
        equal(process.run([BINARY, "status", "-c", sluice.ini_path])[0], 0, "exit status of status")
    with t.point("stands for the command in its first line"):
        words = shlex.split(printed.splitlines()[0].removeprefix("# sluice protect"))
        equal(run(*words, "--print"), printed)


@group("errors", workers=[1])
def errors(t):
    with t.point("those of a command line name the option and what to write, then the help, and exit with 2"):
        for words, option, advice in (
                (["9000"], "SERVER", "expected HOST:PORT"), (["ftp://api"], "SERVER", "expected HOST:PORT"),
                ([":1", "--rate", "10 per"], "--rate", "expected AMOUNT per PERIOD"),
                ([":1", "--rate", "10 req per 1s"], "--rate", "10 per 1s"),
                ([":1", "--key", "header:"], "--key", "expected letters"),
                ([":1", "--listen", "8080"], "--listen", "expected ADDRESS:PORT"),
                ([":1", "--admin", "0.0.0.0:1"], "--admin", "expected a port of 127.0.0.1, or unix:/PATH"),
                ([":1", "--rate", "1 per 1s\n[x]"], "--rate", "expected one line")):
            for more in ([], ["--print"]):
                lines = run(*words, *more, status=2).splitlines()
                equal(len(lines), 2, f"lines of {words}: {lines}")
                true(lines[0].startswith(f"sluice protect: {option}: ") and advice in lines[0], lines)
                equal(lines[1], "`sluice protect --help` shows the usage")
    with t.point("no server, or two"):
        true("Expected HOST:PORT" in run(status=2), "no server")
        true('unexpected ":2"' in run(":1", ":2", status=2), "two")
    with t.point("an address that is taken: the options that choose another one, and status 1"):
        listens = t.origin(lambda x: x.reply(200))
        output = run(":1", "--listen", str(listens), "--admin", "unix:" + t.path("admin.sock"), status=1)
        true("Address already in use" in output, output)
        equal(output.splitlines()[-1],
              "sluice protect: nothing was started; --listen and --admin choose other addresses")
    with t.point("a folder in /tmp that others may change is not used"):
        if os.geteuid() != 0:
            t.skip("only root can be another user")
        user = 60000 + t.random.randrange(5000)
        folder = f"/tmp/sluice-{user}"
        os.mkdir(folder, 0o777)
        t.defer(lambda: os.rmdir(folder))
        os.chown(folder, user, user)
        os.chmod(folder, 0o777)
        binary = os.open(BINARY, os.O_RDONLY)  # its folder may be root's alone
        t.defer(lambda: os.close(binary))
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "env", "-uXDG_RUNTIME_DIR",
                   f"/proc/self/fd/{binary}", "protect", ":1", "--print"]
        status, output = process.run(command, pass_fds=[binary])
        equal((status, "that only its user may change" in output), (2, True), output)
        os.chmod(folder, 0o700)
        for runtime in ("-uXDG_RUNTIME_DIR", "XDG_RUNTIME_DIR=" + t.folder):  # which is another user's
            command[5] = runtime
            status, output = process.run(command, pass_fds=[binary])
            equal((status, f"bind = unix:{folder}/sluice-8080.sock\n" in output), (0, True), output)


main()
