"""A listener that the system does not let accept for a moment: it tries again, and /readyz says no meanwhile."""
import errno

from lib.admin import with_admin
from lib.failing import ACCEPT, LISTEN_EVENT, Failing
from lib.process import until
from lib.sluice import to
from lib.tap import equal, main, test
from lib.workers import accepts


def small(t):
    return t.origin(lambda x: x.reply(200, b"small"))


class Busy:
    """A connection that is never idle, as those are closed for new ones: each request is sent but for its last line."""

    def __init__(self, client):
        self.client = client
        self._begin()

    def _begin(self):
        self.client.send(b"GET ")

    def ask(self, path):
        self.client.send(f"{path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        answer = self.client.response()
        self._begin()
        return answer


@test("the system refuses to watch its socket, at the start", workers=[1])
def at_start(t):
    failing = Failing(t)
    failing.fail(LISTEN_EVENT, errno.ENOMEM, 1)
    sluice = t.sluice(to(small(t)), environment=failing.environment)
    equal(t.client(sluice).ask("/").body, b"small", "body")
    equal(failing.left(LISTEN_EVENT), 0, "calls that are still to fail")


@test("accept fails, and then the system refuses to watch its socket; /readyz knows", workers=[1])
def after_accept(t):
    failing = Failing(t)
    sluice, admin = with_admin(t, to(small(t)), environment=failing.environment)
    equal(admin.ask("/readyz")[0], 200, "ready")
    failing.fail(LISTEN_EVENT, errno.ENOMEM)
    failing.fail(ACCEPT, errno.ENOBUFS, 1)
    client = t.client(sluice)
    client.request("/")
    until(lambda: failing.left(ACCEPT) == 0, "a failed accept")
    equal(admin.ask("/readyz")[::2], (503, b"not listening\n"), "not ready")
    equal(admin.ask("/healthz")[0], 200, "alive")
    failing.stop(LISTEN_EVENT)
    equal(client.response().body, b"small", "body")
    equal(admin.ask("/readyz")[0], 200, "ready again")


@test("accept fails again and again: who is connected is told that it is not ready", workers=[1])
def accept_fails_on(t):
    for error in (errno.ENOBUFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        failing = Failing(t)
        sluice = t.sluice(to(small(t)), listener="health = on", environment=failing.environment)
        known = Busy(t.client(sluice))
        equal(known.ask("/readyz").status, 200, "ready")
        failing.fail(ACCEPT, error)
        client = t.client(sluice)
        client.request("/")
        until(lambda: known.ask("/readyz").status == 503, "not ready")  # pylint: disable=cell-var-from-loop
        equal(known.ask("/").body, b"small", "it is served")
        failing.stop(ACCEPT)
        equal(client.response().body, b"small", "body")
        equal(known.ask("/readyz").status, 200, "ready again")


@test("the system refuses to watch its socket when a place is free again", workers=[1])
def at_a_free_place(t):
    failing = Failing(t)
    sluice = t.sluice(to(small(t)), listener="max_connections = 1", environment=failing.environment)
    holder = t.client(sluice)
    holder.send(b"GET / HTTP/1.1\r\nHost: a\r\n")  # it is not idle, so it makes no room
    client = t.client(sluice)
    client.request("/")
    until(lambda: not accepts(sluice), "it is full")
    failing.fail(LISTEN_EVENT, errno.ENOMEM, 1)
    holder.close()
    equal(client.response().body, b"small", "body")
    equal(failing.left(LISTEN_EVENT), 0, "calls that are still to fail")


main()
