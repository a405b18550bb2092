"""The machine that is measured, and what else it does meanwhile."""

import os
import re
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# How many of the others' processes a result names.
NAMED = 3


def name():
    model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return f"{os.cpu_count()} cores {model[1] if model else ''}, Linux {os.uname().release}"


class Watch:
    """What the machine did beside us from one moment to another.

    To be ended when all children have ended and were waited for: only then is their time known."""

    def __init__(self):
        self.began = time.monotonic()
        self.load_before = os.getloadavg()[0]
        self.processes = processes()
        self.busy, self.stolen = machine_s()
        self.own = own_s()

    def result(self):
        seconds = time.monotonic() - self.began
        busy, stolen = machine_s()
        others = busy - self.busy - (own_s() - self.own)
        ours = family(os.getpid())
        used = [
            (spent - self.processes[pid][1], command)
            for pid, (command, spent) in processes().items()
            if pid in self.processes and pid not in ours
        ]
        top = sorted(used, reverse=True)[:NAMED]
        return {
            "took_s": round(seconds),
            "load_average_before": self.load_before,
            "load_average_after": os.getloadavg()[0],
            "other_cores": max(0, others / seconds),
            "stolen_cores": (stolen - self.stolen) / seconds,
            "other_processes": [
                {"name": command, "cores": spent / seconds}
                for spent, command in top
                if spent / seconds >= 0.005
            ],
        }


def described(result):
    """The same in words."""
    named = ", ".join(f"{one['name']} {one['cores']:.2f}" for one in result["other_processes"])
    return (
        f"load average {result['load_average_before']:.1f} before and"
        f" {result['load_average_after']:.1f} after; others used {result['other_cores']:.2f} cores"
        + (f" ({named})" if named else "")
        + f", the host kept {result['stolen_cores']:.2f}."
    )


def machine_s():
    """CPU seconds that the machine was busy, and those that its host kept from it."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq, stolen = (int(word) / TICKS_PER_S for word in words[:8])
    return user + nice + system + irq + softirq, stolen


def own_s():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def processes():
    """Command and CPU seconds of each process that there is, by its number."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := stat(folder)):
            found[int(folder.name)] = (fields[0], fields[2])
    return found


def stat(folder):
    """Command, parent and CPU seconds."""
    try:
        text = (folder / "stat").read_text()
    except OSError:
        return None
    # The command stands in brackets and may hold anything.
    command, rest = text[text.index("(") + 1 :].rsplit(")", 1)
    fields = rest.split()
    return command, int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def family(pid):
    """A process and those that it descends from: make and the shell are ours too."""
    ours = set()
    while pid > 1 and pid not in ours:
        ours.add(pid)
        fields = stat(Path(f"/proc/{pid}"))
        pid = fields[1] if fields else 0
    return ours
