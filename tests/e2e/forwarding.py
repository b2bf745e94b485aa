"""Who asked: what servers and clients learn of each other, and what of it is believed."""
import re

from lib.sluice import to
from lib.tap import equal, group, main, test, true


def plain(t, handler=None, route="", settings="", listener=""):
    origin = t.origin(handler)
    settings += "\nforwarded = on" if "forwarded" not in settings else ""
    return origin, t.sluice(to(origin, route=route), settings=settings, listener=listener)


@test("what the origin learns of a peer follows the host of each request on a connection")
def forwarding_follows_host(t):
    origin, sluice = plain(t)
    client = t.client(sluice)
    for host in ("a.test", "a.test", "b.test", "a.test"):
        equal(client.ask("/", host=host).status, 200, "status")
        equal(origin.last().get("X-Forwarded-Host"), host, "X-Forwarded-Host")
        true(f"host={host}" in origin.last().get("Forwarded"), "Forwarded")


@group("who asked: forwarding fields, not believed")
def forwarding_untrusted(t):
    origin, sluice = plain(t, settings="via = sluice")
    client = t.client(sluice)
    client.ask("/", fields=[("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Proto", "https"),
                            ("X-Forwarded-Host", "evil.test"), ("Forwarded", "for=6.6.6.6"),
                            ("X-Forwarded-Port", "443"), ("X-Real-IP", "6.6.6.6"), ("X_Real_IP", "6.6.6.6"),
                            ("Via", "1.0 fred")])
    seen = origin.last()

    with t.point("X-Real-IP and X-Forwarded-Port: the peer, and the port of the Host that was asked"):
        equal((seen.all("X-Real-IP"), seen.all("X_Real_IP"), seen.all("X-Forwarded-Port")), (["127.0.0.1"], [], ["80"]))
        client.ask("/", host="api.test:8080")
        equal(origin.last().all("X-Forwarded-Port"), ["8080"], "port")

    with t.point("X-Forwarded-*: what the client claims is replaced"):
        equal(seen.all("X-Forwarded-For"), ["127.0.0.1"], "for")
        equal(seen.all("X-Forwarded-Proto"), ["http"], "proto")
        equal(seen.all("X-Forwarded-Host"), ["api.test"], "host")

    with t.point("Forwarded: the same"):
        forwarded = seen.all("Forwarded")
        equal(len(forwarded), 1, "fields")
        pairs = dict(p.strip().lower().split("=") for p in forwarded[0].split(";"))
        equal(pairs, {"for": "127.0.0.1", "host": "api.test", "proto": "http"}, "Forwarded")

    with t.point("Via: appended to what was there"):
        equal(seen.get("Via"), "1.0 fred, 1.1 sluice", "Via")

    with t.point("Via of an HTTP/1.0 request says 1.0"):
        t.client(sluice).ask("/", version="1.0")
        equal(origin.last().get("Via"), "1.0 sluice", "Via")


