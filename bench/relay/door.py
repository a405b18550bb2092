"""Relay CPU per update that clients of PVWS get, and the same of native clients of the same relay."""

import deliver
from deliver import delivery_figures
from processes import Relay, say

ABOUT = (
    "{clients} clients of PVWS × {pvs} PVs × {rate_hz} Hz at the door, after as many native clients of the"
    " same relay, {seconds} s a round, n = {rounds} rounds, relay on one core, IOC and clients on the others."
    " The door sends every update (`--pvws-throttle-ms 0`)."
)


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"]] * 2


def measure(children, scenario, iocs, folder):
    """One round, and what came of each of its parts."""
    flags = ["--pvws", "--pvws-throttle-ms", 0]
    with Relay(children, scenario | {"flags": flags}, iocs) as relay:
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
    return figures, {"relay": of_door, "native": native}


LABELS = deliver.LABELS | {
    "client_frames_per_s": ("Messages to clients", "/s"),
    "native_us_per_delivered_update": ("Native clients: the relay's CPU per delivered update", "µs"),
    "native_bytes_per_update": ("Native clients: bytes on the wire per update", "B"),
    "ratio_to_native": ("Ratio of the CPU at the door and of native clients", ""),
}
