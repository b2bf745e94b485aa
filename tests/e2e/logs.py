"""What sluice tells while it runs and when it ends: access and error log, reopening, draining."""
import glob
import json
import os
import re
import shutil
import signal
import sys

from lib.process import BINARY, DEADLINE_SECONDS, SANITIZER, run, until
from lib.sluice import to
from lib.tap import equal, group, main, member, test, true
from lib.wire import dial, quiet

COMBINED = re.compile(
    r'(?P<ip>\S+) - (?P<user>\S+) \[(?P<time>\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\] '
    r'"(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}) (?P<bytes>\d+|-) '
    r'"(?P<referer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)"(?P<more>.*)')


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="surrogateescape") as text:
        return text.read()


def lines_of(path, count):
    """The file's lines, once there are so many; whole ones."""
    until(lambda: read(path).count("\n") >= count, f"{count} lines in {path}")
    return read(path).splitlines()


def traffic(t, sluice):
    """One of each kind: admitted, refused by a limit, without a route."""
    client = t.client(sluice)
    fields = [("User-Agent", 'agent "x"\\ \u00e9'), ("Referer", "http://from.test/"), ("X-Request-Id", "id-1"),
              ("X-Api-Key", "secret key")]
    statuses = [client.ask("/a?b=c", "POST", fields, body=b"hello").status,
                client.ask("/a", fields=fields).status, client.ask("/x", host="nowhere.test").status]
    equal(statuses, [200, 429, 404], "statuses")


def limited(t, settings):
    origin = t.origin()
    return t.sluice("[limit burst]\nkey = header:X-Api-Key\nrate = 1 per 1h\n"
                    + to(origin, route="host = api.test\nlimits = burst"), settings=settings), origin


@group("combined lines")
def combined(t):
    path = t.path("access.log")
    sluice, _ = limited(t, f"access_log = file:{path}\naccess_log_format = combined")
    traffic(t, sluice)
    lines = lines_of(path, 3)
    rows = [COMBINED.fullmatch(line) for line in lines]

    with t.point("each line is one request in the combined format"):
        equal(len(rows), 3, "lines")
        true(all(rows), f"{lines}")

    with t.point("what was asked and answered"):
        equal([(r["ip"], r["request"], r["status"]) for r in rows],
              [("127.0.0.1", "POST /a?b=c HTTP/1.1", "200"), ("127.0.0.1", "GET /a HTTP/1.1", "429"),
               ("127.0.0.1", "GET /x HTTP/1.1", "404")])
        equal((rows[0]["bytes"], rows[0]["referer"]), ("5", "http://from.test/"))

    with t.point("the caller's key stands nowhere in the clear"):
        true("secret key" not in read(path), "the key is in the log")

    with t.point("quotes, backslashes and other bytes are escaped"):
        true(rows[0]["agent"].startswith("agent "), rows[0]["agent"])
        true(all(c.isprintable() for c in lines[0]), lines[0])


@group("JSON lines")
def json_lines(t):
    path = t.path("access.log")
    sluice, origin = limited(t, f"access_log = file:{path}\naccess_log_format = json")
    traffic(t, sluice)
    lines = lines_of(path, 3)

    with t.point("each line is one object"):
        rows = [json.loads(line) for line in lines]
        true(all(isinstance(row, dict) for row in rows), f"{lines}")

    t.note(lines[0])
    t.note(lines[1])

    with t.point("what was asked and answered"):
        equal([row["status"] for row in rows], [200, 429, 404], "status")
        equal([row["method"] for row in rows], ["POST", "GET", "GET"], "method")
        equal((rows[0]["target"], rows[0]["host"], rows[0]["id"]), ("/a?b=c", "api.test", "id-1"))
        equal((rows[0]["request_bytes"], rows[0]["response_bytes"]), (5, 5), "bytes of bodies")
        equal([row["route"] for row in rows], ["origin", "origin", ""], "route")
        equal([row["client"] for row in rows], ["127.0.0.1"] * 3, "client")

    with t.point("limit and verdict"):
        equal([row["verdict"] for row in rows[:2]], ["admit", "refuse"], "verdict")
        equal([row["limit"] for row in rows[:2]], ["burst", "burst"], "limit")

    with t.point("times: queue wait, upstream, total"):
        for row in rows:
            wait, upstream, total = row["queue_ms"], row["upstream_ms"], row["total_ms"]
            true(0 <= wait <= total and 0 <= upstream <= total, f"{row}")
        equal((rows[0]["upstream"], rows[0]["upstream_status"]), ("origin", 200))

    with t.point("the caller's key as a hash: the same for the same caller, never in the clear"):
        true(re.fullmatch("[0-9a-f]+", rows[0]["caller"]), rows[0]["caller"])
        equal(rows[0]["caller"], rows[1]["caller"], "caller")
        true("secret key" not in read(path), "the key is in the log")


