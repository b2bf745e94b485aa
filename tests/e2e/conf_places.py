"""`sluice check` asks whether what the ini names can be written, and leaves no trace of asking."""
import os
import pwd
import shutil

from lib import process
from lib.process import BINARY
from lib.sluice import check, to
from lib.tap import Skip, equal, group, main, test, true

OTHER = "nobody"


def as_other(t):
    """What goes before a command so that it is not root's, and the name it then has."""
    if os.geteuid() != 0:
        return [], pwd.getpwuid(os.geteuid()).pw_name
    os.chmod(t.folder, 0o755)
    command = ["setpriv", f"--reuid={OTHER}", "--clear-groups"]
    if not shutil.which(command[0]) or process.run([*command, BINARY, "--version"])[0] != 0:
        raise Skip("needs setpriv, and a sluice that others may run")
    return command, OTHER


def needs_root(t):
    if os.geteuid() != 0:
        t.skip("needs root")
    os.chmod(t.folder, 0o755)


def ini(t, *settings):
    return t.file("places.ini", "\n".join(
        ["[sluice]", *settings, "[listener l]", "bind = 127.0.0.1:8", to("127.0.0.1:1")]))


def folder(t, name, mode, owner=None):
    path = t.path(name)
    os.makedirs(path)
    os.chmod(path, mode)
    if owner and os.geteuid() == 0:
        shutil.chown(path, owner)
    t.defer(lambda: os.chmod(path, 0o755))
    return path


def trace(path):
    """All that a test for permissions could leave in a folder."""
    return [(name, os.stat(os.path.join(path, name)).st_mtime_ns, os.stat(os.path.join(path, name)).st_size)
            for name in (".", *sorted(os.listdir(path)))]


def says(found, status, *lines):
    """The exit status, and exactly these lines before the last."""
    equal(found[0], status, f"exit status, it said {found[1]!r}")
    said = [line for line in found[1].splitlines() if ": ok (" not in line]
    equal(said, list(lines), "what it said")


@group("by whom checks", workers=[1])
def by_caller(t):
    command, name = as_other(t)
    closed, opened = folder(t, "closed", 0o555), folder(t, "open", 0o777)
    denied = f"can't be used by {name}: Permission denied"

    def checked(*settings):
        path = ini(t, *settings)
        status, output = process.run([*command, BINARY, "check", "-c", path])
        return status, output.replace(path, "INI")

    with t.point("a state folder that may not be written: a warning"):
        says(checked(f"state = {closed}"), 0, f"INI:2: warning: [sluice] state: {closed} {denied}; "
             "counting would be in memory only, from zero at each start")

    with t.point("a folder for bodies that may not be written: a warning, unless none are kept there"):
        says(checked(f"buffering_folder = {closed}"), 0,
             f"INI:2: warning: [sluice] buffering_folder: {closed} {denied}; "
             "bodies would be kept in memory only")
        says(checked(f"buffering_folder = {closed}", "buffering_disk = 0"), 0)

    with t.point("with state_required: exit 1"):
        says(checked("state_required = on", f"state = {closed}"), 1,
             f"INI:3: [sluice] state: {closed} {denied}; refusing to start (state_required = on)")

    with t.point("a state folder that is not there, or none"):
        missing = t.path("missing")
        for path, why in ((missing, "No such file or directory"), (t.file("a file", ""), "Not a directory")):
            says(checked("state_required = on", f"state = {path}"), 1,
                 f"INI:3: [sluice] state: {path} can't be used by {name}: {why}; "
                 "refusing to start (state_required = on)")
        true(not os.path.exists(missing), "it was made")

    with t.point("the state's file may not be read"):
        table = os.path.join(opened, "throttle.table")
        with open(table, "w", encoding="utf-8"):
            pass
        os.chmod(table, 0o444)
        says(checked("state_required = on", f"state = {opened}"), 1,
             f"INI:3: [sluice] state: {table} can't be used by {name}: Permission denied; "
             "refusing to start (state_required = on)")
        os.remove(table)

    for key, value in (("pid_file", "{}"), ("error_log", "file:{}"), ("access_log", "file:{}")):
        with t.point(f"{key}: exit 1 where no file may be made, or the one that is there not written"):
            path = os.path.join(closed, "x")
            cannot = f"[sluice] {key}: {{}} can't be written by {name}: Permission denied"
            says(checked(f"{key} = {value.format(path)}"), 1, f"INI:2: {cannot.format(path)}")
            path = os.path.join(opened, "x")
            with open(path, "w", encoding="utf-8"):
                pass
            os.chmod(path, 0o444)
            says(checked(f"{key} = {value.format(path)}"), 1, f"INI:2: {cannot.format(path)}")
            os.chmod(path, 0o666)
            says(checked(f"{key} = {value.format(path)}"), 0)
            os.remove(path)

    with t.point("a folder that can't be looked at is not said to be missing"):
        inside = os.path.join(folder(t, "shut", 0), "inside")
        says(checked(f"pid_file = {inside}/p"), 1,
             f"INI:2: [sluice] pid_file: the folder {inside} can't be looked at: Permission denied; "
             f"expected one, for {inside}/p")

    with t.point("a socket's folder: exit 1 where none may be made, or that is not there"):
        missing = t.path("missing")
        for place, why in ((closed, "Permission denied"), (missing, "No such file or directory")):
            path = ini(t) + ".unix"
            with open(path, "w", encoding="utf-8") as out:
                out.write(f"[listener l]\nbind = unix:{opened}/s\nbind = 127.0.0.1:8, unix:{place}/s\n" +
                          to("127.0.0.1:1"))
            status, output = process.run([*command, BINARY, "check", "-c", path])
            says((status, output.replace(path, "INI")), 1,
                 f"INI:3: [listener l] bind: no socket can be made in {place} by {name}: {why}")
        equal([trace(opened)[1:], os.path.exists(missing)], [[], False], "what was made")

    with t.point("what may be written: nothing said, no trace"):
        before = trace(opened)
        says(checked(f"state = {opened}", f"pid_file = {opened}/p", f"error_log = file:{opened}/e",
                     f"access_log = file:{opened}/a"), 0)
        equal(trace(opened), before, "the folder")

    with t.point("all that is wrong is reported at once"):
        status, output = checked(f"state = {closed}", f"pid_file = {closed}/p", f"error_log = file:{closed}/e",
                                 f"access_log = file:{closed}/a")
        equal(status, 1, "exit status")
        equal(sorted(int(line.split(":")[1]) for line in output.splitlines()), [2, 3, 4, 5], "lines")

    with t.point("a user that only root can change to: not tested, which a note says"):
        says(checked(f"user = {OTHER}", f"state = {closed}", "state_required = on", f"pid_file = {closed}/p"), 0,
             f"INI:2: note: [sluice] user: the files that {OTHER} may write were not checked, as only root can check them; "
             "run this check as root")

    with t.point("where nothing is written, no note"):
        says(checked(f"user = {OTHER}"), 0)


