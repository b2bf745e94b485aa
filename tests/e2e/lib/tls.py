"""TLS towards sluice: certificates, and clients by Python's ssl."""
import os
import re
import socket
import ssl
import subprocess

from .sluice import to
from .wire import Ended, parse_head


def make_certificate(t, name, names, days=30, key="ec -pkeyopt ec_paramgen_curve:P-256"):
    """A self-signed certificate of these DNS names, with its key in the same file."""
    path, key_path = t.path(name), t.path(name + ".key")
    extension = "subjectAltName=" + ",".join(each if ":" in each else "DNS:" + each for each in names)
    subprocess.run(["openssl", "req", "-x509", "-newkey", *key.split(), "-nodes",
                    "-days", str(days), "-subj", "/CN=" + names[0], "-addext", extension, "-keyout", key_path,
                    "-out", path], check=True, capture_output=True)
    with open(key_path, encoding="ascii") as source, open(path, "a", encoding="ascii") as out:
        out.write(source.read())
    os.chmod(path, 0o600)
    return path


def context(certificate=None, version=None, protocols=("http/1.1",)):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if certificate:
        made.load_verify_locations(certificate)
    else:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if version:
        made.minimum_version = made.maximum_version = version
    made.set_alpn_protocols(list(protocols))
    return made


def connect(t, sluice, name="api.test", made=None, session=None, **options):
    plain = socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30)
    t.defer(plain.close)
    stream = (made or context(**options)).wrap_socket(plain, server_hostname=name, session=session)
    t.defer(stream.close)
    return stream


def ask(stream, path="/", host="api.test"):
    """Status and body of the response."""
    message = exchange(stream, path, host)
    return message.status, message.body


def exchange(stream, path="/", host="api.test", fields=""):
    stream.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n".encode())
    return read_message(stream)


def read_response(stream):
    """Status and body of a response with Content-Length, or until its end."""
    message = read_message(stream)
    return message.status, message.body


def read_message(stream):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = stream.recv(65536)
        if not piece:
            raise Ended("no whole head", data)
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    while length is None or len(body) < int(length[1]):
        piece = stream.recv(65536)
        if not piece:
            break
        body += piece
    message = parse_head(head + b"\r\n\r\n")
    message.body = body
    return message


def with_tls(t, origin, certificates, listener="", **options):
    lines = "\n".join(f"certificate = {path}" for path in certificates)
    sluice = t.sluice(to(origin), listener=lines + "\n" + listener, **options)
    sluice.process.wait_output("sluice is ready")  # it listens before it has read the certificates
    return sluice


class Authority:
    """A CA in a folder of its own: `intermediate` makes one below it, `client` a pair of a client, `revoke` the list."""

    def __init__(self, t, name, parent=None):
        self.t, self.name, self.parent = t, name, parent
        self.certificate, self.key = t.path(name + ".pem"), t.path(name + ".key")
        self.config = t.file(name + ".cnf", f"[ca]\ndefault_ca = c\n[c]\ndatabase = {t.path(name + '.db')}\n"
                             f"crlnumber = {t.path(name + '.number')}\ndefault_md = sha256\n")
        t.file(name + ".db", "")
        t.file(name + ".number", "01")
        self._make(self.certificate, self.key, f"/CN={name}", "basicConstraints=critical,CA:TRUE\n"
                   "keyUsage=keyCertSign,cRLSign", parent)

    def _make(self, certificate, key, subject, extensions, issuer, days=30):
        run = lambda *words: subprocess.run(["openssl", *words], check=True, capture_output=True)
        request, file = certificate + ".csr", self.t.file(certificate.rsplit("/", 1)[1] + ".ext", extensions)
        run("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject, "-utf8",
            "-keyout", key, "-out", request)
        by = ["-signkey", key] if issuer is None else ["-CA", issuer.certificate, "-CAkey", issuer.key, "-CAcreateserial"]
        run("x509", "-req", "-in", request, "-out", certificate, "-days", str(days), "-extfile", file, *by)

    def client(self, name, names="", subject=None, days=30):
        """(certificate with the chain, key)"""
        certificate, key = self.t.path(name + ".pem"), self.t.path(name + ".key")
        names = f"\nsubjectAltName={names}" if names else ""
        self._make(certificate, key, subject or f"/O=Customers/CN={name}", "extendedKeyUsage=clientAuth" + names, self, days)
        if self.parent:
            with open(self.certificate, encoding="ascii") as file, open(certificate, "a", encoding="ascii") as out:
                out.write(file.read())
        return certificate, key

    def revoke(self, *certificates):
        """The text of its list, with these in it."""
        for certificate in certificates:
            self._ca("-revoke", certificate)
        return self._ca("-gencrl", "-crldays", "10")

    def _ca(self, *words):
        done = subprocess.run(["openssl", "ca", "-config", self.config, "-cert", self.certificate, "-keyfile", self.key, *words],
                              check=True, capture_output=True, text=True)
        return done.stdout
