"""The programs that are measured, and the configuration of each.

Tuned alike: one thread, keep-alive to the client and to the origin, no access log, one limit by API key that either never
refuses ("admit") or refuses all but a few ("refuse").
"""
import dataclasses
import os
import shutil
import subprocess

from . import machine

TABLE = 131072  # callers that each subject's table has room for, unless a sweep says otherwise
CONNECTIONS = 12000
ADMIT = (10_000_000, 10)  # requests, seconds: never reached
REFUSE = (10, 60)

# An address of the origin for each subject: connections to one address and port are at most as many as ephemeral ports,
# and what a subject keeps open must not leave another without.
ORIGIN_HOSTS = {"relay": "127.0.0.1", "haproxy": "127.0.0.2", "nginx": "127.0.0.3", "sluice": "127.0.0.4"}


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a scenario asks of a subject's configuration."""

    refuse: bool = False
    workers: int = 1
    limits: int = 1
    routes: int = 0  # 0: one for all; else /r0000/ and so on
    head_bytes: int = 16384
    table: int = TABLE
    ordering: str = "writes"
    seconds: int = ADMIT[1]  # of the limit that never refuses
    pipeline: int = 16  # requests of one connection that sluice forwards at once; the others forward one
    admin: int = 0  # the port of sluice's admin address; 0: none
    way: str = ""  # how sluice's limits are shared by a fleet; empty: they are the node's
    store: str = ""  # lines of [fleet] about its store
    upstream: str = ""  # more lines of sluice's upstream
    route: str = ""  # and of its routes
    sections: str = ""  # and more sections

    @property
    def rate(self):
        return REFUSE if self.refuse else (ADMIT[0], self.seconds)

    @property
    def prefixes(self):
        return [f"/r{number:04}/" for number in range(self.routes)] or ["/"]


def haproxy_config(setup, port, origin, folder):
    amount, seconds = setup.rate
    lines = ["global", f"    nbthread {setup.workers}", f"    maxconn {CONNECTIONS}", "    no strict-limits",
             # else it keeps no connection to the origin once a quarter of the file limit is in use
             "    tune.pool-low-fd-ratio 90", "    tune.pool-high-fd-ratio 95"]
    if setup.head_bytes > 16384:
        lines += [f"    tune.bufsize {2 * setup.head_bytes}"]
    lines += ["defaults", "    mode http", "    timeout connect 5s", "    timeout client 600s",
              "    timeout server 600s", "    timeout http-keep-alive 600s", "    http-reuse always",
              "frontend bench", f"    bind 127.0.0.1:{port}"]
    for number in range(setup.limits):
        lines += [f"    http-request track-sc{number} hdr(X-Api-Key) table limit{number}",
                  f"    http-request deny deny_status 429 if {{ sc_http_req_rate({number}) gt {amount + number} }}"]
    if setup.routes:
        path = os.path.join(folder, "haproxy-routes.map")
        with open(path, "w", encoding="ascii") as routes:
            routes.writelines(f"{prefix} origin\n" for prefix in setup.prefixes)
        lines += [f"    use_backend %[path,map_beg({path},none)]"]
    else:
        lines += ["    default_backend origin"]
    for number in range(setup.limits):
        lines += [f"backend limit{number}",
                  f"    stick-table type string len 32 size {setup.table} expire {seconds}s store http_req_rate({seconds}s)"]
    lines += ["backend origin", f"    server origin {origin}"]
    return "\n".join(lines) + "\n"


