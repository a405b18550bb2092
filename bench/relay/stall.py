"""What clients that don't read cost the relay, the kernel and other clients."""

from deliver import delivery_figures
from processes import Relay, say

ABOUT = (
    "{clients} clients × {each} PVs × {rate_hz} Hz of which {stalled} don't read, in turn with the same"
    " without these {stalled}, {seconds} s a round, n = {rounds} rounds, relay on one core, IOC and"
    " clients on the others."
)


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"] - scenario["stalled"], scenario["clients"] * 2]


def measure(children, scenario, iocs, folder):
    """One round, and what came of each of its parts."""
    stalled = scenario["stalled"]
    with Relay(children, scenario, iocs) as relay:
        without = relay.load(scenario, scenario["clients"] - stalled, iocs)
    with Relay(children, scenario, iocs) as relay:
        beside = relay.load(scenario, scenario["clients"], iocs, stalled=stalled)
    figures = round_figures(scenario, without, beside)
    say(
        f"   {figures['ratio_cpu']:.2f} times the CPU, {figures['user_kb']:.0f} KB of the relay and"
        f" {figures['tcp_kb_per_stalled']:.0f} KB of the kernel for each at both ends, in all"
        f" {figures['relay_tcp_mb']:.0f} MB at the relay's; 99 % of the others' updates"
        f" after {figures['ratio_p99']:.2f} times the time"
    )
    return figures, {"relay": beside, "without": without}


def round_figures(scenario, without, beside):
    one, other = (delivery_figures(scenario, run) for run in (without, beside))
    usage = beside["memory"]
    return {
        "ratio_cpu": other["relay_cores"] / one["relay_cores"],
        "relay_cores": other["relay_cores"],
        "relay_cores_without": one["relay_cores"],
        # Not beside the moment when all had connected: the relay still has the buffers of the rush then.
        "user_kb": usage["atEnd"]["rssKb"] - without["memory"]["atEnd"]["rssKb"],
        "tcp_kb_per_stalled": max(0, usage["atEnd"]["tcpKb"] - without["memory"]["atEnd"]["tcpKb"])
        / scenario["stalled"],
        "relay_rss_mb": usage["atEnd"]["rssKb"] / 1024,
        "relay_tcp_mb": usage["atEnd"]["relayTcpKb"] / 1024,
        "tcp_mb": usage["atEnd"]["tcpKb"] / 1024,
        "ratio_p99": other["latency_p99_ms"] / one["latency_p99_ms"],
        "latency_p50_ms": other["latency_p50_ms"],
        "latency_p50_without_ms": one["latency_p50_ms"],
        "latency_p99_ms": other["latency_p99_ms"],
        "latency_p99_without_ms": one["latency_p99_ms"],
        "catch_ups": beside["resumed"]["catchUps"],
        "values_skipped": beside["resumed"]["faults"]["skipped"],
        "updates_per_s": other["updates_per_s"],
    }


LABELS = {
    "ratio_cpu": ("Ratio of the relay's CPU with and without those that stall", ""),
    "relay_cores": ("Relay: cores used", ""),
    "relay_cores_without": ("Relay: cores used without those that stall", ""),
    "user_kb": ("Relay: memory more than without them, all together", "KB"),
    "tcp_kb_per_stalled": ("Kernel: TCP memory for each of them, both ends", "KB"),
    "relay_rss_mb": ("Relay: memory in all", "MB"),
    "relay_tcp_mb": ("Kernel: TCP memory in all, the relay's end", "MB"),
    "tcp_mb": ("Kernel: TCP memory in all, both ends", "MB"),
    "ratio_p99": ("Ratio of the others' 99 % latency with and without them", ""),
    "latency_p50_ms": ("The others: IOC time stamp to client, median", "ms"),
    "latency_p50_without_ms": ("The same without those that stall", "ms"),
    "latency_p99_ms": ("The others: IOC time stamp to client, 99 %", "ms"),
    "latency_p99_without_ms": ("The same without those that stall", "ms"),
    "catch_ups": ("Frames that brought them up to date afterwards", ""),
    "values_skipped": ("Values that they skipped", ""),
    "updates_per_s": ("Updates delivered to the others", "/s"),
}
