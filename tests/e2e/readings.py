"""What a server could read instead: each row is a request that servers behind sluice read in another way than others,
sent to real ones directly and through sluice. What a route or a list refuses must never arrive, however it is spelled."""
import os

from lib.client import request_bytes
from lib.peers import Apache, Nginx, Node
from lib.sluice import to
from lib.tap import equal, group, main, true
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


# ---- restrictions -------------------------------------------------------------------------------

# Each makes it matter which route serves a request.
RESTRICTIONS = [
    "limits = many", "unknown_callers = refuse", "session_in_flight = 1", "max_body_size = 1k", "upgrade = off",
    "websocket = messages", "websocket = messages\nmessage_limits = many", "websocket = messages\nmax_sockets = few",
    "websocket = messages\nwebsocket_origin = https://a.test", "websocket = gateway", "deny = 192.0.2.0/24",
    "ordering = strict", "min_rate = 1k", "request_header_remove = X-Admin", "request_header_set = X-Role: guest",
    "response_header_set = Content-Security-Policy: default-src 'none'",
]


@group("another spelling of a path evades no restriction", workers=[1])
def restrictions(t):
    origin = t.origin()
    base = ("[plans]\nkey = header:X-Key\n[plan default]\nlane = high\n[limit many]\nrate = 1000 per 1s\n"
            "[limit few]\nconcurrency = 5\n[route rest]\nupstream = origin\nlimits = {}\n")
    for lines in RESTRICTIONS:
        route = "path = /secret\n" + lines
        used = base.format("many") if "many" in lines else base.replace("limits = {}\n", "")
        used = used if "few" in lines else used.replace("[limit few]\nconcurrency = 5\n", "")
        used = used if "many" in lines else used.replace("[limit many]\nrate = 1000 per 1s\n", "")
        sluice = t.sluice(to(origin, route=route), used)
        with t.point(f"{lines!r}"):
            for target in ("//secret", "/x/..//secret", "/%2Fsecret", "/./secret/../secret"):
                equal(t.client(sluice).ask(target).status, 400, target)
            equal(t.client(sluice).ask("/a//b").status, 200)
        sluice.end()


# ---- keys --------------------------------------------------------------------------------------

# A caller whose key is "banned" is denied. Each row: which key of the route, what is sent, and what sluice says of it.
FIELD, PARAM, COOKIE, AUTH = "header:X-Api-Key", "query:key", "cookie:sid", "header:Authorization"
KEYS = [
    (FIELD, "/", ["X-Api-Key: banned"], 403), (FIELD, "/", ["x-API-key:   banned  "], 403),
    (FIELD, "/", ["X-Api-Key: good"], 200), (FIELD, "/", [], 200),
    (FIELD, "/", ["X-Api-Key: good", "X-Api-Key: banned"], 400), (FIELD, "/", ["X-Api-Key:", "X-Api-Key: banned"], 400),
    (FIELD, "/", ["X-Api-Key: banned", "X-Api-Key: good"], 400), (FIELD, "/", ["X_Api_Key: banned"], 200),
    (FIELD, "/", ["X-Api-Key: good", "X_Api_Key: banned"], 200), (FIELD, "/", ["X-Api_Key: banned"], 200),
    (FIELD, "/", ["X-Api-Key: good", "Connection: X-Api-Key"], 400),
    (PARAM, "/?key=banned", [], 403), (PARAM, "/?key=%62anned", [], 403), (PARAM, "/?a=1&key=good", [], 200),
    (PARAM, "/?key=good&key=banned", [], 400), (PARAM, "/?key=&key=banned", [], 400), (PARAM, "/?%6Bey=banned", [], 400),
    (PARAM, "/?key=good&k%65y=banned", [], 400), (PARAM, "/?KEY=banned", [], 400), (PARAM, "/?key[]=banned", [], 400),
    (PARAM, "/?a=1;key=banned", [], 400), (PARAM, "/?key=banned;a=1", [], 400), (PARAM, "/?keys=banned", [], 200),
    (COOKIE, "/", ["Cookie: sid=banned"], 403), (COOKIE, "/", ["Cookie: a=b; sid=good"], 200),
    (COOKIE, "/", ["Cookie: sid=good; sid=banned"], 400), (COOKIE, "/", ["Cookie: sid=good", "Cookie: sid=banned"], 400),
    (COOKIE, "/", ["Cookie: sid=; sid=banned"], 400), (COOKIE, "/", ["Cookie: sid=good; sid=good"], 200),
    (COOKIE, "/", ["Cookie: sid=good", "Connection: cookie"], 400), (COOKIE, "/", ["Cookie: sid=%62anned"], 403),
    (COOKIE, "/", ["Cookie: sid=\"%62anned\""], 403), (COOKIE, "/", ["Cookie: SID=good"], 200),
    (COOKIE, "/", ["Cookie: sid=\"\\142anned\""], 400), (PARAM, "/?key%00=banned", [], 400),
    (AUTH, "/", ["Authorization: Bearer banned"], 403), (AUTH, "/", ["Authorization: bearer banned"], 403),
    (AUTH, "/", ["Authorization: BEARER \t banned"], 403), (AUTH, "/", ["Authorization: Bearer good"], 200),
    (AUTH, "/", ["Authorization: Bearer good", "Authorization: Bearer banned"], 400),
]

LISTED = """
[upstream origin]
server = {0}
[limit callers]
key = {1} | ip
rate = 1000 per 1h
[route all]
upstream = origin
limits = callers
deny = file:{2}
"""


def keys_at(name, start):
    @group(f"{name}: keys", workers=[1])
    def keys(t):
        server = start(t)
        listed = t.file("listed", "banned\nbearer banned\n")
        sluices = {key: t.sluice(LISTED.format(server.address, key, listed)) for key in (FIELD, PARAM, COOKIE, AUTH)}
        for key, target, lines, status in KEYS:
            data = (f"GET {target} HTTP/1.1\r\nHost: h\r\n" + "".join(line + "\r\n" for line in lines) + "\r\n").encode()
            what = {FIELD: "X-Key", PARAM: "X-Param", COOKIE: "X-Cookie", AUTH: "X-Auth"}[key]
            direct, through = asked(t, server, data), asked(t, sluices[key], data)
            read = direct.get(what) if direct else None
            with t.point(f"{target} {lines}: {name} reads {read!r} as {key}, sluice says {status}"):
                true(through is not None and through.status == status, f"sluice says {through}")
                if status == 200 and "keys=" not in target:
                    true("banned" not in (through.get(what) or ""), f"the server read {through.get(what)}")


# ---- trailers ----------------------------------------------------------------------------------

@group("node: trailers", workers=[1])
def trailers(t):
    server = SERVERS["node"](t)
    sluice = t.sluice(LISTED.format(server.address, FIELD, t.file("listed", "banned\n")))
    lines = ["X-Api-Key: banned", "X-Forwarded-For: 6.6.6.6", "X-Request-Id: forged", "Content-Digest: sha-256=:YQ==:"]
    data = ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
            + "".join(line + "\r\n" for line in lines) + "\r\n").encode()
    with t.point("directly node reads all of them"):
        true("X-Api-Key banned" in asked(t, server, data).get("X-Trailers"), "X-Api-Key")
    with t.point("through sluice only what can't be taken for a field of the head"):
        true(asked(t, sluice, data).get("X-Trailers") == "Content-Digest sha-256=:YQ==:", "trailers")


for each in SERVERS.items():
    paths_at(*each)
    keys_at(*each)

main()
