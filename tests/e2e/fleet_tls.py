"""TLS between the nodes of a fleet: what is forwarded goes by it, both sides verify, and no node falls back to plain."""
import os
import random
import re
import signal
import socket
import ssl
import threading

from lib.authority import Authority
from lib.client import Client
from lib.hop import Asker
from lib.owners import SECRET, Fleet
from lib.process import run, until, BINARY
from lib.successor import Successor
from lib.tap import SEED, equal, main, test, true
from lib.websocket import TEXT, accept, open_socket
from lib.wire import Ended

ROUTE = "owner_idle = 1h\nqueue_timeout = 2m\n"
ORDERS = 25


def lines(authority, certificate):
    return f"certificate = {certificate}\nca = {authority.certificate}\n"


def secured(t, count=3, authority=None, links=None, **options):
    """A fleet whose nodes have certificates, in files node0.pem and so on; its authority."""
    authority = authority or Authority(t)
    files = [authority.issue(f"node{i}", [f"node{i}.test"]) for i in range(count)]
    fleet = Fleet(t, count=count, links=links or (lambda i: lines(authority, files[i])),
                  **{"route": ROUTE, "settings": "shutdown_timeout = 60s\n", **options})
    fleet.authority, fleet.files = authority, files
    return fleet


def ask(fleet, i, path="/", who="ann"):
    return fleet.client(i).ask(path, "POST", [("X-Client", who)], b"order")


def begin(fleet, i, path="/", who="ann"):
    client = fleet.client(i)
    client.request(path, "POST", [("X-Client", who)], b"order")
    return client


def replace(path, source):
    with open(source, encoding="ascii") as file, open(path + ".tmp", "w", encoding="ascii") as out:
        out.write(file.read())
    os.rename(path + ".tmp", path)


class Log:
    """An origin: the requests of each client, in their order."""

    def __init__(self):
        self.lock, self.came, self.inside, self.together = threading.Lock(), {}, set(), []

    def __call__(self, x):
        who = x.request.get("X-Client")
        with self.lock:
            if who in self.inside:
                self.together.append(who)
            self.inside.add(who)
            self.came.setdefault(who, []).append(x.request.target)
        x.read_body()
        with self.lock:
            self.inside.discard(who)
        x.reply(200)


