"""What a request is charged: bytes as they pass, a cost of the route's or the origin's, and what is
given back."""
import json
import time

from lib.fields import told, wait_ms
from lib.process import until
from lib.sluice import check, to
from lib.tap import equal, group, main, test, true
from lib.workers import Barrier, leave


def limited(t, limit, route="", upstream="", handler=None):
    origin = t.origin(handler)
    sections = f"[limit it]\n{limit}\n" + to(origin, route=f"limits = it\n{route}", upstream=upstream)
    return origin, t.sluice(sections)


def left(answer):
    return told(answer).left["it"]["r"]


# ---- bytes -------------------------------------------------------------------------------------

@group("bytes")
def in_bytes(t):
    with t.point("both bodies are charged, and what was too much is waited for"):
        _, sluice = limited(t, "rate = 100kB per 1h")
        client = t.client(sluice)
        first = client.ask("/", "POST", body=b"x" * 20_000)  # and as many back
        equal((first.status, left(first), told(first).left["it"]["t"]), (200, 60_000, 3600), "the first, behind its bodies")
        equal(told(first).policy["it"], {"q": 100_000, "qu": "content-bytes", "w": 3600}, "policy")
        second = client.ask("/", "POST", body=b"x" * 10_000)
        # 100 kB in an hour, in as many parts as fit in 128 bytes: rounded up to a whole part.
        true(35_000 <= left(second) <= 40_000, f"{left(second)} left of 100 kB after 60 kB")
        third = client.ask("/", "POST", body=b"x" * 25_000)
        equal((second.status, third.status, left(third)), (200, 200, 0), "statuses, and nothing left after 110 kB")
        answer = client.ask("/", "POST", body=b"y")
        equal((answer.status, left(answer)), (429, 0), "of the fourth, after 110 kB")
        equal(json.loads(answer.body)["violated-policies"], ["it"], "violated-policies")
        # The window, and a 19th of it at most, as it is kept in parts.
        true(3_000_000 < wait_ms(answer) <= 3_600_000 * 20 / 19, f"wait of {wait_ms(answer)} ms")

    with t.point("a chunked body is charged its content, not its framing"):
        _, sluice = limited(t, "rate = 100kB per 1d\nalgorithm = gcra\nburst = 100000",
                            handler=lambda x: x.read_body() is None or x.reply(200))
        client = t.client(sluice)
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + b"1;extension=that-is-long\r\nx\r\n" * 1000 + b"0\r\n\r\n")
        equal(client.response().status, 200, "status")
        used = 100_000 - left(client.ask("/"))
        true(970 <= used <= 1000, f"{used} of 1000 bytes charged")

    with t.point("bytes are charged as they pass: a long answer holds others back before its end"):
        gate = t.event()

        def handler(x):
            x.read_body()
            if x.request.target != "/long":
                x.reply(200)
                return
            x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n" + b"x" * 200_000)
            gate.wait(120)
            x.send(b"x" * 200_000)

        _, sluice = limited(t, "rate = 100kB per 1h", handler=handler)
        client, other = t.client(sluice), t.client(sluice)
        client.request("/long")
        equal(client.response_head().status, 200, "status")
        client.read_exactly(200_000)
        # Charged when they have left: another worker may be asked the moment before.
        until(lambda: other.ask("/").status == 429, "a refusal while the first goes on")
        true(not gate.is_set(), "the first has ended")
        gate.set()
        client.read_exactly(200_000)

    with t.point("what passes through a tunnel is charged as it passes, too"):
        def tunnel(x):
            x.read_body()
            x.complete = True
            if x.request.target != "/tunnel":
                x.reply(200)
                return
            x.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
            while data := x.stream.read_some():
                x.send(data)
            x.close()

        _, sluice = limited(t, "rate = 100kB per 1h", route="upgrade = echo", handler=tunnel)
        client, other = t.client(sluice), t.client(sluice)
        client.request("/tunnel", fields=[("Connection", "Upgrade"), ("Upgrade", "echo")])
        equal(client.response_head().status, 101, "status")
        equal(other.ask("/").status, 200, "status of another before anything has passed")
        for _ in range(6):  # 60 kB, there and back
            client.send(b"x" * 10_000)
            client.read_exactly(10_000)
        until(lambda: other.ask("/").status == 429, "a refusal while the tunnel is open")
        client.close()

    with t.point("of a response that is refunded too: the bytes have passed"):
        _, sluice = limited(t, "rate = 1kB per 1h", route="refund = 5xx",
                            handler=lambda x: x.reply(500, b"x" * 2000))
        client = t.client(sluice)
        equal(client.ask("/").status, 500, "status")
        equal(client.ask("/").status, 429, "status of the next")

    with t.point("a debt is carried into the next verdict and waited for, then it is paid"):
        _, sluice = limited(t, "rate = 100kB per 2s\nalgorithm = gcra\nburst = 100000")
        client = t.client(sluice)
        began = time.monotonic()
        equal(client.ask("/", "POST", body=b"x" * 150_000).status, 200, "status")
        answer = client.ask("/")
        equal(answer.status, 429, "status of the next")
        # 300 kB have passed: 200 kB are owed, and something must be free besides.
        true(wait_ms(answer) <= 4001, f"wait of {wait_ms(answer)} ms")
        while (answer := client.ask("/")).status == 429:
            time.sleep(wait_ms(answer) / 1000)
        true(time.monotonic() - began >= 4.0, f"paid after {time.monotonic() - began:.3f} s")


