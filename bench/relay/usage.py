"""CPU time, memory and traffic of a process that is measured, by the same method for every system."""

import re
import subprocess
import threading
import time
from pathlib import Path

EVERY_S = 0.25
# The first and the last samples of a connection are not its steady state.
EDGE_S = 0.3


def cpu_ns(pid):
    """CPU time of all threads of a process."""
    schedstats = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(schedstat.read_text().split()[0]) for schedstat in schedstats)


def rss_kb(pid):
    """Resident memory of a process."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def tcp_bytes(side, port, counter):
    """Bytes of all connections whose `side`, sport or dport, is this port, as the kernel counts them; `None` without
    such a connection."""
    words = ["ss", "-tinHO", "state", "established", f"( {side} = :{port} )"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    counts = [re.search(rf"\b{counter}:(\d+)", line) for line in listed.splitlines()]
    return sum(int(count[1]) for count in counts if count) if listed.strip() else None


class Sampler:
    """Reads the usage of a server several times a second, until it is left."""

    def __init__(self, pid, port):
        self.pid, self.port, self.samples = pid, port, []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        while not self.ended.wait(EVERY_S):
            try:
                traffic = tcp_bytes("sport", self.port, "bytes_acked")
                if traffic is not None:
                    self.samples.append((time.monotonic(), cpu_ns(self.pid), rss_kb(self.pid), traffic))
            except (OSError, TypeError, subprocess.CalledProcessError):
                # The process ends, or a thread of it.
                continue

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def figures(self, updates_per_s, window_s):
        """Bytes per update, memory and CPU time of a second, over the last seconds before the clients left."""
        return steady(self.samples, updates_per_s, window_s)


def steady(samples, updates_per_s, window_s):
    """Rates between the ends of the window that precedes the last sample; nothing if there are too few samples."""
    if not samples:
        return {}
    until = samples[-1][0] - EDGE_S
    inside = [each for each in samples if until - window_s <= each[0] <= until]
    # Connections that closed take their counters with them.
    while len(inside) > 1 and inside[-1][3] < inside[-2][3]:
        inside.pop()
    if len(inside) < 2:
        return {}
    first, last = inside[0], inside[-1]
    seconds = last[0] - first[0]
    return {
        "bytesPerUpdate": (last[3] - first[3]) / seconds / updates_per_s,
        "rssKb": max(each[2] for each in inside),
        "cpuNsPerS": (last[1] - first[1]) / seconds,
    }
