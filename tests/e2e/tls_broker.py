"""TLS towards RabbitMQ: slots are made and held through it, and brokers that are not accepted are named with the reason."""
from lib.authority import Authority
from lib.process import BINARY, run, until
from lib.rabbit import Rabbit
from lib.sluice import to
from lib.tap import equal, group, main, true


@group("a RabbitMQ with TLS, which asks for certificates", workers=[1])
def broker(t):
    authority, other = Authority(t), Authority(t, "other")
    mine = authority.issue("node", ["node.test"])
    rabbit = Rabbit(t, tls=authority)
    url = f"amqps://127.0.0.1:{rabbit.tls_port.number}"
    good = f"tls_ca = {authority.certificate}\ntls_certificate = {mine}\n"

    def sections(more, where=url):
        return f"[semaphore legacy]\nbroker = {where}\nsize = 3\n{more}\n"

    def command(verb, more, where=url):
        path = t.file("semaphore.ini", "[listener l]\nbind = 127.0.0.1:1\n[upstream u]\nserver = 127.0.0.1:1\n"
                      "[route r]\nupstream = u\n" + sections(more, where))
        return run([BINARY, "semaphore", verb, "legacy", "-c", path])

    with t.point("`sluice semaphore create` and `status`"):
        for verb in ("create", "status"):
            status, output = command(verb, good)
            equal(status, 0, output)
    with t.point("a node takes slots"):
        origin = t.origin()
        node = t.sluice(sections(good) + to(origin, upstream="semaphore = legacy\nsemaphore_down = refuse"))
        until(lambda: t.client(node).ask().status == 200, "a request with a slot")
    for what, more, where, expected in (
            ("of another name", good + "tls_name = other.test", url, "name does not match other.test"),
            ("of another authority", f"tls_ca = {other.certificate}\ntls_certificate = {mine}", url,
             "self-signed certificate in certificate chain"),
            ("that gets no certificate", f"tls_ca = {authority.certificate}", url, "broker: "),
            ("without TLS", good, f"amqps://{rabbit.address}", "broker: "),
            ("whose authority can't be read", "tls_ca = /nowhere", url, "/nowhere: can't read the certificates")):
        with t.point(f"a broker {what}"):
            status, output = command("status", more, where)
            true(status != 0 and expected in output, output)
    with t.point("another name, and none that is verified"):
        for more in (good + "tls_name = broker.test", good + "tls_name = other.test\ntls_verify = off"):
            status, output = command("status", more)
            equal(status, 0, output)


main()
