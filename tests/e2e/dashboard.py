#!/usr/bin/env python3
"""The dashboard in a browser: it follows what happens, acts on it, and trusts nothing that it shows.

DASHBOARD_PICTURES=FOLDER keeps pictures of it.
"""
import os
import re
import signal
import threading

from lib import process
from lib.admin import with_admin
from lib.browser import Browser
from lib.client import Client
from lib.sluice import to
from lib.tap import equal, group, main, true

LIMITS = ("[limit burst]\nkey = header:X-Key\nrate = 5 per 1h\n"
          "[limit daily]\nkey = header:X-Key\nrate = 100000 per day\n"
          "[plans]\nkey = header:X-Key\n[plan gold]\ncallers = file:{callers}\nlimits = burst\n")
PICTURES = os.environ.get("DASHBOARD_PICTURES")
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'&"


class Traffic:
    """Requests of a few callers, one after the other, until it is stopped."""

    def __init__(self, t, sluice, keys):
        self.address = sluice.address
        self.keys = keys
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        t.defer(self.stop)

    def run(self):
        client = Client(self.address)
        while not self.stopped.wait(0.01):
            for key in self.keys:
                client.ask("/", fields=[("X-Key", key)])
        client.close()

    def stop(self):
        self.stopped.set()
        self.thread.join()


def start(t, tokens=None, more=""):
    callers = t.file("callers", "someone\n")
    sections = LIMITS.format(callers=callers) + to(t.origin(lambda x: x.reply(200, b"hello")),
                                                   route="limits = plan, burst, daily") + more
    sluice, admin = with_admin(t, sections, tokens=tokens)
    return sluice, admin, f"http://{admin.address}/"


def picture(browser, name):
    if PICTURES:
        browser.picture(os.path.join(PICTURES, name + ".png"), True)


def clean(browser, url):
    """Nothing was asked for elsewhere, and nothing broke a rule of the policy or threw."""
    seen = browser.seen()
    equal([one for one in seen["requests"] if not one.startswith((url, "data:"))], [], "requests elsewhere")
    # The console names a response of 422, too; the page has shown it.
    errors = [one for one in seen["errors"] if "status of 422" not in one]
    equal((errors, seen["dialogs"]), ([], 0), "errors and dialogs")


def do(browser, button, element, pattern):
    """Clicks a button, waits for the dialog's answer and closes it."""
    browser.click(button)
    browser.wait(element, pattern)
    browser.press("Escape")


def sign_in(browser, token):
    browser.type("#token-text", token)
    browser.press("Enter")


def cells(browser, table, column):
    """What a column of a table shows, by the head of the row."""
    return dict(browser.run(f"""[...document.querySelectorAll('#{table} tbody tr')].map((row) =>
        [row.querySelector('th').textContent, row.querySelector('[data-label="{column}"]').textContent])"""))