@test("one line for each of 1,000 requests, whatever is in them")
def hostile(t):
    path = t.path("access.log")
    sluice = t.sluice(to(t.origin()), settings=f"access_log = file:{path}\naccess_log_format = json")
    client = t.client(sluice)
    for n in range(1000):
        agent = "".join(chr(t.random.choice([*range(0x20, 0x7f), *range(0xa0, 0x100), 9])) for _ in range(60))
        equal(client.ask(f"/{n}", fields=[("User-Agent", agent), ("Referer", agent[::-1])]).status, 200, "status")
    rows = [json.loads(line) for line in lines_of(path, 1000)]
    equal(len(rows), 1000, "lines")


@group("texts of clients never push the fields behind them off the line", workers=[1])
def long_texts(t):
    for sign in ("x", '"', "\\", "\u00e9"):
        for kind in ("combined", "json"):
            with t.point(f"{kind}, of {sign!r}"):
                path = t.path(f"{kind}-{ord(sign)}.log")
                sluice = t.sluice(to(t.origin()), listener="max_header_size = 60k\nmax_uri_size = 20k",
                                  settings=f"access_log = file:{path}\naccess_log_format = {kind}")
                target = "/" + ("x" if ord(sign) > 127 else sign.replace("\\", "!").replace('"', "'")) * 9000
                fields = [("User-Agent", sign * 9000), ("Referer", sign * 9000), ("X-Request-Id", "\\" * 128)]
                equal(t.client(sluice).ask(target, fields=fields).status, 200, "status")
                line = lines_of(path, 1)[0]
                if kind == "json":
                    row = json.loads(line)
                    equal((row["status"], row["verdict"], row["upstream_status"]), (200, "admit", 200), "fields")
                    true(row["target"].endswith("...") and row["user_agent"].endswith("..."), line)
                    equal(row["id"], "\\" * 128, "id")
                else:
                    found = COMBINED.fullmatch(line)
                    true(found and found["status"] == "200", line)
                    true(found["request"].endswith("... HTTP/1.1") and found["agent"].endswith("..."), line)
                    true(re.search(r" verdict=admit .* upstream_status=200 .* total_ms=[\d.]+$", found["more"]), line)


@group("what a query tells of a caller is no more in the log than what a field does", workers=[1])
def query_keys(t):
    for kind in ("combined", "json"):
        with t.point(kind):
            path = t.path(f"query-{kind}.log")
            sluice = t.sluice("[limit a]\nkey = query:api_key | ip\nrate = 9 per 1h\n"
                              + to(t.origin(), route="limits = a\nsession = query:sid"),
                              settings=f"access_log = file:{path}\naccess_log_format = {kind}")
            fields = [("Referer", "http://api.test/?SID=hidden-1&page=3")]
            equal(t.client(sluice).ask("/a?b=c&api_key=hidden-2&sid=hidden-3&d=e", fields=fields).status, 200)
            line = lines_of(path, 1)[0]
            true("hidden" not in line, line)
            true("/a?b=c&api_key=***&sid=***&d=e" in line and "?SID=***&page=3" in line, line)


@test("queue_ms of a request that waited until its time was up", workers=[1])
def queue_wait(t):
    path, release = t.path("access.log"), t.event()

    def handler(x):
        release.wait(DEADLINE_SECONDS)
        x.reply(200)

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream="max_in_flight = 1", route="queue_timeout = 300ms\nordering = none"),
                      settings=f"access_log = file:{path}\naccess_log_format = json")
    first, second = t.client(sluice), t.client(sluice)
    first.request("/first")
    until(lambda: len(origin.requests) == 1, "the first at the origin")
    equal(second.ask("/second").status, 503, "status of the one that waited")
    row = json.loads(lines_of(path, 1)[0])
    release.set()
    first.response()
    true(300 <= row["queue_ms"] <= row["total_ms"], f"{row}")


