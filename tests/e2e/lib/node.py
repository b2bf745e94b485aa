"""Clients and parsers from npm, for node: installed once into the build folder, as their lock says."""
import fcntl
import json
import os
import shutil
import subprocess
import threading

from . import process, tap, wire
from .peers import find

E2E = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLIENTS = "clients"


def _installed(folder):
    return os.path.join(os.environ.get("top_builddir", "."), f"tests/e2e/{folder}.installed")


INSTALLED = _installed(CLIENTS)


def install(t, folder=CLIENTS):
    """Where everything of the folder is installed; skips the test where that can't be had."""
    for program in ("node", "npm"):
        if not find(program):
            t.skip(f"{program} is not installed")
    sources, installed = os.path.join(E2E, folder), _installed(folder)
    os.makedirs(installed, exist_ok=True)
    with open(os.path.join(installed, "lock"), "a+", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in os.listdir(sources):
            if name.endswith(".mjs"):
                shutil.copyfile(os.path.join(sources, name), os.path.join(installed, name))
        if not _is_current(sources, installed):
            _once(t, lock, lambda: _install(sources, installed))
    return installed


def _once(t, notes, install_it):
    """Where it failed in an earlier test of this file it is not tried again. `notes`: the file's run, and why."""
    notes.seek(0)
    run, _, why = notes.read().partition(" ")
    if run != tap.RUN:
        why = install_it()
        notes.truncate(0)
        notes.write(f"{tap.RUN} {why}" if why else "")
        notes.flush()
    if why:
        t.skip(why)


def version():
    """The number of node's major version; 0 where there is no node."""
    node = find("node")
    if not node:
        return 0
    text = subprocess.run([node, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return int(text.removeprefix("v").split(".")[0])


def _text(folder, name):
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as text:
            return text.read()
    except OSError:
        return None


def _is_current(sources, installed):
    """Installed from this very lock, and to its end."""
    return (_text(installed, "package-lock.json") == _text(sources, "package-lock.json")
            and _text(installed, "complete") is not None)


def _install(sources, installed):
    """Returns why that failed, or None."""
    for name in ("complete", "node_modules"):
        path = os.path.join(installed, name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.unlink(path)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(os.path.join(sources, name), os.path.join(installed, name))
    try:
        status, output = process.run([
            find("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline",
            "--fetch-retries=1", "--fetch-timeout=20000", "--prefix", installed])
    except process.Hung:
        status, output = None, "it takes too long"
    if status != 0:
        reason = next((line for line in output.splitlines() if "code" in line or "error" in line.lower()),
                      output or f"status {status}")
        return f"npm ci: {reason.strip()}"
    with open(os.path.join(installed, "complete"), "w", encoding="ascii"):
        return None


def run_when_ready(script, *arguments, then):
    """As run, of a script that says when it is ready and goes on when it reads a line: `then` is
    called in between, so that how long node takes to start does not matter."""
    command = [find("node"), os.path.join(INSTALLED, script), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        watchdog = threading.Timer(wire.DEADLINE_SECONDS, child.kill)
        watchdog.start()
        try:
            if child.stdout.readline() != "ready\n":
                raise AssertionError(f"{script} {arguments} did not get ready")
            then()
            output, _ = child.communicate("go\n")
        finally:
            watchdog.cancel()
            child.kill()
    if child.returncode != 0:
        raise AssertionError(f"{script} {arguments}: {output}")
    return json.loads(output)


def run(script, *arguments):
    """What the script prints, from JSON."""
    status, output = process.run([find("node"), os.path.join(INSTALLED, script), *arguments])
    if status != 0:
        raise AssertionError(f"{script} {arguments}: {output}")
    return json.loads(output)
