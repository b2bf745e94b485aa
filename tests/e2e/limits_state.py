"""What was admitted still counts: after a restart, a crash, a changed limit. And folders for the
state that can't be used."""
import os
import re
import signal
import tempfile

from lib.fields import told, wait_ms
from lib.process import BINARY, run, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true


def begun(t, limit, handler=None):
    """A proxy with its state in a folder of its own."""
    folder = tempfile.mkdtemp(dir=t.folder)
    origin = t.origin(handler)
    sluice = t.sluice(sections(origin, limit), settings=f"state = {folder}")
    return origin, sluice, folder


def sections(origin, limit):
    return f"[limit it]\nkey = header:X-Api-Key | ip\n{limit}\n" + to(origin, route="limits = it")


def again(sluice, how=signal.SIGTERM, limits=None):
    """Ends it and starts it again, perhaps with other sections."""
    sluice.process.signal(how)
    equal(sluice.wait(), 0 if how == signal.SIGTERM else -how, "exit status")
    sluice.ended = False
    if limits is not None:
        sluice.sections = limits
    sluice.start()


def left(answer):
    equal(answer.status, 200, "status")
    return told(answer).left["it"]["r"]


def statuses(t, sluice, count):
    client = t.client(sluice)
    return [client.ask("/").status for _ in range(count)]


# ---- restarts ----------------------------------------------------------------------------------

KINDS = [
    ("ring", "rate = 5 per 1h"),
    ("a ring above its slots", "rate = 5 per 1h\nprecision = 2"),
    ("gcra", "rate = 5 per 10h\nalgorithm = gcra"),
    ("calendar", "rate = 5 per month"),
]


@group("restart")
def restart(t):
    for how in (signal.SIGTERM, signal.SIGKILL):
        for name, limit in KINDS:
            with t.point(f"{name}: what was admitted before {how.name} counts after it"):
                _, sluice, folder = begun(t, limit)
                true("a new table" in sluice.process.wait_output(f"state = {folder}: "), sluice.log())
                equal(statuses(t, sluice, 3), [200] * 3, "statuses")
                again(sluice, how)
                sluice.process.wait_output(f"state = {folder}: counters go on where they stood")
                equal(statuses(t, sluice, 4), [200, 200, 429, 429], "statuses after it")
                again(sluice, how)
                equal(statuses(t, sluice, 2), [429, 429], "statuses after another one")

    with t.point("a debt in bytes, and a ban, outlive it"):
        _, sluice, folder = begun(t, "rate = 1kB per 1h\nban = 2 per 1m for 10h")
        client = t.client(sluice)
        equal([client.ask("/", "POST", body=b"x" * 2000).status, client.ask("/").status], [200, 429])
        again(sluice)
        client = t.client(sluice)
        answer = client.ask("/")
        equal(answer.status, 429, "status")
        true(wait_ms(answer) < 4 * 3_600_000, "a wait for the debt")
        again(sluice, signal.SIGKILL)
        answer = t.client(sluice).ask("/")
        equal(answer.status, 429, "status")
        true(wait_ms(answer) > 9 * 3_600_000, "a wait for the ban's end")

    with t.point("another limit's callers are found again too, others begin again"):
        keys = [("X-Api-Key", "k" * 300)]
        _, sluice, folder = begun(t, "rate = 2 per 1h")
        client = t.client(sluice)
        equal([client.ask("/", fields=keys).status for _ in range(3)], [200, 200, 429], "statuses")
        again(sluice)
        client = t.client(sluice)
        equal(client.ask("/", fields=keys).status, 429, "status")
        equal(client.ask("/", fields=[("X-Api-Key", "k" * 301)]).status, 200, "status of another")


@test("restart: what was in flight when it was killed holds no place afterwards")
def restart_in_flight(t):
    gate = t.event()

    def handler(x):
        x.read_body()
        if x.request.target == "/hold":
            gate.wait(120)
        x.reply(200)

    origin, sluice, _ = begun(t, "concurrency = 2", handler=handler)
    for number in range(2):
        t.client(sluice).request("/hold")
        origin.wait_requests(number + 1)
    equal(t.client(sluice).ask("/").status, 429, "status with both places taken")
    again(sluice, signal.SIGKILL)
    client = t.client(sluice)
    equal([client.ask("/").status for _ in range(5)], [200] * 5, "statuses")


