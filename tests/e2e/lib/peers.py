"""Real peers from packages: curl, nginx, Apache httpd and node."""
import hashlib
import os
import shutil

from . import process
from .process import Port, Process, until
from .wire import dial


def find(program):
    """Its path, or None where it isn't installed (daemons often stand outside the user's PATH)."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def curl(*arguments):
    """Runs curl quietly; returns (exit status, output)."""
    return process.run([find("curl"), "--silent", "--show-error", "--noproxy", "*", *arguments])


def listens(address):
    try:
        dial(address).close()
    except OSError:
        return False
    return True


class Nginx:
    """An nginx with one server block. All its files are in the test's folder. With `tls`, `{tls}` in the block is
    another port, whose address is `tls_address`."""

    def __init__(self, t, server, http="", name="nginx", tls=False):
        if not find("nginx"):
            t.skip("nginx is not installed")
        self.folder = t.path(name)
        os.makedirs(os.path.join(self.folder, "files"), exist_ok=True)
        os.chmod(t.folder, 0o755)
        self.port = Port()
        self.address = f"127.0.0.1:{self.port.number}"
        if tls:
            port = Port()
            t.defer(port.release)
            self.tls_address = f"127.0.0.1:{port.number}"
            server = server.format(tls=f"{port.number} reuseport")
        self.conf = os.path.join(self.folder, "nginx.conf")
        with open(self.conf, "w", encoding="utf-8") as out:
            out.write(self._text(server, http))
        t.defer(self.end)
        self.process = Process([find("nginx"), "-p", self.folder, "-c", self.conf,
                                "-e", os.path.join(self.folder, "error.log")], name)
        until(self._listens, f"{name} listens")

    def _text(self, server, http):
        user = "user root;" if os.geteuid() == 0 else ""
        temps = "\n".join(f"{kind}_temp_path {self.folder}/{kind};" for kind in
                          ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return (f"daemon off; master_process off; {user} pid {self.folder}/nginx.pid;\n"
                f"error_log {self.folder}/error.log;\nevents {{ worker_connections 512; }}\n"
                f"http {{\naccess_log {self.folder}/access.log;\nclient_max_body_size 0;\n"
                f"keepalive_requests 100000;\n{temps}\n{http}\n"
                f"server {{ listen 127.0.0.1:{self.port.number} reuseport;\n{server}\n}}\n}}\n")

    def _listens(self):
        if not self.process.running():
            with open(os.path.join(self.folder, "error.log"), encoding="utf-8") as log:
                raise AssertionError(f"nginx did not start: {self.process.output()}{log.read()}")
        try:
            dial(self.address).close()
        except OSError:
            return False
        return True

    def file(self, name):
        return os.path.join(self.folder, "files", name)

    def end(self):
        self.port.release()
        self.process.kill()


class Apache:
    """An Apache httpd that answers every path with one file; `server` are lines of its one host."""

    MODULES = ("mpm_event", "authz_core", "alias", "headers", "dir", "env", "setenvif", "unixd")

    def __init__(self, t, server, name="apache"):
        program = find("apache2") or find("httpd")
        modules = next((folder for folder in ("/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/var/www/modules")
                        if os.path.isdir(folder)), None)
        if not program or not modules:
            t.skip("apache2 is not installed")
        self.folder = t.path(name)
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(t.folder, 0o755)
        self.port = Port()
        self.address = f"127.0.0.1:{self.port.number}"
        with open(os.path.join(self.folder, "file"), "w", encoding="ascii") as out:
            out.write("read\n")
        conf = os.path.join(self.folder, "httpd.conf")
        with open(conf, "w", encoding="utf-8") as out:
            out.write(self._text(server, modules))
        t.defer(self.end)
        self.process = Process([program, "-d", self.folder, "-f", conf, "-X"], name)
        until(self._listens, f"{name} listens")

    def _text(self, server, modules):
        loads = "\n".join(f"LoadModule {name}_module {modules}/mod_{name}.so" for name in self.MODULES
                          if os.path.exists(f"{modules}/mod_{name}.so"))
        return (f"{loads}\nServerName localhost\nListen {self.address}\nPidFile {self.folder}/pid\n"
                f"ErrorLog {self.folder}/error.log\nDocumentRoot {self.folder}\n"
                f"AliasMatch \"^.*$\" \"{self.folder}/file\"\n<Directory />\nRequire all granted\n</Directory>\n"
                f"{server}\n")

    def _listens(self):
        if not self.process.running():
            raise AssertionError(f"apache did not start: {self.process.output()}")
        try:
            dial(self.address).close()
        except OSError:
            return False
        return True

    def end(self):
        self.port.release()
        self.process.kill()


class Node:
    """A program of node's that is given the port to listen on."""

    def __init__(self, t, path, name="node"):
        if not find("node"):
            t.skip("node is not installed")
        self.port = Port()
        self.address = f"127.0.0.1:{self.port.number}"
        t.defer(self.end)
        self.process = Process([find("node"), path, str(self.port.number)], name)
        until(self._listens, f"{name} listens")

    _listens = Apache._listens

    def end(self):
        self.port.release()
        self.process.kill()


def make_file(path, size, seed):
    """A file that does not compress and differs everywhere; returns its checksum."""
    digest = hashlib.sha256()
    block = bytearray(seed.randbytes(1 << 20))
    with open(path, "wb") as out:
        for number in range(0, size, len(block)):
            block[:8] = number.to_bytes(8, "big")
            piece = bytes(block[:size - number])
            digest.update(piece)
            out.write(piece)
    return digest.hexdigest()


def checksum(path):
    digest = hashlib.sha256()
    with open(path, "rb") as data:
        while piece := data.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
