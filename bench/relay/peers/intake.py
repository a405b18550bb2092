"""Counts the updates that a Python client gets, their latency and their CPU time.

While it is measured it only keeps what comes and when, a fifth of a microsecond each; all else is
worked out afterwards.
"""

import json
import os
import sys
import time

from program import BENCH  # noqa: F401 (the folder of usage)
from usage import rss_kb, tcp_bytes

# How long the IOC may take until every PV has a value.
PATIENCE_S = 60


def stamped(value):
    """Number or array, and time, of a value that has a time stamp."""
    return value, value.timestamp


class Intake:
    """One monitor a PV, or several, of PVs that each count up by one; `read` gives number and time of an update."""

    def __init__(self, given, read=stamped):
        names = given.names.read_text().splitlines() * given.monitors
        self.names = [name.removeprefix("pva://") for name in names]
        self.given, self.elements, self.port, self.read = given, given.elements, given.ioc_port, read
        self.log = []
        self.before = []
        self.deadline = time.monotonic() + PATIENCE_S

    def receiver(self, place):
        """What is to be called with each value of a PV."""
        keep, now = self.log.append, time.time
        if not self.elements:
            return lambda value: keep((place, value, now()))

        def keep_ends(value):
            array, stamp = self.read(value)
            keep((place, (float(array[0]), float(array[-1]), len(array), stamp), now()))

        return keep_ends

    def without_value(self):
        """Places of PVs that have none yet; ends the program when that takes too long."""
        if time.monotonic() > self.deadline:
            sys.exit("not every PV had a value in time")
        return set(range(len(self.names))) - {place for place, _, _ in list(self.log)}

    def measure(self):
        """Measures, when every PV has a value and the client is warm."""
        while self.without_value():
            time.sleep(0.05)
        time.sleep(self.given.warm_up_s)
        self.begin()
        time.sleep(self.given.seconds)
        self.end()

    def begin(self):
        self.before = list(self.log)
        self.log.clear()
        self.bytes = self.received()
        self.cpu_ns, self.began = time.process_time_ns(), time.monotonic()

    def end(self):
        self.cpu_ns = time.process_time_ns() - self.cpu_ns
        self.seconds = time.monotonic() - self.began
        # What came later has no part in it.
        self.log = list(self.log)
        self.bytes = self.received() - self.bytes
        self.rss_kb = rss_kb(os.getpid())

    def received(self):
        return tcp_bytes("dport", self.port, "bytes_received") or 0 if self.port else 0

    def number_and_time(self, kept):
        """The number of an update, which counts up, and its time stamp."""
        if not self.elements:
            value, stamp = self.read(kept)
            return round(float(value)), stamp
        first, last, count, stamp = kept
        if count != self.elements or last != first + count - 1:
            sys.exit(f"{count} elements from {first} to {last}, expected {self.elements}")
        return round(first), stamp

    def report(self, peer, version):
        last = {place: self.number_and_time(kept)[0] for place, kept, _ in self.before}
        missing, repeated, late = 0, 0, []
        for place, kept, when in self.log:
            value, stamp = self.number_and_time(kept)
            late.append(1000 * (when - stamp))
            step = value - last[place]
            # An IOC may send newer elements of an array in an older one's place, and then once more.
            if step < 1 and not (self.elements and step == 0):
                sys.exit(f"{self.names[place]} went from {last[place]} to {value}")
            missing += max(0, step - 1)
            repeated += step == 0
            last[place] = value
        # PVs of one scan have one value: they are behind by more than one that may be on its way.
        missing += sum(max(0, max(last.values()) - one - 1) for one in last.values())
        updates = len(self.log)
        if not updates:
            sys.exit("no update came while it was measured")
        late.sort()
        return {
            "peer": peer,
            "version": version,
            "clients": 1,
            "pvs": len(self.names),
            "seconds": self.seconds,
            "updates": updates,
            "missing": missing,
            "repeated": repeated,
            "cpuNs": self.cpu_ns,
            "usPerUpdate": self.cpu_ns / updates / 1000,
            "updatesPerCpuSecond": updates / self.cpu_ns * 1e9,
            "bytesPerUpdate": self.bytes / updates,
            "rssKb": self.rss_kb,
            "latency": {
                name: late[min(int(share * updates), updates - 1)] for name, share in QUANTILES.items()
            },
        }

    def print_report(self, peer, version):
        # The threads of a client may keep it from ending.
        print(json.dumps(self.report(peer, version)), flush=True)


QUANTILES = {"p50Ms": 0.5, "p90Ms": 0.9, "p99Ms": 0.99, "p999Ms": 0.999, "maxMs": 1}
