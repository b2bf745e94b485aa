"""TLS towards sluice: certificates, and clients by Python's ssl."""
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


def connect(t, sluice, name="api.test", made=None, **options):
    plain = socket.create_connection(("127.0.0.1", sluice.port.number), timeout=30)
    t.defer(plain.close)
    stream = (made or context(**options)).wrap_socket(plain, server_hostname=name)
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
    return t.sluice(to(origin), listener=lines + "\n" + listener, **options)
