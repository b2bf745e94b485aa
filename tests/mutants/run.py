#!/usr/bin/env python3
"""Plants faults in a copy of the source, one at a time: a test must find each.

   run.py [--applies] [NAME...]      top_srcdir, top_builddir

A fault is a file NAME.fault beside this one: what is wrong, in a sentence; the file in which; the tests
that must find it, in the order in which they run; then the text and what replaces it:

   A place that is given back wakes no waiting request.
   File: proxy/queue/line.c
   Tests: unit:queue/test_run_queue e2e:queues
   --- old
   ...
   --- new
   ...

The old text must occur once in the file, or else once in all of proxy/ and throttle/; blanks and line ends
count as equal. A test is unit:ROOM/SUITE, e2e:FILE, or e2e:FILE/FUNCTION for one function of the file.
--applies only looks for the texts.

The copy is built beside the build that make mutants was called in, with its options of configure. At the
end the copy is restored, and every test that found something must pass in it.
"""
import filecmp
import glob
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = pathlib.Path(os.environ.get("top_srcdir", HERE.parent.parent)).resolve()
BUILD = pathlib.Path(os.environ.get("top_builddir", ".")).resolve()
WORK = BUILD / "tests" / "mutants.work"
TREE, OBJECTS = WORK / "tree", WORK / "build"
ROOTS = ("proxy", "throttle")
UNIT_SECONDS, E2E_SECONDS = 300, 900
JOBS = f"-j{len(os.sched_getaffinity(0))}"


class Unusable(Exception):
    """The fault can't be planted or tested; says why."""


class Fault:
    def __init__(self, path):
        self.name = path.stem
        head, found, rest = path.read_text(encoding="utf-8").partition("\n--- old\n")
        old, found_new, new = rest.partition("\n--- new\n")
        fields = dict(re.findall(r"^(File|Tests): (.*)$", head, re.M))
        if not (found and found_new and len(fields) == 2):
            raise SystemExit(f"{path}: expected a sentence, File:, Tests:, --- old and --- new")
        self.file, self.tests = fields["File"], fields["Tests"].split()
        self.pattern = re.compile(r"\s+".join(re.escape(word) for word in old.split()))
        self.new = new.strip()

    def find(self, tree):
        """The file that has the text, and its content."""
        others = (p for root in ROOTS for p in sorted((tree / root).rglob("*")) if p.suffix in (".c", ".h", ".lua"))
        for paths in ([tree / self.file], others):
            hits = [(p, len(self.pattern.findall(p.read_text(encoding="utf-8")))) for p in paths if p.exists()]
            hits = [(p, count) for p, count in hits if count]
            if len(hits) == 1 and hits[0][1] == 1:
                return hits[0][0]
            if hits:
                raise Unusable("its old text occurs more than once: " + ", ".join(p.name for p, _ in hits))
        raise Unusable(f"its old text is no longer in {self.file} nor elsewhere: refresh {self.name}.fault")


# ---- the copy ---------------------------------------------------------------------------------------

def copy_tree():
    """Brings the copy up to the user's source: only files that differ, so that the build stays incremental."""
    wanted = set()
    for folder, folders, files in os.walk(TOP):
        folders[:] = [f for f in folders if f not in (".git", "autom4te.cache", "__pycache__", WORK.name)
                      and not os.path.exists(os.path.join(folder, f, "config.status"))]
        for name in files:
            source = pathlib.Path(folder, name)
            target = TREE / source.relative_to(TOP)
            wanted.add(target)
            if not source.is_file() or (target.exists() and filecmp.cmp(source, target, shallow=False)):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for path in list(TREE.rglob("*")):
        if path.is_file() and path not in wanted and "autom4te.cache" not in path.parts:
            path.unlink()


def configure():
    OBJECTS.mkdir(parents=True, exist_ok=True)
    if (OBJECTS / "config.status").exists():
        return
    options = []
    if (BUILD / "config.status").exists():
        options = shlex.split(subprocess.run([BUILD / "config.status", "--config"], check=True, text=True,
                                             stdout=subprocess.PIPE).stdout)
    options += ["--disable-lto", "--disable-werror"]
    if shutil.which("ccache") and not any(o.startswith("CC=") for o in options):
        options.append("CC=ccache gcc")
    subprocess.run([TREE / "configure", "-q", *options], cwd=OBJECTS, check=True, stdout=subprocess.DEVNULL)


