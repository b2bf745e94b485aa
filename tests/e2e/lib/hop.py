"""A node of a fleet that a test plays: what one says to another, as proxy/upstream/greeting.h has it."""
import base64
import hashlib
import hmac
import os

from .client import Client
from .origin import Origin


def _encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def proof(secret, side, asker, owner):
    claims = f'{{"sluice-hop":"{side}","asker":"{asker}","owner":"{owner}"}}'
    text = _encode(b'{"typ":"JWT","alg":"HS256"}') + "." + _encode(claims.encode())
    return text + "." + _encode(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest())


class Asker(Client):
    """Connected to a node's internal listener, and greeted by it."""

    def __init__(self, port, secret, listener="main"):
        super().__init__(f"127.0.0.1:{port}")
        self.listener = listener
        nonce = os.urandom(16).hex()
        answer = self.ask("/.sluice/hop", fields=[("Sluice-Hop", f"hello {nonce}")])
        word, theirs = answer.get("Sluice-Hop").split(" ")
        assert word == "challenge", answer.get("Sluice-Hop")
        self.welcome = self.ask("/.sluice/hop", fields=[("Sluice-Hop", "proof " + proof(secret, "asker", nonce, theirs))])
        given = self.welcome.get("Sluice-Hop")
        expected = "welcome " + proof(secret, "owner", nonce, theirs) if self.welcome.status == 200 else None
        assert given == expected, given

    def forward(self, path, who, mark, fence, instance=7, peer="192.0.2.7"):
        hop = f"1 {self.listener} {peer} {instance} {mark} {fence}"
        self.request(path, fields=[("X-Client", who), ("Sluice-Hop", hop)])


class FakeOwner(Origin):
    """Greets each peer that has the secret; `served` gets what is forwarded to it."""

    def __init__(self, secret, served, **options):
        self.secret, self.served, self.nonces = secret, served, {}
        super().__init__(self._hand, **options)

    def _hand(self, x):
        word, _, value = x.request.get("Sluice-Hop").partition(" ")
        if word == "hello":
            ours = os.urandom(16).hex()
            self.nonces[x.connection] = value, ours
            x.reply(200, fields=[("Sluice-Hop", f"challenge {ours}")])
        elif word == "proof":
            theirs, ours = self.nonces[x.connection]
            x.reply(200, fields=[("Sluice-Hop", "welcome " + proof(self.secret, "owner", theirs, ours))])
        else:
            self.served(x)
