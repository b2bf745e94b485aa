#!/usr/bin/env python3
"""Tries the rule by which the bench judges latencies, on rounds of which the answer is known. Prints TAP."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from benchlib import latency, report  # noqa: E402


def one(p99_us, count=1000):
    """A round in which 5 % of the requests take so long and the others a tenth of it."""
    slow = count // 20
    return {"p99_us": p99_us, "latencies": [[p99_us * 100, count - slow], [p99_us * 1000, slow]]}


def rounds(*p99s_us):
    return [one(p99) for p99 in p99s_us]


def judged(**figures):
    """The row of the latency in the table of targets."""
    return next(row for row in report.judge(report.Results({"latency": figures}), {"latency"}))


def checks():
    calm = rounds(100, 101, 102, 103, 104)
    slower = rounds(200, 201, 202, 203, 204)
    noisy = rounds(60, 80, 150, 300, 500)

    yield "below in each round: met", judged(sluice=calm, nginx=slower)["verdict"] == "met"
    yield "above in each round: missed", judged(sluice=slower, nginx=calm)["verdict"] == "MISSED"
    # The slowest 1 % of 5,000 are the 50 slow ones of the last round; the p99 is the largest of the others.
    yield "the ratio is that of all requests", judged(sluice=calm, nginx=slower)["value"] == 103 / 203
    yield "the same rounds: unsure", judged(sluice=calm, nginx=calm)["verdict"] == "unsure"
    yield "noise larger than the difference: unsure", judged(sluice=noisy, nginx=slower)["verdict"] == "unsure"
    yield "and it says why", any("overlap" in why for why in judged(sluice=noisy, nginx=slower)["why"])
    yield "three rounds tell nothing", judged(sluice=calm[:3], nginx=slower[:3])["verdict"] == "unsure"
    yield "no rival, no figure", judged(sluice=calm)["verdict"] == "not measured"

    # Ratios of the rounds have a median of 0.79, while the median of the p99s is 1.46 times the other's.
    mine, other = rounds(39, 79, 146, 300, 300), rounds(50, 100, 200, 90, 110)
    both = judged(sluice=mine, nginx=other)
    yield "0.79 in the median round, 1.46 between the medians: unsure", both["verdict"] == "unsure"
    yield "both ratios are reported", "2.727 x nginx over all requests, 0.790 in the median round" in both["why"]

    # One round that stood still: it has a thirtieth of the requests, all of them slow.
    stood = rounds(*[100] * 29) + [{"p99_us": 9000, "latencies": [[9000000, 1000]]}]
    yield "a round that stood still counts over all requests", latency.pooled_us((r["latencies"] for r in stood), 99) == 9000
    yield "and then it is unsure", judged(sluice=stood, nginx=rounds(*[200] * 30))["verdict"] == "unsure"

    yield "below one rival, above the other: missed", judged(sluice=calm, haproxy=rounds(50, 50, 51, 52, 52),
                                                              nginx=slower)["verdict"] == "MISSED"
    yield "below one rival, the other in doubt: unsure", judged(sluice=calm, haproxy=calm, nginx=slower)["verdict"] == "unsure"

    yield "a percentile over two histograms", latency.pooled_us([[[1000, 98], [5000, 1]], [[2000, 1]]], 99) == 2
    yield "the largest", latency.pooled_us([[[1000, 98], [5000, 1]], [[2000, 1]]], 100) == 5
    yield "none of none", latency.pooled_us([], 99) is None
    yield "histograms aren't figures", "latencies" not in report.summarise(calm)


def main():
    failed = number = 0
    for number, (what, passed) in enumerate(checks(), 1):
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {what}", flush=True)
    print(f"1..{number}")
    return 1 if failed else 0


sys.exit(main())
