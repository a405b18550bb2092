"""Counts the updates that a Python client gets, their latency and their CPU time.

While it is measured it only keeps what comes and when, a fifth of a microsecond each; all else is
worked out afterwards.
"""

import json
import sys
import time
from pathlib import Path

# How long the IOC may take until every PV has a value.
PATIENCE_S = 60


class Intake:
    """One monitor a PV, of PVs that each count up by one."""

    def __init__(self, given):
        names = given.names.read_text().splitlines()
        self.names = [name.removeprefix("pva://") for name in names]
        self.log = []
        self.before = []
        self.deadline = time.monotonic() + PATIENCE_S

    def receiver(self, place):
        """What is to be called with each value of a PV."""
        keep, now = self.log.append, time.time
        return lambda value: keep((place, value, now()))

    def without_value(self):
        """Places of PVs that have none yet; ends the program when that takes too long."""
        if time.monotonic() > self.deadline:
            sys.exit("not every PV had a value in time")
        return set(range(len(self.names))) - {place for place, _, _ in list(self.log)}

    def begin(self):
        self.before = list(self.log)
        self.log.clear()
        self.cpu_ns, self.began = time.process_time_ns(), time.monotonic()

    def end(self):
        self.cpu_ns = time.process_time_ns() - self.cpu_ns
        self.seconds = time.monotonic() - self.began

    def print_report(self, peer, version):
        last = {place: round(float(value)) for place, value, _ in self.before}
        missing = 0
        for place, value, _ in self.log:
            step = round(float(value)) - last[place]
            if step < 1:
                sys.exit(f"{self.names[place]} went from {last[place]} to {value}")
            missing += step - 1
            last[place] += step
        # PVs of one scan have one value: they are behind by more than one that may be on its way.
        missing += sum(max(0, max(last.values()) - one - 1) for one in last.values())
        late = sorted(1000 * (when - value.timestamp) for _, value, when in self.log)
        updates = len(self.log)
        report = {
            "peer": peer,
            "version": version,
            "clients": 1,
            "pvs": len(self.names),
            "seconds": self.seconds,
            "updates": updates,
            "missing": missing,
            "cpuNs": self.cpu_ns,
            "usPerUpdate": self.cpu_ns / updates / 1000,
            "updatesPerCpuSecond": updates / self.cpu_ns * 1e9,
            "latency": {
                name: late[min(int(share * updates), updates - 1)]
                for name, share in QUANTILES.items()
            },
        }
        print(json.dumps(report))


QUANTILES = {"p50Ms": 0.5, "p90Ms": 0.9, "p99Ms": 0.99, "p999Ms": 0.999, "maxMs": 1}
