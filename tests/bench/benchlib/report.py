"""From figures to the table and the targets."""
import statistics

from . import latency

RIVALS = ("haproxy", "nginx")

# Figures that are counted over the requests of all rounds: percentile, and where their histogram is.
POOLED = {"p50_us": (50, "latencies"), "p99_us": (99, "latencies"), "p999_us": (99.9, "latencies"),
          "p50_us_same": (50, "latencies_same"), "p99_us_same": (99, "latencies_same"),
          "p99_us_relay": (99, "latencies_relay")}


def numbers(figure):
    """A round's figure without its histograms."""
    return {key: value for key, value in figure.items() if not isinstance(value, list)}


def overall(rounds, key):
    """A figure over all rounds: of all their requests together where they were kept, else the median."""
    percent, histogram = POOLED.get(key, (None, None))
    if any(histogram in figure for figure in rounds or []):
        return latency.pooled_us((figure[histogram] for figure in rounds if histogram in figure), percent)
    return median(rounds, key)


def median(rounds, key):
    """The median of a figure over the rounds, or None when it was not measured."""
    values = [figure[key] for figure in rounds or [] if key in figure]
    return statistics.median(values) if values else None


def summarise(rounds):
    """Median and extremes of every figure, and what it is over all requests."""
    keys = sorted({key for figure in rounds for key in numbers(figure)})
    return {key: {"median": median(rounds, key), "min": min(f[key] for f in rounds if key in f),
                  "max": max(f[key] for f in rounds if key in f),
                  **({"pooled": overall(rounds, key)} if key in POOLED else {})} for key in keys}


class Results:
    """{scenario: {subject: [figure of a round]}}"""

    def __init__(self, figures):
        self.figures = figures

    def value(self, scenario, subject, key):
        return median(self.figures.get(scenario, {}).get(subject), key)

    def ratio(self, scenario, key, against):
        """sluice's figure over another's, or None. A ratio of each round, then the median: what slows a whole round cancels."""
        mine = self.figures.get(scenario, {}).get("sluice", [])
        if against == "best":
            rivals = [rival for rival in RIVALS if self.value(scenario, rival, key) is not None]
            ratios = [self.ratio(scenario, key, rival) for rival in rivals]
            return max((ratio for ratio in ratios if ratio is not None), default=None)
        other = self.figures.get(scenario, {}).get(against, [])
        pairs = [(a[key], b[key]) for a, b in zip(mine, other) if a.get(key) is not None and b.get(key)]
        return statistics.median(a / b for a, b in pairs) if pairs else None

    def latencies(self, scenario, bound):
        """The Finding on "sluice's p99 is below `bound` times that of each rival": the worst of them, or None."""
        rounds_of = self.figures.get(scenario, {})
        findings = [latency.compare(rounds_of["sluice"], rounds_of[rival], rival, bound)
                    for rival in RIVALS if rounds_of.get(rival) and rounds_of.get("sluice")]
        worst = (True, None, False)
        return max(findings, key=lambda finding: (worst.index(finding.holds), finding.value), default=None)


# (scenario, what, how to get the value or the Finding, relation, bound). A value is good at or below the bound, or strictly
# below for "<", or at or above for ">="; a Finding is judged already.
def _to(against, scenario, key="cpu_us"):
    return lambda results: results.ratio(scenario, key, against)


def _own(scenario, key):
    return lambda results: results.value(scenario, "sluice", key)


TARGETS = [
    ("1k", "x relay", _to("relay", "1k"), "<=", 1.10),
    ("1k", "x the better of HAProxy and nginx", _to("best", "1k"), "<", 1.0),
    ("refused", "x the better of HAProxy and nginx", _to("best", "refused"), "<=", 0.85),
    ("callers", "x relay", _to("relay", "callers"), "<=", 1.10),
    ("callers", "x the better of HAProxy and nginx", _to("best", "callers"), "<", 1.0),
    ("64k", "x relay", _to("relay", "64k"), "<=", 1.05),
    ("post", "x relay", _to("relay", "post"), "<=", 1.10),
    ("connections", "256 connections x its own 32", _own("connections", "growth_middle"), "<=", 1.05),
    ("connections", "1,000 connections x its own 32", _own("connections", "growth_many"), "<=", 1.05),
    ("connections", "10,000 idle beside x its own 32", _own("connections", "growth_idle"), "<=", 1.05),
    ("close", "x the better of HAProxy and nginx", _to("best", "close"), "<", 1.0),
    ("pipeline", "x the better of HAProxy and nginx", _to("best", "pipeline"), "<=", 0.5),
    ("latency", "p99 x the better of HAProxy and nginx", lambda results: results.latencies("latency", 1.0), "<", 1.0),
    ("workers", "requests of two x those of one", _own("workers", "scaling"), ">=", 1.8),
    ("workers", "CPU a request of two x that of one", _own("workers", "cpu_growth"), "<=", 1.05),
    ("memory", "idle x HAProxy", _to("haproxy", "memory", "idle_bytes"), "<", 1.0),
    ("memory", "bytes for each idle connection", _own("memory", "connection_bytes"), "<=", 2048),
    ("memory", "bytes for each caller", _own("memory", "caller_bytes"), "<=", 128),
]

