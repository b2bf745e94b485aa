"""Name servers of a test, and programs that ask no other."""
import errno
import os
import random
import shutil
import signal
import socket
import subprocess

from .process import Process, until


CLAIM = 5300  # who has bound this port at an address has the address


def own_address(t):
    """One of loopback that no other test on this machine has."""
    claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    t.defer(claim.close)
    while True:
        address = "127." + ".".join(str(random.randrange(1, 255)) for _ in range(3))
        try:
            claim.bind((address, CLAIM))
            return address
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise


class Asking:
    """Programs that have another /etc/resolv.conf and /etc/hosts, whose texts are the test's. `command` goes in front
    of a program's. Only root may give processes these, and be a name server: else `refused` says why."""

    def __init__(self, t):
        self.address = address = own_address(t)
        self.servers, self.hosts = t.path(f"resolv-{address}"), t.path(f"hosts-{address}")
        script = t.path(f"asking-{address}")
        self.command, self.refused = [script], None
        self.write(f"nameserver {address}\n")
        self.write_hosts("127.0.0.1 localhost\n")
        with open(script, "w", encoding="utf-8") as out:
            out.write("#!/bin/sh\nexec unshare --mount sh -c '"
                      f"mount --bind {self.servers} /etc/resolv.conf && mount --bind {self.hosts} /etc/hosts && "
                      'exec "$@"\' sh "$@"\n')
        os.chmod(script, 0o755)
        try:
            subprocess.run([script, "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as why:
            self.refused = why

    def write(self, text):
        """What /etc/resolv.conf holds."""
        with open(self.servers, "w", encoding="utf-8") as out:
            out.write(text)

    def write_hosts(self, text):
        """What /etc/hosts holds."""
        with open(self.hosts, "w", encoding="utf-8") as out:
            out.write(text)


class SilentNames(Asking):
    """A name server that answers nothing."""

    def __init__(self, t):
        super().__init__(t)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        t.defer(self.socket.close)
        try:
            self.socket.bind((self.address, 53))
        except OSError as why:
            self.refused = why

    def wait_question(self):
        self.socket.recv(65536)

    def forget_questions(self):
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.recv(65536)
        except BlockingIOError:
            self.socket.setblocking(True)


class Dnsmasq(Asking):
    """A name server whose answers change while it runs: dnsmasq."""

    def __init__(self, t):
        super().__init__(t)
        self.zone, self.process = t.path(f"zone-{self.address}"), None
        if not shutil.which("dnsmasq"):
            self.refused = self.refused or "there is no dnsmasq"
        if self.refused:
            return
        self._write("")
        self.process = Process(["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file",
                                "--log-facility=-", "--no-resolv", "--no-hosts", f"--addn-hosts={self.zone}",
                                f"--listen-address={self.address}", "--bind-interfaces", "--local=/test/", "--cache-size=0",
                                "--local-ttl=1"], "dnsmasq")
        t.defer(self.process.kill)
        until(lambda: "read " in self.process.output(), "dnsmasq's start")

    def _write(self, text):
        with open(self.zone, "w", encoding="utf-8") as out:
            out.write(text)

    def answer(self, name, *addresses):
        """From now on, the name has these."""
        said = self.process.output().count("read ")
        self._write("".join(f"{address} {name}\n" for address in addresses))
        self.process.signal(signal.SIGHUP)
        until(lambda: self.process.output().count("read ") > said, "dnsmasq's new answer")
