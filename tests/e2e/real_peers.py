"""What users of clients, servers and balancers in the field expect: nginx, HAProxy and curl around sluice."""
import os
import re
import threading

from lib import process
from lib.peers import Nginx, curl, find
from lib.process import Port, Process, until
from lib.sluice import to
from lib.tap import equal, group, main, test, true
from lib.wire import dial


def need_curl(t):
    if not find("curl"):
        t.skip("curl is not installed")


def lines(nginx, name):
    with open(os.path.join(nginx.folder, name), encoding="utf-8") as log:
        return log.read().splitlines()


@test("HAProxy's `option httpchk`, an HTTP/1.0 request without Host, finds nginx behind sluice up", workers=[1])
def httpchk(t):
    if not find("haproxy"):
        t.skip("haproxy is not installed")
    need_curl(t)
    nginx = Nginx(t, "location / { return 200 \"host $http_host\"; }")
    sluice = t.sluice(to(nginx.address))
    port = Port()
    t.defer(port.release)
    conf = t.file("haproxy.cfg", f"""global
  maxconn 100
defaults
  mode http
  timeout connect 5s
  timeout client 10s
  timeout server 10s
  timeout check 10s
frontend f
  bind 127.0.0.1:{port.number}
  default_backend b
  monitor-uri /is-up
  monitor fail if {{ nbsrv(b) lt 1 }}
backend b
  option httpchk GET /
  http-check expect status 200
  server sluice {sluice.address} check inter 500ms fall 1 rise 1
""")
    haproxy = Process([find("haproxy"), "-f", conf, "-db"], "haproxy")
    t.defer(haproxy.kill)

    def listens():
        try:
            dial(f"127.0.0.1:{port.number}").close()
        except OSError:
            return False
        return True
    until(listens, "haproxy listens")
    until(lambda: nginx_was_checked(nginx), "a check of HAProxy's at nginx")
    for _ in range(10):
        status, output = curl("-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{port.number}/is-up")
        equal((status, output), (0, "200"), "HAProxy's view of the server")
    true("DOWN" not in haproxy.output(), haproxy.output())


def nginx_was_checked(nginx):
    path = os.path.join(nginx.folder, "access.log")
    return os.path.exists(path) and len(lines(nginx, "access.log")) >= 3


@group("nginx's own methods, and one that nobody knows", workers=[1])
def methods(t):
    need_curl(t)
    nginx = Nginx(t, "root {0}/files; dav_methods PUT DELETE MKCOL COPY MOVE; create_full_put_path on;"
                  " location /method {{ return 200 $request_method; }}".format(t.path("nginx")))
    sluice = t.sluice(to(nginx.address))
    url = f"http://{sluice.address}"

    for method in ("QUERY", "PROPFIND", "FOO"):
        with t.point(f"{method} reaches nginx"):
            equal(curl("-X", method, url + "/method"), (0, method))
    with t.point("MKCOL, PUT, COPY, MOVE and DELETE do what they do"):
        with open(t.path("text"), "w", encoding="ascii") as out:
            out.write("text")
        for arguments in (("-X", "MKCOL", url + "/d/"), ("-T", t.path("text"), url + "/d/a"),
                          ("-X", "COPY", "-H", "Destination: /d/b", url + "/d/a"),
                          ("-X", "MOVE", "-H", "Destination: /d/c", url + "/d/b"), ("-X", "DELETE", url + "/d/a")):
            status, output = curl("--fail", *arguments)
            equal(status, 0, f"{arguments}: {output}")
        equal(os.listdir(nginx.file("d")), ["c"])


@test("a GET that one nginx closes without an answer is answered by the next, as nginx itself does", workers=[1])
def next_server(t):
    need_curl(t)
    cuts, serves = Nginx(t, "return 444;", name="cuts"), Nginx(t, "return 200 served;", name="serves")
    sluice = t.sluice(to(cuts.address, serves.address, upstream="max_fails = 0"))
    front = Nginx(t, "location / { proxy_pass http://both; }",
                  http=f"upstream both {{ server {cuts.address} max_fails=0; server {serves.address}; }}", name="front")
    for proxy in (front, sluice):
        for _ in range(10):
            equal(curl(f"http://{proxy.address}/"), (0, "served"))


@test("nginx compresses what it sends through sluice as it does directly", workers=[1])
def gzip(t):
    need_curl(t)
    nginx = Nginx(t, "root {0}/files; gzip on; gzip_types *; gzip_http_version 1.0;".format(t.path("nginx")))
    with open(nginx.file("page.html"), "w", encoding="ascii") as out:
        out.write("sluice " * 50_000)
    sluice = t.sluice(to(nginx.address))
    via = t.sluice(to(nginx.address, route="request_header_remove = Via"), settings="via = sluice")
    sizes = [int(curl("-H", "Accept-Encoding: gzip", "-o", "/dev/null", "-w", "%{size_download}",
                      f"http://{peer.address}/page.html")[1]) for peer in (nginx, sluice, via)]
    t.note(f"bytes: direct {sizes[0]}, through sluice {sizes[1]}, with Via removed {sizes[2]}")
    true(sizes[0] < 10_000 and sizes == [sizes[0]] * 3, f"{sizes} bytes")


@test("nginx gets paths and queries byte for byte, also raw UTF-8", workers=[1])
def paths(t):
    need_curl(t)
    nginx = Nginx(t, "location / { return 200 $request_uri; }")
    sluice = t.sluice(to(nginx.address))
    for path in ("/%6C", "/%c3%a9", "/a/../b", "/a/./b", "/sig/%2f%3D?x=%7e&y=a+b", "/ä?q=€", "/a//b"):
        direct = curl("--path-as-is", f"http://{nginx.address}{path}")  # curl encodes some of it
        equal(curl("--path-as-is", f"http://{sluice.address}{path}"), direct, path)
        true("ä" in path or direct == (0, path), direct)


