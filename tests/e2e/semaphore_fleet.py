"""`[upstream] semaphore = NAME` with a real RabbitMQ: what three nodes have in flight together is never more than there
are slots, while nodes are killed, stand still and are cut off, and slots are added and removed."""
import signal
import time

from lib.client import Client
from lib.cut import Way
from lib.fleet import Load
from lib.process import until
from lib.rabbit import Rabbit
from lib.slots import SIZE, CountingOrigin, administer, in_flight, shown, start
from lib.tap import equal, group, main, true

CLIENTS = 10

# Until a client that was refused asks again: a broker that starts needs the processors.
REFUSED_SECONDS = 0.1

# A slot is free again after at most three heartbeats of 2 s, and the next node looks for it each second.
LOST_SECONDS = 2 * 3 + 2


class Scene:
    def __init__(self, t, rabbit):
        self.t, self.rabbit = t, rabbit
        self.origin = CountingOrigin(t)
        self.url = f"amqp://{rabbit.address}"
        self.way = Way(t, rabbit.number)
        self.nodes = [self.start("a"), self.start("b"), self.start("c", f"amqp://127.0.0.1:{self.way.number}")]
        administer(self.nodes[0], "create", "--ensure")
        for node in self.nodes:
            until(lambda node=node: (shown(node) or {}).get("slots") == SIZE, "the slots are known")
        self.slots = SIZE

    def start(self, name, url=None, upstream="semaphore_down = refuse"):
        return start(self.t, self.origin, name, url or self.url, upstream)

    def load(self, nodes=None):
        return Load(self.t, CLIENTS, refused_seconds=REFUSED_SECONDS).begin(nodes or self.nodes)

    def bound_holds(self, slots=None):
        true(self.origin.most <= (slots or self.slots), f"{self.origin.most} in flight of {slots or self.slots}")

    def all_used(self):
        """By some nodes, from now on."""
        self.origin.begin()
        self.origin.wait_most(self.slots)
        self.origin.wait_more(10 * self.slots)
        self.bound_holds()


def bound(t, scene):
    with t.point("three busy nodes use all slots, and no more"):
        load = scene.load()
        scene.all_used()
        scene.origin.wait_more(300)
        load.end()
        scene.bound_holds()
        equal(set(load.answers), {200})
    with t.point("what was not needed is given back"):
        for node in scene.nodes:
            until(lambda node=node: shown(node)["held"] == 0, "nothing is held")


