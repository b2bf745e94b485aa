"""Certificates that are renewed: files that change under sluice, ends that come near, and answers to ACME."""
import os
import re
import shutil
import ssl

from lib.admin import with_admin
from lib.client import Client
from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, true
from lib.tls import ask, connect, make_certificate, with_tls


def text_of(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def der_of(path):
    return ssl.PEM_cert_to_DER_cert(text_of(path).split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n")


def serves(t, sluice, path):
    return connect(t, sluice).getpeercert(True) == der_of(path)


def replace(path, text):
    with open(path + ".tmp", "w", encoding="ascii") as out:
        out.write(text)
    os.rename(path + ".tmp", path)


def link(target, path):
    os.symlink(target, path + ".tmp")
    os.rename(path + ".tmp", path)


@group("files that change are read again")
def changes(t):
    origin = t.origin()
    a, b = (make_certificate(t, name, ["api.test"]) for name in ("a.pem", "b.pem"))

    with t.point("by a rename, by a write in place, and open connections go on"):
        used = t.path("used.pem")
        shutil.copy(a, used)
        sluice = with_tls(t, origin, [used])
        open_one = connect(t, sluice)
        replace(used, text_of(b))
        until(lambda: serves(t, sluice, b), "the new certificate by a rename")
        with open(used, "w", encoding="ascii") as out:
            out.write(text_of(a))
        until(lambda: serves(t, sluice, a), "the new certificate by a write")
        equal(ask(open_one)[0], 200, "status of the connection from before")
        true("its certificates have changed and are in use" in sluice.log(), sluice.log())

    for what, make in (("a pipe", os.mkfifo), ("a device", lambda path: os.symlink("/dev/zero", path))):
        with t.point(f"{what} in its place is refused, and holds up nothing"):
            used = t.path("used2.pem")
            shutil.copy(a, used)
            sluice = with_tls(t, origin, [used])
            os.unlink(used)
            make(used)
            sluice.process.wait_output("it is no regular file")
            true(serves(t, sluice, a), "the certificate from before")
            os.unlink(used)
            shutil.copy(b, used)
            until(lambda sluice=sluice: serves(t, sluice, b), "the new certificate")
            os.unlink(used)

    with t.point("as certbot does: live/NAME/x.pem leads to ../../archive/NAME/xN.pem"):
        for folder in ("live/n", "archive/n"):
            os.makedirs(t.path(folder))
        for number, path in ((1, a), (2, b)):
            shutil.copy(path, t.path(f"archive/n/full{number}.pem"))
        link("../../archive/n/full1.pem", t.path("live/n/full.pem"))
        sluice = with_tls(t, origin, [t.path("live/n/full.pem")])
        os.unlink(t.path("live/n/full.pem"))
        os.symlink("../../archive/n/full2.pem", t.path("live/n/full.pem"))
        until(lambda: serves(t, sluice, b), "the new certificate")

    with t.point("as Kubernetes does: ..data leads to a folder, and is switched"):
        for folder, path in (("secret/..1", a), ("secret/..2", b)):
            os.makedirs(t.path(folder))
            shutil.copy(path, t.path(folder + "/tls.pem"))
        link("..1", t.path("secret/..data"))
        link("..data/tls.pem", t.path("secret/tls.pem"))
        sluice = with_tls(t, origin, [t.path("secret/tls.pem")])
        for target, path in (("..2", b), ("..1", a), ("..2", b)):
            link(target, t.path("secret/..data"))
            until(lambda path=path: serves(t, sluice, path), "the other certificate")

    with t.point("behind a link in the middle of the path"):
        for folder, path in (("v1", a), ("v2", b)):
            os.makedirs(t.path(folder + "/in"))
            shutil.copy(path, t.path(folder + "/in/x.pem"))
        link(t.path("v1"), t.path("now"))
        sluice = with_tls(t, origin, [t.path("now/in/x.pem")])
        link(t.path("v2"), t.path("now"))
        until(lambda: serves(t, sluice, b), "the other certificate")


@group("a broken pair")
def broken(t):
    origin = t.origin()
    a, b = (make_certificate(t, name, ["api.test"]) for name in ("a.pem", "b.pem"))
    used = t.path("used.pem")
    shutil.copy(a, used)
    sluice, admin = with_admin(t, "[limit burst]\nkey = ip\nrate = 5 per 1h\n" + to(origin, route="limits = burst"),
                               listener=f"certificate = {used}")

    def outdated():
        return [line for line in admin.metrics()[1].splitlines() if line.startswith("sluice_certificates_outdated{")]

    with t.point("is reported by log, metric and status, and the old one stays in use"):
        equal(outdated(), ['sluice_certificates_outdated{listener="main"} 0'], "metric")
        replace(used, "nonsense")
        until(lambda: "it keeps the certificates" in sluice.log(), "the line")
        equal(outdated(), ['sluice_certificates_outdated{listener="main"} 1'], "metric")
        (one,) = admin.json("/api/v1/status")[1]["certificates"]
        true("can't read the certificate" in one["problem"], one)
        equal((one["listener"], one["name"], one["days"] in (29, 30)), ("main", "api.test", True), "the one in use")
        true(serves(t, sluice, a), "the old certificate")
    with t.point("another setting that changes does not read the files"):
        count = sluice.log().count("can't read the certificate")
        equal(admin.json("/api/v1/limits/burst", "PATCH", body=b'{"rate": "7 per 1h"}')[0], 200, "status of the change")
        true(serves(t, sluice, a), "the old certificate")
        equal(sluice.log().count("can't read the certificate"), count, "lines")
    with t.point("until there is a good one"):
        replace(used, text_of(b))
        until(lambda: serves(t, sluice, b), "the new certificate")
        equal(outdated(), ['sluice_certificates_outdated{listener="main"} 0'], "metric")
        equal(admin.json("/api/v1/status")[1]["certificates"][0]["problem"], None, "problem")


@group("certificates that expire")
def expiry(t):
    origin = t.origin()
    soon, later = make_certificate(t, "soon.pem", ["soon.test"], days=10), make_certificate(t, "later.pem", ["l.test"], days=30)
    sluice, admin = with_admin(t, to(origin), listener=f"certificate = {soon}\ncertificate = {later}")
    with t.point("have a line from 21 days on"):
        until(lambda: re.search("expires in (9|10) days", sluice.log()), "the line")
        true(soon in sluice.log() and later not in sluice.log(), sluice.log())
    with t.point("and their time is a metric"):
        lines = [line for line in admin.metrics()[1].splitlines()
                 if line.startswith("sluice_certificate_expiry_timestamp_seconds{")]
        equal(len(lines), 2, "samples")
        true(f'certificate="{soon}"' in lines[0], lines)


@group("acme_challenge")
def acme(t):
    origin = t.origin()
    folder = t.path("acme")
    os.mkdir(folder)
    t.file("outside", "secret")
    for name, text in (("token_-1", "token_-1.digest"), ("empty", ""), ("a.b", "dots")):
        with open(os.path.join(folder, name), "w", encoding="ascii") as out:
            out.write(text)
    os.symlink(t.path("outside"), os.path.join(folder, "link"))
    os.mkdir(os.path.join(folder, "sub"))
    os.mkfifo(os.path.join(folder, "fifo"))
    limit = "[limit one]\nkey = ip\nrate = 1 per 1h\n"
    sluice = t.sluice(limit + to(origin, route="limits = one"), listener=f"acme_challenge = {folder}\nredirect = https")
    client = Client(sluice.address)
    base = "/.well-known/acme-challenge/"
    with t.point("a file's bytes, before the redirect and limits"):
        for _ in range(3):
            response = client.ask(base + "token_-1")
            equal((response.status, response.body), (200, b"token_-1.digest"), "answer")
            equal(response.get("Content-Type"), "application/octet-stream", "type")
        equal(client.ask(base + "token_-1", method="HEAD").get("Content-Length"), "15", "length for HEAD")
    for name in ("none", "empty", "a.b", "link", "sub", "fifo", "", "..", "../outside", "%2e%2e%2foutside", "sub/x",
                 "x" * 300, "token_-1/", "token_-1%00"):
        with t.point(f"nothing else: {name[:40]}"):
            got = Client(sluice.address).ask(base + name)
            true(got.status in (404, 308, 400), got)
            true(b"secret" not in got.body, got)
    with t.point("other methods go their way"):
        equal(client.ask(base + "token_-1", method="POST").status, 308, "status")
    equal(origin.targets(), [], "requests at the origin")


main()
