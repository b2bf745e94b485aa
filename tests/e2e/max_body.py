"""A body that is too long by its chunks, and here at once: it comes in one write with its head."""
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.wire import chunked


@test("413, and it never ends well at the origin")
def at_once(t):
    origin = t.origin()
    sluice = t.sluice(to(origin, route="max_body_size = 1000"))
    client = t.client(sluice)
    client.try_send(b"POST /long HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + chunked(b"a" * 600, b"b" * 600))
    equal(client.response().status, 413, "status")
    t.client(sluice).ask("/sentinel")
    true(not any(x.complete for x in origin.requests if x.request.target == "/long"),
         "the overlong body was complete at the origin")


main()
