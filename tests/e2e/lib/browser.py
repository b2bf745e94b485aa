"""The distribution's Chromium, by Playwright from npm: one page, driven step by step."""
import json
import os
import shutil
import subprocess
import threading

from . import node, wire

FOLDER = "browser"
NODE_LEAST = 20  # of Playwright


class Browser:
    """Each action of browser/drive.mjs is a method: browser.click("#reset")."""

    def __init__(self, t):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if not program:
            t.skip("chromium is not installed")
        if 0 < node.version() < NODE_LEAST:
            t.skip(f"Playwright needs node {NODE_LEAST}, and this is {node.version()}")
        installed = node.install(t, FOLDER)
        # A home of its own: the browser keeps files there.
        self.child = subprocess.Popen(
            [node.find("node"), os.path.join(installed, "drive.mjs"), program, str(wire.DEADLINE_SECONDS * 1000)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "HOME": t.folder})
        self.watchdog = threading.Timer(10 * wire.DEADLINE_SECONDS, self.child.kill)
        self.watchdog.start()
        t.defer(self.end)
        if self.child.stdout.readline() != '"ready"\n':
            raise AssertionError("the browser does not start")

    def __getattr__(self, name):
        return lambda *arguments: self._do(name, arguments)

    def _do(self, name, arguments):
        self.child.stdin.write(json.dumps([name, *arguments]) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise AssertionError(f"the browser ended at {name} {arguments}")
        answer = json.loads(line)
        if "error" in answer:
            raise AssertionError(f"{name} {arguments}: {answer['error']}\nThe page:\n{answer['page']}")
        return answer.get("result")

    def end(self):
        self.watchdog.cancel()
        self.child.stdin.close()
        try:
            self.child.wait(wire.DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
        self.child.stdout.close()
