"""Real peers: curl as the client; nginx as the server, and as the client in front of sluice."""
import os
import re

from lib.peers import Nginx, checksum, curl, find, make_file
from lib.process import SANITIZER, peak_resident_bytes, resident_bytes
from lib.sluice import to
from lib.tap import equal, group, main, test, true

MIB = 1 << 20
SIZE_MIB = int(os.environ.get("SLUICE_E2E_PEERS_MIB") or (32 if SANITIZER else 256))
FILES = "root {0}/files; location /up/ {{ dav_methods PUT; create_full_put_path on; }}"


def need_curl(t):
    if not find("curl"):
        t.skip("curl is not installed")


def served(t, **options):
    """nginx serving files, and sluice before it."""
    need_curl(t)
    nginx = Nginx(t, FILES.format(t.path("nginx")))
    return nginx, t.sluice(to(nginx.address), **options)


@group(f"curl through sluice to nginx, {SIZE_MIB} MiB each way")
def large(t):
    nginx, sluice = served(t)
    url = f"http://{sluice.address}"
    digest = make_file(nginx.file("big"), SIZE_MIB * MIB, t.random)
    curl("-o", "/dev/null", url + "/big", "-r", "0-99")
    before = resident_bytes(sluice.pid)

    with t.point("down: checksums equal"):
        status, output = curl("--fail", "-o", t.path("down"), url + "/big")
        equal(status, 0, f"curl's exit status, it said {output!r}")
        equal(checksum(t.path("down")), digest, "checksum")

    with t.point("up, by length: checksums equal"):
        status, output = curl("--fail", "-T", t.path("down"), url + "/up/by-length")
        equal(status, 0, f"curl's exit status, it said {output!r}")
        equal(checksum(nginx.file("up/by-length")), digest, "checksum")
        os.unlink(nginx.file("up/by-length"))

    with t.point("up, by chunks: checksums equal"):
        status, output = curl("--fail", "-T", t.path("down"), "-H", "Transfer-Encoding: chunked", url + "/up/by-chunks")
        equal(status, 0, f"curl's exit status, it said {output!r}")
        equal(checksum(nginx.file("up/by-chunks")), digest, "checksum")

    with t.point("memory stayed bounded"):
        growth = peak_resident_bytes(sluice.pid) - before
        t.note(f"resident memory grew by {growth / MIB:.1f} MiB")
        true(SANITIZER or growth < 8 * MIB, f"grew by {growth / MIB:.1f} MiB")


@group("curl")
def curls(t):
    nginx, sluice = served(t)
    digest = make_file(nginx.file("small"), 100_000, t.random)
    url = f"http://{sluice.address}/small"

    with t.point("20 files over one connection"):
        status, output = curl("--fail", "-w", "%{num_connects} %{http_code}\\n", *sum((["-o", "/dev/null", url] for _ in range(20)), []))
        equal((status, output.split()), (0, ["1", "200"] + ["0", "200"] * 19))

    with t.point("HTTP/1.0"):
        status, output = curl("--fail", "-0", "-o", t.path("old"), url)
        equal((status, checksum(t.path("old"))), (0, digest), output)

    with t.point("a range"):
        status, output = curl("--fail", "-r", "100-199", "-o", t.path("range"), "-w", "%{http_code}", url)
        equal((status, output, os.path.getsize(t.path("range"))), (0, "206", 100))

    with t.point("HEAD, and a 304 for If-None-Match"):
        status, output = curl("-I", url)
        equal(status, 0, "curl's exit status")
        etag = re.search(r"(?i)etag: (\S+)", output)[1]
        status, output = curl("-H", f"If-None-Match: {etag}", "-w", "%{http_code}", url)
        equal((status, output), (0, "304"))

    with t.point("a 404 of the server's"):
        status, output = curl("-o", "/dev/null", "-w", "%{http_code}", url + "-not")
        equal((status, output), (0, "404"))

    with t.point("Expect: 100-continue"):
        status, output = curl("--fail", "-T", nginx.file("small"), "-H", "Expect: 100-continue", "--expect100-timeout", "30",
                              "-w", "%{http_code} %{time_total}", f"http://{sluice.address}/up/expect")
        equal(status, 0, f"curl's exit status, it said {output!r}")
        equal(checksum(nginx.file("up/expect")), digest, "checksum")
        true(float(output.split()[1]) < 25, f"curl was never told to go on: {output}")

    with t.point("--compressed: the coding passes end to end"):
        with open(nginx.file("text.html"), "w", encoding="ascii") as out:
            out.write("hello " * 10_000)
        status, output = curl("--compressed", f"http://{sluice.address}/text.html")
        equal((status, output), (0, "hello " * 10_000))