@group("who asked: forwarding fields of a trusted proxy")
def forwarding_trusted(t):
    origin, sluice = plain(t, listener="trusted_proxies = 127.0.0.0/8")
    client = t.client(sluice)
    client.ask("/", fields=[("X-Forwarded-For", "1.2.3.4"), ("X-Forwarded-For", "5.6.7.8"),
                            ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "real.test"),
                            ("Forwarded", "for=1.2.3.4")])
    seen = origin.last()

    with t.point("X-Forwarded-For is added to, lines joined in order"):
        equal(seen.get("X-Forwarded-For").replace(" ", ""), "1.2.3.4,5.6.7.8,127.0.0.1", "for")

    with t.point("X-Forwarded-Proto and -Host are kept"):
        equal((seen.get("X-Forwarded-Proto"), seen.get("X-Forwarded-Host")), ("https", "real.test"))

    with t.point("X-Real-IP is the caller, X-Forwarded-Port that of its URL"):
        equal((seen.all("X-Real-IP"), seen.all("X-Forwarded-Port")), (["5.6.7.8"], ["443"]))

    with t.point("a proxy that speaks Forwarded only: the same in X-Forwarded-*"):
        client.ask("/", fields=[("Forwarded", 'for=1.2.3.4;proto=https;host="real.test:8443"')])
        told = origin.last()
        equal([told.all(name) for name in ("X-Forwarded-For", "X-Real-IP", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port")],
              [["1.2.3.4, 127.0.0.1"], ["1.2.3.4"], ["https"], ["real.test:8443"], ["8443"]])
        true(told.get("Forwarded").startswith('for=1.2.3.4;proto=https;host="real.test:8443", for=127.0.0.1;'), told.get("Forwarded"))

    with t.point("a malformed Forwarded is replaced, and nothing of it said elsewhere"):
        client.ask("/", fields=[("Forwarded", 'for=1.2.3.4;proto=https, for="6.6')])
        told = origin.last()
        equal([told.all(name) for name in ("X-Forwarded-For", "X-Real-IP", "X-Forwarded-Proto", "Forwarded")],
              [["127.0.0.1"], ["127.0.0.1"], ["http"], ["for=127.0.0.1;host=api.test;proto=http"]])

    with t.point("Forwarded is added to"):
        true(seen.get("Forwarded").startswith("for=1.2.3.4"), seen.get("Forwarded"))
        true("for=127.0.0.1" in seen.get("Forwarded"), seen.get("Forwarded"))


@test("a trusted proxy that speaks Forwarded only: its protocol becomes X-Forwarded-Proto")
def forwarded_proto(t):
    origin, sluice = plain(t, listener="trusted_proxies = 127.0.0.0/8")
    client = t.client(sluice)
    for value, expected in (("for=1.2.3.4;proto=https", "https"), ("for=1.2.3.4", "http"),
                            ("for=6.6.6.6;proto=https, for=1.2.3.4;proto=http", "http")):
        client.ask("/", fields=[("Forwarded", value)])
        equal(origin.last().all("X-Forwarded-Proto"), [expected], f"proto for {value}")


@test("an HTTP/1.0 request without Host gets that of the server; an empty one stays as it came")
def host_of_old_clients(t):
    origin, sluice = plain(t)
    client = t.client(sluice)
    client.send(b"OPTIONS / HTTP/1.0\r\n\r\n")
    equal(client.response().status, 200, "status")
    equal(origin.last().all("Host"), [origin.address], "Host")
    equal(origin.last().all("X-Forwarded-Host"), [], "X-Forwarded-Host")
    client = t.client(sluice)
    client.send(b"GET / HTTP/1.1\r\nHost:\r\n\r\n")
    equal(client.response().status, 200, "status")
    equal(origin.last().all("Host"), [""], "Host")


@test("without `forwarded = on` no Forwarded is sent, nor the client's; Via only with `via`", workers=[1])
def forwarding_off(t):
    origin = t.origin()
    for listener in ("", "trusted_proxies = 127.0.0.0/8"):
        sluice = t.sluice(to(origin), listener=listener)
        t.client(sluice).ask("/", fields=[("Forwarded", "for=6.6.6.6;proto=https")])
        equal((origin.last().get("Forwarded"), origin.last().get("Via")), (None, None), listener)


@group("request ids")
def request_id(t):
    origin, sluice = plain(t)
    client = t.client(sluice)

    with t.point("the client's is passed on"):
        client.ask("/", fields=[("X-Request-Id", "abc-123")])
        equal(origin.last().all("X-Request-Id"), ["abc-123"], "X-Request-Id")

    with t.point("a missing one is made, another one for each request"):
        made = set()
        for _ in range(10):
            client.ask("/")
            made.add(origin.last().get("X-Request-Id"))
        equal(len(made), 10, "different ids")
        true(all(re.fullmatch(r"[\w-]{8,}", one or "") for one in made), f"{made}")


main()