def presents(t, fleet, i, certificate):
    """The certificate that the node's listener presents, to a peer with that file, which it accepts."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.load_verify_locations(fleet.authority.certificate)
    made.load_cert_chain(certificate)
    plain = socket.create_connection(("127.0.0.1", fleet.nodes[i].internal), timeout=30)
    t.defer(plain.close)
    stream = made.wrap_socket(plain)
    equal(stream.version(), "TLSv1.3", "version")
    stream.sendall(b"GET /.sluice/hop HTTP/1.1\r\nHost: fleet\r\n\r\n")
    true(stream.recv(100).startswith(b"HTTP/1.1 403"), "it is no node without the secret")
    return dict(pair[0] for pair in stream.getpeercert()["subject"])["commonName"]


@test("requests are forwarded, in their order, and as without TLS", workers=[1, 4])
def forwards(t):
    fleet = secured(t, workers=t.workers)
    for i in (1, 0, 2, 0):
        answer = fleet.client(i).ask(f"/a%20b?{i}", "POST", [("X-Client", "ann"), ("Client-Cert", ":eA==:")], b"of %d" % i)
        equal(answer.status, 200, "status")
    requests = [x.request for x in fleet.origin.requests]
    equal([r.target for r in requests], [f"/a%20b?{i}" for i in (1, 0, 2, 0)], "as they were sent")
    equal([r.body for r in requests], [b"of %d" % i for i in (1, 0, 2, 0)], "with their bodies")
    for r in requests:
        equal((r.get("X-Forwarded-For"), r.get("X-Forwarded-Proto"), r.get("Host"), r.get("Client-Cert"), r.get("Sluice-Hop")),
              ("127.0.0.1", "http", "api.test", ":eA==:", None), "of the client, and not of the link")
    equal(len({r.get("Sluice-Fence") for r in requests}), 1, "one ownership")
    equal(presents(t, fleet, 1, fleet.files[0]), "node1", "the owner's certificate")
    listed = [c for c in fleet.nodes[0].admin.json("/api/v1/status")[1]["certificates"] if c["listener"] == "[fleet]"]
    equal([(c["name"], c["problem"]) for c in listed], [("node0.test", None)], "in the status")


def carries(t, way):
    def echo(x):
        if x.request.get("Upgrade") is None:
            x.read_body()
            x.reply(200)
            return
        end = accept(x)
        try:
            while True:
                read = end.read()
                end.send_frame(read.opcode, read.payload)
                if read.opcode != TEXT:
                    break
        except Ended:
            pass
        x.close()
    fleet = secured(t, count=2, origin=t.origin(echo), route=ROUTE + f"websocket = {way}\n")
    equal(ask(fleet, 0).status, 200, "node 0 owns it")
    end = open_socket(t, fleet.nodes[1], fields=[("X-Client", "ann")])
    for text in ("one", "x" * 100_000, "three"):
        end.send(text)
        equal(end.message(), text, "echo")
    equal(end.close(1000, "bye"), (1000, "bye"), "closed by both")


@test("a tunnel goes by the link", workers=[1])
def tunnel(t):
    carries(t, "tunnel")


@test("a WebSocket whose messages the owner reads goes by the link", workers=[1])
def messages(t):
    carries(t, "messages")


def place(fleet, who, rng, answers):
    for number in range(ORDERS):
        client = fleet.client(rng.randrange(len(fleet.nodes)))
        answer = client.ask(f"/{number}", "POST", [("X-Client", who)], b"order")
        answers.append(200 if answer.status == 200 else (number, answer.status, answer.body))
        client.close()


def under_load(t, fleet, log, change):
    answers = {f"account{i}": [] for i in range(8)}
    threads = [threading.Thread(target=place, args=(fleet, who, random.Random(f"{SEED}{who}"), mine))
               for who, mine in answers.items()]
    for thread in threads:
        thread.start()
    change()
    for thread in threads:
        thread.join()
    for who, mine in answers.items():
        equal(mine, [200] * ORDERS, who)
        equal(log.came[who], [f"/{number}" for number in range(ORDERS)], "each once, in their order")
    equal(log.together, [], "one at a time")


@test("upgrades of all nodes under load: no request is lost, refused or out of its order")
def upgrades(t):
    log, successors = Log(), []
    fleet = secured(t, origin=t.origin(log), workers=t.workers)

    def upgrade():
        for node in fleet.nodes:
            successors.append(Successor(t, node, node.pid_file))
            until(lambda node=node: "has taken over" in node.log(), "the old process knows")
    under_load(t, fleet, log, upgrade)
    equal(presents(t, fleet, 2, fleet.files[0]), "node2", "the new process's certificate")
    for successor in successors:
        equal(successor.end_both(), 0, "both have ended well")


@test("from plain to TLS, and back, by reloads under load: requests wait until both nodes have it")
def rolled(t):
    log, authority = Log(), Authority(t)
    fleet = secured(t, authority=authority, links=lambda i: "", origin=t.origin(log), workers=t.workers)
    plain = [node.sections for node in fleet.nodes]

    def roll():
        for i, node in enumerate(fleet.nodes):
            node.reload(plain[i].replace("lease = ", lines(authority, fleet.files[i]) + "lease = "))
            until(lambda node=node: "reloaded" in node.log(), "it has TLS")
    under_load(t, fleet, log, roll)
    equal(presents(t, fleet, 0, fleet.files[1]), "node0", "the certificate")
    log.came.clear()

    def back():
        for i, node in enumerate(fleet.nodes):
            node.reload(plain[i])
            until(lambda node=node: node.log().count("reloaded") == 2, "it is plain")
    under_load(t, fleet, log, back)


def refused(t, fleet, why_at_asker, why_at_owner=None):
    """What node 1 would forward to node 0 waits, and both logs have a reason."""
    equal(ask(fleet, 0).status, 200, "node 0 owns it")
    waiting = begin(fleet, 1, "/waits")
    until(lambda: re.search(why_at_asker, fleet.nodes[1].log()), why_at_asker)
    if why_at_owner:
        until(lambda: re.search(why_at_owner, fleet.nodes[0].log()), why_at_owner)
    equal(waiting.response().status, 503, "nothing is sent another way")
    equal([x.request.target for x in fleet.origin.requests], ["/"], "what the server has")


class Files:
    def __init__(self, t):
        self.authority, other = Authority(t), Authority(t, "other")
        self.lines = {name: lines(self.authority, self.authority.issue(name, [name])) for name in ("owner", "asker", "revoked")}
        self.lines["foreign"] = lines(self.authority, other.issue("foreign", ["foreign"]))
        self.lines["expired"] = lines(self.authority, self.authority.issue("expired", ["expired"], end="20200201000000Z"))
        self.lines["plain"] = ""
        crl = f"crl = {self.authority.revoke(self.authority.path('revoked.pem'))}\n"
        for name in ("owner", "asker"):
            self.lines[name + " with crl"] = self.lines[name] + crl


REFUSED = r"listener \[fleet\]: connection from 127.0.0.1 refused: "
# The owner, the node that forwards to it, and what their logs say.
UNFIT = [
    ("owner", "foreign", REFUSED + "unable to get local issuer certificate", "alert unknown ca|reset"),
    ("foreign", "asker", REFUSED + ".*alert unknown ca", "unable to get local issuer certificate"),
    ("owner", "expired", REFUSED + "certificate has expired", "alert certificate expired|reset"),
    ("expired", "asker", r"listener \[fleet\]: the certificate .*expired.pem has expired, on 2020-02-01", "certificate has expired"),
    ("owner with crl", "revoked", REFUSED + "certificate revoked", "alert certificate revoked|reset"),
    ("revoked", "asker with crl", REFUSED, "certificate revoked"),
    ("owner", "plain", REFUSED + "it speaks no TLS", r"it answers 400, as one whose \[fleet\] has a certificate"),
    ("plain", "asker", r"listener \[fleet\]: 127.0.0.1 speaks TLS, and", "it speaks no TLS"),
]


def refuses(owner, asker, why_at_owner, why_at_asker):
    @test(f"{asker} does not forward to {owner}, and both logs say why", workers=[1])
    def run_one(t):
        files = Files(t)
        fleet = Fleet(t, count=2, links=lambda i: files.lines[(owner, asker)[i]], workers=1,
                      route="owner_idle = 1h\nqueue_timeout = 1s\n")
        equal(ask(fleet, 0).status, 200, "node 0 owns it")
        waiting = begin(fleet, 1, "/waits")
        for node, why in zip(fleet.nodes, (why_at_owner, why_at_asker)):
            until(lambda node=node, why=why: re.search(why, node.log()), why)
        equal(waiting.response().status, 503, "nothing is sent another way")
        equal([x.request.target for x in fleet.origin.requests], ["/"], "what the server has")
    return run_one


for case in UNFIT:
    refuses(*case)


@test("a peer without a certificate learns nothing", workers=[1])
def nobody(t):
    fleet = secured(t, count=1)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", fleet.nodes[0].internal), timeout=30) as plain:
        stream = made.wrap_socket(plain)
        try:
            stream.sendall(b"GET / HTTP/1.1\r\nHost: fleet\r\n\r\n")
            equal(stream.recv(100), b"", "its answer")
        except (ssl.SSLError, ConnectionError):
            pass
    until(lambda: "refused: peer did not return a certificate" in fleet.nodes[0].log(), "the reason")
    equal(Client(f"127.0.0.1:{fleet.nodes[0].internal}").ask("/").status, 400, "without TLS")


@test("new certificates are presented and verified by new connections, by a change of the file and by a reload", workers=[1])
def renewed(t):
    fleet = secured(t, count=2)
    authority, used = fleet.authority, fleet.files[1]
    equal([ask(fleet, i).status for i in (0, 1)], [200, 200], "by the link")
    held = open_names(fleet)
    replace(used, authority.issue("second", ["second.test"]))
    until(lambda: presents(t, fleet, 1, fleet.files[0]) == "second", "the new one")
    true(r"listener [fleet]: its certificates have changed" in fleet.nodes[1].log(), "the line")
    equal(held, open_names(fleet), "no session has moved")
    equal(ask(fleet, 1).status, 200, "with the new one")
    # A certificate that is of no use to others shows that it is the one presented to them, too.
    other = Authority(t, "other")
    replace(used, other.issue("third", ["third.test"]))
    until(lambda: fleet.nodes[1].log().count("its certificates have changed") == 2, "the third")
    waiting = begin(fleet, 1, "/waits")
    until(lambda: "issuer certificate" in fleet.nodes[0].log(), "node 0 refuses it")
    with open(authority.certificate, encoding="ascii") as mine, open(other.certificate, encoding="ascii") as more:
        both = t.file("both.pem", mine.read() + more.read())
    for node in fleet.nodes:
        node.reload(node.sections.replace(authority.certificate, both))
    equal(waiting.response().status, 200, "served as soon as both authorities are known")
    count = fleet.nodes[1].log().count("reloaded")
    replace(used, t.file("broken.pem", "nonsense"))
    fleet.nodes[1].process.signal(signal.SIGHUP)
    until(lambda: fleet.nodes[1].log().count("reloaded") == count + 1, "reloaded")
    true("[fleet]: " in fleet.nodes[1].log() and "it keeps the certificates that it had before" in fleet.nodes[1].log(), "the line")
    equal(ask(fleet, 1).status, 200, "with the one from before")


def open_names(fleet):
    return [s["owner"] for s in fleet.nodes[1].admin.json("/api/v1/sessions")[1]["sessions"]]


@test("a plain connection from before serves nothing once its owner has TLS", workers=[1])
def plain_before(t):
    authority = Authority(t)
    file = authority.issue("node0", ["node0.test"])
    fleet = Fleet(t, count=1, route="owner_idle = 1h\n", workers=1)
    node = fleet.nodes[0]
    equal(ask(fleet, 0).status, 200, "it owns the session")
    fence = int(fleet.origin.last().get("Sluice-Fence"))
    asker = Asker(node.internal, SECRET)
    asker.forward("/before", "ann", 5, fence)
    equal(asker.response().status, 200, "served")
    node.reload(node.sections.replace("lease = ", lines(authority, file) + "lease = "))
    until(lambda: "reloaded" in node.log(), "it has TLS")
    asker.forward("/after", "ann", 5, fence)
    head = asker.response()
    equal((head.status, head.get("Sluice-Hop")), (421, "closing"), "refused")
    equal([x.request.target for x in fleet.origin.requests], ["/", "/before"], "what the server has")


@test("sluice check reads the files", workers=[1])
def checked(t):
    authority = Authority(t)
    good, other = (authority.issue(name, [name]) for name in ("a", "b"))
    for more, why in ((f"certificate = {t.path('none')}\nca = {authority.certificate}", "can't read the certificate"),
                      (f"certificate = {good}\ncertificate_key = {other}\nca = {authority.certificate}",
                       "the key is not the certificate's"),
                      (f"certificate = {good}\nca = {t.file('text', 'nonsense')}", "can't read the authorities")):
        ini = t.file("check.ini", "[listener l]\nbind = 127.0.0.1:1\n[upstream u]\nserver = 127.0.0.1:2\n[route r]\n"
                     f"upstream = u\n[fleet]\nstore = redis://127.0.0.1:3\nbind = 127.0.0.1:4\nsecret = file:{t.file('s', 'x' * 20)}\n{more}\n")
        status, output = run([BINARY, "check", "-c", ini])
        true(status == 1 and "listener [fleet]: " in output and why in output, output)


main()