@group("nginx before sluice, as its client")
def nginx_client(t):
    back, sluice = served(t, listener="trusted_proxies = 127.0.0.1")
    digest = make_file(back.file("file"), 3_000_000, t.random)
    front = Nginx(t, "location / { proxy_pass http://sluice; proxy_http_version 1.1; proxy_set_header Connection \"\";"
                  " proxy_set_header Host $host; proxy_request_buffering off; proxy_buffering off; }"
                  " location /old/ { proxy_pass http://sluice/; }",
                  http=f"upstream sluice {{ server {sluice.address}; keepalive 4; }}", name="front")
    url = f"http://{front.address}"

    with t.point("40 requests, kept alive"):
        status, output = curl("--fail", "-w", "%{http_code}\\n", *sum((["-o", "/dev/null", url + "/file"] for _ in range(40)), []))
        equal((status, output.split()), (0, ["200"] * 40))

    with t.point("down and up through all three: checksums equal"):
        status, output = curl("--fail", "-o", t.path("down"), url + "/file")
        equal((status, checksum(t.path("down"))), (0, digest), output)
        status, output = curl("--fail", "-T", t.path("down"), url + "/up/file")
        equal((status, checksum(back.file("up/file"))), (0, digest), output)

    with t.point("nginx's default, HTTP/1.0 and Connection: close"):
        status, output = curl("--fail", "-o", t.path("down"), url + "/old/file")
        equal((status, checksum(t.path("down"))), (0, digest), output)


@group("nginx that ends TLS before sluice: the server learns of the client, in both dialects alike")
def balancer(t):
    origin = t.origin()
    sluice = t.sluice(to(origin), listener="trusted_proxies = 127.0.0.1", settings="forwarded = on")
    fields = " proxy_set_header Host $host; proxy_set_header X-Forwarded-For $http_x_client;"
    front = Nginx(t, f"location / {{ proxy_pass http://{sluice.address};{fields} proxy_set_header X-Forwarded-Proto https; }}"
                  f" location /rfc/ {{ proxy_pass http://{sluice.address}; proxy_set_header Host $host;"
                  " proxy_set_header Forwarded \"for=$http_x_client;proto=https;host=$host\"; }", name="front")
    url = f"http://{front.address}"
    expected = {"X-Real-IP": "192.0.2.7", "X-Forwarded-For": "192.0.2.7, 127.0.0.1", "X-Forwarded-Proto": "https",
                "X-Forwarded-Host": "api.test", "X-Forwarded-Port": "443"}

    for path in ("/", "/rfc/"):
        with t.point(f"{path}: {'Forwarded' if path == '/rfc/' else 'X-Forwarded-For and -Proto'} from nginx"):
            status, output = curl("--fail", "-H", "Host: api.test", "-H", "X-Client: 192.0.2.7", url + path)
            equal(status, 0, output)
            seen = origin.last()
            equal({name: seen.get(name) for name in expected}, expected)
            first = seen.get("Forwarded").split(",")[0].split(";")
            true({"for=192.0.2.7", "proto=https"} <= set(first), seen.get("Forwarded"))


@test("a 429 stops curl, and curl's --retry waits for what Retry-After says")
def retry(t):
    need_curl(t)
    sluice = t.sluice("[limit burst]\nrate = 1 per 1s\n" + to(t.origin(), route="limits = burst"))
    url = f"http://{sluice.address}/"
    status, output = curl("-o", "/dev/null", "-w", "%{http_code} ", url, "-o", "/dev/null", url)
    equal(output.split(), ["200", "429"], "statuses")
    status, output = curl("--retry", "3", "-o", t.path("retried"), "-w", "%{http_code}", url)
    true(status == 0 and output.endswith("200"), f"exit status {status}, {output!r}")


main()