@test("restart with another limit: what was admitted under the old one counts")
def restart_changed(t):
    origin, sluice, _ = begun(t, "rate = 5 per 1h")
    equal(statuses(t, sluice, 3), [200] * 3, "statuses")
    for limit, expected in (("rate = 8 per 2h", [200] * 5 + [429]),
                            ("rate = 9 per day", [200, 429]), ("rate = 5 per 1h", [429])):
        again(sluice, limits=sections(origin, limit))
        equal(statuses(t, sluice, len(expected)), expected, f"statuses under {limit}")


@group("files of no use")
def unusable_files(t):
    with t.point("garbage is set aside with a warning"):
        origin, sluice, folder = begun(t, "rate = 5 per 1h")
        path = os.path.join(folder, "throttle.table")
        sluice.terminate()
        sluice.wait()
        with open(path, "wb") as table:
            table.write(b"no table" * 10000)
        sluice.ended = False
        sluice.start()
        warning = sluice.process.wait_output(f"state = {folder}: ")
        true(" warn " in warning and "throttle.table" in warning, warning)
        true(os.path.exists(path + ".set-aside"), "the file beside")
        equal(statuses(t, sluice, 6), [200] * 5 + [429], "statuses")
        again(sluice)
        equal(statuses(t, sluice, 1), [429], "status with the new file")


def refuses(t, sections_text, state, message):
    """With state_required it does not start, and says of the folder why."""
    path = t.file("required.ini", f"[sluice]\nstate = {state}\nstate_required = on\n"
                  f"[listener main]\nbind = unix:{t.path('socket')}\n{sections_text}")
    status, output = run([BINARY, "run", "-c", path])
    equal(status, 1, f"exit status: {output}")
    true(f"{path}:2: state = {state}: " in output and message in output, f"it says: {output}")


@group("folders that can't be used")
def unusable_folders(t):
    origin = t.origin()
    text = sections(origin, "rate = 3 per 1h")
    a_file = t.file("file", "")
    for title, state, message in (
            ("one that is missing", t.path("missing"), "No such file or directory"),
            ("a file instead of a folder", a_file, "Not a directory"),
            ("where no file can be made", "/proc/self", "")):
        with t.point(f"{title}: a warning, and counting goes on in memory"):
            sluice = t.sluice(text, settings=f"state = {state}")
            warning = sluice.process.wait_output(f"state = {state}: ")
            true(re.search(re.escape(sluice.ini_path) + r":\d+: state = ", warning), warning)
            true(" warn " in warning and message in warning and "in memory only" in warning, warning)
            equal(statuses(t, sluice, 4), [200] * 3 + [429], "statuses")

        with t.point(f"{title}: with state_required it does not start"):
            refuses(t, text, state, message)

    with t.point("a full disk: a warning, nothing left behind, and counting goes on in memory"):
        folder = t.path("full")
        os.makedirs(folder)
        mounted = ["unshare", "--mount", "sh", "-c",
                   'mount -t tmpfs -o size=64k none "$0" && exec "$@"', folder]
        if run([*mounted, "true"])[0] != 0:
            t.skip("no file system can be mounted here")
        sluice = t.sluice(text, settings=f"state = {folder}", command=[*mounted, BINARY])
        warning = sluice.process.wait_output(f"state = {folder}: ")
        true(" warn " in warning and "No space left on device" in warning, warning)
        equal(os.listdir(f"/proc/{sluice.pid}/root{folder}"), [], "files left behind")
        equal(statuses(t, sluice, 4), [200] * 3 + [429], "statuses")


# ---- changes while running ---------------------------------------------------------------------

def changed(t, steps):
    """Reloads through limits: [(limit, expected statuses under it)]."""
    origin = t.origin()
    sluice = t.sluice(sections(origin, steps[0][0]))
    for mark, (limit, expected) in enumerate(steps):
        if mark > 0:
            sluice.reload(sections(origin, limit))
            sluice.process.wait_output("reloaded", mark)
        client = t.client(sluice)
        # All workers have the new limits when it says so: they have one table.
        equal([client.ask("/").status for _ in expected], expected, f"statuses under {limit}")


