"""What the machine says: processors, limits, processor time and memory of processes."""
import contextlib
import os
import platform
import resource
import shutil
import socket
import subprocess
import time


def raise_file_limit():
    """The soft limit of open files becomes the hard one, which children inherit. Returns it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def two_processors():
    """(subject's, load's): the first and the last that this process may use."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise SystemExit("bench: two processors are needed, one for the subject and one for the load")
    return usable[0], usable[-1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(command, cpus, **how):
    """A child pinned to `cpus`."""
    return subprocess.Popen(command, preexec_fn=lambda: os.sched_setaffinity(0, cpus), **how)


def absent(*programs):
    """Which of the programs is not installed, as words for a table; None when all are."""
    for program in programs:
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None


def stop(process):
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def await_port(port, process, seconds=10):
    """Returns whether something listens on the port before the process ends or the time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        time.sleep(0.02)
    return False


def family(pid):
    """The process and its children: nginx has a master and workers."""
    found = [pid]
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as children:
            for child in children.read().split():
                found += family(int(child))
    return found


def cpu_ns(pids):
    """User and system time of all threads of the processes, from the kernel's clock of each process (clock_getcpuclockid(3)),
    which counts nanoseconds where /proc/PID/stat counts ticks of 10 ms."""
    return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in pids)


def user_share(pids):
    """User time as a part of user and system time, from /proc/PID/stat."""
    user = system = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
        user += int(fields[11])
        system += int(fields[12])
    return user / (user + system) if user + system else 0.0


def _smaps(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        lines = (line.split() for line in rollup)
        return {line[0].rstrip(":"): int(line[1]) * 1024 for line in lines if line[-1] == "kB"}


def resident_bytes(pids):
    """The resident size of the largest process and what the others hold privately: what a parent and its worker share is
    counted once."""
    maps = sorted((_smaps(pid) for pid in pids), key=lambda one: one["Rss"], reverse=True)
    return maps[0]["Rss"] + sum(one["Private_Clean"] + one["Private_Dirty"] for one in maps[1:])


def _first_line(*command):
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=10)
        return (done.stdout.strip().splitlines() or ["?"])[0]
    return "not installed"


def _processor():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        names = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    return names[0] if names else platform.machine()


def describe(sluice):
    """What a reader of the figures wants to know of where they were taken."""
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "kernel": platform.release(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "load_average": os.getloadavg(),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "haproxy": _first_line("haproxy", "-v"),
        "nginx": _first_line("nginx", "-v"),
        "wrk": _first_line("wrk", "-v"),
        "sluice": _first_line(sluice, "--version"),
    }
