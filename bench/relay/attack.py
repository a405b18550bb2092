"""Latency of 100 clients while others attack the relay, and its memory after the attack."""

import json
import subprocess
import time

from deliver import delivery_figures
from processes import OTHER_CORES, TARGET, Relay, say

ABOUT = (
    "{clients} clients × {pvs} PVs × {rate_hz} Hz beside the attack `{attack}`, in turn with the same"
    " without it, {seconds} s a round, n = {rounds} rounds, relay on one core, IOC, clients and"
    " attackers on the others, where attackers get what the clients leave."
)

# Attackers that also measure how soon probes are answered.
PROBING = ("gets", "handshakes")

# Memory has to be free so soon after the attackers left.
RECOVERY_S = 5


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"]] * 2


def resident_kb(relay):
    """Memory that the relay occupies."""
    with open(f"/proc/{relay.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def measure(children, scenario, iocs, folder):
    """One round, and what came of each of its parts."""
    if scenario["attack"] == "audit":
        puts = ["--enable-put", "--allow-put", "SET:*", "--audit-file", folder / "audit"]
        scenario = scenario | {"flags": puts}
    with Relay(children, scenario, iocs) as relay:
        without = relay.load(scenario, scenario["clients"], iocs)
        time.sleep(RECOVERY_S)
        before_kb = resident_kb(relay)
        seconds = scenario["warm_up_s"] + scenario["seconds"]
        words = ["--relay", relay.address, "--attack", scenario["attack"], "--seconds", seconds]
        words += ["--names", iocs.names]
        # What attackers compute delays no other client where they have separate machines. Those that measure
        # probes are polite by themselves, but for their probes.
        politely = [] if scenario["attack"] in PROBING else ["nice", "-n", "19"]
        attackers = children.start(
            [*politely, TARGET / "pvwire-bench", "attack", *words],
            OTHER_CORES,
            stdout=subprocess.PIPE,
        )
        beside = relay.load(scenario, scenario["clients"], iocs)
        report = json.loads(children.wait(attackers))
        time.sleep(RECOVERY_S)
        after_kb = resident_kb(relay)
    one, other = (delivery_figures(scenario, run) for run in (without, beside))
    figures = {
        "ratio_p99": other["latency_p99_ms"] / one["latency_p99_ms"],
        "latency_p99_ms": other["latency_p99_ms"],
        "latency_p99_without_ms": one["latency_p99_ms"],
        "latency_max_ms": other["latency_max_ms"],
        "ratio_cpu": other["relay_cores"] / one["relay_cores"],
        "ratio_memory": after_kb / before_kb,
        "rss_before_mb": before_kb / 1024,
        "rss_during_mb": other["relay_rss_mb"],
        "rss_after_mb": after_kb / 1024,
        "skipped": other["skipped"],
    }
    if "served" in report:
        figures["served_per_s"] = report["served"] / seconds
        figures["refused_per_s"] = report["refused"] / seconds
    for probe in ("live_max_ms", "metrics_max_ms"):
        if probe in report:
            figures[probe] = report[probe]
            say(f"   {probe} {report[probe]}")
    say(
        f"   99 % of the others' updates after {figures['ratio_p99']:.2f} times the time; memory"
        f" {figures['rss_before_mb']:.0f} MB before, {figures['rss_during_mb']:.0f} MB during and"
        f" {figures['rss_after_mb']:.0f} MB {RECOVERY_S} s after"
    )
    return figures, {"relay": beside, "without": without}


LABELS = {
    "ratio_p99": ("Ratio of the others' 99 % latency with and without the attack", ""),
    "latency_p99_ms": ("The others: IOC time stamp to client, 99 %", "ms"),
    "latency_p99_without_ms": ("The same without the attack", "ms"),
    "latency_max_ms": ("The others: IOC time stamp to client, longest", "ms"),
    "ratio_cpu": ("Ratio of the relay's CPU with and without the attack", ""),
    "ratio_memory": ("Ratio of the relay's memory 5 s after the attack and before it", ""),
    "rss_before_mb": ("Relay: memory before the attack", "MB"),
    "rss_during_mb": ("Relay: memory during the attack", "MB"),
    "rss_after_mb": ("Relay: memory 5 s after the attack", "MB"),
    "skipped": ("Values left out", ""),
    "served_per_s": ("Connections of the others that the relay served", "/s"),
    "refused_per_s": ("Connections of the others that the relay refused", "/s"),
    "live_max_ms": ("`/live` during the attack, longest", "ms"),
    "metrics_max_ms": ("`/metrics` during the attack, longest", "ms"),
}
