"""What routes change: fields set and removed, of what passes and of what sluice writes itself; paths."""
from lib.tap import equal, group, main, test


@group("changes of fields and paths")
def changes(t):
    def handler(x):
        x.read_body()
        x.reply(200, b"x", fields=[("Server", "old"), ("X-Powered-By", "php"), ("X-Stay", "1")])

    origin = t.origin(handler)
    sluice = t.sluice(f"""
[upstream origin]
server = {origin}
[route strip]
path = /strip/
strip_prefix = /strip
upstream = origin
[route add]
path = /add/
add_prefix = /v2
upstream = origin
[route both]
path = /both/
strip_prefix = /both
add_prefix = /v3
upstream = origin
[route fields]
path = /
upstream = origin
request_header_set = X-Set: a value, with: signs
request_header_set = X-Both: ours
request_header_remove = X-Gone
response_header_set = Server: new
response_header_set = X-More: yes
response_header_remove = X-Powered-By
""")
    client = t.client(sluice)

    for sent, expected in (("/strip/a/b?c", "/a/b?c"), ("/strip/", "/"), ("/add/x", "/v2/add/x"),
                           ("/both/x?y", "/v3/x?y"), ("/both/", "/v3/")):
        with t.point(f"prefixes: {sent} becomes {expected}"):
            client.ask(sent)
            equal(origin.last().target, expected, "target")

    with t.point("request fields: set, replaced, removed"):
        client.ask("/", fields=[("X-Both", "theirs"), ("X-Gone", "1"), ("x-gone", "2"), ("X-Kept", "3")])
        seen = origin.last()
        equal((seen.all("X-Set"), seen.all("X-Both"), seen.get("X-Gone"), seen.get("X-Kept")),
              (["a value, with: signs"], ["ours"], None, "3"))

    with t.point("response fields: set, replaced, removed"):
        answer = client.ask("/")
        equal((answer.all("Server"), answer.get("X-More"), answer.get("X-Powered-By"),
               answer.get("X-Stay")), (["new"], "yes", None, "1"))


@group("what a route sets or removes reaches what sluice writes itself")
def changes_of_own(t):
    origin = t.origin()
    sluice = t.sluice(f"""
[upstream origin]
server = {origin}
[limit few]
rate = 2 per 1h
[route set]
path = /set
upstream = origin
request_header_set = X-Forwarded-Proto: https
request_header_set = X-Request-Id: fixed
request_header_remove = X-Forwarded-For, Forwarded, Via
response_header_set = X-Request-Id: none
response_header_remove = Date, Via
[route few]
path = /few
upstream = origin
limits = few
response_header_set = Access-Control-Allow-Origin: https://route.test
response_header_set = Cache-Control: public
response_header_set = Content-Type: text/html
response_header_remove = RateLimit-Policy
[route other]
path = =/other
method = POST
upstream = origin
""", settings="via = sluice", listener="response_header_set = Access-Control-Allow-Origin: *\n"
                      "response_header_set = Access-Control-Expose-Headers: Retry-After\nresponse_header_remove = X-Powered-By")
    client = t.client(sluice)
    with t.point("of requests: forwarding fields and the id"):
        answer = client.ask("/set", fields=[("X-Forwarded-Proto", "ftp")])
        seen = origin.last()
        equal((seen.all("X-Forwarded-Proto"), seen.all("X-Request-Id")), (["https"], ["fixed"]))
        equal((seen.all("X-Forwarded-For"), seen.all("Forwarded"), seen.all("Via")), ([], [], []))
        equal(seen.all("X-Forwarded-Host"), ["api.test"])
    with t.point("of responses: Date, Via and the id"):
        equal((answer.all("Date"), answer.all("Via"), answer.all("X-Request-Id")), ([], [], ["none"]))
        equal(answer.all("Access-Control-Allow-Origin"), ["*"], "the listener's field")
    with t.point("of a server's answer and of a 429 alike"):
        for status in (200, 200, 429):
            answer = client.ask("/few")
            equal((answer.status, answer.all("Access-Control-Allow-Origin")), (status, ["https://route.test"]))
            equal(answer.all("Access-Control-Expose-Headers"), ["Retry-After"])
            equal((answer.all("RateLimit-Policy"), bool(answer.all("RateLimit"))), ([], True))
    with t.point("what says what a 429 is stays"):
        equal((answer.all("Cache-Control"), answer.all("Content-Type"), bool(answer.get("Retry-After"))),
              (["no-store"], ["application/problem+json"], True))
    with t.point("of answers without a route: 404, 405, 400"):
        for target, status in (("/nowhere", 404), ("/other", 405), ("/%", 400)):
            answer = t.client(sluice).ask(target)
            equal((answer.status, answer.all("Access-Control-Allow-Origin")), (status, ["*"]), target)


@test("a route may remove and set Via of the response as any other field")
def via_changed(t):
    origin = t.origin(lambda x: x.reply(200, b"x", fields=[("Via", "1.1 inner"), ("X-Stay", "1")]))
    routes = "".join(f"[route {name}]\npath = /{name}\nupstream = origin\n{line}\n" for name, line in
                     (("kept", ""), ("removed", "response_header_remove = via"),
                      ("set", "response_header_set = Via: 1.1 outer")))
    sluice = t.sluice(f"[upstream origin]\nserver = {origin}\n{routes}", settings="via = off")
    client = t.client(sluice)
    for name, expected in (("kept", ["1.1 inner"]), ("removed", []), ("set", ["1.1 outer"])):
        answer = client.ask(f"/{name}")
        equal((answer.all("Via"), answer.get("X-Stay")), (expected, "1"), name)


main()