# ---- costs -------------------------------------------------------------------------------------

@group("cost")
def cost(t):
    with t.point("cost = 3: three of ten, then the one left is not enough"):
        _, sluice = limited(t, "rate = 10 per 1h", route="cost = 3")
        client = t.client(sluice)
        answers = [client.ask("/") for _ in range(4)]
        equal([a.status for a in answers], [200, 200, 200, 429], "statuses")
        equal([left(a) for a in answers], [7, 4, 1, 0], "remaining")
        true(3_500_000 < wait_ms(answers[3]) <= 3_600_000, "the wait")

    with t.point("two routes charge one limit what each costs"):
        origin = t.origin()
        sluice = t.sluice(f"[limit it]\nrate = 10 per 1h\n[upstream u]\nserver = {origin}\n"
                          "[route cheap]\nupstream = u\nlimits = it\n"
                          "[route dear]\npath = /dear\nupstream = u\nlimits = it\ncost = 8\n")
        client = t.client(sluice)
        seen = [(a.status, left(a)) for a in map(client.ask, ["/", "/dear", "/dear", "/", "/"])]
        equal(seen, [(200, 9), (200, 1), (429, 0), (200, 0), (429, 0)], "statuses and remaining")

    with t.point("a cost above the limit is no configuration"):
        path = t.file("cost.ini", "[listener l]\nbind = unix:" + t.path("s") + "\n"
                      + "[limit it]\nrate = 2 per 1h\n" + to("127.0.0.1:1", route="limits = it\ncost = 3"))
        status, output = check(path)
        equal(status, 1, f"exit status: {output}")
        true(f"{path}:11: [route origin] cost: 3 never fits" in output, output)

    with t.point("a cost is not that of a place: one exchange is one in flight"):
        _, sluice = limited(t, "concurrency = 1", route="cost = 5")
        equal(t.client(sluice).ask("/").status, 200, "status")


@group("cost = response:X-Cost")
def true_cost(t):
    def handler(x):
        x.read_body()
        value = x.request.target[1:]
        x.reply(200, fields=[("X-Cost", value)] if value else [])

    origin, sluice = limited(t, "rate = 100 per 1h\nprecision = exact", route="cost = response:X-Cost",
                             handler=handler)
    client = t.client(sluice)

    def charged(value):
        """One is reserved; what the last one truly cost shows in the next one's remaining."""
        before = left(client.ask("/0"))  # costs nothing in the end
        client.ask("/" + value)
        return before - left(client.ask("/0"))

    for value, expected in (("5", 5), ("1", 1), ("0", 0), ("", 1), ("17", 17), ("many", 1), ("-5", 1),
                            ("1.5", 1), ("007", 7), ("99999999999999999999", 1)):
        with t.point(f"X-Cost {value!r}: {expected} in the end"):
            equal(charged(value), expected, "charged")

    with t.point("more than was left is a debt: the next is refused"):
        equal(client.ask("/1000").status, 200, "status")
        equal(client.ask("/0").status, 429, "status of the next")

    with t.point("while it is under way one is reserved, and no more than fit go on"):
        gate = t.event()

        def held(x):
            x.read_body()
            gate.wait(120)
            x.reply(200, fields=[("X-Cost", "0")])

        origin, sluice = limited(t, "rate = 3 per 1h", route="cost = response:X-Cost", handler=held)
        clients = [t.client(sluice) for _ in range(4)]
        for number, client in enumerate(clients[:3], 1):
            client.request("/")
            origin.wait_requests(number)
        equal(clients[3].ask("/").status, 429, "status of a fourth")
        gate.set()
        equal([client.response().status for client in clients[:3]], [200] * 3, "statuses")
        until(lambda: clients[3].ask("/").status == 200, "what was reserved is given back")


