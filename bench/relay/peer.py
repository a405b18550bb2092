"""Cost of another server or client for the same updates, on the same IOC, in the same run.

A peer is a program under bench/relay/peers/ that the scenario names. It is run with the interpreter of the
project's Python environment, on the IOC's environment variables, with the arguments that `measure`
gives it; it pins what it starts to the cores that it is given, ends all of it, and prints one line of
JSON at last: `updates`, `seconds` and `cpuNs` of its measurement, `missing` values, and `latency` as
the load client's, where it is known. A program that fails, or says nothing, ends the run.
"""

import json
import subprocess
import sys

from deliver import delivery_figures
from processes import OTHER_CORES, PYTHON, ROOT, SERVER_CORE, Relay, say

ABOUT = (
    "{clients} clients × {each} PVs × {rate_hz} Hz ({protocol}), {seconds} s a round, n = {rounds}"
    " rounds, {peer} and relay in turn, each on one core, IOC and clients on the others."
)


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"], scenario["clients"]]


def measure(children, scenario, iocs, folder):
    """One round, and what came of each of its parts."""
    peer = run_peer(children, scenario, iocs, folder)
    with Relay(children, scenario, iocs) as relay:
        ours = relay.load(scenario, scenario["clients"], iocs)
    figures = round_figures(scenario, ours, peer)
    say(
        f"   {scenario['peer']} {figures['peer_us_per_update']:.3g} µs an update, relay"
        f" {figures['relay_us_per_delivered_update']:.3g} µs: ratio {figures['ratio_updates_per_cpu_s']:.3g}"
    )
    return figures, {"relay": ours, "peer": peer}


def run_peer(children, scenario, iocs, folder, within_s=None):
    """What the program of a peer reports; it ends the run when the program fails, or takes longer."""
    program = [PYTHON, ROOT / "bench/relay/peers" / scenario["program"], *scenario.get("arguments", [])]
    words = ["--names", iocs.names, "--clients", scenario["clients"], "--folder", folder]
    words += ["--rate-hz", scenario["rate_hz"]]
    words += ["--warm-up-s", scenario["warm_up_s"], "--seconds", scenario["seconds"]]
    words += ["--server-core", SERVER_CORE, "--other-cores", ",".join(map(str, OTHER_CORES))]
    child = children.start(
        [*program, *words],
        {SERVER_CORE, *OTHER_CORES},
        env=iocs.environment,
        stdout=subprocess.PIPE,
    )
    try:
        lines = children.wait(child, within_s).splitlines()
    except subprocess.TimeoutExpired:
        children.end(child)
        sys.exit(f"{scenario['peer']} had no result within {within_s:.0f} s")
    if child.returncode != 0 or not lines:
        sys.exit(f"{scenario['peer']} failed")
    return json.loads(lines[-1])


def round_figures(scenario, ours, peer):
    figures = delivery_figures(scenario, ours)
    figures |= peer_figures(peer, figures["relay_us_per_delivered_update"])
    return {key: figures[key] for key in LABELS if key in figures}


def peer_figures(peer, relay_us):
    """What the peer came to, beside the relay's CPU time per update."""
    figures = {
        "peer_us_per_update": peer["cpuNs"] / peer["updates"] / 1000,
        "peer_cores": peer["cpuNs"] / peer["seconds"] / 1e9,
        "peer_updates_per_s": peer["updates"] / peer["seconds"],
        "peer_missing": peer["missing"],
    }
    if latency := peer.get("latency"):
        figures |= {"peer_latency_p50_ms": latency["p50Ms"], "peer_latency_p99_ms": latency["p99Ms"]}
    return figures | {"ratio_updates_per_cpu_s": figures["peer_us_per_update"] / relay_us}


LABELS = {
    "ratio_updates_per_cpu_s": ("Updates per second of CPU, relay ÷ peer", ""),
    "relay_us_per_delivered_update": ("Relay, all threads: CPU per delivered update", "µs"),
    "peer_us_per_update": ("Peer: CPU per delivered update", "µs"),
    "relay_cores": ("Relay: cores used", ""),
    "peer_cores": ("Peer: cores used", ""),
    "updates_per_s": ("Relay: updates delivered", "/s"),
    "peer_updates_per_s": ("Peer: updates delivered", "/s"),
    "skipped": ("Relay: values left out", ""),
    "peer_missing": ("Peer: values missing", ""),
    "latency_p50_ms": ("Relay: IOC time stamp to client, median", "ms"),
    "peer_latency_p50_ms": ("Peer: IOC time stamp to client, median", "ms"),
    "latency_p99_ms": ("Relay: IOC time stamp to client, 99 %", "ms"),
    "peer_latency_p99_ms": ("Peer: IOC time stamp to client, 99 %", "ms"),
}
