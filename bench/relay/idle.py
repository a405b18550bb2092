"""A relay that nobody watches: its CPU time, and what the first client's PVs add to its memory."""

import time

from processes import Relay, say
from usage import cpu_ns, rss_kb

ABOUT = (
    "a relay without clients for {seconds} s, then one client × {pvs} PVs ({protocol}), n = {rounds} rounds,"
    " relay on one core, IOC and client on the others."
)

# A relay that has just started has work to do.
REST_S = 3


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [0, 1]


def measure(children, scenario, iocs, folder):
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


LABELS = {
    "relay_cores": ("Relay without clients: cores used", ""),
    "relay_rss_mb": ("Relay without clients: memory", "MB"),
    "kb_per_pv": ("Relay: memory of a PV that one client watches", "KB"),
}