def make(*targets):
    done = subprocess.run(["make", "-s", JOBS, *targets], cwd=OBJECTS, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        errors = re.findall(r"^.*error: .*$", done.stdout, re.M) or done.stdout.splitlines()[-5:]
        raise Unusable("does not build: " + "; ".join(errors[:3]))


# ---- tests ------------------------------------------------------------------------------------------

def programs_of(room):
    makefile = (OBJECTS / "Makefile").read_text(encoding="utf-8")
    return sorted(set(re.findall(rf"^(tests/unit/{room}/\w+)\$\(EXEEXT\):", makefile, re.M)))


def program_with(room, suite):
    """The program whose sources have the suite: a room may have several."""
    text = (TREE / "tests/unit" / room / "Makefile.inc").read_text(encoding="utf-8")
    for name, sources in re.findall(rf"^tests_unit_{room.replace('/', '_')}_(\w+)_SOURCES \+?= ((?:.*\\\n)*.*)", text, re.M):
        if re.search(rf"\b{suite}\.c\b", sources):
            return f"tests/unit/{room}/{name}"
    return None


def command_of(test):
    """What to build for a test, and what to run."""
    kind, _, name = test.partition(":")
    if kind == "e2e":
        file, _, function = name.partition("/")
        path = TREE / "tests" / "e2e" / (file + ".py")
        if not path.exists():
            raise Unusable(f"names {test}, which is no test")
        return ["sluice", *e2e_helpers()], [sys.executable, str(path), *([function] if function else [])]
    room, suite = (name, "") if (TREE / "tests/unit" / name).is_dir() else name.rsplit("/", 1)
    programs = programs_of(room)
    exact = f"tests/unit/{room}/{suite}"
    shared = program_with(room, suite) if suite else f"tests/unit/{room}/unit_{room}"
    driver = ["sh", str(TREE / "tests/tap-program.sh")]
    if exact in programs:
        return [exact], [*driver, str(OBJECTS / exact)]
    if shared in programs:
        return [shared], [*driver, str(OBJECTS / shared), *([suite] if suite else [])]
    raise Unusable(f"names {test}, which is no test")


def e2e_helpers():
    return ["tests/e2e/fail_malloc.la"] if "tests/e2e/fail_malloc.la" in (OBJECTS / "Makefile").read_text() else []


def end(process):
    """Ends the test with all that it started: children of its children die with it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run(test):
    """The first point that failed; None: all passed."""
    targets, command = command_of(test)
    make(*targets)
    scratch = tempfile.mkdtemp(prefix="sluice-faults-")
    environment = {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP", "top_srcdir": str(TREE), "top_builddir": str(OBJECTS),
                   "SLUICE": str(OBJECTS / "sluice"), "TMPDIR": scratch}
    environment.setdefault("SLUICE_E2E_WORKERS", "1")
    environment.setdefault("SLUICE_E2E_DEADLINE", "30")
    limit = UNIT_SECONDS if test.startswith("unit:") else E2E_SECONDS
    process = subprocess.Popen(["timeout", "--foreground", "-s", "KILL", str(limit), *command], cwd=OBJECTS,
                               env=environment, start_new_session=True, text=True, errors="replace",
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    passed, began = 0, time.monotonic()
    try:
        for line in process.stdout:
            if line.startswith("not ok") and "# SKIP" not in line and "# TODO" not in line:
                return line[len("not ok "):].strip()
            passed += line.startswith("ok") and "# SKIP" not in line
        status = process.wait()
    finally:
        end(process)
        shutil.rmtree(scratch, ignore_errors=True)
    if status != 0:
        return f"no end in {limit} s" if time.monotonic() - began >= limit else f"ended with status {status}"
    if passed == 0:
        raise Unusable(f"{test} has run nothing")
    return None


# ---- faults -----------------------------------------------------------------------------------------

def plant(fault):
    """Returns the test that found it with the point that failed, or two times None; and the seconds of tests."""
    path = fault.find(TREE)
    text = path.read_text(encoding="utf-8")
    spent = 0.0
    try:
        path.write_text(fault.pattern.sub(lambda _: fault.new, text), encoding="utf-8")
        for test in fault.tests:
            make(*command_of(test)[0])
            began = time.monotonic()
            point = run(test)
            spent += time.monotonic() - began
            if point:
                return test, point, spent
        return None, None, spent
    finally:
        path.write_text(text, encoding="utf-8")


def find_all(faults):
    rows = []
    for fault in faults:
        try:
            test, point, seconds = plant(fault)
            verdict = "found" if test else "survived"
            detail = f"{test}: {point}" if test else " ".join(fault.tests)
        except Unusable as why:
            verdict, detail, test, seconds = "unusable", str(why), None, 0.0
        rows.append([fault.name, verdict, seconds, test, detail])
        print(f"{fault.name}: {verdict}, {seconds:.1f} s, {detail}", flush=True)
    return rows


def check_clean(rows):
    """A test that fails without a fault has found none."""
    for test in sorted({row[3] for row in rows if row[3]}):
        try:
            point = run(test)
        except Unusable as why:
            point = str(why)
        if point:
            print(f"{test} also fails without a fault: {point}", flush=True)
            for row in rows:
                if row[3] == test:
                    row[1] = "unsure"


def print_table(rows):
    width = max(len(row[0]) for row in rows)
    print(f"\n{'fault':{width}}  {'verdict':8}  {'s':>6}  by")
    for name, verdict, seconds, _, detail in rows:
        print(f"{name:{width}}  {verdict:8}  {seconds:6.1f}  {detail}")
    found = sum(row[1] == "found" for row in rows)
    print(f"{found} of {len(rows)} found")
    return found == len(rows)


def main():
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    faults = [Fault(pathlib.Path(p)) for p in sorted(glob.glob(str(HERE / "*.fault")))]
    unknown = set(names) - {f.name for f in faults}
    if unknown:
        raise SystemExit("no such fault: " + " ".join(sorted(unknown)))
    faults = [f for f in faults if not names or f.name in names]
    if "--applies" in sys.argv:
        bad = 0
        for fault in faults:
            try:
                fault.find(TOP)
            except Unusable as why:
                bad += 1
                print(f"{fault.name}: {why}")
        raise SystemExit(1 if bad else 0)
    if BUILD == TOP:
        raise SystemExit("expected a build in a folder of its own")
    copy_tree()
    configure()
    make()
    rows = find_all(faults)
    check_clean(rows)
    raise SystemExit(0 if print_table(rows) else 1)


if __name__ == "__main__":
    main()
