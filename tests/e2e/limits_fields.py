"""Rate-limit fields in each family, and those that the upstream sent itself: made more restrictive,
never dropped."""
from lib.sluice import to
from lib.tap import equal, group, main, true

NAMES = ("RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining",
         "X-RateLimit-Reset", "X-RateLimit-Used", "Retry-After")


def limited(t, family, fields, status=200, rate="10 per 1h", route=""):
    origin = t.origin(lambda x: x.reply(status, fields=fields))
    return t.sluice(f"[limit it]\nrate = {rate}\n", to(origin, route=f"limits = it\n{route}"),
                    listener=f"ratelimit_headers = {family}")


def seen(answer):
    return {name: answer.all(name) for name in NAMES if answer.all(name)}


OURS = {
    "draft-11": {"RateLimit-Policy": ['"it";q=10;w=3600'], "RateLimit": ['"it";r=9;t=3600']},
    "draft-7": {"RateLimit-Policy": ["10;w=3600"], "RateLimit": ["limit=10, remaining=9, reset=3600"]},
    "x-ratelimit": {"X-RateLimit-Limit": ["10"], "X-RateLimit-Remaining": ["9"],
                    "X-RateLimit-Reset": ["3600"]},
    "off": {},
}


def joined(theirs, ours):
    """Theirs first, as they were, ours as further lines."""
    return {name: theirs.get(name, []) + ours.get(name, []) for name in {*theirs, *ours}}


def forms(remaining):
    """What an upstream might send, in each family."""
    return {
        "draft-11": {"RateLimit-Policy": ['"u";q=99;w=5'], "RateLimit": [f'"u";r={remaining};t=4']},
        "draft-7": {"RateLimit-Policy": ["99;w=5"], "RateLimit": [f"limit=99, remaining={remaining}, reset=4"]},
        "x-ratelimit": {"X-RateLimit-Limit": ["99"], "X-RateLimit-Remaining": [f"{remaining}"],
                        "X-RateLimit-Reset": ["4"], "X-RateLimit-Used": ["1"]},
    }


@group("families", workers=[1])
def families(t):
    for family, ours in OURS.items():
        with t.point(f"{family}: ours alone"):
            equal(seen(t.client(limited(t, family, [])).ask("/")), ours, "fields")

    with t.point("a route's family stands before its listener's"):
        sluice = limited(t, "draft-11", [], route="ratelimit_headers = x-ratelimit")
        equal(seen(t.client(sluice).ask("/")), OURS["x-ratelimit"], "fields")

    for family, ours in OURS.items():
        for form, tight in forms(3).items():
            loose = forms(50)[form]
            reads = {"draft-11": ("draft-11", "draft-7"), "draft-7": ("draft-11", "draft-7"),
                     "x-ratelimit": ("x-ratelimit",), "x-ratelimit-unix": ("x-ratelimit",), "off": ()}[family]
            if form not in reads or form == family == "draft-11":
                expected = joined(tight, ours), joined(loose, ours)
            else:
                other = {k: v for k, v in loose.items() if k == "X-RateLimit-Used"}
                expected = tight, {**other, **ours}
            for title, theirs, wanted in (("less", tight, expected[0]), ("more", loose, expected[1])):
                with t.point(f"{family}, the upstream sends {form} with {title} left"):
                    fields = [(name, value) for name, values in theirs.items() for value in values]
                    equal(seen(t.client(limited(t, family, fields)).ask("/")), wanted, "fields")


@group("what passes as it is", workers=[1])
def passes(t):
    with t.point("an upstream's own 429 and 503 with their Retry-After"):
        for status in (429, 503):
            for value in ("120", "Fri, 31 Dec 2027 23:59:59 GMT"):
                answer = t.client(limited(t, "draft-11", [("Retry-After", value)], status)).ask("/")
                equal((answer.status, seen(answer)),
                      (status, {**OURS["draft-11"], "Retry-After": [value]}), "answer")

    with t.point("what is in no form that can be read is replaced by ours"):
        for family in ("draft-11", "draft-7"):
            answer = t.client(limited(t, family, [("RateLimit", "lots of it")])).ask("/")
            equal(seen(answer), OURS[family], "fields")

    with t.point("without limits of ours all of it passes"):
        for family in OURS:
            for form, theirs in forms(3).items():
                fields = [(name, value) for name, values in theirs.items() for value in values]
                origin = t.origin(lambda x, fields=fields: x.reply(200, fields=fields))
                sluice = t.sluice(to(origin), listener=f"ratelimit_headers = {family}")
                equal(seen(t.client(sluice).ask("/")), theirs, f"{family}, {form}")

    with t.point("an answer of our own that was admitted tells what is left, a 404 nothing"):
        origin = t.origin()
        origin.refuse()
        sluice = t.sluice("[limit it]\nrate = 10 per 1h\n", to(origin, route="limits = it\nhost = api.test"))
        client = t.client(sluice)
        answer = client.ask("/")
        true(answer.status in (502, 503) and answer.get("RateLimit"), f"{answer}")
        equal(seen(client.ask("/", host="elsewhere.test")), {}, "fields of the 404")


main()
