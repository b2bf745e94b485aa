"""Mistakes in the ini: all are listed, each with file and line; nothing is started half configured."""
import re
import shlex
import socket
import subprocess

from lib import process
from lib.process import BINARY, Port
from lib.sluice import check, to
from lib.tap import equal, group, main, test, true

GOOD = """[sluice]
workers = 2
[listener public]
bind = 127.0.0.1:8080
[upstream legacy]
server = 127.0.0.1:9
[limit burst]
key = ip
rate = 100 per 10s
[route api]
upstream = legacy
limits = burst
"""

# Ten mistakes, of ten kinds; each line with one ends in its number.
TEN = """[sluice]
workers = many                       ; 1 no number
[listener public]
bind = 127.0.0.1:99999               ; 2 no port
colour = green                       ; 3 no such key
[upstream legacy]
server = 127.0.0.1:9
connect_timeout = 5 parsecs          ; 4 no unit
[limit burst]
key = ip | moonphase                 ; 5 no such key form
rate = 100 every 10s                 ; 6 not how a rate is written
[route api]
upstream = modern                    ; 7 no such upstream
limits = burst, daily                ; 8 no such limit
ordering = chaotic                   ; 9 no such ordering
[colours]                            ; 10 no such section
green = yes
"""


def mistakes_in(text):
    return [number for number, line in enumerate(text.splitlines(), 1) if re.search(r"; \d+ ", line)]


@group("sluice check", workers=[1])
def checks(t):
    good, ten = t.file("good.ini", GOOD), t.file("ten.ini", TEN)

    with t.point("a good file: exit 0, nothing started"):
        status, output = check(good)
        equal(status, 0, f"exit status, it said {output!r}")

    with t.point("ten mistakes: exit 1, all ten with file and line"):
        status, output = check(ten)
        t.note(output)
        equal(status, 1, "exit status")
        found = sorted({int(n) for n in re.findall(re.escape(ten) + r":(\d+): ", output)})
        equal([n for n in mistakes_in(TEN) if n not in found], [], "lines that were not told of")
        true(set(found) <= set(mistakes_in(TEN)) | {len(TEN.splitlines())}, f"told of lines {found} too")

    for what, change, words in (
            ("an overlong line", ("key = ip", "key = " + " | ".join(["header:X-" + "a" * 30] * 2000)), "bytes"),
            ("a key twice", ("rate = 100 per 10s", "rate = 100 per 10s\nrate = 5 per 1s"), ""),
            ("a section twice", ("[route api]", "[limit burst]\nrate = 1 per 1s\n[route api]"), ""),
            ("a line that is none", ("key = ip", "key ip"), ""),
            ("a value out of bounds", ("workers = 2", "workers = 0"), ""),
            ("a rate of nothing", ("rate = 100 per 10s", "rate = 0 per 10s"), ""),
            ("an upstream without servers", ("server = 127.0.0.1:9", ""), "server"),
            ("a limit without a rate", ("rate = 100 per 10s", ""), "rate"),
            ("a plan's file that is not there",
             ("[route api]", "[plans]\nkey = ip\n[plan a]\nlimits = burst\ncallers = file:none.keys\n[route api]"), "none.keys"),
            ("a route that another hides",
             ("limits = burst", "limits = burst\n[route again]\nupstream = legacy"), "one.ini:10 has its host"),
            ("a comment after a path that need not be there",
             ("workers = 2", "workers = 2\nstate = /var/lib/none # c"), "only ';' begins a comment"),
            ("a bad regular expression", ("upstream = legacy", "upstream = legacy\npath = ~(("), "")):
        with t.point(f"{what}: exit 1, file and line"):
            path = t.file("one.ini", GOOD.replace(*change))
            status, output = check(path)
            equal(status, 1, f"exit status, it said {output!r}")
            true(re.search(re.escape(path) + r":\d+: ", output) and words in output, f"output {output!r}")

    with t.point("a file that is not there: exit 1, named"):
        status, output = check(t.path("none.ini"))
        equal(status, 1, "exit status")
        true(t.path("none.ini") in output, f"output {output!r}")

    with t.point("an empty file: exit 1"):
        status, output = check(t.file("empty.ini", ""))
        equal(status, 1, f"exit status, it said {output!r}")


