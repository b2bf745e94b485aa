"""Clients that are far away, in a network namespace of each test's own. HOME is this machine's address
there. Packets to FAR come back after a while as if a machine at FAR had sent them to HOME: a connection to FAR
thus reaches the listener at HOME, as that of a client at FAR, half a round trip later."""
import ctypes
import fcntl
import heapq
import os
import select
import socket
import struct
import sys
import threading
import time

from . import process

HOME, FAR = "10.77.0.1", "10.77.0.2"

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C
IFF_UP_RUNNING = 0x41
SYN_ACK = 0x12


def enter():
    """Runs this program again as one that may make network namespaces, where it returns. Where that is not permitted, the
    program ends, with a line that says so."""
    command = ["unshare", "-Urn"]
    if os.environ.get("SLUICE_E2E_NAMESPACE"):
        return
    try:
        permitted = process.run([*command, "test", "-r", "/dev/net/tun", "-a", "-w", "/dev/net/tun"])[0] == 0
    except FileNotFoundError:
        permitted = False
    if not permitted:
        print("1..0 # SKIP network namespaces or /dev/net/tun are not permitted")
        sys.exit()
    os.environ["SLUICE_E2E_NAMESPACE"] = "1"
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def _set(name, request, value):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, request, struct.pack("16s", name) + value)


def _set_address(name, request, address):
    _set(name, request, struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address)))


class Distance:
    """The way to FAR, each direction of `seconds`. This thread, and those that it begins, see no other network."""

    def __init__(self, seconds):
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        self.seconds = seconds
        self._handshakes = set()
        self._under_way = []
        self._tun = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        self._woken, self._wake = os.pipe()
        fcntl.ioctl(self._tun, TUNSETIFF, struct.pack("16sH22x", b"far", IFF_TUN | IFF_NO_PI))
        _set(b"lo", SIOCSIFFLAGS, struct.pack("H14x", IFF_UP_RUNNING))
        _set_address(b"far", SIOCSIFADDR, HOME)
        _set_address(b"far", SIOCSIFNETMASK, "255.255.255.0")
        _set(b"far", SIOCSIFFLAGS, struct.pack("H14x", IFF_UP_RUNNING))
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def close(self):
        os.close(self._wake)
        self._thread.join()
        os.close(self._woken)
        os.close(self._tun)

    def answered(self):
        """How many handshakes HOME has begun."""
        return len(self._handshakes)

    def _carry(self):
        while True:
            now = time.monotonic()
            while self._under_way and self._under_way[0][0] <= now:
                os.write(self._tun, heapq.heappop(self._under_way)[2])
            pause = self._under_way[0][0] - now if self._under_way else None
            ready = select.select([self._tun, self._woken], [], [], pause)[0]
            if self._woken in ready:
                return
            if ready:
                self._take(os.read(self._tun, 65536))

    def _take(self, packet):
        if packet[0] >> 4 != 4:
            return
        # With the two addresses exchanged all checksums stay right.
        turned = packet[:12] + packet[16:20] + packet[12:16] + packet[20:]
        tcp = packet[(packet[0] & 15) * 4:] if packet[9] == socket.IPPROTO_TCP else bytes(14)
        heapq.heappush(self._under_way, (time.monotonic() + self.seconds, id(turned), turned))
        if tcp[13] & SYN_ACK == SYN_ACK:
            self._handshakes.add(tcp[:4] + tcp[8:12])  # the ports, and the number that it acknowledges