def nginx_config(setup, port, origin, _folder):
    per_minute = REFUSE[0] * 60 // REFUSE[1]
    rate, burst = (f"{per_minute}r/m", 1) if setup.refuse else ("1000000r/s", 1000000)
    zone_mib = max(4, setup.table * 160 // (1 << 20))
    zones = "\n".join(f"    limit_req_zone $http_x_api_key zone=limit{number}:{zone_mib}m rate={rate};"
                      for number in range(setup.limits))
    limits = "\n".join(f"        limit_req zone=limit{number} burst={burst} nodelay;" for number in range(setup.limits))
    locations = "\n".join(f"        location {prefix} {{ proxy_pass http://origin; }}" for prefix in setup.prefixes)
    return f"""daemon off;
user root;
pid nginx.pid;
worker_processes {setup.workers};
worker_rlimit_nofile {min(2 * CONNECTIONS, machine.raise_file_limit())};
error_log stderr crit;
events {{
    use epoll;
    worker_connections {2 * CONNECTIONS};
}}
http {{
    access_log off;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    client_body_buffer_size 32k;
    client_header_buffer_size 1k;
    large_client_header_buffers 4 {max(8, setup.head_bytes // 512)}k;
    proxy_buffer_size 8k;
    proxy_buffers 8 16k;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    limit_req_status 429;
    limit_req_log_level info;
{zones}
    upstream origin {{
        server {origin};
        keepalive {CONNECTIONS};
        keepalive_requests 1000000000;
        keepalive_timeout 600s;
    }}
    server {{
        listen 127.0.0.1:{port} reuseport backlog=4096;
{limits}
{locations}
    }}
}}
"""


def sluice_config(setup, port, origin, _folder):
    amount, seconds = setup.rate
    names = [f"calls{number}" for number in range(setup.limits)]
    shared = f"\nscope = fleet\nfleet = {setup.way}" if setup.way else ""
    limits = "\n".join(f"[limit {name}]\nkey = header:X-Api-Key | ip\nrate = {amount} per {seconds}s{shared}" for name in names)
    routes = "\n".join(
        f"[route r{number:04}]\npath = {prefix}\nupstream = origin\nlimits = {', '.join(names)}\n"
        f"session = header:X-Api-Key | ip\nordering = {setup.ordering}\nqueue_depth = 20000\n"
        f"{setup.route}"
        for number, prefix in enumerate(setup.prefixes))
    admin = f"[admin]\nbind = 127.0.0.1:{setup.admin}\n" if setup.admin else ""
    fleet = f"[fleet]\n{setup.store}\nstore_timeout = 2s\n" if setup.way else ""
    return f"""[sluice]
workers = {setup.workers}
callers = {setup.table}
access_log = off
{admin}{fleet}[listener bench]
bind = 127.0.0.1:{port}
backlog = 4096
idle_timeout = 600s
pipeline_depth = {setup.pipeline}
max_header_size = {2 * setup.head_bytes}
[upstream origin]
server = {origin}
{setup.upstream}
{limits}
{routes}
{setup.sections}
"""


class Subject:
    """One running program. `origin` is the port that it forwards to."""

    def __init__(self, name, bench, setup, origin, cpus):
        self.name = name
        self.port = machine.free_port()
        self.log = open(os.path.join(bench.logs, f"{name}.log"), "ab")
        self.process = machine.start(self._command(bench, setup, origin), cpus, stdin=subprocess.DEVNULL,
                                     stdout=self.log, stderr=self.log, cwd=bench.scratch, env=bench.environment(name))
        self.serves = machine.await_port(self.port, self.process)

    def _command(self, bench, setup, origin):
        origin = f"{ORIGIN_HOSTS[self.name]}:{origin}"
        if self.name == "relay":
            return bench.wrap([bench.tool("relay"), str(self.port), origin], self.name)
        make, extension = {"haproxy": (haproxy_config, "cfg"), "nginx": (nginx_config, "conf"),
                           "sluice": (sluice_config, "ini")}[self.name]
        text = make(setup, self.port, origin, bench.scratch)
        path = bench.publish(f"{bench.scenario}-{self.name}{setup.way}-w{setup.workers}.{extension}", text)
        return bench.wrap({"haproxy": ["haproxy", "-db", "-f", path],
                           "nginx": ["nginx", "-p", bench.scratch, "-c", path],
                           "sluice": [bench.sluice, "run", "-c", path]}[self.name], self.name)

    @property
    def pids(self):
        """As they are now: nginx's master listens before its workers are there."""
        return machine.family(self.process.pid) if self.serves else []

    def cpu_ns(self):
        return machine.cpu_ns(self.pids)

    def resident(self):
        return machine.resident_bytes(self.pids)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        machine.stop(self.process)
        self.log.close()


def missing(name, bench):
    """Why the subject can't be measured at all, or None."""
    if name in ("haproxy", "nginx") and shutil.which(name) is None:
        return f"{name} is not installed"
    if name == "sluice" and not os.access(bench.sluice, os.X_OK):
        return f"{bench.sluice} is not there: `make` first"
    return None