@test("an open event stream holds no write of its address back", workers=[1])
def event_stream(t):
    need_curl(t)
    open_streams = t.event()

    def handler(x):
        if x.request.target == "/events":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            open_streams.wait()
            x.close()
        else:
            x.read_body()
            x.reply(200, b"written")
    origin = t.origin(handler)
    sluice = t.sluice(to(origin, upstream="max_in_flight = 100"))
    streams = [threading.Thread(target=curl, args=("-N", "--max-time", "60", f"http://{sluice.address}/events"), daemon=True)
               for _ in range(3)]
    for stream in streams:
        stream.start()
    origin.wait_requests(3)
    for _ in range(20):
        equal(curl("--max-time", "10", "-d", "x", f"http://{sluice.address}/write"), (0, "written"))
    open_streams.set()
    for stream in streams:
        stream.join()


@test("behind nginx's log: requests of a gold key pass those that wait", workers=[1])
def gold(t):
    need_curl(t)
    nginx = Nginx(t, "location / { return 200; }", "log_format who '$http_x_api_key'; access_log who who;")
    keys = t.file("gold.keys", "gold-key\n")
    sluice = t.sluice(f"[plans]\nkey = header:X-Api-Key\n[plan gold]\ncallers = file:{keys}\nlane = high\n[plan default]\n",
                      to(nginx.address, upstream="pace = 10 per 1s", route="limits = plan"))
    url = f"http://{sluice.address}/"

    def ask(key, count):
        return Process([find("curl"), "-s", "--noproxy", "*", "-Z", "--parallel-max", str(count), "-H", f"X-Api-Key: {key}",
                        *sum((["-o", "/dev/null", url] for _ in range(count)), [])], f"curl {key}")
    free = ask("free-key", 40)
    t.defer(free.kill)
    until(lambda: len(lines(nginx, "who")) >= 10 if os.path.exists(os.path.join(nginx.folder, "who")) else False, "the first ten")
    rich = ask("gold-key", 5)
    t.defer(rich.kill)
    equal((rich.wait(), free.wait()), (0, 0), "curl's exit status")
    until(lambda: len(lines(nginx, "who")) == 45, "all in nginx's log")
    last = max(place for place, key in enumerate(lines(nginx, "who")) if key == "gold-key")
    t.note(f"the last of the gold key was number {last + 1} of 45")
    true(last < 44 - 8, f"the last of the gold key was number {last + 1} of 45")


@test("a refusal shows scripts of other origins what the site lets them see", workers=[1])
def cors(t):
    need_curl(t)
    nginx = Nginx(t, "location / { return 200; }")
    sluice = t.sluice("[limit one]\nrate = 1 per 1h\n", to(nginx.address, route="limits = one"),
                      listener="response_header_set = Access-Control-Allow-Origin: *\n"
                               "response_header_set = Access-Control-Expose-Headers: Retry-After, RateLimit")
    for expected in (200, 429):
        _, output = curl("-i", "-H", "Origin: https://shop.test", f"http://{sluice.address}/")
        true(f" {expected} " in output.splitlines()[0], output)
        true("Access-Control-Allow-Origin: *" in output and "Access-Control-Expose-Headers: Retry-After" in output, output)


PAGE = """<!doctype html><title>shop</title><pre id=seen></pre><script>
(async () => {
  const seen = [];
  for (let i = 0; i < 2; i++) {
    const answer = await fetch("URL", {headers: {"X-Api-Key": "k"}});
    seen.push(answer.status + " " + answer.headers.get("Retry-After") + " " + answer.headers.get("RateLimit"));
  }
  document.getElementById("seen").textContent = seen.join("|");
})().catch(error => { document.getElementById("seen").textContent = "failed: " + error; });
</script>
"""


@test("a browser: a page of another origin reads Retry-After of a 429, after its preflight", workers=[2])
def browser(t):
    chromium = find("chromium") or find("chromium-browser") or find("google-chrome")
    if not chromium:
        t.skip("chromium is not installed")
    cors = ("add_header Access-Control-Allow-Methods GET; add_header Access-Control-Allow-Headers X-Api-Key;"
            "if ($request_method = OPTIONS) { return 204; } return 200;")
    api = Nginx(t, f"location / {{ {cors} }}", name="api")
    sluice = t.sluice("[limit one]\nkey = header:X-Api-Key\nrate = 1 per 1h\n",
                      to(api.address, route="method = GET\nlimits = one"),
                      "[route preflight]\nmethod = OPTIONS\nupstream = origin\n",
                      listener="response_header_set = Access-Control-Allow-Origin: *\n"
                               "response_header_set = Access-Control-Expose-Headers: Retry-After, RateLimit")
    site = Nginx(t, f"location / {{ root {t.path('site')}/files; }}", name="site")
    with open(site.file("shop.html"), "w", encoding="utf-8") as page:
        page.write(PAGE.replace("URL", f"http://{sluice.address}/"))
    status, output = process.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-proxy-server",
                                  f"--user-data-dir={t.path('chromium')}", "--virtual-time-budget=10000",
                                  "--dump-dom", f"http://{site.address}/shop.html"])
    seen = re.search(r"<pre id=.seen.>([^<]+)</pre>", output)
    true(status == 0 and seen, f"the page was not shown: {output[-2000:]}")
    first, second = seen.group(1).split("|")
    t.note(f"the page saw {first!r} and then {second!r}")
    true(re.fullmatch(r'200 null "one";r=0.*', first), first)
    true(re.fullmatch(r'429 \d+ "one";r=0;t=\d+', second), second)


main()
