"""Which of two latencies is the lower: over all rounds together, and beside what differs from round to round.

The p99 of one round is that of a few hundred requests, and a machine that others share moves it more than any program does.
So two things are asked, and it is settled only where both say the same and the rounds lie apart:

- the p99 of all requests of all rounds (a bad round counts as much as it has slow requests),
- the median of each round's ratio (what slows a whole round cancels).
"""
import collections
import dataclasses
import statistics

LEAST_ROUNDS = 4  # fewer have no middle half


@dataclasses.dataclass(frozen=True)
class Finding:
    """A figure, whether it is as it should be (None: these rounds can't tell), and why, in lines."""

    value: float
    holds: bool | None
    why: tuple


def pooled_us(histograms, percent):
    """The percentile of all that was counted in [[nanoseconds, how often], ...], in microseconds; None when nothing was."""
    counts = collections.Counter()
    for histogram in histograms:
        for nanoseconds, count in histogram:
            counts[nanoseconds] += count
    wanted, seen = counts.total() * percent / 100, 0
    for nanoseconds in sorted(counts):
        seen += counts[nanoseconds]
        if seen >= wanted:
            return nanoseconds / 1000
    return None


def middle_half(values):
    """The first and the third quartile."""
    if len(values) < 2:
        return values[0], values[0]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


def compare(mine, other, other_name, bound):
    """The Finding on "sluice's p99 is below `bound` times the other's". A round is {"p99_us": ..., "latencies": histogram}."""
    pooled = pooled_us((r["latencies"] for r in mine), 99) / pooled_us((r["latencies"] for r in other), 99)
    by_round = statistics.median(a["p99_us"] / b["p99_us"] for a, b in zip(mine, other))
    (low, high), (other_low, other_high) = (middle_half([r["p99_us"] for r in rounds]) for rounds in (mine, other))
    why = [f"{pooled:.3f} x {other_name} over all requests, {by_round:.3f} in the median round",
           f"middle half of the rounds: sluice {low:.0f}..{high:.0f} us, {other_name} {other_low:.0f}..{other_high:.0f} us"]
    holds = pooled < bound
    if min(len(mine), len(other)) < LEAST_ROUNDS:
        holds = None
        why.append(f"unsure: fewer than {LEAST_ROUNDS} rounds")
    elif low <= bound * other_high and bound * other_low <= high:
        holds = None
        why.append("unsure: these overlap, so the rounds differ by more than the two do")
    elif (by_round < bound) != holds:
        holds = None
        why.append("unsure: all requests and the median round do not say the same")
    return Finding(pooled, holds, tuple(why))
