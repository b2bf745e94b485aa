"""Nodes of which one at a time owns a client's session (session_scope = fleet), and what a server saw of it."""
from .admin import Admin
from .fleet import PATIENT, connected
from .process import Port
from .redis import Redis
from .sluice import to

ROUTE = "session = header:X-Client\nsession_scope = fleet\nordering = strict\n"
SECRET = "of the fleet"


def route_of(more):
    return "".join(line for line in ROUTE.splitlines(True) if line.split(" ")[0] + " =" not in more) + more


class Fleet:
    """Nodes, each with an address for the others; `links(i)` are more lines of [fleet] for one."""

    def __init__(self, t, count=3, route="", lease="10s", workers=2, origin=None, secrets=None, more="",
                 settings="", upstream="", links=lambda i: ""):
        self.t = t
        self.redis = Redis(t)
        self.origin = origin or t.origin()
        self.nodes = []
        for i in range(count):
            secret = t.path(f"secret{i}")
            with open(secret, "w", encoding="ascii") as out:
                out.write((secrets or {}).get(i, SECRET))
            port = Port()
            fleet = (f"[fleet]\nstore = {self.redis.url}\nnode = node{i}\n{PATIENT}"
                     f"bind = 127.0.0.1:{port.number}\nsecret = file:{secret}\nlease = {lease}\n{links(i)}"
                     f"[admin]\nbind = unix:{t.path(f'admin{i}')}\n")
            node = t.sluice(fleet + more + to(self.origin, upstream=upstream, route=route_of(route)), workers=workers,
                            settings=f"pid_file = {t.path(f'pid{i}')}\n{settings}")
            node.internal, node.secret_file, node.pid_file = port.number, secret, t.path(f"pid{i}")
            node.admin = Admin(f"unix:{t.path(f'admin{i}')}")
            self.nodes.append(node)
        for node in self.nodes:
            connected(node)

    def client(self, i):
        return self.t.client(self.nodes[i])