@group("it follows the traffic and acts on it", workers=[2])
def follows(t):
    sluice, admin, url = start(t)
    browser = Browser(t)
    Traffic(t, sluice, ["ann", "bob"])
    browser.open(url)

    with t.point("live figures: requests, refusals, callers and their windows"):
        browser.wait("#state", "^live$")
        browser.wait("#tiles dd", "^[1-9]")
        browser.wait("#routes tbody th", "^origin$")
        browser.wait("#callers tbody td", "^5 of 5$|^ 5 of 5$")
        browser.wait("#requests-chart b", "^[1-9]")
        browser.wait("#refusals-chart li", "burst")
        equal(browser.count("#requests-chart canvas") + browser.count("#requests-chart .plot > svg"), 1, "pictures of requests")
        true(browser.count("#callers tbody tr") >= 2, "callers")
        equal(browser.text("#upstreams .pill"), "up")
    browser.theme("light")
    picture(browser, "light")

    with t.point("a caller: why it is refused, until it is reset"):
        browser.click("#callers tbody button")
        browser.wait("#why", "burst is used up: the next request is admitted in")
        hash = re.search("[0-9a-f]{16}", browser.text("#dialog-title")).group()
        picture(browser, "caller")
        browser.click("#reset")
        browser.wait("#dialog-message", "^Forgotten: .*burst")

    with t.point("an override, and its end"):
        browser.choose("#override select", "exempt")
        browser.click("#override button[type=submit]")
        browser.wait("#why", "An override exempts it")
        equal(admin.json(f"/api/v1/callers/{hash}")[1]["override"]["kind"], "exempt")
        browser.click("#end-override")
        browser.wait("#override-now", "^None")
        equal(admin.json(f"/api/v1/callers/{hash}")[1]["override"], None)

    with t.point("Escape closes it, and focus is where it was"):
        browser.press("Escape")
        browser.gone("#dialog")
        true(re.fullmatch("[0-9a-f]{16}", browser.focused()), browser.focused())

    with t.point("an edited limit is in force, and shown, at once"):
        browser.run("document.querySelector('[aria-label=\"Edit limit burst\"]').focus()")
        browser.press("Enter")
        browser.wait("#dialog-title", "burst")
        equal(browser.value("#limit-value"), "5 per 1h")
        browser.type("#limit-value", "100000 per 1h")
        browser.press("Enter")
        browser.wait("#dialog-message", "^It is in force")
        equal(admin.json("/api/v1/limits/burst")[1]["amount"], 100000)
        browser.wait("#limits tbody td", "^100000 per 1h \\(changed\\)$")
        browser.wait("#refusals-chart b", "^0$")
        picture(browser, "limit")
        browser.type("#limit-value", "many")
        browser.press("Enter")
        browser.wait("#dialog-message.bad", "rate")
        browser.press("Escape")

    with t.point("an upstream's only server is drained when that is confirmed, and enabled"):
        browser.click("#upstreams button")
        browser.wait("#last-server", "^It is the only server of origin in service. .* 503")
        picture(browser, "last-server")
        browser.press("Escape")
        equal(admin.json("/api/v1/upstreams")[1]["upstreams"][0]["servers"][0]["mode"], "enabled")
        browser.click("#upstreams button")
        do(browser, "#confirm", "#dialog-message", "^It is draining")
        browser.wait("#upstreams .pill", "^draining$")
        do(browser, "#upstreams button", "#dialog-message", "^It is enabled")

    with t.point("a reload brings new limits and keeps the page live"):
        sluice.reload(sluice.sections + "[limit fresh]\nkey = ip\nrate = 7 per 1s\n")
        browser.wait("#limits tbody th", "^fresh$")
        browser.wait("#limits tbody td", "^5 per 1h$")
        equal(browser.text("#state"), "live")

    with t.point("so does a reload of the page, dark, and on a telephone without a scroll to the side"):
        browser.theme("dark")
        browser.reload()
        browser.wait("#routes tbody th", "^origin$")
        browser.wait("#requests-chart b", "^[1-9]")
        equal(browser.run("document.documentElement.dataset.theme"), "dark")
        picture(browser, "dark")
        for theme in ("dark", "light"):
            browser.theme(theme)
            browser.size(390, 844)
            browser.wait("#callers tbody td", "of")
            picture(browser, f"phone-{theme}")
            true(browser.run("document.documentElement.scrollWidth <= innerWidth"), "it scrolls to the side")
        browser.click("#callers tbody button")
        browser.wait("#why", ".")
        true(browser.run("document.querySelector('#dialog').getBoundingClientRect().right <= innerWidth"), "the dialog")
        picture(browser, "phone-caller")
        browser.press("Escape")

    with t.point("a screen reader is given headings, tables with their columns, and no pictures"):
        outline = browser.outline("body")
        for part in ("heading \"Busiest callers\"", "table \"Limits\"", "columnheader \"Refused/s\"",
                     "rowheader \"burst\"", "button \"Edit limit burst\"", "status: live"):
            true(part in outline, f"no {part} in:\n{outline}")
        true("img" not in outline, outline)

    with t.point("no request elsewhere, no error, nothing against the policy"):
        clean(browser, url)


