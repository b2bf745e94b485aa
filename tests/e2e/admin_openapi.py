#!/usr/bin/env python3
"""The OpenAPI document of the admin interface describes all of it, and what checks it sees mistakes.

All other tests of the interface hold each request and response against the document, too (lib/admin.py).
"""
import json
import os
import re

from lib.admin import DOCUMENT, with_admin
from lib.openapi import SOURCE, Document, Mismatch
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.websocket import open_socket, server

METHODS = ("get", "put", "post", "patch", "delete")
SECTIONS = ("[limit burst]\nkey = header:X-Key\nrate = 2 per 1h\n[plans]\nkey = header:X-Key\n"
            "[plan gold]\nlimits = burst\n")


def operations():
    return {(path, method.upper()) for path, item in DOCUMENT.root["paths"].items() for method in item if method in METHODS}


@test("it has every endpoint of the server, and no other")
def endpoints(t):
    with open(os.path.join(os.path.dirname(SOURCE), "../proxy/admin/serve.c"), encoding="utf-8") as source:
        rows = re.findall(r'{"([A-Z]+)", (API )?"([^"]+)"', source.read())
    true(len(rows) > 20, rows)
    served = {(method, ("/api/v1/" if api else "") + path) for method, api, path in rows}
    # A path of the server that ends with '/' has what follows behind it.
    written = set()
    for path, method in operations():
        fits = [one for one in served if one[0] == method and
                (one[1] == path or one[1].endswith("/") and one[1] != "/" and path.startswith(one[1]))]
        true(fits, f"{method} {path} is not served")
        written.update(fits)
    equal(served - written, set(), "served and not in the document")


def ask_sockets(t, sluice, admin):
    open_socket(t, sluice, target="/sockets")
    until(lambda: admin.json("/api/v1/sockets?type=sockets&min_age=0&count=5")[1]["sockets"], "it is listed")
    id = admin.json("/api/v1/sockets")[1]["sockets"][0]["id"]
    equal(admin.ask(f"/api/v1/sockets/{id}")[0], 200)
    for path, body in ((f"{id}/post", {"text": "a"}), ("all/send?type=sockets&wait=sent&timeout=5s", {"binary": "YQ=="}),
                       (f"{id}/close", {"code": 4000, "reason": "x"}), (f"{id}/abort", None)):
        content = b"" if body is None else json.dumps(body).encode()
        equal(admin.ask("/api/v1/sockets/" + path, "POST", body=content)[0], 200, path)


@group("each operation of it is answered as it says")
def answers(t):
    os.mkdir(t.path("state"))
    origin = t.origin(server())
    sockets = "[route sockets]\npath = /sockets\nupstream = origin\nwebsocket = messages\n"
    sockets += "[fleet]\nstore = redis://127.0.0.1:1\n"  # where nothing listens
    sluice, admin = with_admin(t, SECTIONS + to(origin, route="limits = plan, burst\nsession = header:X-Key") + sockets,
                               settings=f"state = {t.path('state')}\nusage = 1s")
    client = t.client(sluice)
    for _ in range(3):
        client.ask("/", fields=[("X-Key", "ann")])
    DOCUMENT.seen.clear()
    hash = admin.json("/api/v1/callers?limit=burst&sort=admitted&count=5")[1]["callers"][0]["caller"]
    for path in ("/", "/dashboard/dashboard.css", "/healthz", "/readyz", "/metrics", "/api/v1/status", "/api/v1/fleet", "/api/v1/config", "/api/v1/limits",
                 "/api/v1/limits/burst", "/api/v1/callers?key=ann", f"/api/v1/callers/{hash}", "/api/v1/upstreams",
                 "/api/v1/explain?path=/&field.X-Key=ann&address=192.0.2.1&method=POST&host=a.test",
                 "/api/v1/explain?path=//", "/api/v1/explain?route=origin&field.X-Key=ann"):
        equal(admin.ask(path)[0], 200, path)
        equal(admin.ask(path, "HEAD")[0], 200, path)
    calls = [("PATCH", "limits/burst", {"rate": "3 per 1h", "mode": None}, 200),
             ("DELETE", "callers?key=ann&limit=burst", None, 200), ("DELETE", f"callers/{hash}", None, 200),
             ("PUT", f"callers/{hash}/override", {"deny": True, "for": 5}, 200),
             ("PUT", f"callers/{hash}/override", {"plan": "gold", "for": "1h"}, 200),
             ("DELETE", f"callers/{hash}/override", None, 200),
             ("PUT", "keys/ann", {"plan": "gold"}, 201), ("GET", "keys/ann", None, 200),
             ("PUT", "keys/ann", {"revoked": True, "hashed": True}, 201), ("DELETE", "keys/ann", None, 200),
             ("POST", f"upstreams/origin/servers/{origin}/drain", None, 200),
             ("POST", f"upstreams/origin/servers/{origin}/enable", None, 200),
             ("PUT", f"upstreams/origin/servers/{origin}/weight", {"weight": 3}, 200),
             ("PUT", f"upstreams/origin/servers/{origin}/weight", {"weight": None}, 200),
             ("POST", "publish", {"items": [{"channel": "x", "formats": {"ws-message": {"content": "y"}}}]}, 200),
             ("POST", "reload", None, 200), ("PUT", "log-level", {"level": "warn"}, 200)]
    for method, path, body, status in calls:
        content = b"" if body is None else json.dumps(body).encode()
        equal(admin.ask("/api/v1/" + path, method, body=content)[0], status, f"{method} {path}")
    client.ask("/", fields=[("X-Key", "bob")])
    sessions = admin.json("/api/v1/sessions?count=10")[1]["sessions"]
    equal(admin.ask(f"/api/v1/sessions/{'0' * 32}")[0], 404)
    if sessions:
        equal(admin.ask(f"/api/v1/sessions/{sessions[0]['id']}/close", "POST")[0], 200)
    ask_sockets(t, sluice, admin)
    equal(admin.ask("/api/v1/usage")[0], 200)
    with admin.events() as events:
        true(events.next() is not None, "an event")
    seen = {(path, method) for path, method, status in DOCUMENT.seen if status < 300}
    missing = operations() - seen
    equal(missing - {("/api/v1/sessions/{id}", "GET"), ("/api/v1/sessions/{id}/{operation}", "POST")}, set(), "operations that nobody asked for")