@group("limits that change while running")
def changes(t):
    steps = {
        "up": [("rate = 3 per 1h", [200] * 2), ("rate = 4 per 1h", [200] * 2 + [429])],
        "down": [("rate = 9 per 1h", [200] * 5), ("rate = 5 per 1h", [429]), ("rate = 6 per 1h", [200, 429])],
        "a longer period": [("rate = 3 per 1h", [200] * 2), ("rate = 3 per 5h", [200, 429])],
        "a shorter period": [("rate = 3 per 5h", [200] * 2), ("rate = 3 per 1h", [200, 429])],
        "from the ring to gcra and back": [
            ("rate = 4 per 1h", [200] * 2), ("rate = 4 per 20h\nalgorithm = gcra", [200, 200, 429]),
            ("rate = 4 per 1h", [429])],
        "from the ring to the calendar and back": [
            ("rate = 4 per 1h", [200] * 2), ("rate = 4 per month", [200, 200, 429]), ("rate = 4 per 1h", [429])],
        "other slots": [("rate = 40 per 1h\nprecision = exact", [200] * 30),
                        ("rate = 40 per 1h\nprecision = 2", [200] * 10 + [429]),
                        ("rate = 40 per 1h", [429])],
        "to a shadow and back": [("rate = 2 per 1h", [200] * 2 + [429]), ("rate = 2 per 1h\nmode = shadow", [200] * 3),
                                 ("rate = 2 per 1h", [429])],
        "from requests to bytes: nothing that could be compared": [
            ("rate = 2 per 1h", [200] * 2 + [429]), ("rate = 1MB per 1h", [200] * 3)],
    }
    for title, one in steps.items():
        with t.point(title):
            changed(t, one)


@test("a renamed limit goes on with the counters of its old name: over a reload, and over a restart")
def renamed(t):
    origin, sluice, folder = begun(t, "rate = 5 per 1h")
    equal(statuses(t, sluice, 2), [200] * 2, "statuses")

    def named(name, was):
        return (f"[limit {name}]\nkey = header:X-Api-Key | ip\nrate = 5 per 1h\nwas = {was}\n"
                + to(origin, route=f"limits = {name}"))
    sluice.reload(named("second", "it"))
    sluice.process.wait_output("reloaded")
    equal(statuses(t, sluice, 1), [200], "status after the reload")
    again(sluice, limits=named("third", "second"))
    sluice.process.wait_output(f"state = {folder}: counters go on where they stood")
    equal(statuses(t, sluice, 3), [200, 200, 429], "statuses after the restart")


@test("requests that began before reloads are judged after them: half a head, and a delayed one", workers=[1])
def change_in_midst(t):
    origin = t.origin()

    def limit(quota):
        return sections(origin, f"rate = {quota} per 4s\non_exceed = delay 10s")

    sluice = t.sluice(limit(1), settings="log_level = debug")
    half, delayed = t.client(sluice), t.client(sluice)
    equal(delayed.ask("/").status, 200, "status of the first")
    delayed.request("/")  # waits for its limit
    half.send(b"GET /half HTTP/1.1\r\nHo")
    equal(t.client(sluice).ask("/", "TRACE").status, 405, "status of one that comes after both")
    sluice.process.wait_output("-> delayed")
    for mark in range(1, 4):
        sluice.reload(limit(mark + 1))
        sluice.process.wait_output("memory of the previous limits is freed", mark)
    half.send(b"st: api.test\r\n\r\n")
    equal(half.response().status, 200, "status of the one with half a head")
    equal(delayed.response().status, 200, "status of the delayed one")


@test("in flight while its limit changes: a lower one counts it, and it is given back once")
def change_in_flight(t):
    gates = [t.event(), t.event()]

    def handler(x):
        x.read_body()
        if x.request.target.startswith("/hold"):
            gates[int(x.request.target[-1])].wait(120)
        x.reply(200)

    origin = t.origin(handler)
    sluice = t.sluice(sections(origin, "concurrency = 3"))
    one, two, probe = (t.client(sluice) for _ in range(3))
    one.request("/hold0")
    two.request("/hold1")
    origin.wait_requests(2)
    sluice.reload(sections(origin, "concurrency = 2"))
    sluice.process.wait_output("reloaded")
    equal(probe.ask("/").status, 429, "status with two in flight of two")
    gates[0].set()
    equal(one.response().status, 200, "status")
    until(lambda: probe.ask("/").status == 200, "the place given back")
    gates[1].set()
    equal(two.response().status, 200, "status")
    # Both are free again, and no more than both. Another worker may give a place back the moment
    # after it has answered, so each waits for its own.
    for gate in gates:
        gate.clear()
    held = [t.client(sluice) for _ in range(2)]
    for number, client in enumerate(held):
        until(lambda: client.ask("/").status == 200, "a place")
        count = len(origin.requests)
        client.request(f"/hold{number}")
        origin.wait_requests(count + 1)
    equal(probe.ask("/").status, 429, "status of a third")
    for gate in gates:
        gate.set()
    equal([client.response().status for client in held], [200, 200], "statuses")


main()
