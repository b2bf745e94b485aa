"""Threads that do the same until they are stopped, at the latest at the test's end."""
import threading


class Crowd:
    def __init__(self, t):
        self._stop, self._lock, self._threads = threading.Event(), threading.Lock(), []
        t.defer(self.stop)

    def start(self, count, run):
        """`run` gets the thread's number, and returns soon after self._stop is set."""
        for number in range(count):
            thread = threading.Thread(target=run, args=(number,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def no_more(self):
        self._stop.set()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
