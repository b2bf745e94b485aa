"""An authority of certificates by openssl(1), and TLS servers by Python's ssl that behave as OpenSSL's own."""
import os
import socket
import ssl
import subprocess

CONF = """
[ca]
default_ca = own
[own]
dir = {folder}
database = {folder}/index
new_certs_dir = {folder}
serial = {folder}/serial
crlnumber = {folder}/crlnumber
default_md = sha256
default_crl_days = 30
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
"""


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Authority:
    """Issues certificates for a test. `certificate` is the file of its own."""

    def __init__(self, t, name="authority"):
        self.folder = t.path(name)
        os.makedirs(self.folder)
        self.conf, self.certificate = self.path("conf"), self.path("ca.pem")
        self.write("conf", CONF.format(folder=self.folder))
        self.write("index", "")
        self.write("serial", "1000\n")
        self.write("crlnumber", "01\n")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                "-subj", f"/CN={name}", "-keyout", self.path("ca.key"), "-out", self.certificate)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as out:
            out.write(text)

    def issue(self, name, names, start="20200101000000Z", end="20380101000000Z"):
        """The file of a certificate for these DNS names (IP:ADDRESS for addresses), with its key in the same file."""
        key, request, path = self.path(name + ".key"), self.path(name + ".csr"), self.path(name + ".pem")
        extension = "subjectAltName=" + ",".join(each if ":" in each else "DNS:" + each for each in names)
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                "/CN=" + name, "-addext", extension, "-keyout", key, "-out", request)
        openssl("ca", "-batch", "-notext", "-config", self.conf, "-cert", self.certificate, "-keyfile",
                self.path("ca.key"), "-startdate", start, "-enddate", end, "-in", request, "-out", path)
        with open(key, encoding="ascii") as source, open(path, "a", encoding="ascii") as out:
            out.write(source.read())
        return path

    def revoke(self, *paths):
        """The file of a revocation list that has them."""
        for path in paths:
            openssl("ca", "-config", self.conf, "-cert", self.certificate, "-keyfile", self.path("ca.key"),
                    "-revoke", path)
        openssl("ca", "-gencrl", "-config", self.conf, "-cert", self.certificate, "-keyfile", self.path("ca.key"),
                "-out", self.path("crl.pem"))
        return self.path("crl.pem")


class PoliteSocket(ssl.SSLSocket):
    """Ends its output by a close_notify, as servers do; Python's own leaves that out."""

    def _notify(self):
        try:
            self.settimeout(0)
            if self._sslobj:
                self._sslobj.shutdown()
        except (OSError, ValueError):
            pass  # the peer's own is not waited for

    def shutdown(self, how):
        if how != socket.SHUT_RD:
            timeout = self.gettimeout()
            self._notify()
            self.settimeout(timeout)
        socket.socket.shutdown(self, how)

    def close(self):
        lingers = self.fileno() >= 0 and self.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)[:4] != b"\0\0\0\0"
        if not lingers:
            self._notify()
        super().close()


def serving(certificate, client_ca=None, version=None):
    """The context of a server; `client_ca`: clients have to present a certificate of it."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.sslsocket_class = PoliteSocket
    made.load_cert_chain(certificate)
    made.set_alpn_protocols(["http/1.1"])
    if client_ca:
        made.load_verify_locations(client_ca)
        made.verify_mode = ssl.CERT_REQUIRED
    if version:
        made.minimum_version = made.maximum_version = version
    return made
