"""An upgrade of the binary (SIGUSR2): the old process keeps its sockets, another takes over the listeners."""
import os
import signal

from .process import pid_in, until


class Successor:
    """The process that takes over from `sluice`, whose setting `pid_file` is this file; it ends with the test."""

    def __init__(self, t, sluice, pid_file):
        self.sluice = sluice
        self.ended = False
        old = sluice.pid
        sluice.process.signal(signal.SIGUSR2)
        until(lambda: pid_in(pid_file) not in (0, old), "a new process")
        self.pid = pid_in(pid_file)
        t.defer(self.end)

    def end(self):
        if not self.ended:
            self.ended = True
            os.kill(self.pid, signal.SIGTERM)

    def end_both(self):
        """Waits for the end of the old process, which has lost its last socket, and ends the new one. Returns the
        old one's exit status."""
        until(lambda: not self.sluice.process.running(), "the old process ends")
        self.end()  # it has the pipes of the old one, which are read to their end
        return self.sluice.wait()
