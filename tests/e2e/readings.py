"""What a server could read instead: each row is a request that servers behind sluice read in another way than others,
sent to real ones directly and through sluice. What a route or a list refuses must never arrive, however it is spelled."""
import os

from lib.client import request_bytes
from lib.peers import Apache, Nginx, Node
from lib.tap import group, main, true
from lib.wire import Ended

LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")

NGINX = """
location / { add_header X-Area public always; REST }
location /admin { add_header X-Area admin always; REST }
""".replace("REST", "add_header X-Key \"$http_x_api_key\" always; add_header X-Param \"$arg_key\" always;"
            " add_header X-Cookie \"$cookie_sid\" always; add_header X-Auth \"$http_authorization\" always;"
            " add_header X-For \"$http_x_forwarded_for\" always; return 200 read;")

APACHE = """
AllowEncodedSlashes On
Header always set X-Area public
<Location "/admin">
Header always set X-Area admin
</Location>
""" + "\n".join(f"Header always set {name} \"expr=%{{{expression}}}\"" for name, expression in (
    ("X-Key", "HTTP:X-Api-Key"), ("X-Cookie", "HTTP:Cookie"), ("X-Auth", "HTTP:Authorization"),
    ("X-For", "HTTP:X-Forwarded-For"), ("X-Param", "QUERY_STRING")))

SERVERS = {
    "nginx": lambda t: Nginx(t, NGINX),
    "apache2": lambda t: Apache(t, APACHE),
    "node": lambda t: Node(t, os.path.join(LIB, "readings.mjs")),
}


def asked(t, address, data):
    """The response to these bytes, or None when there was none."""
    client = t.client(address)
    try:
        client.send(data)
        return client.response()
    except Ended:
        return None
    finally:
        client.close()


# ---- paths -------------------------------------------------------------------------------------

# Beside each: what sluice does with it where /admin is denied and all else is free.
PATHS = [
    ("/admin", 403), ("/admin/x", 403), ("/public", 200), ("/", 200), ("/public/x?a=/admin", 200),
    ("//admin", 400), ("///admin/x", 400), ("/admin//x", 403), ("/admin%2Fx", 400), ("/admin%2fx", 400),
    ("/%2Fadmin", 400), ("/%2f%2fadmin", 400), ("/.//admin", 400), ("/./admin", 400), ("/%2e/admin", 400),
    ("/x/..//admin", 400), ("/x//../admin", 400), ("/x/../admin", 400), ("/x/%2e%2E/admin", 400),
    ("/x%2F../admin", 400), ("/x%2Fy/../admin", 400), ("/x%2Fy/../../admin", 400), ("/../admin", 400),
    ("/admin;a/x", 400), ("/admin;a", 400), ("/admin%3Ba/x", 400), ("/;a/admin", 400), ("/x;a/../admin", 400),
    ("/;/admin", 400), ("/..;/admin", 400), ("/x/..;/admin", 400), ("/x/..%2Fadmin", 400), ("/x/..%5Cadmin", 400),
    ("/\\admin", 400), ("/%5Cadmin", 400), ("/admin\\x", 400), ("/admin%5cx", 400), ("/x\\..\\admin", 400),
    ("/%61dmin", 403), ("/%61%64min/x", 403), ("/admin/../x", 400), ("/admin/./x", 403), ("/admin/..", 400),
    ("/admin/%2e%2e/x", 400), ("/admin/x/../../y", 400), ("/admin/..%2Fx", 400), ("/admin%00x", 400),
    ("/%", 400), ("/x%2", 400), ("/a//b", 200), ("/a%2Fb", 200), ("/a;b/c", 200), ("/a/../b", 200), ("/a%20b", 200),
    ("http://any.test//admin", 400), ("http://any.test/admin", 403), ("/admin?x", 403), ("/x?/../admin", 200),
]

DENIED = """
[upstream origin]
server = {0}
[route admin]
path = /admin
upstream = origin
deny = 127.0.0.0/8
[route all]
upstream = origin
"""


def paths_at(name, start):
    @group(f"{name}: paths", workers=[1])
    def paths(t):
        server = start(t)
        sluice = t.sluice(DENIED.format(server.address))
        for path, status in PATHS:
            data = request_bytes(path)
            direct, through = asked(t, server, data), asked(t, sluice, data)
            area = direct.get("X-Area") if direct and direct.status == 200 else None
            with t.point(f"{path}: {name} reads {area}, sluice says {status}"):
                true(through is not None, "no answer")
                if status == 200 and (direct is None or direct.status != 200):
                    status = direct.status if direct else through.status
                true(through.status == status, f"sluice says {through.status}")
                true(area != "admin" or through.status in (400, 403), "what is denied was served")
                true(through.get("X-Area") != "admin", "the server read it as what is denied")
                if through.status == 200 and through.get("X-Target") and path.startswith("/"):
                    true(bytes.fromhex(through.get("X-Target")).decode() == path, "it did not arrive as it was sent")


for each in SERVERS.items():
    paths_at(*each)

main()
