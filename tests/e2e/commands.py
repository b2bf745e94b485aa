#!/usr/bin/env python3
"""The command line: its help and its errors, the token and the file that it reads, and the terminal that it leaves."""
import os
import pty
import re
import signal
import subprocess
import termios

from lib import process
from lib.admin import with_admin
from lib.process import BINARY
from lib.sluice import to
from lib.tap import IS_LONG, equal, group, main, true

# So many options that a command does not know are tried in a quick run.
OTHERS = 8

WRONG = "[limit broken\nrate = 5 per\n[upstream]\nno setting\n\x01 = 1\n[nothing]\nx = ${UNSET_VARIABLE}\n"


def run(*arguments, status=0):
    found, output = process.run([BINARY, *arguments])
    equal(found, status, f"exit status of {arguments}: {output!r}")
    return output


@group("help and usage errors", workers=[1])
def usage(t):
    entries = {}
    for line in run("--help").splitlines():
        if line.startswith(("usage: sluice ", "       sluice ")):
            entries.setdefault(line.split()[1 + line.startswith("usage")], []).append(line[7:])
    with t.point("the help of a command has its entries and no other's"):
        for command in [one for one in entries if one[0].isalpha() and one not in ("run", "check")]:
            lines = run(command, "--help").splitlines()
            equal(lines[0][:7], "usage: ", command)
            equal([line[7:] for line in lines if line.startswith(("usage: sluice ", "       sluice "))], entries[command])
    with t.point("a command takes the options that its help names, and no other"):
        every = sorted(set(re.findall(r"--([a-z-]+)", run("--help"))) - {"help", "version"})
        for command in [one for one in entries if one[0].isalpha()]:
            named = set(re.findall(r"--([a-z-]+)", run(command, "--help")))
            others = [one for one in every if one not in named]
            others = others if IS_LONG else t.random.sample(others, min(OTHERS, len(others)))
            options = [one for one in every if one in named] + others
            taken = {one for one in options if not any(other != one and other.startswith(one) for other in named)
                     and process.run([BINARY, command, f"--{one}", "1", "--help"])[0] == 0}
            equal(taken - named, set(), f"options of {command} that its help lacks")
            equal(named & set(options) - taken, set(), f"options that {command} refuses")
    with t.point("an error is said in two lines, the second of which names the help"):
        for words in (["status", "--frob"], ["status", "x"], ["keys"], ["lock", "--frob"], ["locks", "a", "b", "c"],
                      ["semaphore", "--frob"], ["frobnicate"], ["check", "x"], ["run", "--frob"], ["explain"]):
            lines = run(*words, status=2).splitlines()
            equal(len(lines), 2, f"lines of {words}: {lines}")
            true(lines[0].startswith("sluice"), lines)
            true("--help` shows the usage" in lines[1], lines)
    with t.point("without a command, what is wrong comes last"):
        equal(run(status=2).splitlines()[-1], "sluice: a command is needed")


@group("what commands read", workers=[1])
def reads(t):
    sluice, _admin = with_admin(t, to(t.origin(lambda x: x.reply(200))), tokens="ann write ab#cd # hers\n")
    with t.point("a token with a # is the server's"):
        true("uptime" in run("status", "-c", sluice.ini_path), "status")
    with t.point("errors in other sections do not matter to it, and a reload that they prevent exits 1"):
        sluice.write_ini(sluice.sections + WRONG)
        true("uptime" in run("status", "-c", sluice.ini_path), "status")
        true("nothing" in run("reload", "-c", sluice.ini_path, status=1), "reload")
    with t.point("those in [admin] do: exit 1"):
        path = t.file("admin.ini", "[admin]\nbind = 127.0.0.1:1\nno setting\n" + WRONG)
        for command in ("status", "reload"):
            output = run(command, "-c", path, status=1)
            equal(output, f'{path}:3: invalid setting "no setting"; expected key = value\n')
        run("status", "-c", t.path("none.ini"), status=1)
    with t.point("wrong words are a wrong command line, and name the help"):
        for words in (["keys", "frob", "a"], ["limits", "frob"], ["limits", "set", "a", "b"], ["sockets", "post"],
                      ["sockets", "all"], ["sockets", "--wait", "1s"], ["upstreams", "drain", "a"],
                      ["upstreams", "weight", "a", "b"], ["sessions", "drain"], ["override", "a", "b"],
                      ["fleet", "--wait-nodes", "x"], ["explain", "/", "--field", "x"], ["reset"]):
            lines = run(*words, "-c", sluice.ini_path, status=2).splitlines()
            equal(len(lines), 2, f"lines of {words}: {lines}")
            equal(lines[1], f"`sluice {words[0]} --help` shows the usage")


@group("the terminal", workers=[1])
def terminal(t):
    sluice, _admin = with_admin(t, to(t.origin(lambda x: x.reply(200))))
    for number in (signal.SIGINT, signal.SIGTERM):
        with t.point(f"top gives it back at {number.name}"):
            master, slave = pty.openpty()
            before = termios.tcgetattr(slave)
            child = subprocess.Popen([BINARY, "top", "-c", sluice.ini_path], stdin=slave, stdout=slave, stderr=slave)
            try:
                shown = b""
                while b"CALLER" not in shown:
                    shown += os.read(master, 4096)
                true(not termios.tcgetattr(slave)[3] & termios.ECHO, "no echo while it runs")
                child.send_signal(number)
                equal(child.wait(process.DEADLINE_SECONDS), -number, "exit status")
                equal(termios.tcgetattr(slave), before, "the terminal")
            finally:
                child.kill()
                child.wait()
                os.close(master)
                os.close(slave)


main()
