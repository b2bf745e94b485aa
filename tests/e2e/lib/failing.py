"""System calls of sluice that fail: tests/e2e/fail_calls.c, preloaded."""
import mmap
import os
import struct

from lib.process import SANITIZER, sanitizer_library
from lib.tap import true

LIBRARY = os.path.join(os.environ.get("top_builddir", "."), "tests/e2e/.libs/fail_calls.so")
PREAD, PWRITE, ACCEPT, LISTEN_EVENT = range(4)


class Failing:
    def __init__(self, t):
        libraries = [os.path.abspath(LIBRARY)]
        if SANITIZER:  # its library must be loaded first
            libraries.insert(0, sanitizer_library() or t.skip("no library of this sanitizer can be preloaded"))
        true(os.path.exists(LIBRARY), f"{LIBRARY} is not built")
        path = t.path("failures")
        with open(path, "w+b") as file:
            file.truncate(mmap.PAGESIZE)
            self.map = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.environment = {"LD_PRELOAD": ":".join(libraries), "FAIL_CALLS_FILE": path}

    def fail(self, call, error, count=-1):
        """So many of the next calls fail (-1: all)."""
        struct.pack_into("=q", self.map, 16 * call + 8, error)
        struct.pack_into("=q", self.map, 16 * call, count)

    def left(self, call):
        """How many calls are still to fail."""
        return struct.unpack_from("=q", self.map, 16 * call)[0]

    def stop(self, call):
        self.fail(call, 0, 0)