@test("a server that is down has one line for many requests", workers=[1])
def dead_server(t):
    sluice = t.sluice(to("127.0.0.1:1", upstream="max_fails = 0"))
    client = t.client(sluice)
    equal({client.ask(f"/{n}").status for n in range(100)}, {502}, "statuses")
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status")
    said = [line for line in sluice.log().splitlines() if "127.0.0.1:1" in line]
    # One in ten seconds: a second one on a very slow machine.
    true(1 <= len(said) <= 2, f"{said}")


@test("SIGUSR1 reopens the logs by name; no line is lost")
def reopen(t):
    path, old = t.path("access.log"), t.path("access.log.1")
    sluice = t.sluice(to(t.origin()), settings=f"access_log = file:{path}\nerror_log = file:{t.path('error.log')}")
    client = t.client(sluice)
    for n in range(5):
        client.ask(f"/old{n}")
    lines_of(path, 5)
    os.rename(path, old)
    sluice.process.signal(signal.SIGUSR1)
    until(lambda: os.path.exists(path), "the new file")
    for n in range(5):
        client.ask(f"/new{n}")
    lines_of(path, 5)
    found = re.findall(r"/(\w+) HTTP", read(old) + read(path))
    equal(found, [f"old{n}" for n in range(5)] + [f"new{n}" for n in range(5)], "targets in both files")