# ---- refunds -----------------------------------------------------------------------------------

@group("refund")
def refund(t):
    def handler(x):
        x.read_body()
        x.reply(int(x.request.target[1:]))

    _, sluice = limited(t, "rate = 3 per 1h", route="refund = 5xx, 429", handler=handler)
    client = t.client(sluice)

    with t.point("statuses that are listed cost nothing"):
        equal([client.ask(f"/{status}").status for status in (500, 503, 429, 599) * 3],
              [500, 503, 429, 599] * 3, "statuses")

    with t.point("others do, and the upstream's 429 is distinguished from ours"):
        equal([client.ask(f"/{status}").status for status in (200, 404, 428)], [200, 404, 428])
        answer = client.ask("/429")
        equal((answer.status, answer.get("Content-Type")), (429, "application/problem+json"))

    with t.point("calendar, gcra and a count in a large window are given back too"):
        for limit in ("rate = 2 per day", "rate = 2 per 1h\nalgorithm = gcra", "rate = 1k per 1h\n"):
            _, other = limited(t, limit, route="refund = 5xx", handler=handler)
            client = t.client(other)
            first = left(client.ask("/500"))
            equal([left(client.ask("/500")) for _ in range(5)], [first] * 5, f"remaining, {limit!r}")

    with t.point("an upstream that can't be reached costs nothing"):
        origin, other = limited(t, "rate = 2 per 1h", upstream="max_fails = 0\nretries = 0")
        origin.refuse()
        client = t.client(other)
        equal([client.ask("/").status for _ in range(4)], [502] * 4, "statuses")
        equal([left(client.ask("/")) for _ in range(2)], [1, 1], "remaining")


@test("refund: who leaves the queue is not charged")
def left_queue(t):
    gate = t.event()

    def handler(x):
        x.read_body()
        gate.wait(120)
        x.reply(200)

    origin, sluice = limited(t, "rate = 3 per 1h", handler=handler,
                             route="host = api.test", upstream="max_in_flight = 1")
    one, three = t.client(sluice), t.client(sluice)
    one.request("/one")
    origin.wait_requests(1)
    for _ in range(5):  # each is admitted and queued, and leaves
        two = t.client(sluice)
        barrier = Barrier(t, sluice, [two])
        two.request("/two")
        barrier.passed_by(two)
        leave(sluice, two, "reset")
    barrier = Barrier(t, sluice, [three])
    three.request("/three")
    barrier.passed_by(three)
    gate.set()
    equal(left(one.response()), 2, "remaining, told to the first")
    answer = three.response()
    equal((answer.status, left(answer)), (200, 1), "of the last")
    equal(origin.targets(), ["/one", "/three"], "targets")


@test("what was sent and failed stays charged when the retry finds no server")
def sent_and_failed(t):
    def handler(x):
        x.read_body()
        if x.number == 1:
            x.origin.refuse()  # it takes the request, ends without an answer, and is gone
            x.close()
        else:
            x.reply(200)

    origin, sluice = limited(t, "rate = 2 per 1h", handler=handler)
    client = t.client(sluice)
    equal(client.ask("/one").status, 200, "status")
    equal(client.ask("/two").status, 502, "status of the one that failed")
    origin.reopen()
    equal(client.ask("/three").status, 429, "status of the third")
    equal(origin.targets(), ["/one", "/two"], "targets")


main()
