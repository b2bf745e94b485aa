"""TLS towards the store: redis-server with TLS, alone, under Sentinels and as a cluster; certificates that are not accepted."""
import shutil
import socket
import threading

from lib.authority import Authority
from lib.fields import told
from lib.fleet import ask, connected, limit, nodes, start_named, state
from lib.process import BINARY, run, until
from lib.redis import Redis, Sentinels
from lib.redis_cluster import RedisCluster
from lib.sluice import to
from lib.tap import equal, group, main, test, true


def credentials(t, authority):
    """Debian's Redis asks for a certificate of its authority."""
    return f"tls_ca = {authority.certificate}\ntls_certificate = {authority.issue('node', ['node.test'])}\n"


def limited(t, rate="4 per 1h"):
    return limit("it", rate) + to(t.origin(), route="limits = it")


@test("one quota over two nodes")
def together(t):
    authority = Authority(t)
    redis = Redis(t, tls=authority)
    clients = [t.client(n) for n in nodes(t, redis, limited(t), 2, fleet=credentials(t, authority))]
    answers = [ask(clients[n % 2]) for n in range(6)]
    equal([answer.status for answer in answers], [200] * 4 + [429] * 2, "statuses")
    equal([told(answer).left["it"]["r"] for answer in answers[:4]], [3, 2, 1, 0], "what each node says is left")


@test("a thousand requests at once, and a store that goes away and comes back", workers=[4])
def many(t):
    authority = Authority(t)
    redis = Redis(t, tls=authority)
    node = start_named(t, redis, "one", limited(t, "100k per 1h"), fleet=credentials(t, authority))
    connected(node)

    def run_some():
        client = t.client(node)
        for _ in range(50):
            equal(ask(client).status, 200, "status")
    threads = [threading.Thread(target=run_some) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client = t.client(node)
    equal(told(ask(client)).left["it"]["r"], 98999, "left")
    redis.kill()
    until(lambda: ask(client).status == 503, "the node sees that it is gone")
    redis.start()
    redis._remember()
    until(lambda: ask(client).status == 200, "it is found again")


@group("stores that are not accepted")
def refusals(t):
    authority, other = Authority(t), Authority(t, "other")
    with t.point("of another name, until tls_name says it"):
        redis = Redis(t, tls=authority)
        fleet = credentials(t, authority)
        node = start_named(t, redis, "name", limited(t), fleet=fleet + "tls_name = other.test\n")
        until(lambda: "name does not match other.test" in node.log(), "the reason")
        equal(ask(t.client(node)).status, 503, "status")
        node.reload(node.sections.replace("other.test", "store.test"))
        until(lambda: ask(t.client(node)).status == 200, "the store is connected")
    with t.point("of another authority, until the file has it"):
        used = t.path("used.pem")
        shutil.copy(other.certificate, used)
        node = start_named(t, redis, "other-one", limited(t),
                           fleet=fleet.replace(f"tls_ca = {authority.certificate}", f"tls_ca = {used}"))
        until(lambda: "self-signed certificate in certificate chain" in node.log(), "the reason")
        shutil.copy(authority.certificate, used)
        node.reload(node.sections)
        until(lambda: ask(t.client(node)).status == 200, "the store is connected")
    with t.point("without a client certificate"):
        node = start_named(t, redis, "client", limited(t), fleet=f"tls_ca = {authority.certificate}\n")
        until(lambda: "store " in node.log(), "a reason")
        equal(ask(t.client(node)).status, 503, "status")
    with t.point("without TLS"):
        plain = Redis(t)
        plain_url = type("Url", (), {"url": plain.url.replace("redis:", "rediss:")})
        node = start_named(t, plain_url, "plain", limited(t), fleet=fleet)
        until(lambda: " (limits of the fleet)" in node.log() or "store 127" in node.log(), "a reason")
        equal(ask(t.client(node)).status, 503, "status")
    with t.point("one that answers no handshake"):
        listener = socket.create_server(("127.0.0.1", 0))
        t.defer(listener.close)
        silent = type("Url", (), {"url": f"rediss://127.0.0.1:{listener.getsockname()[1]}"})
        node = start_named(t, silent, "silent", limited(t), fleet=fleet)
        until(lambda: "no answer to a connection" in node.log(), "the reason")
    with t.point("tls_verify = off accepts all, and the log warns of it"):
        node = start_named(t, redis, "off", limited(t), fleet=fleet + "tls_verify = off\ntls_name = other.test\n")
        until(lambda: ask(t.client(node)).status == 200, "the store is connected")
        true("anybody on the way to the store" in node.log(), node.log())


@test("Sentinels and their primary")
def sentinels(t):
    authority = Authority(t)
    watched = Sentinels(t, 1, 1, tls=authority)
    node = start_named(t, watched, "one", limited(t), fleet=credentials(t, authority) + "sentinel = it\n")
    connected(node)
    equal([ask(t.client(node)).status for _ in range(5)], [200] * 4 + [429], "statuses")


@test("a Redis Cluster, whose nodes are named by their addresses")
def cluster(t):
    authority = Authority(t)
    made = RedisCluster(t, tls=authority)
    node = start_named(t, made.primaries[0], "one", limited(t), fleet=credentials(t, authority) + "cluster = on\n")
    connected(node)
    client = t.client(node)
    for number in range(30):
        equal([told(ask(client, f"caller-{number}")).left["it"]["r"] for _ in range(2)], [3, 2], "left")
    equal(sorted(p["address"] for p in state(node)["primaries"]),
          sorted(f"127.0.0.1:{p.tls.number}" for p in made.primaries), "primaries")


@group("`sluice lock`")
def locks(t):
    authority = Authority(t)
    redis = Redis(t, tls=authority)

    def lock(more):
        path = t.file("lock.ini", f"[listener l]\nbind = 127.0.0.1:1\n[upstream u]\nserver = 127.0.0.1:1\n"
                      f"[route r]\nupstream = u\n[fleet]\nstore = {redis.url}\n{more}")
        return run([BINARY, "lock", "-c", path, "name", "--", "echo", "held"])

    with t.point("through TLS, and released at its end"):
        for _ in range(2):
            status, output = lock(credentials(t, authority))
            equal(status, 0, output)
            true("held" in output, output)
    with t.point("a file that can't be read"):
        status, output = lock("tls_ca = /nowhere\n")
        true(status != 0 and "/nowhere: can't read the certificates" in output, output)


main()