@group("what it shows is never markup", workers=[1])
def hostile(t):
    sluice, _admin, url = start(t)
    client = t.client(sluice)
    for _ in range(7):
        client.ask("/", fields=[("X-Key", HOSTILE)])
    browser = Browser(t)
    browser.open(url)
    browser.wait("#state", "^live$")
    with t.point("a caller's key"):
        browser.type("#find-key", HOSTILE)
        browser.press("Enter")
        browser.wait("#why", "burst is used up")
        equal(browser.text("#dialog-title"), f"Caller {HOSTILE}")
        equal(browser.count("#dialog img") + browser.count("#dialog script"), 0, "elements of it")
    with t.point("a page's own script can't bring markup in, either"):
        answer = browser.run(
            "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'done'; } catch (e) { return String(e); } })()")
        true("TrustedHTML" in answer, answer)
    with t.point("nothing ran"):
        equal(browser.seen()["dialogs"], 0, "dialogs")
    fields = _admin.ask("/")[1]
    with t.point("the policy of the page"):
        policy = fields["content-security-policy"]
        true("default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy, policy)
        page = _admin.ask("/")[2].decode()
        equal(re.findall(r"\son\w+=|\sstyle=|<script>|<style", page), [], "inline scripts and styles")


@group("with tokens it asks for one", workers=[1])
def tokens(t):
    sluice, _admin, url = start(t, tokens="reader read look\nboss write change\n")
    Traffic(t, sluice, ["ann"])
    browser = Browser(t)
    browser.open(url)
    with t.point("a wrong one is refused, a right one is taken"):
        browser.wait("#token-title", "A token is needed")
        sign_in(browser, "guess")
        browser.wait("#token-wrong", "not known")
        sign_in(browser, "look")
        browser.wait("#state", "^live$")
        browser.gone("#token")
    with t.point("it is kept over a reload of the page"):
        browser.reload()
        browser.wait("#state", "^live$")
        browser.wait("#callers tbody button", "[0-9a-f]{16}")
    with t.point("one that may only read says so"):
        browser.click("#callers tbody button")
        browser.wait("#why", ".")
        do(browser, "#reset", "#dialog-message.bad", "may only read")
    with t.point("and can be forgotten"):
        browser.click("#sign-out")
        browser.wait("#token-title", "A token is needed")
        equal(browser.run("sessionStorage.length"), 0, "what is kept")
        sign_in(browser, "change")
        browser.wait("#state", "^live$")


@group("dashboard = off takes it away", workers=[1])
def off(t):
    sluice, admin, _url = start(t)
    with t.point("it is on, for anyone"):
        equal(admin.ask("/")[0], 200)
        equal(admin.ask("/dashboard/dashboard.js")[1]["content-type"], "text/javascript; charset=utf-8")
        equal(admin.ask("/dashboard/other.js")[0], 404)
        equal(admin.ask("/", "POST")[0], 405)
    with t.point("a reload takes it away"):
        sluice.reload(sluice.sections.replace("[admin]", "[admin]\ndashboard = off"))
        sluice.process.wait_output(": reloaded")
        equal((admin.ask("/")[0], admin.ask("/dashboard/dashboard.js")[0], admin.ask("/healthz")[0]), (404, 404, 200))


BUTTONS = """[...document.querySelectorAll('button')].filter((one) => one.checkVisibility())
    .map((one) => one.getAttribute('aria-label') ?? one.textContent)"""
LINES = """[...document.querySelectorAll('#requests-chart .swatch')].map((one) =>
    getComputedStyle(one).color + ' ' + getComputedStyle(one).strokeDasharray)"""


@group("servers: their names, their own figures, and the last in service", workers=[1])
def servers(t):
    origins = [t.origin(lambda x: x.reply(200, b"hello")) for _ in range(3)]
    callers = t.file("callers", "someone\n")
    sluice, admin = with_admin(t, LIMITS.format(callers=callers) +
                               to(*origins, upstream="max_fails = 1\nfail_timeout = 1h\nfail_timeout_max = 1h", route="limits = daily"))
    browser = Browser(t)
    Traffic(t, sluice, ["ann"])
    browser.open(f"http://{admin.address}/")
    browser.wait("#state", "^live$")
    browser.wait("#upstreams tbody th", ":")
    mode = lambda number: {one["address"]: one["mode"] for one in
                           admin.json("/api/v1/upstreams")[1]["upstreams"][0]["servers"]}[str(origins[number])]
    drain = lambda number: f"[aria-label='Drain {origins[number]} of origin']"

    with t.point("no two buttons have one name"):
        browser.click("input[value=admitted]")
        browser.wait("#callers tbody button", "[0-9a-f]{16}")
        names = browser.run(BUTTONS)
        equal(sorted(set(names)), sorted(names), "names of buttons")
    with t.point("one of several is drained at once"):
        do(browser, drain(0), "#dialog-message", "^It is draining")
        browser.wait(f"[aria-label='Enable {origins[0]} of origin']", "Enable")
    with t.point("one that is down has the rate of nobody"):
        origins[1].refuse()
        browser.wait("#upstreams .pill", "^down$")
        browser.run(f"window.down = document.querySelector({drain(1)!r}).closest('tr').querySelector('[data-label=\"Answers/s\"]')")
        process.until(lambda: browser.run("window.down.textContent") == "0", "no answers of it")
        true(any(rate != "0" for rate in cells(browser, "upstreams", "Answers/s").values()), "answers of another")
    with t.point("then the third is the last in service: that is asked about"):
        browser.click(drain(2))
        browser.wait("#last-server", "only server of origin in service")
        browser.press("Escape")
        equal(mode(2), "enabled")
        browser.click(drain(2))
        do(browser, "#confirm", "#dialog-message", "^It is draining")
        equal(mode(2), "draining")
    with t.point("in forced colours the lines of a chart differ"):
        browser.colours("active")
        lines = browser.run(LINES)
        equal((len(lines), len(set(lines)), len({line.split(" ")[-1] for line in lines}) > 1), (3, 3, True), lines)
        picture(browser, "forced")
        browser.colours("none")


@group("figures that come no more are not shown as live", workers=[1])
def stale(t):
    sluice, admin, url = start(t)
    browser = Browser(t)
    browser.open(url)
    look = lambda: browser.run("[document.querySelector('#state').className, getComputedStyle(main).opacity < 1]")
    browser.wait("#state", "^live$")
    equal(look(), ["pill good", False])
    with t.point("of a sluice that hangs"):
        sluice.process.signal(signal.SIGSTOP)
        try:
            browser.wait("#state", "^not responding$")
            equal(look(), ["pill bad", True])
            browser.wait("#age", "^figures of [3-9] s ago$")
            picture(browser, "hung")
        finally:
            sluice.process.signal(signal.SIGCONT)
        browser.wait("#state", "^live$")
        equal((look(), browser.text("#age")), (["pill good", False], ""))
    with t.point("of one that has ended"):
        sluice.terminate()
        equal(sluice.wait(), 0, "exit status")
        browser.wait("#state", "^connection lost$")
        browser.wait("#age", "^figures of [0-9]+ s ago$")
        equal(look(), ["pill bad", True])


main()
