#!/usr/bin/env python3
"""What is in etc/ for monitoring names metrics and labels that a running sluice has; and Prometheus'
own tool takes rules and configuration."""
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import process
from lib.client import Client
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, test, true

ETC = os.path.join(os.environ.get("top_srcdir", "."), "etc")
RULES = os.path.join(ETC, "prometheus", "sluice.rules.yml")
DASHBOARD = os.path.join(ETC, "grafana", "sluice.json")
# Labels that Prometheus adds.
ADDED = {"instance", "job", "le"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def expressions():
    """(where, expression) of each query."""
    dashboard = json.loads(read(DASHBOARD))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for text in re.findall(r"expr: (?:\|\n((?: {10,}.*\n)+)|(.*)\n)", read(RULES)):
        yield "a rule", "".join(text)


@test("each metric and label that the dashboard and the rules name is there", workers=[2])
def names(t):
    path = t.path("admin.sock")
    sections = (f"[admin]\nbind = unix:{path}\n[limit l]\nkey = ip\nrate = 1 per 1h\n" +
                to(t.origin(), route="limits = l"))
    sluice = t.sluice(sections)
    client = t.client(sluice)
    equal([client.ask("/").status for _ in range(2)], [200, 429], "statuses")
    sluice.process.wait_output("sluice is ready")
    text = t.client(f"unix:{path}").ask("/metrics").body.decode()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    labels = {}
    for name, inside in re.findall(r"^(sluice_\w+)(?:\{(.*)\})? ", text, re.M):
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', inside))
    wrong, seen = [], 0
    for where, expression in expressions():
        for name, inside in re.findall(r"\b(sluice_\w+)(?:\{([^}]*)\})?", expression):
            seen += 1
            if name not in labels:
                wrong.append(f"{where}: no metric {name}")
                continue
            used = set(re.findall(r'(\w+)\s*(?:=|!)', inside))
            wrong += [f"{where}: {name} has no label {label}" for label in used - labels[name] - ADDED]
        for grouping in re.findall(r"by \(([^)]*)\)", expression):
            known = ADDED.union(*(labels.get(name, set()) for name in re.findall(r"\bsluice_\w+", expression)))
            wrong += [f"{where}: nothing has the label {label}" for label in
                      set(re.split(r",\s*", grouping)) - known]
    equal(wrong, [], "names")
    true(seen > 30, f"only {seen} were looked at")
    true(types, "no metrics")


@group("promtool takes what is in etc/prometheus", workers=[1])
def promtool(t):
    tool = shutil.which("promtool")
    if not tool:
        t.skip("no promtool")
    folder = os.path.join(ETC, "prometheus")
    with t.point("check rules"):
        status, output = process.run([tool, "check", "rules", RULES])
        equal(status, 0, output)
    with t.point("test rules"):
        status, output = process.run([tool, "test", "rules", os.path.join(folder, "sluice.rules.test.yml")])
        equal(status, 0, output)
    with t.point("check config"):
        status, output = process.run([tool, "check", "config", "--syntax-only", os.path.join(folder, "prometheus.yml")])
        equal(status, 0, output)


@test("the dashboard is one: ids and places of panels are their own", workers=[1])
def dashboard(t):
    panels = json.loads(read(DASHBOARD))["panels"]
    equal(len({panel["id"] for panel in panels}), len(panels), "ids")
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        true(place["x"] + place["w"] <= 24, f"{panel['title']} is too wide")
        true(not cells & taken, f"{panel['title']} lies on another")
        taken |= cells


main()
