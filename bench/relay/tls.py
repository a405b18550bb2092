"""What TLS adds to the cost of updates, and to the memory of a client."""

import subprocess

import deliver
import memory
from processes import OTHER_CORES, TARGET, Relay, say

ABOUT = (
    "{clients} clients × {each} PVs × {rate_hz} Hz, {seconds} s a round, n = {rounds} rounds, without TLS and with"
    " it in turn, relay on one core, IOC and clients on the others."
)


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"], scenario["clients"]]


def measure(children, scenario, iocs, folder):
    """One round, and what came of each of its parts."""
    cert = folder / "cert.pem"
    if not cert.exists():
        words = [TARGET / "pvwire-bench", "certificate", "--folder", folder]
        children.wait(children.start(words, OTHER_CORES, stdout=subprocess.DEVNULL))
    found = {}
    for which, settings in (("plain", scenario), ("tls", scenario | {"tls_cert": cert})):
        with Relay(children, settings, iocs) as relay:
            found[which] = relay.load(settings, scenario["clients"], iocs)
    figures = {}
    for which, run in found.items():
        figures[f"{which}_kb_per_client"] = memory.kb_per_client(run, "rss")
        figures[f"{which}_cores"] = run["relayCpuNs"] / run["seconds"] / 1e9
        if "rate_hz" in scenario:
            of_run = deliver.delivery_figures(scenario, run)
            for name in ("relay_us_per_delivered_update", "latency_p50_ms", "latency_p99_ms"):
                figures[f"{which}_{name}"] = of_run[name]
    if "rate_hz" in scenario:
        plain, tls = (figures[f"{which}_relay_us_per_delivered_update"] for which in found)
        figures["ratio_to_plain"] = tls / plain
        say(f"   {plain:.4f} µs an update, with TLS {tls:.4f} µs: ratio {tls / plain:.2f}")
    say(
        f"   {figures['plain_kb_per_client']:.2f} KB a client, with TLS"
        f" {figures['tls_kb_per_client']:.2f} KB"
    )
    return figures, found


LABELS = {
    "ratio_to_plain": ("Ratio of the relay with TLS to the relay without", ""),
    **{
        f"{which}_{name}": (f"{words}: {what}", unit)
        for which, words in (("plain", "Without TLS"), ("tls", "With TLS"))
        for name, (what, unit) in {
            "relay_us_per_delivered_update": ("CPU per delivered update", "µs"),
            "cores": ("cores used", ""),
            "kb_per_client": ("relay's memory of one more client", "KB"),
            "latency_p50_ms": ("IOC time stamp to client, median", "ms"),
            "latency_p99_ms": ("IOC time stamp to client, 99 %", "ms"),
        }.items()
    },
}