@group("sluice run with mistakes", workers=[1])
def runs(t):
    with t.point("exit 1, the same list, nothing listens"):
        ten = t.file("ten.ini", TEN)
        status, output = process.run([BINARY, "run", "-c", ten])
        equal(status, 1, "exit status")
        equal([n for n in mistakes_in(TEN) if f"{ten}:{n}: " not in output], [], "lines not told of")


# Files as they come from elsewhere: bytes, and all that is said of each, its lines' ends cut. No words: it is good.
FOREIGN = (
    ("CRLF at the ends", GOOD.replace("\n", "\r\n"), ()),
    ("a byte order mark", "\ufeff" + GOOD, ()),
    ("tabs for blanks, and indented", GOOD.replace("\n", "\n\t").replace(" = ", "\t=\t"), ()),
    ("UTF-16", GOOD.encode("utf-16"), (":1: the text is in UTF-16",)),
    ("a picture", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40,
     (": there is no [listener NAME]", ':1: invalid setting "?PNG"', *(f":{n}: byte 0x" for n in range(2, 12)), ":12: 32 more lines hold control characters")),
    ("comments only", "# nothing\n\n", (": the file is empty",)),
    ("a key before any section", "workers = 1\n" + GOOD.replace("workers = 2\n", ""),
     (":1: workers = 1 precedes every section; expected [sluice] first",)),
    ("colons", GOOD.replace("rate = ", "rate: "), (':9: invalid setting "rate: 100 per 10s"',)),
    ("quotes", GOOD.replace("= 127.0.0.1:9", '= "127.0.0.1:9"').replace("= legacy", "= 'legacy'"),
     (':6: [upstream legacy] server: ', ":11: [route api] upstream: there is no [upstream 'legacy']")),
    ("a section without its end", GOOD.replace("[route api]", "[route api"), (':10: "[route api" has no "]"',)),
    ("sections misspelled", GOOD.replace("[route", "[routes").replace("[listener", "[Listener"),
     (":3: unknown section [Listener], did you mean [listener NAME]?",
      ":10: unknown section [routes], did you mean [route NAME]?")),
    ("keys misspelled", GOOD.replace("rate =", "Rate =").replace("server =", "servers =") + "queue-depth = 1\n",
     (':6: [upstream legacy] servers: unknown key, did you mean "server"?',
      ':9: [limit burst] Rate: unknown key, did you mean "rate"?',
      ':13: [route api] queue-depth: unknown key, did you mean "queue_depth"?')),
    ("other units", GOOD + "queue_timeout = 30\nmax_body_size = 10MB\n[limit m]\nrate = 10r/s\n",
     (':13: [route api] queue_timeout: invalid value "30": no unit',
      ':14: [route api] max_body_size: invalid size "10MB", did you mean 10M?',
      ':16: [limit m] rate: invalid rate "10r/s", did you mean 10 per 1s?')),
    ("a zone that is none", GOOD.replace("per 10s", "per day Europe/Olso"),
     (':9: [limit burst] rate: there is no time zone "Europe/Olso"',)),
    ("networks that are none", GOOD + "allow = 10.0.0.0/33, 300.1.1.1\n",
     (':13: [route api] allow: "10.0.0.0/33" is neither', ':13: [route api] allow: "300.1.1.1" is neither')),
    ("a URL for a server", GOOD.replace("= 127.0.0.1:9", "= http://127.0.0.1:9/"),
     (':6: [upstream legacy] server: "http://127.0.0.1:9/" is a URL',)),
    ("no upstream", GOOD.replace("upstream = legacy\n", ""),
     (":10: [route api] has no upstream; expected upstream = NAME",)),
)


