"""Conditions ([match], when) with real requests: they limit, deny, give a plan and route; after a reload, and as
`sluice explain` shows it."""
from lib.admin import with_admin
from lib.sluice import to
from lib.tap import equal, group, main, true

BOTS = """[match bots]
any = header:User-Agent ~ (?i)bot|crawl
any = !header:User-Agent
"""


def agent(name):
    return [("User-Agent", name)]


def statuses(client, count, fields, **options):
    return [client.ask(fields=fields, **options).status for _ in range(count)]


@group("limits for some requests")
def limits(t):
    sections = BOTS + """[match login]
all = method = POST
all = path ^= /login
[limit crawl]
rate = 2 per 1h
when = bots
[limit guesses]
rate = 3 per 1h
when = login
"""
    origin = t.origin()
    sluice = t.sluice(sections + to(origin, route="limits = crawl, guesses"))
    client = t.client(sluice)
    with t.point("people are not limited, bots together with those that say nothing are"):
        equal(statuses(client, 10, agent("Mozilla/5.0")), [200] * 10, "people")
        equal(statuses(client, 1, agent("GoogleBot/2.1")) + statuses(client, 3, []), [200, 200, 429, 429], "bots")
        equal(len(origin.requests), 12, "requests at the origin")
    with t.point("each limit by its own condition; a refusal names that limit alone"):
        answers = [client.ask("/login", "POST", agent("Mozilla"), b"x") for _ in range(4)]
        equal([a.status for a in answers], [200] * 3 + [429], "logins")
        true("guesses" in answers[3].get("RateLimit") and "crawl" not in answers[3].get("RateLimit"), "fields")
        equal(client.ask("/login", fields=agent("Mozilla")).status, 200, "another method")
    with t.point("a request without any limit has no RateLimit fields"):
        equal(client.ask(fields=agent("Mozilla")).all("RateLimit"), [], "fields")
    with t.point("a reload changes the condition and keeps what was used"):
        sluice.reload(sections.replace("any = !header:User-Agent\n", "any = header:X-Robot\n") +
                      to(origin, route="limits = crawl, guesses"))
        sluice.process.wait_output("reloaded")
        client = t.client(sluice)
        equal(statuses(client, 3, []), [200] * 3, "those that say nothing")
        equal(statuses(client, 1, [("X-Robot", "1")]), [429], "bots")


@group("plans, lists and routes by conditions")
def others(t):
    people, crawlers = t.origin(), t.origin()
    sluice = t.sluice(BOTS + """[match evil]
all = query:q = drop table, <script>
[match office]
all = ip in 127.0.0.2/31
[limit slow]
rate = 1 per 1h
[limit fast]
rate = 5 per 1h
[plan bots]
limits = slow
when = bots
[plan default]
limits = fast
""" + to(people, route="limits = plan\nallow = match:office\ndeny = match:evil") + f"""
[upstream crawlers]
server = {crawlers.address}
[route crawlers]
path = /pages
when = bots
upstream = crawlers
[route pages]
path = /pages
upstream = origin
""")
    client = t.client(sluice)
    with t.point("a plan by condition, without any key"):
        equal(statuses(client, 6, agent("Mozilla")), [200] * 5 + [429], "people")
        equal(statuses(client, 2, agent("bot")), [200, 429], "bots")
    with t.point("deny and allow"):
        for target in ("/?q=drop+table", "/?a=1&q=%3Cscript%3E", "/?q=x&q=drop%20table", "/?%71=drop%20table",
                       "/?q[]=drop+table", "/?Q=drop+table", "/?a=1;q=drop+table"):
            equal(client.ask(target, fields=agent("Mozilla")).status, 403, target)
        equal(client.ask("/?q=drop", fields=agent("Mozilla")).status, 429, "another value")
        equal(statuses(t.client(sluice, local="127.0.0.3"), 9, agent("Mozilla")), [200] * 9, "the office")
    with t.point("a route by condition, and the next one for others"):
        equal(client.ask("/pages/1", fields=agent("bot")).status, 200, "a bot's")
        equal(client.ask("/pages/2", fields=agent("Mozilla")).status, 200, "people's")
        equal((crawlers.targets(), people.targets()[-1]), (["/pages/1"], "/pages/2"), "targets")


@group("what cannot be decided")
def undecided(t):
    origin = t.origin()
    sluice = t.sluice("""[match slow]
all = header:A ~ ^(a+)+$
[match long]
all = cookie:c = x
""" + to(origin, route="deny = match:slow, match:long"))
    client = t.client(sluice)
    with t.point("an expression that explodes, and a value too long to be decoded, get 400"):
        equal(client.ask(fields=[("A", "a" * 3000 + "x")]).status, 400, "a field")
        equal(client.ask(fields=[("Cookie", "c=" + "%41" * 2000)]).status, 400, "a cookie")
        equal(client.ask(fields=[("A", "b")]).status, 200, "others")
    equal(len(origin.requests), 1, "requests at the origin")
    with t.point("a path that servers read in several ways, where the condition depends on it"):
        origin = t.origin()
        sluice = t.sluice("[match admin]\nall = path ^= /admin\n" + to(origin, route="deny = match:admin"))
        for target, status in (("/admin/x", 403), ("//admin", 400), ("/admin%2f..%2fpublic", 400), ("/x/..;/admin", 400),
                               ("/x;a=1//y", 200), ("/public//z", 200)):
            equal(t.client(sluice).ask(target).status, status, target)


@group("explain")
def explain(t):
    _, admin = with_admin(t, BOTS + "[match login]\nall = path ^= /login\n[limit crawl]\nrate = 2 per 1h\nwhen = bots\n" +
                          to(t.origin(), route="limits = crawl"))
    with t.point("names each match, and the limits that apply"):
        answer = admin.json("/api/v1/explain?path=/login/x&field.User-Agent=Bot")[1]
        equal(answer["matches"], {"bots": True, "login": True}, "matches of a bot")
        equal([limit["limit"] for limit in answer["limits"]], ["crawl"], "limits of a bot")
        answer = admin.json("/api/v1/explain?path=/x&field.User-Agent=Mozilla")[1]
        equal((answer["matches"], answer["limits"]), ({"bots": False, "login": False}, []), "of people")


if __name__ == "__main__":
    main()
