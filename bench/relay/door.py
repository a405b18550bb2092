"""Relay CPU per update that clients of a door get, of native clients of the same relay, and of the server whose
place the door takes, if the scenario names a program that starts it."""

import deliver
import peer
from deliver import delivery_figures
from processes import Relay, say

ABOUT = (
    "{clients} clients of {door} × {pvs} PVs × {rate_hz} Hz at the door, after as many native clients of the"
    " same relay, {seconds} s a round, n = {rounds} rounds, relay on one core, IOC and clients on the others."
    " The relay's flags: `{told_flags}`.{beside}"
)

BESIDE = " Before them in each round, {peer} delivers the same to as many clients of the same kind, on the relay's core."


def words(scenario):
    """What the sentence about a scenario says of its settings."""
    return {
        "told_flags": " ".join(map(str, scenario["flags"])),
        "beside": BESIDE.format(**scenario) if "program" in scenario else "",
    }


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"]] * (3 if "program" in scenario else 2)


def measure(children, scenario, iocs, folder):
    """One round, and what came of each of its parts."""
    theirs = None
    if "program" in scenario:
        theirs = peer.run_peer(children, scenario, iocs, folder)
    with Relay(children, scenario, iocs) as relay:
        native = relay.load(scenario, scenario["clients"], iocs)
        of_door = relay.door(scenario, scenario["clients"], iocs)
    figures = delivery_figures(scenario, of_door)
    beside = delivery_figures(scenario, native)
    each = "relay_us_per_delivered_update"
    figures |= {
        "native_us_per_delivered_update": beside[each],
        "native_bytes_per_update": beside["bytes_per_update"],
        "ratio_to_native": figures[each] / beside[each],
    }
    say(
        f"   {figures[each]:.3g} µs an update at the door, {beside[each]:.3g} µs native;"
        f" the door's clients used {figures['load_client_cores']:.2f} cores"
    )
    raw = {"relay": of_door, "native": native}
    if theirs:
        figures |= peer.peer_figures(theirs, figures[each])
        raw["peer"] = theirs
        say(
            f"   {scenario['peer']} {figures['peer_us_per_update']:.3g} µs an update:"
            f" ratio {figures['ratio_updates_per_cpu_s']:.3g}"
        )
    return figures, raw


LABELS = deliver.LABELS | {
    "client_frames_per_s": ("Messages to clients", "/s"),
    "native_us_per_delivered_update": ("Native clients: the relay's CPU per delivered update", "µs"),
    "native_bytes_per_update": ("Native clients: bytes on the wire per update", "B"),
    "ratio_to_native": ("Ratio of the CPU at the door and of native clients", ""),
    "peer_us_per_update": ("Server of these clients: CPU per delivered update", "µs"),
    "ratio_updates_per_cpu_s": ("Updates per second of CPU, relay's door ÷ that server", ""),
    "peer_cores": ("That server: cores used", ""),
    "peer_updates_per_s": ("That server: updates delivered", "/s"),
    "peer_missing": ("That server: values missing", ""),
    "peer_latency_p50_ms": ("That server: IOC time stamp to client, median", "ms"),
    "peer_latency_p99_ms": ("That server: IOC time stamp to client, 99 %", "ms"),
}