@group("files as strangers bring them: all that is wrong, and nothing that is not", workers=[1])
def foreign(t):
    for what, content, wanted in FOREIGN:
        with t.point(what):
            path = t.path("foreign.ini")
            with open(path, "wb") as out:
                out.write(content if isinstance(content, bytes) else content.encode())
            status, output = check(path)
            t.note(output)
            equal(status, 1 if wanted else 0, "exit status")
            said = [line for line in output.splitlines() if ": ok (" not in line]
            equal(len(said), len(wanted), "how many errors")
            for line, words in zip(said, wanted):
                true(line.startswith(path + words), f"{line!r} instead of {words!r}")

    with t.point("a folder, and what may not be read"):
        status, output = check(t.folder)
        equal((status, output), (1, f"{t.folder}: can't be read: it is a folder; expected a file\n"))


@group("warnings: valid, but hardly meant", workers=[1])
def warnings(t):
    field = to("127.0.0.1:1", route="request_header_set = X-Note: a # c")
    text = "[listener l]\nbind = 127.0.0.1:8\n" + field
    said = '[route origin] request_header_set: "a # c" is sent whole'

    with t.point("check: exit 0, each with file and line"):
        path = t.file("warned.ini", text)
        status, output = check(path)
        equal(status, 0, f"exit status, it said {output!r}")
        true(f"{path}:8: warning: {said}" in output, f"output {output!r}")
        true(f"{path}: ok (" in output, f"output {output!r}")

    with t.point("check of a file with errors too: exit 1"):
        status, output = check(t.file("wrong.ini", text + "queue_depth = many\n"))
        equal(status, 1, f"exit status, it said {output!r}")

    with t.point("at the start, and at a reload, in the error log"):
        sluice = t.sluice(field)
        line = sluice.ini().splitlines().index("request_header_set = X-Note: a # c") + 1
        wanted = f" warn  {sluice.ini_path}:{line}: {said}"
        sluice.process.wait_output(wanted)
        sluice.reload(sluice.sections)
        sluice.process.wait_output(": reloaded")
        equal(sluice.log().count(wanted), 2, f"how often it is said: {sluice.log()}")


@group("the command line", workers=[1])
def command_line(t):
    for arguments, status, words in ((["--version"], 0, "sluice"), (["--help"], 0, "run"),
                                     (["run"], None, ""), (["frobnicate"], None, ""), ([], None, "")):
        with t.point(f"sluice {' '.join(arguments)}: {'exit 0' if status == 0 else 'an error'}"):
            found, output = process.run([BINARY, *arguments])
            true(found == 0 if status == 0 else found not in (0, 99) and found > 0, f"exit status {found}")
            true(words in output and output, f"output {output!r}")

    for command in ("run", "check"):
        for option in ("--help", "-h"):
            with t.point(f"sluice {command} {option}: exit 0, the usage"):
                found, output = process.run([BINARY, command, option])
                equal(found, 0, f"exit status, it said {output!r}")
                true(output.startswith(f"usage: sluice {command} "), f"output {output!r}")
        for arguments, words in ((["--frob"], "'--frob'"), (["-c"], "'c'"), (["-x"], "'x'"),
                                 (["left"], 'unexpected "left"'),
                                 (["-c", "none.ini", "over"], 'unexpected "over"')):
            with t.point(f"sluice {command} {' '.join(arguments)}: exit 2, and which word is wrong"):
                found, output = process.run([BINARY, command, *arguments])
                equal(found, 2, f"exit status, it said {output!r}")
                true(output.startswith(f"sluice {command}: ") and words in output.splitlines()[0],
                     f"output {output!r}")

    with t.point("an unknown command is named, and the one that was meant"):
        for word, said in (("frobnicate", 'unknown command "frobnicate"'),
                           ("chek", 'unknown command "chek", did you mean "check"?'),
                           ("rnu", 'unknown command "rnu", did you mean "run"?')):
            found, output = process.run([BINARY, word])
            equal(found, 2, "exit status")
            equal(output.splitlines()[0], f"sluice: {said}", "what it says")

    with t.point("a file without -c: exit 2, and how it is given"):
        for command in ("run", "check"):
            found, output = process.run([BINARY, command, "some.ini"])
            equal(found, 2, "exit status")
            equal(output.splitlines()[0],
                  f'sluice {command}: unexpected "some.ini"; a file is given as -c FILE', "what it says")

    with t.point("what can't be printed is an error"):
        path = t.file("good.ini", GOOD)
        for arguments in (["check", "-c", path], ["check", "-c", path, "--dump"], ["check", "--keys"],
                          ["--help"], ["--version"], ["check", "--help"]):
            words = shlex.join([BINARY, *arguments])
            found, output = process.run(["sh", "-c", f"exec {words} >/dev/full"])
            equal(found, 1, f"exit status of {arguments}, it said {output!r}")
            equal(output, "sluice: the output can't be written: No space left on device\n", "what it says")

    with t.point("the file's option is spelled long and short, for both"):
        for command in ("run", "check"):
            for option in (["-c"], ["--config"]):
                found, output = process.run([BINARY, command, *option, t.path("none.ini")])
                equal(found, 1, f"exit status, it said {output!r}")
                true(t.path("none.ini") in output, f"output {output!r}")