@test("the error log goes to a file, with times and levels; a failing server is reported")
def error_log(t):
    path = t.path("error.log")
    sluice = t.sluice(to("127.0.0.1:1"), settings=f"error_log = file:{path}\nlog_level = info")
    equal(t.client(sluice).ask("/").status, 502, "status")
    until(lambda: "127.0.0.1:1" in read(path), "the server's address in the error log")
    for line in read(path).splitlines():
        true(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (error|warn|info|debug) ", line), line)


@test("pid_file holds the process id while it runs")
def pid_file(t):
    path = t.path("sluice.pid")
    sluice = t.sluice(to(t.origin()), settings=f"pid_file = {path}")
    until(lambda: read(path).strip() == str(sluice.pid), "the process id")
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status")
    true(not os.path.exists(path), "the file is still there")


@test("a reload says what takes effect at the next start only, and leaves another's pid_file alone")
def reload_of_start_only(t):
    path, other = t.path("sluice.pid"), t.file("other.pid", "1\n")
    sluice = t.sluice(to(t.origin()), settings=f"pid_file = {path}")
    until(lambda: read(path).strip() == str(sluice.pid), "the process id")
    changed = {"workers": sluice.workers + 1, "state": t.path("state"), "state_required": "on", "sessions": "20k",
               "queue_total": "7k", "queue_total_bytes": "100M", "buffer_size": "40k", "pid_file": other,
               "user": "nobody"}
    sluice.settings = "\n".join(f"{key} = {value}" for key, value in changed.items())
    sluice.reload(sluice.sections)
    sluice.process.wait_output(": reloaded")
    said = re.findall(r"\[sluice\] (\w+) has changed; it takes effect at the next start", sluice.log())
    equal(sorted(said), sorted(changed), "what the log says")
    sluice.settings = f"pid_file = {path}"
    sluice.reload(sluice.sections)
    sluice.process.wait_output(": reloaded", 2)
    equal(sluice.log().count("at the next start"), len(changed), "said when it is as at the start")
    sluice.settings = f"pid_file = {other}"
    sluice.reload(sluice.sections)
    sluice.process.wait_output(": reloaded", 3)
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status")
    equal(read(other), "1\n", "the other file")
    true(not os.path.exists(path), "its own file is still there")


# As somebody else from the start on.
# The program is opened as root: nobody may not search a folder such as /root, in which the build may be.
BECOME = """import os, sys
program = os.open(sys.argv[1], os.O_RDONLY)
os.setgid(65534)
os.setuid(65534)
os.execve(program, sys.argv[1:], os.environ)"""


def as_root(t):
    if os.geteuid() != 0:
        t.skip("needs root")


@test("user: files of root's are given to it; what can't be reopened stays open, and the level counts")
def user_reopens(t):
    as_root(t)
    os.chmod(t.folder, 0o755)  # the user may read it, and make nothing there
    log, moved = t.path("error.log"), t.path("error.log.1")
    settings = f"user = nobody\nerror_log = file:{log}\n"
    sluice = t.sluice(to(t.origin()), settings=settings)
    until(lambda: "sluice is ready" in read(log), "the start, in the log")
    equal(os.stat(log).st_uid, 65534, "owner of the log")
    with open(log, "w", encoding="utf-8"):
        pass
    sluice.process.signal(signal.SIGUSR1)
    sluice.settings = settings + "log_level = debug\n"
    sluice.reload(sluice.sections)
    until(lambda: ": reloaded" in read(log), "the reload, in the log")
    t.client(sluice).ask("/")
    until(lambda: " debug " in read(log), "a line of the new level")
    os.rename(log, moved)
    sluice.process.signal(signal.SIGUSR1)
    sluice.process.wait_output(f"cannot reopen log {log}, keeping the old file: Permission denied")
    until(lambda: "cannot reopen" in read(moved), "the error, in the old file")
    sluice.settings = settings + "log_level = info\n"
    sluice.reload(sluice.sections)
    until(lambda: read(moved).count(": reloaded") == 2, "the second reload, in the old file")
    debugs = read(moved).count(" debug ")
    t.client(sluice).ask("/")
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status")
    member("sluice has stopped", read(moved), "the end of the old file")
    true(read(moved).count(" debug ") <= debugs + 40, "still at the old level")


@test("user: what a reload could not read is warned of at the start, and the reload fails")
def user_can_not_read(t):
    as_root(t)  # the folder is root's alone
    sluice = t.sluice(to(t.origin()), settings="user = nobody")
    line = sluice.process.wait_output("a reload will fail for user nobody: ")
    true(sluice.ini_path in line and "Permission denied" in line, line)
    sluice.reload(sluice.sections)
    sluice.process.wait_output("reload failed; keeping the running configuration")
    equal(t.client(sluice).ask("/").status, 200, "status")


@test("user without root is warned of, unless it is who runs it")
def user_without_root(t):
    as_root(t)
    os.chmod(t.folder, 0o777)
    for user, is_said in (("daemon", True), ("nobody", False)):
        sluice = t.sluice(to(t.origin()), settings=f"user = {user}",
                          command=[sys.executable, "-c", BECOME, BINARY])
        sluice.process.wait_output("sluice is ready")
        equal(f"user = {user} has no effect: only root can change to another user" in sluice.log(), is_said, user)


@group("what can't be done at the start is reported with file and line", workers=[1])
def told_with_line(t):
    def start(setting, command=()):
        ini = t.file("start.ini", f"[sluice]\nworkers = 1\n{setting}\n[listener x]\n"
                     f"bind = unix:{t.path('socket')}\n" + to("127.0.0.1:1"))
        status, output = run([*command, BINARY, "run", "-c", ini])
        equal(status, 1, f"exit status, it said {output!r}")
        return output.replace(ini, "INI")

    with t.point("a pid_file that can't be written"):
        output = start("pid_file = /proc/self/sluice.pid")
        true("INI:3: pid_file = /proc/self/sluice.pid: " in output, f"output {output!r}")

    with t.point("a user that is not there"):
        output = start("user = no-such-user-here")
        true('INI:3: [sluice] user: there is no user "no-such-user-here"' in output, f"output {output!r}")

    with t.point("a user it may not change to"):
        powerless = ["setpriv", "--bounding-set=-setuid,-setgid"]
        if os.geteuid() != 0 or not shutil.which(powerless[0]) or run([*powerless, "true"])[0] != 0:
            t.skip("needs root and setpriv")
        output = start("user = nobody", powerless)
        true("INI:3: user = nobody: Operation not permitted" in output, f"output {output!r}")


# ---- the end -----------------------------------------------------------------------------------

def refuses(sluice):
    try:
        dial(sluice.address).close()
    except OSError:
        return True
    return False


def held(t, **options):
    """A sluice with one request that its origin holds; its gate."""
    gate = t.event()

    def handler(x):
        x.read_body()
        if x.request.target == "/hold":
            gate.wait(DEADLINE_SECONDS)
        x.reply(200, b"done")

    origin = t.origin(handler)
    sluice = t.sluice(to(origin, route="host = api.test\nordering = strict"), **options)
    client = t.client(sluice)
    client.request("/hold")
    origin.wait_requests(1)
    return gate, origin, sluice, client


@test("SIGTERM: new connections are refused, idle ones closed, what is in flight and queued ends well, exit 0")
def drain(t):
    gate, origin, sluice, client = held(t)
    idle, queued = t.client(sluice), t.client(sluice)
    equal(idle.ask("/", host="nowhere.test").status, 404, "status")  # needs no turn in the queue
    queued.request("/queued")
    true(quiet(queued, 0.1), "the queued one was answered")
    sluice.terminate()
    idle.expect_end()
    until(lambda: refuses(sluice), "a refused connection")
    true(sluice.process.running(), "ended with a request in flight")
    gate.set()
    answer = client.response()
    equal((answer.status, answer.body), (200, b"done"))
    client.expect_end()
    answer = queued.response()
    member(answer.status, (200, 503), "status of the queued one")
    equal(sluice.wait(), 0, "exit status")


@test("SIGTERM and a download under way: it is whole")
def drain_download(t):
    size = 30_000_000

    def handler(x):
        x.read_body()
        x.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        x.send(b"x" * size)

    sluice = t.sluice(to(t.origin(handler)), settings="shutdown_timeout = 1m")
    client = t.client(sluice)
    client.request("/")
    head = client.response_head()
    sluice.terminate()
    equal(sum(len(piece) for piece in client.body_pieces(head)), size, "bytes")
    equal(sluice.wait(), 0, "exit status")


@test("shutdown_timeout cuts what does not end; the exit status 1 says so")
def shutdown_timeout(t):
    log = t.path("access.log")
    _, _, sluice, client = held(t, settings=f"shutdown_timeout = 300ms\naccess_log = file:{log}")
    sluice.terminate()
    equal(sluice.wait(), 1, "exit status")
    member('outcome="shutdown"', read(log), "the access log")
    member("ending although it has connections of clients", sluice.log(), "the error log")
    member(client.read_to_any_end()[:12], (b"", b"HTTP/1.1 503", b"HTTP/1.1 504", b"HTTP/1.1 502"), "the cut one's end")


@test("the end's tally: what was served, by class of status, and nothing left over")
def tally(t):
    sluice = t.sluice("[limit burst]\nkey = header:X-Api-Key\nrate = 1 per 1h\n"
                      + to(t.origin(), route="limits = burst\nhost = api.test"))
    client = t.client(sluice)
    equal([client.ask("/", fields=[("X-Api-Key", "k")]).status, client.ask("/", fields=[("X-Api-Key", "k")]).status,
           client.ask("/", host="nowhere.test").status], [200, 429, 404], "statuses")
    client.close()
    sluice.terminate()
    equal(sluice.wait(), 0, "exit status")
    line = next((line for line in sluice.log().splitlines() if "served" in line), sluice.log())
    member(" served 3 requests on ", line, "the tally")
    member("connections: 1xx 0, 2xx 1, 3xx 0, 4xx 2, 5xx 0, unanswered 0", line, "the tally")
    true("still held at exit" not in sluice.log(), sluice.log())


@test("no thread blocks the signals of its own faults: crash reporters see them")
def faults_unblocked(t):
    sluice = t.sluice(to(t.origin()))
    foreign = 1 if SANITIZER == "tsan" else 0  # it has a thread of its own, which blocks all
    faults = [signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT]

    def blocked():
        found = 0
        for path in glob.glob(f"/proc/{sluice.pid}/task/*/status"):
            mask = int(re.search(r"^SigBlk:\s*(\w+)", read(path), re.MULTILINE).group(1), 16)
            found += any(mask >> (one - 1) & 1 for one in faults)
        return found

    # The C library blocks all signals for a moment while a thread begins.
    until(lambda: blocked() == foreign, "all threads leave them unblocked")


@test("signals that come while it ends do not kill it", workers=[2])
def late_signals(t):
    origin = t.origin()
    for _ in range(20):
        sluice = t.sluice(to(origin))
        sluice.terminate()
        while sluice.process.running():
            for number in (signal.SIGHUP, signal.SIGUSR1):
                sluice.process.signal(number)
        equal(sluice.wait(), 0, "exit status")


@test("SIGINT ends it like SIGTERM")
def interrupt(t):
    sluice = t.sluice(to(t.origin()))
    sluice.process.signal(signal.SIGINT)
    equal(sluice.wait(), 0, "exit status")


@test("SIGTERM at once after the start, many times")
def early_end(t):
    origin = t.origin()
    for _ in range(10):
        sluice = t.sluice(to(origin))
        sluice.terminate()
        equal(sluice.wait(), 0, "exit status")


main()
