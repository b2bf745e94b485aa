"""An interactive shell, with job control, at a terminal."""
import os
import pty
import signal
import threading

from .process import DEADLINE_SECONDS, Hung, sanitizer_options


class Terminal:
    """What is typed is not echoed. The shell and its jobs are ended with the test."""

    def __init__(self, t):
        self._output = ""
        self._changed = threading.Condition()
        environment = {**os.environ, **sanitizer_options(), "PS1": "", "TERM": "dumb"}
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):  # may be ignored where we run
                signal.signal(number, signal.SIG_DFL)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], environment)
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()
        t.defer(self.end)
        self.type("stty -echo; set -b; echo be''gun\n")
        self.wait_output("begun\r\n")

    def _collect(self):
        while True:
            try:
                data = os.read(self._fd, 65536)
            except OSError:
                return
            if not data:
                return
            with self._changed:
                self._output += data.decode("utf-8", "replace")
                self._changed.notify_all()

    def type(self, text):
        os.write(self._fd, text.encode())

    def wait_output(self, text):
        """Waits until it has been written; what was written up to its end is not looked at again."""
        with self._changed:
            if not self._changed.wait_for(lambda: text in self._output, DEADLINE_SECONDS):
                raise Hung(f"the terminal never showed {text!r}:\n{self._output}")
            self._output = self._output.partition(text)[2]

    def end(self):
        os.kill(self.pid, signal.SIGKILL)  # its jobs get HUP
        os.waitpid(self.pid, 0)
        self._reader.join(DEADLINE_SECONDS)
        os.close(self._fd)
