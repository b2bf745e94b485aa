"""Certificates of clients: which are accepted, what servers learn of them, and keys by them."""
import base64
import hashlib
import os
import ssl

from lib.process import until
from lib.sluice import to
from lib.tap import equal, group, main, true
from lib.tls import Authority, connect, context, exchange, make_certificate
from lib.wire import Ended


def der_of(path):
    with open(path, encoding="ascii") as file:
        return ssl.PEM_cert_to_DER_cert(file.read().split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n")


def by(pair, **options):
    made = context(**options)
    if pair:
        made.load_cert_chain(*pair)
    return made


def status(t, sluice, pair, fields="", **options):
    """Of a request, or None if the client was not let in."""
    try:
        return exchange(connect(t, sluice, made=by(pair, **options)), fields=fields).status
    except (ssl.SSLError, ConnectionError, Ended):  # depends on the version, and on which end is first
        return None


class Setup:
    def __init__(self, t, more="", route="", sections=""):
        self.origin = t.origin()
        self.root = Authority(t, "root")
        self.middle = Authority(t, "middle", self.root)
        self.ann = self.middle.client("ann", "DNS:ann.test,URI:spiffe://x/ann")
        self.bob = self.root.client("bob")
        self.server = make_certificate(t, "server.pem", ["api.test"])
        self.sluice = t.sluice(sections + to(self.origin, route=route), listener=f"certificate = {self.server}\n"
                               f"client_ca = {self.root.certificate}\n{more}")


@group("clients are verified")
def verified(t):
    for verify, without in (("required", None), ("optional", 200), ("none", 200)):
        setup = Setup(t, f"verify = {verify}")
        other = Authority(t, "other").client("eve")
        late = setup.root.client("late", days=-1)
        bad = 200 if verify == "none" else None
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with t.point(f"{verify}, {version.name}"):
                for what, pair, expected in (("none", None, without), ("ann", setup.ann, 200), ("bob", setup.bob, 200),
                                             ("another CA's", other, bad), ("expired", late, bad)):
                    equal(status(t, setup.sluice, pair, version=version), expected, what)


@group("the fields of RFC 9440")
def fields(t):
    setup = Setup(t, "verify = optional")
    forged = "Client-Cert: :AAAA:\r\nclient-cert-chain: :AAAA:\r\nClient_Cert: x\r\n"
    with t.point("the certificate and its chain, without the anchor, in place of the client's own"):
        equal(status(t, setup.sluice, setup.ann, forged), 200, "status")
        seen = setup.origin.last()
        equal([base64.b64decode(each.strip(":"), validate=True) for each in seen.all("Client-Cert")], [der_of(setup.ann[0])],
              "Client-Cert")
        equal(base64.b64decode(seen.get("Client-Cert-Chain").strip(":")), der_of(setup.middle.certificate), "the chain")
        equal(seen.all("Client_Cert"), [], "what looks alike")
    with t.point("no chain where the anchor has signed it"):
        equal(status(t, setup.sluice, setup.bob), 200, "status")
        equal(len(setup.origin.last().all("Client-Cert")), 1, "Client-Cert")
        equal(setup.origin.last().all("Client-Cert-Chain"), [], "the chain")
    with t.point("nothing for a client without one, whatever it sends"):
        equal(status(t, setup.sluice, None, forged), 200, "status")
        equal([name for name, _ in setup.origin.last().fields if name.lower().startswith("client")], [], "fields")
    with t.point("on a session that was resumed, too"):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            made = by(setup.ann, version=version)
            first = connect(t, setup.sluice, made=made)
            exchange(first)
            again = connect(t, setup.sluice, made=made, session=first.session)
            exchange(again)
            true(again.session_reused, "resumed")
            equal(base64.b64decode(setup.origin.last().get("Client-Cert").strip(":")), der_of(setup.ann[0]), "Client-Cert")


@group("keys by what TLS shows")
def keys(t):
    fingerprint = "tls:fingerprint"
    for form, alike in (("tls:subject", []), ("tls:san", [("bob", "eve")]), (fingerprint, []),
                        ("tls:version", [("ann", "bob"), ("ann", "eve"), ("bob", "eve")]),
                        ("tls:sni", [("ann", "bob"), ("ann", "eve"), ("bob", "eve")])):
        with t.point(f"{form}"):
            setup = Setup(t, sections=f"[limit one]\nkey = {form}\nrate = 1 per 1h\n", route="limits = one")
            pairs = {"ann": setup.ann, "bob": setup.bob, "eve": setup.root.client("eve")}
            for one, pair in pairs.items():
                used = any((other, one) in alike for other in pairs)
                equal(status(t, setup.sluice, pair), 429 if used else 200, f"the first of {one}")
                equal(status(t, setup.sluice, pair), 429, f"the second of {one}")
    with t.point("plans by them"):
        ann = Authority(t, "ca").client("ann", "DNS:ann.test")
        for form, value in (("tls:subject", "CN=ann,O=Customers"), ("tls:san", "ann.test"),
                            (fingerprint, hashlib.sha256(der_of(ann[0])).hexdigest())):
            origin = t.origin()
            callers = t.file("callers", value + "\n")
            sluice = t.sluice(f"[limit gold]\nkey = {form}\nrate = 100 per 1h\n[plans]\nkey = {form}\nunknown = refuse\n"
                              f"[plan gold]\ncallers = file:{callers}\nlimits = gold\n" + to(origin, route="limits = plan"),
                              listener=f"certificate = {make_certificate(t, 's.pem', ['api.test'])}\n"
                              f"client_ca = {t.path('ca.pem')}")
            equal(status(t, sluice, ann), 200, f"{form} of a listed one")
            equal(status(t, sluice, Authority(t, "ca2").client("x")), None, "one of another authority")


@group("revoked certificates")
def revoked(t):
    root = Authority(t, "root")
    ann, bob = root.client("ann"), root.client("bob")
    crl = t.file("crl.pem", root.revoke())
    server = make_certificate(t, "server.pem", ["api.test"])
    sluice = t.sluice(to(t.origin()), listener=f"certificate = {server}\nclient_ca = {root.certificate}\nclient_crl = {crl}")
    made = by(ann, version=ssl.TLSVersion.TLSv1_2)
    first = connect(t, sluice, made=made)
    with t.point("none yet"):
        equal([exchange(first).status, status(t, sluice, ann), status(t, sluice, bob)], [200] * 3, "statuses")
    with t.point("the list is read again when it changes; no session is resumed past it"):
        with open(crl + ".new", "w", encoding="ascii") as out:
            out.write(root.revoke(ann[0]))
        os.rename(crl + ".new", crl)
        until(lambda: status(t, sluice, ann) is None, "ann is refused")
        equal(status(t, sluice, bob), 200, "bob")
        try:
            connect(t, sluice, made=made, session=first.session)
            raise AssertionError("a revoked client resumed its session")
        except (ssl.SSLError, ConnectionError):
            pass
        equal(exchange(first).status, 200, "the connection from before")


main()