# What each scenario's table shows: key, heading, format.
COLUMNS = {
    "connections": [("cpu_us", "us, 32", ".2f"), ("cpu_us_middle", "us, 256", ".2f"), ("cpu_us_many", "us, 1,000", ".2f"),
                    ("cpu_us_idle", "us, idle", ".2f"), ("growth_middle", "256 / 32", ".3f"),
                    ("growth_many", "1,000 / 32", ".3f"), ("growth_idle", "idle / 32", ".3f")],
    "latency": [("saturation", "saturation/s", ",.0f"), ("p50_us", "p50 us", ".0f"), ("p99_us", "p99 us", ".0f"),
                ("p999_us", "p99.9 us", ".0f"), ("p99_us_relay", "relay there", ".0f"), ("same_rate", "same rate/s", ",.0f"),
                ("p99_us_same", "p99 us there", ".0f")],
    "workers": [("rate_one", "one/s", ",.0f"), ("rate_two", "two/s", ",.0f"), ("scaling", "two / one", ".3f"),
                ("cpu_us_one", "us, one", ".2f"), ("cpu_us_two", "us, two", ".2f")],
    "memory": [("idle_bytes", "idle B", ",.0f"), ("warm_bytes", "warm B", ",.0f"),
               ("connection_bytes", "B/idle conn", ",.0f"), ("caller_bytes", "B/caller", ",.1f")],
}
DEFAULT_COLUMNS = [("cpu_us", "us/request", ".2f"), ("rate", "requests/s", ",.0f"), ("busy", "processor", ".2f")]

# Where the spread is not that of the first column: key, heading. It is the middle half of the rounds then.
SPREAD_OF = {"latency": ("p99_us", "p99 of rounds")}


def scenario_table(scenario, rounds_of, skipped, note=""):
    """The table of one scenario as text. The note says what was not as its title has it."""
    columns = COLUMNS.get(scenario.name, DEFAULT_COLUMNS)
    spread_key, spread_heading = SPREAD_OF.get(scenario.name, (columns[0][0], "spread"))
    spread = _middle_half if scenario.name in SPREAD_OF else _spread
    lines = [f"{scenario.title}  [{scenario.name}]",
             "  " + "subject".ljust(10) + "".join(f"{heading:>14}" for _, heading, _ in columns)
             + f"{spread_heading:>15}{'errors':>9}"]
    for name, rounds in rounds_of.items():
        cells = "".join(_cell(overall(rounds, key), form) for key, _, form in columns)
        lines.append("  " + name.ljust(10) + cells + f"{spread(rounds, spread_key):>15}{_errors(rounds):>9}")
    lines += [f"  {name.ljust(10)}skipped: {why}" for name, why in skipped.items()]
    if note:
        lines.append(f"  {note}")
    return "\n".join(lines)


def _cell(value, form):
    return f"{'-':>14}" if value is None else f"{format(value, form):>14}"


def _spread(rounds, key):
    """Half the distance between the extremes, as a part of the median: how far to trust the figure."""
    values = [figure[key] for figure in rounds if key in figure]
    middle = statistics.median(values) if values else 0
    return f"+-{100 * (max(values) - min(values)) / 2 / middle:.1f} %" if middle else "-"


def _middle_half(rounds, key):
    """From the first to the third quartile: the extremes of many short rounds say little."""
    lower, upper = latency.middle_half([figure[key] for figure in rounds])
    return f"{lower:.0f}..{upper:.0f}"


def _errors(rounds):
    worst = max(figure.get("errors", 0) for figure in rounds)
    return f"{100 * worst:.2f} %" + ("!" if worst > 0.001 else "")


def judge(results, ran):
    """Each target of the scenarios that ran: value, verdict, and why where that takes words."""
    words = {None: "unsure", True: "met", False: "MISSED"}
    judged = []
    for scenario, what, value_of, relation, bound in TARGETS:
        if scenario not in ran:
            continue
        found = value_of(results)
        if found is not None and not isinstance(found, latency.Finding):
            holds = {"<=": found <= bound, "<": found < bound, ">=": found >= bound}[relation]
            found = latency.Finding(found, holds, ())
        judged.append({"scenario": scenario, "what": what, "value": found and found.value, "relation": relation,
                       "bound": bound, "verdict": words[found.holds] if found else "not measured",
                       "why": found.why if found else ()})
    return judged


def targets_table(judged):
    """The targets as text."""
    lines = ["targets (sluice)", f"  {'work':<13}{'figure':<40}{'is':>10}  {'to reach':<12}"]
    for one in judged:
        value = "-" if one["value"] is None else f"{one['value']:.3f}" if one["value"] < 100 else f"{one['value']:,.0f}"
        lines.append(f"  {one['scenario']:<13}{one['what']:<40}{value:>10}  {one['relation']} {one['bound']:<9g} {one['verdict']}")
        lines += [f"  {'':<13}{why}" for why in one["why"]]
    return "\n".join(lines)
