"""Uploads that are refused, from clients in the field: each receives its 429 or 413, whatever the
body's size. `make uploads` sends the large ones too; SLUICE_E2E_UPLOADS is how many of each."""
import collections
import json
import os
import sys

from lib import process
from lib.peers import curl, find
from lib.sluice import to
from lib.tap import equal, group, main

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")
COUNT = int(os.environ.get("SLUICE_E2E_UPLOADS") or 0)
SIZES = {"1 kB": 1000, "1 MB": 10**6} | ({"20 MB": 20 * 10**6, "100 MB": 10**8} if COUNT else {})
MODES = ("length", "chunked")


class Unavailable(Exception):
    """This client is not installed."""


def run(command, **options):
    status, output = process.run(command, **options)
    if status == 77:
        raise Unavailable
    if status != 0:
        raise AssertionError(f"{command}: {output}")
    return json.loads(output.splitlines()[-1])


def python(name):
    """A Python that has this module, the system's or the one that runs this."""
    for program in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(program):
            try:
                run([program, os.path.join(SCRIPTS, "upload.py"), name, "", "0", "length", "0"])
            except Unavailable:
                continue
            return program
    raise Unavailable


def python_client(name):
    def make(t):
        program = python(name)
        return lambda url, size, mode, count: run(
            [program, os.path.join(SCRIPTS, "upload.py"), name, url, str(size), mode, str(count)])
    return make


def go_client(t):
    if not find("go"):
        raise Unavailable
    status, output = process.run([find("go"), "build", "-o", t.path("upload"), os.path.join(SCRIPTS, "upload.go")],
                                 environment={"GO111MODULE": "off"})
    equal((status, output), (0, ""), "go build")
    return lambda url, size, mode, count: run([t.path("upload"), url, str(size), mode, str(count)])


def node_client(t):
    if not find("node"):
        raise Unavailable
    return lambda url, size, mode, count: run(
        [find("node"), "--no-warnings", os.path.join(SCRIPTS, "upload.mjs"), url, str(size), mode, str(count)])


def curl_client(*options):
    def make(t):
        if not find("curl"):
            raise Unavailable

        def ask(url, size, mode, count):
            with open(t.path("body"), "wb") as body:
                body.truncate(size)
            coding = ["-H", "Transfer-Encoding: chunked"] if mode == "chunked" else []
            outcomes = []
            for _ in range(count):
                status, output = curl("-o", t.path("answer"), "-w", "%{http_code}", "-X", "POST", "-T", t.path("body"),
                                      *coding, *options, url)
                outcomes.append(int(output) if status == 0 else output)
            return outcomes
        return ask
    return make


CLIENTS = {"urllib": python_client("urllib"), "requests": python_client("requests"),
           "httpx": python_client("httpx"), "aiohttp": python_client("aiohttp"),
           "Go": go_client, "node fetch": node_client, "curl": curl_client(),
           "curl without Expect": curl_client("-H", "Expect:")}


@group("refused uploads from real clients", workers=[2])
def uploads(t):
    origin = t.origin()
    sluice = t.sluice(
        "[limit none]\nrate = 1 per 1h\n[upstream origin]\nserver = " + origin.address +
        "\n[route limited]\npath = /429\nupstream = origin\nlimits = none\n"
        "[route short]\npath = /413\nupstream = origin\nmax_body_size = 500\n")
    equal(t.client(sluice).ask("/429").status, 200, "status of the first")
    table = [f"{'client':<20} {'body':>6} {'by':<8} {'429':>9} {'413':>9}"]
    for name, make in CLIENTS.items():
        try:
            upload = make(t)
        except Unavailable:
            with t.point(f"{name}: every answer arrives"):
                t.skip(f"{name} is not installed")
            continue
        with t.point(f"{name}: every answer arrives"):
            wrong = []
            for title, size in SIZES.items():
                for mode in MODES:
                    cells = []
                    for status in (429, 413):
                        count = COUNT or 2
                        outcomes = upload(f"http://{sluice.address}/{status}", size, mode, count)
                        cells.append(f"{outcomes.count(status)} of {count}")
                        for other, times in collections.Counter(map(str, outcomes)).items():
                            if other != str(status):
                                wrong.append(f"{title} by {mode}, {status} expected: {times} times {other}")
                    table.append(f"{name:<20} {title:>6} {mode:<8} {cells[0]:>9} {cells[1]:>9}")
            equal(wrong, [], "answers")
    t.note("\n".join(table))


main()