@group("by root, for the user it changes to", workers=[1])
def for_user(t):
    needs_root(t)
    roots, others = folder(t, "roots", 0o755), folder(t, "others", 0o700, OTHER)

    def checked(*settings):
        path = ini(t, f"user = {OTHER}", *settings)
        status, output = check(path)
        return status, output.replace(path, "INI")

    with t.point("state and pid_file are the user's to write, logs root's"):
        before = trace(roots)
        says(checked(f"state = {others}", f"pid_file = {others}/p", f"error_log = file:{roots}/e"), 0)
        equal([trace(roots), os.listdir(others)], [before, []], "the folders")

    with t.point("what only root can write is reported"):
        says(checked(f"state = {roots}", "state_required = on", f"pid_file = {roots}/p"), 1,
             f"INI:3: [sluice] state: {roots} can't be used by {OTHER}: Permission denied; "
             "refusing to start (state_required = on)",
             f"INI:5: [sluice] pid_file: {roots}/p can't be written by {OTHER}: Permission denied")
        equal(trace(roots), before, "the folder")

    with t.point("a user it may not change to: exit 1, as the start"):
        powerless = ["setpriv", "--bounding-set=-setuid,-setgid"]
        if not shutil.which(powerless[0]) or process.run([*powerless, "true"])[0] != 0:
            t.skip("needs setpriv")
        path = ini(t, f"user = {OTHER}")
        status, output = process.run([*powerless, BINARY, "check", "-c", path])
        says((status, output.replace(path, "INI")), 1,
             f"INI:2: [sluice] user: {OTHER}: Operation not permitted")


@test("a check disturbs no sluice that has the folder in use")
def in_use(t):
    state = folder(t, "state", 0o755)
    sluice = t.sluice("[limit l]\nrate = 3 per 1h\n" + to(t.origin(), route="limits = l"),
                      settings=f"state = {state}\npid_file = {t.path('pid')}")
    client = t.client(sluice)
    equal([client.ask("/").status for _ in range(2)], [200, 200], "statuses before")
    names = sorted(os.listdir(state))
    says(check(sluice.ini_path), 0)
    equal(sorted(os.listdir(state)), names, "files in the folder")
    equal([client.ask("/").status for _ in range(2)], [200, 429], "statuses after")


main()
