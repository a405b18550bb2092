"""Memory of one more client, in the relay and in the kernel."""

from processes import Relay, say

ABOUT = (
    "{clients} clients, each with the same {each} PVs, after a first one that opened all monitors,"
    " n = {rounds} rounds, each with a relay that has just started."
)


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"]]


def kb_per_client(run, name):
    """Memory of each client after the first."""
    usage = run["memory"]
    return (usage["atEnd"][f"{name}Kb"] - usage["before"][f"{name}Kb"]) / (run["clients"] - 1)


def measure(children, scenario, iocs, folder):
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


LABELS = {
    "relay_kb_per_client": ("Relay: memory of one more client", "KB"),
    "tcp_kb_per_client": ("Kernel: TCP memory of one more client, both ends", "KB"),
    "relay_rss_before_mb": ("Relay: memory with one client", "MB"),
    "relay_rss_mb": ("Relay: memory with all clients", "MB"),
    "relay_cores": ("Relay: cores used", ""),
}
COLUMNS = ("relay_kb_per_client", "tcp_kb_per_client", "relay_rss_mb", "relay_cores")
