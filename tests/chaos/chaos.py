"""Everything that clients, servers, operators and the kernel can do to sluice, drawn from one seed.

    tests/chaos/chaos.py                          what `make check` does: two lives (SLUICE_CHECK=long: five)
    tests/chaos/chaos.py --seconds 600            what `make soak SECONDS=600` does
    tests/chaos/chaos.py --seed 17 --life 3       one life of a run again
    ... --only 12,40                              with these clients of it only
    ... --theme storm                             lives of one theme

A run is a row of lives; each starts a sluice, lets waves of clients at it while it is reloaded and
stopped for moments, waits until all is calm, and ends it. The seed is printed; the same seed draws the
same configurations, requests, pauses and signals, in an order that is left to the kernel's scheduling."""
import argparse
import asyncio
import functools
import itertools
import os
import random
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(os.path.dirname(here), "e2e")]

from chaoslib.life import Life  # noqa: E402
from chaoslib.themes import THEMES  # noqa: E402
from lib import beside, process  # noqa: E402
from lib.tap import IS_LONG, Report  # noqa: E402

CHECK_LIVES = ("storm", "still", "places", "timers", "storm")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    seed = int(os.environ.get("SLUICE_E2E_SEED") or time.time_ns() % 1_000_000_000)
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--seconds", type=float, help="lives until so much time has passed")
    parser.add_argument("--lives", type=int, help="so many lives")
    parser.add_argument("--life", type=int, help="this one life only")
    parser.add_argument("--waves", type=int, default=1, help="waves of clients in a life")
    parser.add_argument("--only", type=lambda text: {int(n) for n in text.split(",")}, default=None)
    parser.add_argument("--theme", choices=THEMES)
    parser.add_argument("--debug", action="store_true", help="sluice logs at level debug")
    parser.add_argument("--no-reload", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a failed life")
    return parser.parse_args()


def lives(options):
    """The numbers of the lives to live."""
    if options.life is not None:
        return [options.life]
    if not options.seconds:
        few = random.Random(options.seed).sample(range(len(CHECK_LIVES)), 2)
        return range(options.lives or len(CHECK_LIVES)) if options.lives or IS_LONG else sorted(few)
    end = time.monotonic() + options.seconds
    return itertools.takewhile(lambda _: time.monotonic() < end, itertools.count())


def live(options, number):
    report = Report()
    theme = THEMES[options.theme or CHECK_LIVES[number % len(CHECK_LIVES)]]
    folder = tempfile.mkdtemp(prefix="sluice-chaos-")
    life = Life(folder, options.seed, number, theme, options.waves, options.only, options.debug,
                not options.no_reload)
    began = time.monotonic()
    asyncio.run(life.run())
    text = (f"{theme.name}, workers = {life.sluice.workers}: {life.connections} clients, {len(life.sent_at)} "
            f"requests, {life.reloads} reloads, {life.stops} stops, {life.deaths} deaths, "
            f"{[size // 1024 for size in life.resident]} KiB, {len(life.starved)} times starved, {time.monotonic() - began:.1f} s")
    diagnostics = ""
    if life.failures:
        log = life.sluice.log()
        diagnostics = (f"again: --seed {options.seed} --life {number} --waves {options.waves}\n"
                       + "\n".join(life.failures[:6])
                       + f"\n--- {life.sluice.ini_path}\n{life.sluice.ini()}\n--- the end of its log\n{log[-4000:]}")
        if options.keep:
            with open(os.path.join(folder, "error.log"), "w", encoding="utf-8") as out:
                out.write(log)
            report.note(f"kept: {folder}")
    report.point(not life.failures, f"life {number}, {theme.name}", diagnostics)
    report.note(text)
    if not (life.failures and options.keep):
        shutil.rmtree(folder, ignore_errors=True)
    report.took(f"life {number}, {theme.name}", time.monotonic() - began)
    return not report.failed


def main():
    options = arguments()
    report = Report()
    report.note(f"seed {options.seed} (--seed or SLUICE_E2E_SEED), {process.describe()}")
    beside.run(report, ((f"life {number}", functools.partial(live, options, number)) for number in lives(options)),
               in_turn=bool(options.seconds))
    report.end()
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
