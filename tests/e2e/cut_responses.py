"""A response that is cut short is never taken for a whole one: where nothing but the close ends it, as for
a client of HTTP/1.0, the cut is a reset."""
from lib.sluice import to
from lib.tap import equal, main, test, true
from lib.wire import Ended, chunked

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"
LARGE = b"x" * 100_000
HUGE = chunked(b"x" * 60_000_000)[:-5]


def ask(t, sluice, target="/", version="1.0", **options):
    client = t.client(sluice, **options)
    client.send(f"GET {target} HTTP/{version}\r\nHost: x\r\n\r\n".encode())
    return client


def end_of(client):
    """How the connection ends: `closed` or `reset`, and what came before."""
    try:
        return "closed", client.read_to_end()
    except Ended as ended:
        true("reset" in str(ended).lower(), f"a reset, not {ended}")
        return "reset", b""


def begins(x, head):
    """Half of a response; returns when its client has some of it."""
    x.send(head + (chunked(LARGE)[:-5] if head == CHUNKED else LARGE))


@test("a response that its server cuts, to a client that has only the close to go by, ends with a reset")
def cut_by_server(t):
    goes_on = t.event()

    def handler(x):
        begins(x, UNTIL_CLOSE if x.request.target == "/reset" else CHUNKED)
        goes_on.wait()
        x.close() if x.request.target == "/close" else x.reset()

    sluice = t.sluice(to(t.origin(handler)))
    clients = [ask(t, sluice, target) for target in ("/close", "/reset", "/reset/chunked")]
    for client in clients:
        client.read_head()
        client.read_exactly(10)
    goes_on.set()
    equal([end_of(client)[0] for client in clients], ["reset"] * 3)


@test("the same when its server stalls, and when the client reads too slowly")
def cut_by_timeouts(t):
    done = t.event()

    def handler(x):
        if x.request.target == "/large":
            x.send(CHUNKED + HUGE)
        else:
            begins(x, CHUNKED)
        done.wait()

    sections = to(t.origin(handler), upstream="idle_timeout = 1s", route="response_buffering = off")
    sluice = t.sluice(sections, listener="send_timeout = 300ms", settings="log_level = debug")
    stalled = ask(t, sluice)
    equal(end_of(stalled)[0], "reset", "a server that stalls")  # which takes back what was not read until then
    slow = ask(t, sluice, "/large", receive_buffer=4096)
    sluice.process.wait_output("closed: send timeout")
    equal(end_of(slow)[0], "reset", "a client that does not read")
    done.set()


@test("the same when sluice ends before its response")
def cut_by_the_end(t):
    done = t.event()

    def handler(x):
        begins(x, CHUNKED)
        done.wait()

    sluice = t.sluice(to(t.origin(handler)), settings="shutdown_timeout = 300ms")
    client = ask(t, sluice)
    client.read_head()
    client.read_exactly(10)
    sluice.terminate()
    equal(end_of(client)[0], "reset")
    equal(sluice.wait(), 1, "the exit status of an end that cuts")
    done.set()


@test("a whole response that the close ends has an end, and no reset", workers=[1])
def whole(t):
    def handler(x):
        if x.request.target == "/close":
            x.send(UNTIL_CLOSE + LARGE)
            x.close()
        else:
            x.send(CHUNKED + chunked(LARGE))

    sluice = t.sluice(to(t.origin(handler)))
    for target in ("/close", "/chunked"):
        client = ask(t, sluice, target)
        client.read_head()
        equal(end_of(client), ("closed", LARGE), target)


@test("a client that can see the cut, as chunks or a length say so, gets all that was there", workers=[1])
def seen_cuts(t):
    goes_on = t.event()

    def handler(x):
        if x.request.target == "/length":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n" + LARGE)
        else:
            begins(x, CHUNKED)
        goes_on.wait()
        x.close()

    sluice = t.sluice(to(t.origin(handler)))
    by_length, by_chunks = ask(t, sluice, "/length"), ask(t, sluice, version="1.1")
    for client in (by_length, by_chunks):
        client.read_head()
    goes_on.set()
    equal(end_of(by_length), ("closed", LARGE))
    how, rest = end_of(by_chunks)
    equal((how, rest.count(b"x"), rest.endswith(b"0\r\n\r\n")), ("closed", len(LARGE), False))


main()