@group("lists, terminals and ports", workers=[1])
def more(t):
    base = "[listener a]\nbind = 127.0.0.1:{port}\n[upstream o]\nserver = 127.0.0.1:1\n[route r]\npath = /\nupstream = o\n"
    with t.point("400,000 hosts are read before the deadline, which a quadratic list would miss"):
        lines = ["host = " + ", ".join(f"h{at + i}.test" for i in range(400)) for at in range(0, 400_000, 400)]
        path = t.file("hosts.ini", base.format(port=1) + "\n".join(lines))
        equal(process.run([BINARY, "check", "-c", path])[0], 0, "exit status")
        path = t.file("twice.ini", base.format(port=1) + "\n".join(lines) + "\nhost = h7.test\n")
        true('host: "h7.test" is given twice' in process.run([BINARY, "check", "-c", path])[1], "one twice")
    with t.point("so are the servers of 3,000 gateways"):
        text = ["[listener a]\nbind = 127.0.0.1:1\n"]
        for at in range(3000):
            servers = "".join(f"server = 10.{at >> 8}.{at & 255}.{i}:1\n" for i in range(64))
            text.append(f"[upstream u{at}]\n{servers}[route r{at}]\nhost = h{at}\nupstream = u{at}\nwebsocket = gateway\n")
        equal(process.run([BINARY, "check", "-c", t.file("gateways.ini", "".join(text))])[0], 0, "exit status")
    with t.point("no control character of a file is written to the terminal"):
        for text in (b"[listener a\xc2\x9b2J]\n", b"[sluice]\npid_file = /tmp/\xc2\x9b2J\n",
                     b"[sluice]\nx\x9b2J = 1\n", b"[nothing\xc2\x852J]\n"):
            path = t.path("controls.ini")
            with open(path, "wb") as out:
                out.write(base.format(port=1).encode() + text)
            for more in ([], ["--dump"]):
                done = subprocess.run([BINARY, "check", *more, "-c", path], capture_output=True, check=False)
                output = done.stdout + done.stderr
                true(b"\x9b" not in output and b"\x85" not in output, output)
    with t.point("the line of a busy port is the bind's"):
        held = Port(socket.AF_INET)
        t.defer(held.release)
        listening = held.bind_another()
        listening.listen()
        t.defer(listening.close)
        path = t.file("busy.ini", "# a line\n\n" + base.format(port=held.number).replace("[listener a]", "[listener a]\n"))
        output = process.run([BINARY, "run", "-c", path])[1]
        true(f"{path}:5: listener a: can't listen on" in output and "`ss -ltnp` shows which" in output, output)
    with t.point("so it is for [admin], and the line of its token is the token's"):
        free = Port(socket.AF_INET)
        t.defer(free.release)
        text = base.format(port=free.number) + f"[admin]\n\nbind = 127.0.0.1:{held.number}\n"
        path = t.file("admin.ini", text)
        line = text.count("\n")
        output = process.run([BINARY, "run", "-c", path])[1]
        true(f"{path}:{line}: [admin] bind" in output and "`ss -ltnp` shows which" in output, output)
        path = t.file("token.ini", text + "\ntoken = file:none\nbind = unix:" + t.path("admin.sock") + "\n")
        true(f"{path}:{line + 2}: [admin] token" in process.run([BINARY, "run", "-c", path])[1], "the token's")


main()
