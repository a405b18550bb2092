"""Time until all clients have all values when they connect at once."""

from processes import Relay, say

ABOUT = (
    "{clients} clients connect at the same time, each subscribes to the same {each} PVs × {rate_hz} Hz,"
    " n = {rounds} rounds, relay on one core, IOC and clients on the others."
)


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"], scenario["clients"]]


def measure(children, scenario, iocs, folder):
    """One round, and what came of each of its parts."""
    with Relay(children, scenario, iocs) as relay:
        new = relay.load(scenario, scenario["clients"], iocs, storm=True)
        # Its monitors are still open.
        again = relay.load(scenario, scenario["clients"], iocs, storm=True)
    figures = {
        f"{which}_{quantile}_s": run["firstValues"][f"{quantile}Ms"] / 1000
        for which, run in (("new", new), ("again", again))
        for quantile in ("p50", "p99", "max")
    }
    figures |= {
        f"{which}_cpu_s": run["connectingCpuNs"] / 1e9 for which, run in (("new", new), ("again", again))
    }
    figures["relay_rss_mb"] = again["memory"]["connected"]["rssKb"] / 1024
    say(
        f"   a new relay: half of them after {figures['new_p50_s']:.2f} s, the last after"
        f" {figures['new_max_s']:.2f} s; again {figures['again_p50_s']:.2f} s and"
        f" {figures['again_max_s']:.2f} s, for {figures['again_cpu_s']:.2f} s of the relay's CPU"
    )
    return figures, {"relay": new, "again": again}


LABELS = {
    "new_p50_s": ("A relay that has just started: every PV has a value, median of clients", "s"),
    "new_p99_s": ("the same, 99 % of clients", "s"),
    "new_max_s": ("the same, last client", "s"),
    "again_p50_s": ("A relay that has the PVs: every PV has a value, median of clients", "s"),
    "again_p99_s": ("the same, 99 % of clients", "s"),
    "again_max_s": ("the same, last client", "s"),
    "new_cpu_s": ("A relay that has just started: its CPU until all have them", "s"),
    "again_cpu_s": ("A relay that has the PVs: its CPU until all have them", "s"),
    "relay_rss_mb": ("Relay: memory afterwards", "MB"),
}
