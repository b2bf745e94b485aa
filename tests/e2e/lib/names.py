"""A name server that answers nothing, and programs that ask no other."""
import os
import socket
import subprocess


class SilentNames:
    """On `address` of loopback. `command` goes in front of a program's. Only root may give processes another
    /etc/resolv.conf, and be a name server: else `refused` says why."""

    def __init__(self, t, address):
        self.servers, script = t.path(f"resolv-{address}"), t.path(f"asking-{address}")
        self.command, self.refused = [script], None
        self.write(f"nameserver {address}\n")
        with open(script, "w", encoding="utf-8") as out:
            out.write("#!/bin/sh\nexec unshare --mount sh -c '"
                      f'mount --bind {self.servers} /etc/resolv.conf && exec "$@"\' sh "$@"\n')
        os.chmod(script, 0o755)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        t.defer(self.socket.close)
        try:
            self.socket.bind((address, 53))
            subprocess.run([script, "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as why:
            self.refused = why

    def write(self, text):
        """What /etc/resolv.conf holds."""
        with open(self.servers, "w", encoding="utf-8") as out:
            out.write(text)

    def wait_question(self):
        self.socket.recv(65536)

    def forget_questions(self):
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.recv(65536)
        except BlockingIOError:
            self.socket.setblocking(True)