@test("what checks it refuses what the document does not allow")
def mistakes(t):
    document = Document()
    media = {"content-type": "application/json"}
    status = {"version": "1", "configuration": "/x", "pid": 1, "started": "2026-01-01T00:00:00Z", "uptime_ms": 1,
              "workers": 1, "client_connections": 0, "draining": False, "certificates": [],
              "queue": {"sessions": 0, "idle_sessions": 0, "queued": 0, "queued_bytes": 0, "in_flight": 0}}

    def call(answer, method="GET", target="/api/v1/status", body=b"", code=200, fields=media):
        document.check_call(method, target, body, code, fields, json.dumps(answer).encode())

    def refused(**more):
        try:
            call(**more)
        except Mismatch:
            return
        raise AssertionError(f"taken: {more}")

    call(status)
    for name in status:
        refused(answer={key: value for key, value in status.items() if key != name})
    refused(answer={**status, "more": 1})
    for name, value in (("pid", "1"), ("pid", -1), ("pid", 1.5), ("pid", True), ("draining", 0), ("version", None),
                        ("queue", []), ("queue", {**status["queue"], "queued": None})):
        refused(answer={**status, name: value})
    refused(answer=status, code=299)
    refused(answer=status, fields={"content-type": "text/html"})
    refused(answer=status, target="/api/v1/other")
    problem = {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "x"}
    errors = {"content-type": "application/problem+json"}
    call(problem, target="/api/v1/other", code=404, fields=errors)
    refused(answer=problem, target="/api/v1/other", code=404)
    refused(answer={**problem, "status": 200}, target="/api/v1/other", code=404, fields=errors)
    call({"mode": "enabled"}, "POST", "/api/v1/upstreams/u/servers/1.2.3.4:5/enable")
    refused(answer={"mode": "off"}, method="POST", target="/api/v1/upstreams/u/servers/1.2.3.4:5/enable")
    good = {"level": "warn", "persists": False, "detail": "x"}
    call(good, "PUT", "/api/v1/log-level", b'{"level": "warn"}')
    for body in (b'{"level": "loud"}', b"{}", b'{"level": "warn", "more": 1}', b"[]"):
        refused(answer=good, method="PUT", target="/api/v1/log-level", body=body)
    empty = {"sort": "admitted", "span_ms": 0, "callers": []}
    call(empty, target="/api/v1/callers?sort=refused&count=384")
    for query in ("sort=name", "count=0", "count=385", "colour=1"):
        refused(answer=empty, target=f"/api/v1/callers?{query}")
    refused(answer={}, target="/api/v1/callers")
    refused(answer={"key": "a", "reset": []}, method="DELETE", target="/api/v1/callers?limit=x")


main()
