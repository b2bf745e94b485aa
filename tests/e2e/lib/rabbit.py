"""A RabbitMQ of the test's own, on free ports of loopback, with its own node, folder and epmd."""
import base64
import hashlib
import json
import os
import shutil
import signal
import socket

from .amqp import Connection
from .process import Port, Process, until
from .tap import Skip

# Debian's command in the path changes the user first.
SCRIPTS = ["/usr/lib/rabbitmq/bin/rabbitmq-server", shutil.which("rabbitmq-server")]

# It takes some ten seconds on a machine of its own.
START_SECONDS = 600


def hash_password(password):
    salt = b"salt"
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


class Ended(AssertionError):
    """It did not start."""


class Rabbit:
    """`users`: {name: (password, {vhost: permission to configure})}, besides guest; `vhosts` besides
    "/"; `types`: {vhost: the type of queues there, by default}; `tls`: an Authority, whose certificate for 127.0.0.1
    it has on a port of its own, where clients present one, too."""

    def __init__(self, t, users=None, vhosts=(), types=None, tls=None):
        self.tls, self.tls_port = tls, None
        if tls:
            tls.issue("rabbit", ["IP:127.0.0.1", "broker.test"])
        self.script = next((s for s in SCRIPTS if s and os.access(s, os.X_OK)), None)
        if not self.script or not shutil.which("epmd"):
            raise Skip("rabbitmq-server is not installed")
        self.t = t
        self.folder = t.path("rabbit")
        os.mkdir(self.folder)
        self._write("definitions.json", json.dumps(self._definitions(users or {}, vhosts, types or {})))
        self._write("enabled_plugins", "[].\n")
        self.port = self.distribution = self.mapper = self.process = self.epmd = None
        t.defer(self._end)
        for _ in range(5):
            self._take_ports()
            try:
                self.start()
                return
            except Ended:
                if "in use" not in self.process.output() and "eaddrinuse" not in self.process.output():
                    raise
        raise AssertionError("RabbitMQ finds its ports taken again and again")

    def _take_ports(self):
        """RabbitMQ looks at every address whether its distribution port is free, and epmd listens at ::1 too."""
        self._end()
        self.port = Port(socket.AF_INET)
        self.distribution, self.mapper = Port(socket.AF_INET, "0.0.0.0"), Port(socket.AF_INET, "0.0.0.0")
        self._write("rabbitmq.conf", f"""
listeners.tcp.1 = 127.0.0.1:{self.port.number}
load_definitions = {self.folder}/definitions.json
log.console = true
log.file = false
{self._tls_lines()}
""")
        self.epmd = Process(["epmd", "-port", str(self.mapper.number), "-address", "127.0.0.1"], "epmd")

    def _tls_lines(self):
        if not self.tls:
            return ""
        self.tls_port = Port(socket.AF_INET)
        self.t.defer(self.tls_port.release)
        return (f"listeners.ssl.1 = 127.0.0.1:{self.tls_port.number}\nssl_options.cacertfile = {self.tls.certificate}\n"
                f"ssl_options.certfile = {self.tls.path('rabbit.pem')}\nssl_options.keyfile = {self.tls.path('rabbit.key')}\n"
                "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n")

    def _end(self):
        self.kill()
        if self.epmd:
            self.epmd.kill()
            for port in (self.port, self.distribution, self.mapper):
                port.release()

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as out:
            out.write(text)

    @staticmethod
    def _definitions(users, vhosts, types):
        users = {"guest": ("guest", {vhost: ".*" for vhost in ["/", *vhosts]}), **users}
        return {
            "vhosts": [{"name": vhost, "metadata": {"default_queue_type": types[vhost]} if vhost in types else {}}
                       for vhost in ["/", *vhosts]],
            "users": [{"name": name, "password_hash": hash_password(password), "tags": "",
                       "hashing_algorithm": "rabbit_password_hashing_sha256"}
                      for name, (password, _) in users.items()],
            "permissions": [{"user": name, "vhost": vhost, "configure": configure, "write": ".*", "read": ".*"}
                            for name, (_, rights) in users.items() for vhost, configure in rights.items()],
        }

    @property
    def number(self):
        return self.port.number

    @property
    def address(self):
        return f"127.0.0.1:{self.number}"

    def start(self):
        """Also again, after `kill`, with what it had on disk."""
        environment = {
            "HOME": self.folder,
            "ERL_EPMD_PORT": str(self.mapper.number), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"sluice-test-{self.number}@localhost",
            "RABBITMQ_DIST_PORT": str(self.distribution.number),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": os.path.join(self.folder, "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": os.path.join(self.folder, "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": os.path.join(self.folder, "data"),
            "RABBITMQ_LOG_BASE": os.path.join(self.folder, "log"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RUNNING_UNDER_SYSTEMD": "1",  # no shell between this process and the server
        }
        self.process = Process([self.script], "rabbitmq", environment=environment)
        until(self._answers, "RabbitMQ answers", pause=0.1, seconds=START_SECONDS)

    def _answers(self):
        if not self.process.running():
            self.process.wait()
            raise Ended("RabbitMQ ended:\n" + self.process.output())
        try:
            Connection(self.number).abort()
        except OSError:  # it does not listen yet, or is not yet ready for users
            return False
        return True

    def connect(self, **options):
        made = Connection(self.number, **options)
        self.t.defer(made.abort)
        return made

    def kill(self):
        if self.process:
            self.process.signal(signal.SIGCONT)
            self.process.kill()

    def stop(self):
        self.process.stop()

    def go_on(self):
        self.process.signal(signal.SIGCONT)

    def until_gone(self, queue):
        """The broker deletes what was a dead connection's on its own time."""
        look = self.connect()
        until(lambda: not look.has(queue), f"{queue} is gone", pause=0.05)
        look.close()
