#!/usr/bin/env python3
"""A reader who follows the tutorial and the README gets what they say."""
import os
import re
import shutil

from lib.admin import with_admin
from lib.document import Follower, alike, commands_of
from lib.tap import equal, main, test, true

TOP = os.environ.get("top_srcdir") or os.path.join(os.path.dirname(__file__), "../..")


@test("each block of the tutorial does what the text says, in order", workers=[1])
def tutorial(t):
    if not shutil.which("curl"):
        t.skip("curl is not installed")
    count = Follower(t, os.path.join(TOP, "docs/tutorial.md"), (8080, 8081, 9000)).follow()
    true(count >= 20, f"{count} commands")


@test("the README's first command serves, and its 429 is the demo's", workers=[1])
def readme(t):
    page = os.path.join(TOP, "README.md")
    follower = Follower(t, page, (8080, 8081, 9000))
    true(follower.follow() == 1, "one command")
    with open(page, encoding="utf-8") as text:
        quoted = re.search(r"(?s)<!-- response of the demo -->\n```\n(.*?)```", text.read())[1]
    with open(os.path.join(TOP, "etc/sluice-demo.ini"), encoding="utf-8") as demo:
        limit = re.search(r"(?ms)^\[limit.*", demo.read())[0]
    sluice = t.sluice(f"[upstream account]\nserver = {t.origin(lambda x: x.reply(200))}\n{limit}")
    client = t.client(sluice)
    for _ in range(5):
        equal(client.ask("/account").status, 200, "status")
    refused = client.ask("/account")
    shown = [f"HTTP/1.1 {refused.status} {refused.reason}", *(f"{name}: {value}" for name, value in refused.fields), "",
             refused.body.decode()]
    lines = [alike(line) for line in shown]
    for line in quoted.strip().splitlines():
        true(alike(line) in lines, f"{line!r} is not in the response:\n" + "\n".join(shown))


@test("what the page for operators quotes is what a refused request leaves", workers=[1])
def operators(t):
    page = os.path.join(TOP, "docs/operate.md")
    with open(page, encoding="utf-8") as text:
        text = text.read()
    sluice, _ = with_admin(t, f"[upstream account]\nserver = {t.origin(lambda x: x.reply(200))}\n"
                           "[limit burst]\nkey = header:X-Api-Key\nrate = 5 per 1m\n"
                           "[route account]\nupstream = account\nlimits = burst\n", settings="access_log = stdout")
    client = t.client(sluice)
    statuses = [client.ask("/account", fields=[("X-Api-Key", "ann"), ("User-Agent", "curl/7.88.1")]).status
                for _ in range(7)]
    equal(statuses, [200] * 5 + [429] * 2, "statuses")
    follower = Follower(t, page, {})
    for command, quoted in commands_of(re.search(r"(?ms)^```console\n(.*?)^```", text)[1]):
        follower.run(f"{command} -c {sluice.ini_path}", quoted)
    quoted = re.search(r"(?m)^127\.0\.0\.1 - - .*", text)[0]
    found = sluice.process.wait_output("verdict=refuse")
    equal(alike(found).replace("limit=burst", "limit=demo"), alike(quoted), "line of the access log")


main()