def one_busy(t, scene):
    with t.point("one busy node of three has all slots within 5 s"):
        times = []
        while len(times) < 4 and min(times, default=5) >= 5:  # a machine that stands still takes longer
            load = scene.load()
            scene.all_used()
            load.end()
            began = time.monotonic()
            scene.origin.begin()
            load = scene.load(scene.nodes[:1])
            scene.origin.wait(lambda: scene.origin.peaks.get("a", 0) == scene.slots, "all slots")
            times.append(time.monotonic() - began)
            load.end()
            t.note(f"after {times[-1]:.1f} s")
            scene.bound_holds()
        true(min(times) < 5, f"{times} s")
    with t.point("nodes that are all busy share the slots"):
        load = scene.load(scene.nodes[:1])
        scene.origin.wait(lambda: scene.origin.peaks.get("a", 0) == scene.slots, "all slots")
        other = scene.load(scene.nodes[1:])
        until(lambda: min(shown(node)["held"] for node in scene.nodes) >= scene.slots // 3, "each has its share")
        load.end()
        other.end()
        scene.bound_holds()


def administrators(t, scene):
    load = scene.load()
    with t.point("slots that are added are used"):
        administer(scene.nodes[0], "add", 4)
        scene.slots += 4
        scene.all_used()
    with t.point("slots that are removed are used no more after 5 s, and then free"):
        administer(scene.nodes[0], "remove", 7)
        removed = time.monotonic()
        administer(scene.nodes[0], "wait")
        t.note(f"the last holder was gone after {time.monotonic() - removed:.1f} s")
        true(time.monotonic() - removed < 5, "5 s")
        scene.slots -= 7
        scene.all_used()
    administer(scene.nodes[0], "add", 3)
    scene.slots += 3
    scene.all_used()
    load.end()


def cut(t, scene):
    with t.point("a node whose connection is cut begins nothing by the slots that it had"):
        load = scene.load()
        scene.all_used()
        scene.way.cut()
        scene.nodes[2].process.wait_output("the broker is away")
        until(lambda: in_flight(scene.nodes[2]) == 0, "what it had begun until it noticed is done")
        scene.all_used()
        equal(Client(scene.nodes[2].address).ask("/").status, 503)
        scene.way.mend()
        scene.nodes[2].process.wait_output("the broker is back")
        until(lambda: shown(scene.nodes[2])["state"] == "holds", "it takes slots again")
        scene.origin.begin()
        scene.origin.wait(lambda: scene.origin.peaks.get("c", 0) > 0, "it serves again")
        scene.all_used()
        load.end()


def stands_still(t, scene):
    with t.point("a node that stood still begins nothing by slots that others have"):
        load = scene.load()
        scene.all_used()
        scene.nodes[1].process.stop()
        began = time.monotonic()
        scene.origin.begin()
        scene.origin.wait(lambda: scene.origin.most >= scene.slots and scene.origin.by_node["b"] == 0 and
                          sum(scene.origin.by_node.get(n, 0) for n in "ac") == scene.slots, "the others have its slots")
        t.note(f"its slots were free again after {time.monotonic() - began:.1f} s")
        scene.nodes[1].process.signal(signal.SIGCONT)
        scene.origin.wait(lambda: scene.origin.by_node["b"] > 0, "it serves again")
        scene.origin.wait_more(100)
        load.end()
        scene.bound_holds()
    with t.point("and neither does one that stands still again and again"):
        load = scene.load()
        for _ in range(5):
            scene.nodes[0].process.stop()
            time.sleep(t.random.uniform(0, 6))  # how long it stands still is the subject
            scene.nodes[0].process.signal(signal.SIGCONT)
            scene.origin.wait_more(50)
            scene.bound_holds()
        scene.all_used()
        load.end()


def dies(t, scene):
    with t.point("a node that is killed gives its slots back at once"):
        load = scene.load()
        scene.all_used()
        killed = scene.nodes.pop()
        scene.origin.kill("c")
        killed.process.kill()
        killed.ended = True
        began = time.monotonic()
        scene.all_used()
        t.note(f"after {time.monotonic() - began:.1f} s")
        scene.nodes.append(scene.start("d"))
        load.end()
        load = scene.load()
        scene.origin.wait(lambda: scene.origin.peaks.get("d", 0) > 0, "another takes its place")
        scene.all_used()
        load.end()


def broker_ends(t, scene):
    with t.point("without the broker requests are refused; and it comes back"):
        load = scene.load()
        scene.all_used()
        away, back = ([node.log().count(text) for node in scene.nodes] for text in ("the broker is away", "the broker is back"))
        scene.rabbit.kill()
        for node, before in zip(scene.nodes, away):
            node.process.wait_output("the broker is away", before + 1)
        equal(Client(scene.nodes[0].address).ask("/").status, 503)
        scene.origin.begin()
        scene.rabbit.start()
        for node, before in zip(scene.nodes, back):
            node.process.wait_output("the broker is back", before + 1)
        scene.all_used()
        load.end()
        scene.bound_holds()


def reloads(t, scene):
    node = scene.nodes[0]
    with t.point("a reload may take the semaphore away, and bring it back"):
        sections = node.sections
        node.reload(sections.replace("semaphore = legacy\nsemaphore_down = refuse\n", ""))
        until(lambda: shown(node) is None, "it has none")
        equal(Client(node.address).ask("/").status, 200)
        node.reload(sections)
        until(lambda: (shown(node) or {}).get("state") == "holds", "it has one")
        equal(Client(node.address).ask("/").status, 200)


def reloads_under_load(t, scene):
    node = scene.nodes[0]
    sections = node.sections
    with t.point("what a reload changes takes no slot from what is in flight"):
        scene.origin.hold = 1
        load = scene.load()
        scene.origin.begin()
        scene.origin.wait_most(scene.slots)
        for old, new in (("heartbeat = 2s", "heartbeat = 3s\nbroker_timeout = 3s"),
                         ("size = 6", "size = 9"), (scene.url, scene.url + "/%2F")):
            for text in (sections.replace(old, new), sections):
                node.reload(text)
                scene.origin.wait_more(2 * scene.slots)
        scene.bound_holds()
        scene.all_used()
        load.end()
        equal(set(load.answers), {200})
    with t.point("nor does one that takes the semaphore away, or names another"):
        for text in (sections.replace("semaphore = legacy\nsemaphore_down = refuse\n", ""),
                     sections.replace("semaphore = legacy", "semaphore = spare") +
                     f"[semaphore spare]\nbroker = {scene.url}\n"):
            scene.origin.hold = 2
            scene.origin.begin()
            load = Load(t, scene.slots, refused_seconds=REFUSED_SECONDS).begin([node])
            scene.origin.wait_most(scene.slots)
            load.stop()  # what is in flight goes on
            node.reload(text)
            scene.origin.hold = 0.05
            others = scene.load(scene.nodes[1:])
            scene.origin.wait_most(scene.slots)
            load.end()
            scene.origin.wait_more(50)
            others.end()
            scene.bound_holds()
            equal(set(others.answers), {200})
            node.reload(sections)
            until(lambda: (shown(node) or {}).get("state") == "holds", "it has the first one again")


def local(t, rabbit):
    origin = CountingOrigin(t)
    url = f"amqp://{rabbit.address}"
    down = "semaphore_down = local"
    with t.point("without the broker each node has its share"):
        nodes = [start(t, origin, name, url, down) for name in "xyz"]
        for node in nodes:
            until(lambda node=node: (shown(node) or {}).get("nodes") == 3, "they know each other")
        load = Load(t, CLIENTS, refused_seconds=REFUSED_SECONDS).begin(nodes)
        origin.begin()
        origin.wait_most(SIZE)
        rabbit.kill()
        for node in nodes:
            node.process.wait_output("2 at once by this node's share")
        until(lambda: max(in_flight(node) for node in nodes) <= 2, "what was in flight by slots is done")
        origin.begin()
        origin.wait_more(200)
        equal(origin.peaks, {"x": 2, "y": 2, "z": 2})
        equal(shown(nodes[0])["state"], "away")
    with t.point("also at the start"):
        alone = start(t, origin, "u", url, down)
        alone.process.wait_output("1 at once by this node's share")
        counted = start(t, origin, "v", url, down, more="nodes = 2")
        counted.process.wait_output("3 at once by this node's share")
        equal(Client(alone.address).ask("/").status, 200)
        equal(Client(counted.address).ask("/").status, 200)
        refusing = start(t, origin, "w", url, "semaphore_down = refuse")
        refusing.process.wait_output("requests are refused")
        answer = Client(refusing.address).ask("/")
        equal(answer.status, 503)
        true(answer.get("Retry-After"), "when to come again")
    with t.point("and the broker's slots are taken when it is back"):
        for node in (alone, counted, refusing):
            node.terminate()
            equal(node.wait(), 0)
        origin.begin()
        rabbit.start()
        for node in nodes:
            until(lambda node=node: shown(node)["state"] == "holds", "it takes slots")
        origin.wait_most(SIZE)
        origin.wait_more(200)
        load.end()
        equal(origin.most, SIZE)


def entries(t, rabbit):
    origin = CountingOrigin(t)

    def says(url, text, name, **options):
        node = start(t, origin, name, url, "semaphore_down = refuse", **options)
        node.process.wait_output(text)
        equal(Client(node.address).ask("/").status, 503)
        true("secret" not in node.log(), node.log())
        node.terminate()
        equal(node.wait(), 0)

    with t.point("a wrong password, a virtual host that is not there, no slots, and queues of others are reported"):
        says(f"amqp://guest:secret@{rabbit.address}", "ACCESS_REFUSED - Login was refused", "e1")
        says(f"amqp://{rabbit.address}/nowhere", "vhost nowhere not found", "e2")
        says(f"amqp://{rabbit.address}/empty", "sluice semaphore create legacy creates some", "e3")
        other = rabbit.connect(vhost="empty")
        other.declare("legacy-1-A", exclusive=True)
        says(f"amqp://{rabbit.address}/empty", "RESOURCE_LOCKED", "e4")
        other.close()
    with t.point("and so is a user who may not hold slots"):
        maker = start(t, origin, "e5", f"amqp://{rabbit.address}")
        administer(maker, "create", "--ensure")
        node = start(t, origin, "e6", f"amqp://reader:secret@{rabbit.address}")
        node.process.wait_output("taking slots, of")
        client = t.client(node.address)
        client.request("/")
        node.process.wait_output("no slot can be held: ACCESS_REFUSED")
        client.close()


def register(title, *parts, alone=()):
    """Parts of one scene; then those that have nodes of their own."""
    @group(f"slots of a semaphore that a fleet takes: {title}", workers=[1])
    def slots(t):
        """Takes most of a minute: slots that are lost are free again after some heartbeats, and RabbitMQ has to start."""
        rabbit = Rabbit(t, users={"reader": ("secret", {"/": "^$"})}, vhosts=["empty"])
        scene = Scene(t, rabbit)
        for part in parts:
            part(t, scene)
        for node in scene.nodes:
            node.terminate()
            equal(node.wait(), 0)
        for part in alone:
            part(t, rabbit)


register("nodes that stand still", stands_still)
register("one that is busy, changed slots, a cut", bound, one_busy, administrators, cut)
register("deaths", dies, broker_ends)
register("reloads", reloads, reloads_under_load)
register("the nodes' own shares, and wrong entries", alone=(local, entries))


if __name__ == "__main__":
    main()
