"""Checks that every client gets every update, and measures the relay's CPU time and the latency."""

from processes import Relay, say

ABOUT = (
    "{clients} clients × {each} PVs × {rate_hz} Hz, {seconds} s a round, n = {rounds} rounds, relay on"
    " one core, IOC and clients on the others."
)

# The first part of the time in which memory may still grow: buffers reach their size.
SETTLING = 0.2


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"]]


def measure(children, scenario, iocs, folder):
    """One round, and what came of it."""
    with Relay(children, scenario, iocs) as relay:
        run = relay.load(scenario, scenario["clients"], iocs)
    figures = delivery_figures(scenario, run)
    say(
        f"   {figures['relay_cores'] * 100:.1f} % of a core,"
        f" {figures['updates_per_s']:,.0f} updates/s,"
        f" {figures['relay_us_per_delivered_update']:.3g} µs each, after"
        f" {figures['latency_p50_ms']:.1f} ms (99 %: {figures['latency_p99_ms']:.1f} ms)"
    )
    return figures, {"relay": run}


def delivery_figures(scenario, run):
    """What one run of many clients came to."""
    counts, latency, memory = run["counts"], run["latency"], run["memory"]
    made = run["clients"] * run["pvs"] * (scenario["rate_hz"] * run["seconds"] - 1)
    figures = {
        "relay_cores": run["relayCpuNs"] / run["seconds"] / 1e9,
        "relay_us_per_delivered_update": run["relayCpuNs"] / counts["updates"] / 1000,
        "updates_per_s": counts["updates"] / run["seconds"],
        "delivered_percent": min(100, counts["updates"] / made * 100),
        "skipped": run["faults"]["skipped"],
        "client_frames_per_s": counts["frames"] / run["seconds"],
        "bytes_per_update": counts["bytes"] / counts["updates"],
        "latency_p50_ms": latency["p50Ms"],
        "latency_p90_ms": latency["p90Ms"],
        "latency_p95_ms": latency["p95Ms"],
        "latency_p99_ms": latency["p99Ms"],
        "latency_p999_ms": latency["p999Ms"],
        "latency_max_ms": latency["maxMs"],
        "relay_rss_mb": memory["atEnd"]["rssKb"] / 1024,
        "tcp_mb": memory["atEnd"]["tcpKb"] / 1024,
        "relay_waited_percent": run["relayWaitedNs"] / run["seconds"] / 1e7,
        "load_client_cores": run["ownCpuNs"] / run["seconds"] / 1e9,
        "load_client_pause_ms": run["ownLongestPauseMs"],
    }
    if memory["samples"]:
        figures["rss_growth_kb_per_minute"] = growth(memory["samples"]) * 60
        figures["rss_most_mb"] = max(each["rssKb"] for each in memory["samples"]) / 1024
    return figures


def growth(samples):
    """By how many KB a second the process grew, as the straight line that fits best."""
    settled = [each for each in samples if each["seconds"] >= SETTLING * samples[-1]["seconds"]]
    times, sizes = ([each[of] for each in settled] for of in ("seconds", "rssKb"))
    middle, mean = sum(times) / len(times), sum(sizes) / len(sizes)
    spread = sum((time - middle) ** 2 for time in times)
    if not spread:
        return 0
    return sum((t - middle) * (size - mean) for t, size in zip(times, sizes)) / spread


LABELS = {
    "relay_cores": ("Relay: cores used", ""),
    "relay_us_per_delivered_update": ("Relay, all threads: CPU per delivered update", "µs"),
    "updates_per_s": ("Updates delivered", "/s"),
    "delivered_percent": ("Of the IOC's updates delivered", "%"),
    "skipped": ("Values left out", ""),
    "client_frames_per_s": ("Client-frames", "/s"),
    "bytes_per_update": ("Bytes on the wire per update", "B"),
    "latency_p50_ms": ("IOC time stamp to client, median", "ms"),
    "latency_p90_ms": ("IOC time stamp to client, 90 %", "ms"),
    "latency_p95_ms": ("IOC time stamp to client, 95 %", "ms"),
    "latency_p99_ms": ("IOC time stamp to client, 99 %", "ms"),
    "latency_p999_ms": ("IOC time stamp to client, 99.9 %", "ms"),
    "latency_max_ms": ("IOC time stamp to client, longest", "ms"),
    "relay_rss_mb": ("Relay: memory", "MB"),
    "tcp_mb": ("Kernel: memory of all TCP sockets, receivers' too", "MB"),
    "relay_waited_percent": ("Relay: time that its threads waited for their core", "%"),
    "load_client_cores": ("Load client: cores used", ""),
    "load_client_pause_ms": ("Load client: longest time that it didn't look", "ms"),
}
COLUMNS = (
    "relay_cores",
    "relay_us_per_delivered_update",
    "updates_per_s",
    "skipped",
    "latency_p50_ms",
    "latency_p99_ms",
    "latency_p999_ms",
    "latency_max_ms",
    "relay_rss_mb",
)
