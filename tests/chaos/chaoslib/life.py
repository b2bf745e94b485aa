"""One life of sluice: started, attacked by waves of clients while it is reloaded and stopped for
moments, looked at when all is calm again, and ended. What must hold is claimed here and in judge.py."""
import asyncio
import os
import random
import signal
import time

from lib import process
from lib.sluice import Sluice

from . import judge
from .clients import Client
from .scripts import SCRIPTS
from .servers import Crowd, Server

CALM_SECONDS = 30.0
BEAT_SECONDS = 0.05
STARVED_SECONDS = 0.1


class Life:
    """What its actors share."""

    def __init__(self, folder, seed, number, theme, waves=2, only=None, debug=False, may_reload=True):
        self.folder = folder
        self.theme = theme
        self.waves = waves
        self.only = only
        self.may_reload = may_reload
        self.name = f"{seed}/{number}"
        self.random = random.Random(self.name)
        self.fixed = {}
        self.tasks = set()
        self.failures = []
        self.first_failure_seconds = None
        self.began = time.monotonic()
        self.ending = False
        self.beat = self.began
        self.starved = []   # (when, seconds) that this program or sluice was kept from running
        self.sent_at = {}   # identity: when
        self.statuses = {}  # identity: of a server's response that its client read
        self.cut = set()    # identities of requests whose server died on them
        self.lost = {}      # identity: bytes of its response that were on their way when its server reset
        self.arrivals = []  # (when, route, asked)
        self.resident = []  # bytes of memory, when all was calm after a wave
        self.connections = self.reloads = self.stops = self.deaths = 0
        self.debug = (self.random.random() < 0.2) | debug
        self.servers = []
        self.sluice = None
        self.expecting_end = False

    # ---- what actors tell -----------------------------------------------------------------------

    def spawn(self, coroutine):
        task = asyncio.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def fail(self, text, client=None):
        if client and not self.sluice.process.running():
            return  # it ended, which is the finding
        seconds = time.monotonic() - self.began
        if self.first_failure_seconds is None:
            self.first_failure_seconds = seconds
        notes = "".join(f"\n    {note}" for note in client.notes[-40:]) if client else ""
        self.failures.append(f"after {seconds:.2f} s: {text}{notes}")

    def sent(self, asks):
        now = time.monotonic()
        for ask in asks:
            self.sent_at.setdefault(ask.identity, now)

    def answered(self, ask, status):
        self.statuses[ask.identity] = status

    def arrived(self, server, asked):
        self.arrivals.append((time.monotonic(), asked))
        judge.check_in_flight(self, server)

    def was_starved(self, since, allowed=0.25):
        """Whether the machine kept us or sluice from running for longer than that since then."""
        now = time.monotonic()  # the metronome may be late at this very moment
        seconds = max(0, now - self.beat - 2 * BEAT_SECONDS)
        return seconds + sum(seconds for at, seconds in self.starved if at + seconds >= since) > allowed

    @property
    def address(self):
        return self.sluice.address

    # ---- its course -----------------------------------------------------------------------------

    async def run(self):
        crowd = Crowd()
        self.servers = [Server(self, str(n), crowd) for n in range(3)]
        try:
            self._start()
            await self._live()
        finally:
            self.ending = True
            for server in self.servers:
                server.die()
                server.held.release()
            for task in list(self.tasks):
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
            self._bury()

    def _start(self):
        r = self.random
        self.access_path = os.path.join(self.folder, "access.log")
        settings = (f"access_log = file:{self.access_path}\naccess_log_format = json\n"
                    f"shutdown_timeout = 20s\nsessions = 1000\nqueue_total_bytes = 1M\n"
                    f"buffer_size = {r.choice(('4k', '16k', '80k'))}\n"
                    f"log_level = {'debug' if self.debug else 'info'}\n")
        self.sluice = Sluice(self.folder, self.theme.sections(r, self, 0), workers=r.choice((1, 1, 2, 4)),
                             settings=settings, listener=self.theme.listener)
        self.sluice.start()
        # Its sockets listen before its workers have the descriptors that each life begins with.
        self.sluice.process.wait_output("sluice is ready")
        self.calm_files = None

    async def _live(self):
        metronome = self.spawn(self._measure_starvation())
        await self._calm()
        for wave in range(self.waves):
            await self._wave(wave)
            if self.failures or not self.sluice.process.running():
                break
            if wave == self.waves - 1 and self.random.random() < 0.3 and not self.only:
                await self._end_in_midst(wave + 1)
                break
            await self._calm()
            await judge.probe_places(self)
            self.resident.append(process.resident_bytes(self.sluice.pid))
        metronome.cancel()
        await self._end()

    async def _wave(self, wave):
        directors = [self.spawn(self._reload(wave)), self.spawn(self._stop()), self.spawn(self._kill_servers())]
        numbers = iter(range(wave * self.theme.clients, (wave + 1) * self.theme.clients))
        if self.only:
            numbers = iter([n for n in numbers if n in self.only])
        runners = [self.spawn(self._clients(numbers)) for _ in range(self.theme.at_once)]
        await asyncio.gather(*runners)
        for director in directors:
            director.cancel()
        await asyncio.gather(*directors, return_exceptions=True)

    async def _clients(self, numbers):
        for number in numbers:
            if self.failures or not self.sluice.process.running():
                return
            draw = random.Random(f"{self.name}/{number}")
            self.connections += 1
            try:
                await Client(self, number, SCRIPTS[self.theme.script(draw)], draw).run()
            except OSError as error:
                self.fail(f"client {number}: {error}")

    async def _end_in_midst(self, wave):
        """The end while clients are at it: they may be cut off, and sluice must end all the same."""
        self.ending = True
        storm = self.spawn(self._wave(wave))
        await asyncio.sleep(self.random.uniform(0.05, 0.4))
        self.expecting_end = True
        self.sluice.terminate()
        await asyncio.wait([storm], timeout=judge.END_SECONDS)

    # ---- what happens to sluice -------------------------------------------------------------------

    async def _reload(self, wave):
        draw = random.Random(f"{self.name}/reload/{wave}")
        while self.theme.reload_seconds and self.may_reload:
            await asyncio.sleep(draw.uniform(*self.theme.reload_seconds))
            self.reloads += 1
            self.sluice.reload(self.theme.sections(draw, self, self.reloads))

    async def _stop(self):
        draw = random.Random(f"{self.name}/stop")
        while self.theme.stops:
            await asyncio.sleep(draw.uniform(0.02, 0.3))
            self.stops += 1
            self.sluice.process.signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(draw.choice((0.005, 0.02, 0.06)))
            finally:
                self.sluice.process.signal(signal.SIGCONT)

    async def _kill_servers(self):
        draw = random.Random(f"{self.name}/kill")
        while self.theme.deaths:
            await asyncio.sleep(draw.uniform(0.2, 1))
            server = draw.choice(self.servers)
            self.deaths += 1
            server.die()
            await asyncio.sleep(draw.uniform(0, 0.05))
            server.open()

    async def _measure_starvation(self):
        """A machine that runs neither us nor sluice excuses what is late, and so does its disk while a
        worker writes a body there; it is noted."""
        waited = process.kept_waiting_seconds(self.sluice.pid)
        while self.sluice.process.running():
            began = self.beat = time.monotonic()
            await asyncio.sleep(BEAT_SECONDS)
            late = time.monotonic() - began - BEAT_SECONDS
            try:
                before, waited = waited, process.kept_waiting_seconds(self.sluice.pid)
                held_up = process.is_held_up(self.sluice.pid)
            except OSError:
                continue
            starved = max(late, waited - before, held_up and late + BEAT_SECONDS)
            if starved > STARVED_SECONDS or held_up:
                self.starved.append((began, starved))

    # ---- calm, and the end ------------------------------------------------------------------------

    async def _calm(self):
        """With no client there, descriptors are back to what they were at the start."""
        end = time.monotonic() + CALM_SECONDS
        files, steady = None, 0
        while time.monotonic() < end and self.sluice.process.running():
            await asyncio.sleep(0.05)
            now = process.open_files(self.sluice.pid)
            steady = steady + 1 if now == files else 0
            files = now
            if steady >= 4 and (self.calm_files is None or files <= self.calm_files):
                self.calm_files = files
                return
        if self.sluice.process.running():
            self.fail(f"{files} descriptors are open {CALM_SECONDS:.0f} s after the last client left; "
                      f"at the start there were {self.calm_files}:\n{judge.descriptors(self.sluice.pid)}")

    async def _end(self):
        child = self.sluice.process
        self.sluice.ended = True
        self.sluice.port.release()
        if not child.running() and not self.expecting_end:
            self.fail(f"sluice ended by itself with {child.wait()}")
        elif not self.expecting_end:
            self.sluice.terminate()
        status = await asyncio.to_thread(judge.wait_end, child)
        judge.judge_end(self, status)
        judge.judge_access_log(self)
        judge.judge_bound(self)

    def _bury(self):
        if self.sluice and self.sluice.process and self.sluice.process.running():
            self.sluice.process.kill()

