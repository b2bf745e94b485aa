"""What makes clients use https, and what sluice says of how they came: redirect, HSTS, 421, scheme."""
import json
import re
import socket

from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, true
from lib.tls import ask, connect, exchange, make_certificate, with_tls
from lib.wire import Stream


def plain(t, sluice):
    stream = Stream(socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30))
    t.defer(stream.close)
    return stream


def asked(stream, request):
    stream.send(request)
    response = stream.read_head()
    response.body = stream.read_body(response, request.startswith(b"HEAD"))
    return response


@group("redirect = https")
def redirects(t):
    origin = t.origin()
    sluice = t.sluice(to(origin), listener="redirect = https\nhealth = on\ntrusted_proxies = 127.0.0.1")
    stream = plain(t, sluice)
    for target, host, location in (
            ("/a/../b%2f?c=d&e", "API.test:8080", "https://api.test/a/../b%2f?c=d&e"),
            ("http://other.test/x?", "api.test", "https://other.test/x?"),
            ("/" + "a" * 7000, "[2001:DB8::1]:80", "https://[2001:db8::1]/" + "a" * 7000)):
        for method in ("GET", "POST", "HEAD"):
            with t.point(f"{method} {target[:30]}"):
                response = asked(stream, f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                equal((response.status, response.all("Location")), (308, [location]), "the answer")
    with t.point("OPTIONS *"):
        response = asked(stream, b"OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n")
        equal(response.all("Location"), ["https://a.test/"], "the answer")
    with t.point("without a host there is no URL"):
        equal(asked(plain(t, sluice), b"GET / HTTP/1.0\r\n\r\n").status, 400, "status")
    with t.point("probes are answered, and what a trusted proxy has got by https is served"):
        equal(asked(stream, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").status, 200, "probe")
        for field, status in ((b"X-Forwarded-Proto: https", 200), (b"Forwarded: for=1.2.3.4;proto=https", 200),
                              (b"X-Forwarded-Proto: http", 308)):
            got = asked(stream, b"GET /p HTTP/1.1\r\nHost: a\r\n" + field + b"\r\n\r\n")
            equal(got.status, status, field)
    with t.point("nothing else has reached the origin"):
        equal(origin.targets(), ["/p", "/p"], "targets")
    with t.point("another port, and pipelined requests in their order"):
        other = t.sluice(to(origin), listener="redirect = https:8443")
        stream = plain(t, other)
        stream.send(b"".join(f"GET /{n} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode() for n in range(20)))
        for n in range(20):
            response = stream.read_head()
            stream.read_body(response)
            equal(response.get("Location"), f"https://a.test:8443/{n}", "location")


@group("hsts")
def hsts(t):
    origin = t.origin(lambda x: x.reply(fields=[("Strict-Transport-Security", "max-age=1")]))
    certificate = make_certificate(t, "api.pem", ["api.test"])
    name = "Strict-Transport-Security"
    for more, expected in (("", "max-age=31536000; includeSubDomains"),
                           ("response_header_set = strict-transport-security: max-age=7", "max-age=7")):
        sluice = with_tls(t, origin, [certificate], listener="hsts = 365d includeSubDomains\n" + more)
        with t.point(f"on responses of the server and of sluice {more}"):
            stream = connect(t, sluice)
            for path in ("/", "//"):
                equal(exchange(stream, path).all(name), [expected], name)
    with t.point("not without TLS, where the log says so"):
        sluice = t.sluice(to(origin), listener="hsts = 1d")
        response = asked(plain(t, sluice), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        equal(response.all(name), ["max-age=1"], name)
        true("hsts: has no effect without certificate = FILE" in sluice.log(), sluice.log())


@group("421 where the certificate is not the host's")
def misdirected(t):
    origin = t.origin()
    paths = [make_certificate(t, f"{n}.pem", each) for n, each in enumerate(
        (["first.test", "*.first.test"], ["second.test"]))]
    sluice = with_tls(t, origin, paths, listener="health = on")
    for name, host, status in (
            ("first.test", "first.test", 200), ("first.test", "FIRST.test:443", 200), ("first.test", "first.test.", 200),
            ("first.test", "a.first.test", 200), ("a.first.test", "b.first.test", 200), ("First.test", "first.test", 200),
            ("first.test", "a.b.first.test", 421), ("first.test", "second.test", 421), ("second.test", "first.test", 421),
            ("unknown.test", "unknown.test", 200), ("unknown.test", "first.test", 200), ("unknown.test", "other.test", 421),
            (None, "first.test", 200), (None, "second.test", 421), (None, "unknown.test", 200),
            (None, "127.0.0.1", 200), ("first.test", "127.0.0.1", 421), ("first.test", "[::1]", 421)):
        with t.point(f"asked for {name}, a request for {host}"):
            equal(ask(connect(t, sluice, name), host=host)[0], status, "status")
    with t.point("the connection continues after it, and probes do not mind"):
        stream = connect(t, sluice, "first.test")
        for path, host, status in (("/", "second.test", 421), ("/", "first.test", 200), ("/healthz", "10.0.0.1", 200)):
            equal(ask(stream, path, host)[0], status, host)
    with t.point("a trusted proxy may send all hosts by one connection"):
        trusting = with_tls(t, origin, paths, listener="trusted_proxies = 127.0.0.1")
        equal(ask(connect(t, trusting, "first.test"), host="second.test")[0], 200, "status")
    with t.point("an address that the certificate has"):
        both = make_certificate(t, "ip.pem", ["first.test", "IP:127.0.0.1"])
        sluice = with_tls(t, origin, [both])
        equal(ask(connect(t, sluice, "first.test"), host="127.0.0.1")[0], 200, "status")


@group("the scheme in logs and keys")
def schemes(t):
    origin = t.origin()
    certificate = make_certificate(t, "api.pem", ["api.test"])
    limit = "[limit one]\nkey = scheme\nrate = 2 per 1h\n"
    for form, pattern in (("combined", r" scheme=https? "), ("json", None)):
        log = t.path(form + ".log")
        sluice = t.sluice(limit + to(origin, route="limits = one"), listener="trusted_proxies = 127.0.0.1",
                          settings=f"access_log = file:{log}\naccess_log_format = {form}")
        with t.point(f"{form}: by a trusted proxy's word, each scheme a caller of its own"):
            stream = plain(t, sluice)
            got = [asked(stream, f"GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n".encode()).status
                   for field in ("", "", "", *["X-Forwarded-Proto: https\r\n"] * 3)]
            equal(got, [200, 200, 429] * 2, "statuses")

            def lines():
                with open(log, encoding="ascii") as file:
                    return file.read().splitlines()

            until(lambda: len(lines()) == 6, "six lines")
            found = [json.loads(line)["scheme"] if not pattern else re.search(pattern, line)[0].strip()[7:]
                     for line in lines()]
            equal(found, ["http"] * 3 + ["https"] * 3, "schemes")
    log = t.path("tls.log")
    sluice = with_tls(t, origin, [certificate], settings=f"access_log = file:{log}\naccess_log_format = json")
    with t.point("over TLS"):
        ask(connect(t, sluice))

        def line():
            with open(log, encoding="ascii") as file:
                return file.read()

        until(line, "a line")
        equal(json.loads(line())["scheme"], "https", "scheme")


@group("TLS on a plain port")
def tls_on_plain(t):
    sluice = t.sluice(to(t.origin()))
    with t.point("is logged once, with the listener's name"):
        for _ in range(5):
            stream = plain(t, sluice)
            stream.send(bytes([22, 3, 1, 2, 0, 1, 0]) + b"x" * 40)
            true(stream.read_to_any_end().startswith(b"HTTP/1.1 400 "), "an answer")
        until(lambda: "speaks TLS" in sluice.log(), "the line")
        equal(sluice.log().count("speaks TLS"), 1, "lines")
        true("listener main: 127.0.0.1 speaks TLS, and the listener has no certificate" in sluice.log(), sluice.log())
    with t.point("but no other garbage"):
        other = t.sluice(to(t.origin()))
        stream = plain(t, other)
        stream.send(b"\x16\x04 / HTTP/1.1\r\n\r\n")
        stream.read_to_any_end()
        equal(other.log().count("speaks TLS"), 0, "lines")


main()
