"""What a relay takes when it has little to do: memory of PVs and of clients, and CPU time without any."""

import time

from processes import Relay, say
from usage import cpu_ns, rss_kb

ABOUT = {
    "memory": "{clients} clients, each with the same {each} PVs, after a first one that opened all monitors,"
    " n = {rounds} rounds, each with a relay that has just started.",
    "idle": "a relay without clients for {seconds} s, then one client × {pvs} PVs ({protocol}), n = {rounds} rounds,"
    " relay on one core, IOC and client on the others.",
}

# A relay that has just started has work to do.
REST_S = 3


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario.get("clients", 1)]


def kb_per_client(run, name):
    """Memory of each client after the first."""
    usage = run["memory"]
    return (usage["atEnd"][f"{name}Kb"] - usage["before"][f"{name}Kb"]) / (run["clients"] - 1)


def measure_clients(children, scenario, iocs, folder):
    """One round, and what came of it."""
    with Relay(children, scenario, iocs) as relay:
        run = relay.load(scenario, scenario["clients"], iocs)
    usage = run["memory"]
    figures = {
        f"{whose}_kb_per_client": kb_per_client(run, name)
        for whose, name in (("relay", "rss"), ("tcp", "tcp"))
    }
    figures["relay_rss_before_mb"] = usage["before"]["rssKb"] / 1024
    figures["relay_rss_mb"] = usage["atEnd"]["rssKb"] / 1024
    figures["relay_cores"] = run["relayCpuNs"] / run["seconds"] / 1e9
    say(
        f"   {figures['relay_kb_per_client']:.2f} KB of the relay and"
        f" {figures['tcp_kb_per_client']:.2f} KB of the kernel a client"
    )
    return figures, {"relay": run}


def measure_idle(children, scenario, iocs, folder):
    """One round, and what came of it."""
    with Relay(children, scenario, iocs) as relay:
        time.sleep(REST_S)
        pid, seconds = relay.process.pid, scenario["seconds"]
        began, used = time.monotonic(), cpu_ns(pid)
        time.sleep(seconds)
        cores = (cpu_ns(pid) - used) / (time.monotonic() - began) / 1e9
        empty_kb = rss_kb(pid)
        run = relay.load(scenario | {"seconds": 1}, 1, iocs)
    figures = {
        "relay_cores": cores,
        "relay_rss_mb": empty_kb / 1024,
        "kb_per_pv": (run["memory"]["atEnd"]["rssKb"] - empty_kb) / scenario["pvs"],
    }
    say(
        f"   {cores:.5f} cores without clients, {figures['relay_rss_mb']:.1f} MB;"
        f" {figures['kb_per_pv']:.2f} KB a PV"
    )
    return figures, {"relay": run}


MEASURES = {"memory": measure_clients, "idle": measure_idle}

LABELS = {
    "memory": {
        "relay_kb_per_client": ("Relay: memory of one more client", "KB"),
        "tcp_kb_per_client": ("Kernel: TCP memory of one more client, both ends", "KB"),
        "relay_rss_before_mb": ("Relay: memory with one client", "MB"),
        "relay_rss_mb": ("Relay: memory with all clients", "MB"),
        "relay_cores": ("Relay: cores used", ""),
    },
    "idle": {
        "relay_cores": ("Relay without clients: cores used", ""),
        "relay_rss_mb": ("Relay without clients: memory", "MB"),
        "kb_per_pv": ("Relay: memory of a PV that one client watches", "KB"),
    },
}
COLUMNS = {"memory": ("relay_kb_per_client", "tcp_kb_per_client", "relay_rss_mb", "relay_cores")}
