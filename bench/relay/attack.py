"""Latency of 100 clients while others attack the relay, and its memory after the attack."""

import http.client
import json
import os
import re
import secrets
import subprocess
import threading
import time
import urllib.request
from contextlib import ExitStack

from deliver import delivery_figures
from fleet import start_nats
from processes import OTHER_CORES, TARGET, Relay, say

ABOUT = (
    "{clients} clients × {pvs} PVs × {rate_hz} Hz beside the attack `{attack}`, in turn with the same"
    " without it, {seconds} s a round, n = {rounds} rounds, relay on one core, IOC, clients and"
    " attackers on the others, where attackers get what IOC and clients leave, at once (`SCHED_FIFO`)."
)

# What attackers compute delays no other client where they have separate machines. Beside 300 threads of attackers this
# isn't enough: the kernel lets clients of normal priority wait for up to 170 ms, so these have a higher one.
IDLY = ["chrt", "--idle", "0"]

# What a cluster asks the relay, how often, and from which address, because the clients of one share what it may use.
PROBES = ("live", "metrics")
PROBE_EVERY_S = 0.05
PROBE_FROM = "127.0.0.3"

# A probe that gets no answer took so long.
PROBE_PATIENCE_S = 20

# Memory has to be free so soon after the attackers left.
RECOVERY_S = 5


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"]] * 2


def resident_kb(relay):
    """Memory that the relay occupies, without the past of PVs, which grows while clients watch them."""
    with open(f"/proc/{relay.process.pid}/status") as status:
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
    # Afterwards, because the relay needs memory for the answer.
    with urllib.request.urlopen(f"http://{relay.address}/metrics", timeout=PROBE_PATIENCE_S) as answer:
        past = re.search(rb"^pvwire_history_bytes (\d+)", answer.read(), re.MULTILINE)
    return resident - int(past[1]) / 1024


class Probes(threading.Thread):
    """Asks for `/live` and `/metrics`, each time by a new connection, until it is ended."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address = address
        self.longest_s = dict.fromkeys(PROBES, 0.0)
        self.count = 0
        self.ended = threading.Event()

    def run(self):
        # Otherwise this thread, too, would wait for those of attackers. A cluster's probes come from other machines.
        os.sched_setaffinity(0, OTHER_CORES)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        while not self.ended.wait(PROBE_EVERY_S):
            for path in PROBES:
                self.longest_s[path] = max(self.longest_s[path], self.took_s(path))
            self.count += 1

    def took_s(self, path):
        host, port = self.address.rsplit(":", 1)
        connection = http.client.HTTPConnection(
            host, int(port), timeout=PROBE_PATIENCE_S, source_address=(PROBE_FROM, 0)
        )
        begun = time.monotonic()
        try:
            connection.request("GET", f"/{path}")
            answer = connection.getresponse()
            answer.read()
        except OSError:
            return PROBE_PATIENCE_S
        finally:
            connection.close()
        return time.monotonic() - begun if answer.status == 200 else PROBE_PATIENCE_S

    def end(self):
        """Their longest times in ms."""
        self.ended.set()
        self.join()
        return {f"{path}_max_ms": 1000 * longest for path, longest in self.longest_s.items()}


def key_file(folder):
    """A file with the key of a fleet's bus."""
    path = folder / "bus.key"
    path.write_text(f"{secrets.token_hex(32)}\n")
    path.chmod(0o600)
    return path


def measure(children, scenario, iocs, folder):
    """One round, and what came of each of its parts."""
    if scenario["attack"] == "audit":
        puts = ["--enable-put", "--allow-put", "SET:*", "--audit-file", folder / "audit"]
        scenario = scenario | {"flags": puts}
    with ExitStack() as opened:
        bus = start_nats(children, opened)[1] if scenario["attack"] == "bus" else None
        if bus:
            flags = [*scenario["flags"], "--bus", f"nats://{bus}", "--bus-key", key_file(folder)]
            scenario = scenario | {"flags": flags}
        relay = opened.enter_context(Relay(children, scenario, iocs))
        without = relay.load(scenario, scenario["clients"], iocs)
        time.sleep(RECOVERY_S)
        before_kb = resident_kb(relay)
        seconds = scenario["warm_up_s"] + scenario["seconds"]
        words = ["--relay", bus or relay.address, "--attack", scenario["attack"], "--seconds", seconds]
        words += ["--names", iocs.names]
        attackers = children.start(
            [*IDLY, TARGET / "pvwire-bench", "attack", *words], OTHER_CORES, stdout=subprocess.PIPE
        )
        probes = Probes(relay.address)
        probes.start()
        beside = relay.load(scenario, scenario["clients"], iocs)
        report = json.loads(children.wait(attackers))
        probed = probes.end()
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
        **probed,
    }
    if "served" in report:
        figures["served_per_s"] = report["served"] / seconds
        figures["refused_per_s"] = report["refused"] / seconds
    say(
        f"   99 % of the others' updates after {figures['ratio_p99']:.2f} times the time; memory"
        f" {figures['rss_before_mb']:.0f} MB before, {figures['rss_during_mb']:.0f} MB during and"
        f" {figures['rss_after_mb']:.0f} MB {RECOVERY_S} s after; `/live` within {probed['live_max_ms']:.0f} ms in"
        f" {probes.count} probes"
    )
    return figures, {"relay": beside, "without": without}


LABELS = {
    "ratio_p99": ("Ratio of the others' 99 % latency with and without the attack", ""),
    "latency_p99_ms": ("The others: IOC time stamp to client, 99 %", "ms"),
    "latency_p99_without_ms": ("The same without the attack", "ms"),
    "latency_max_ms": ("The others: IOC time stamp to client, longest", "ms"),
    "ratio_cpu": ("Ratio of the relay's CPU with and without the attack", ""),
    "ratio_memory": ("Ratio of the relay's memory, without the past of PVs, 5 s after the attack and before it", ""),
    "rss_before_mb": ("Relay: memory before the attack, without the past of PVs", "MB"),
    "rss_during_mb": ("Relay: memory during the attack", "MB"),
    "rss_after_mb": ("Relay: memory 5 s after the attack, without the past of PVs", "MB"),
    "skipped": ("Values left out", ""),
    "served_per_s": ("Connections of the others that the relay served", "/s"),
    "refused_per_s": ("Connections of the others that the relay refused", "/s"),
    "live_max_ms": ("`/live` during the attack, longest", "ms"),
    "metrics_max_ms": ("`/metrics` during the attack, longest", "ms"),
}
