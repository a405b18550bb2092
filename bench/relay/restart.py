"""Time until all clients have right values again after their relay was killed or stopped."""

import json
import subprocess
import sys
from contextlib import ExitStack

from processes import OTHER_CORES, TARGET, Relay, say, wait_for_line

ABOUT = (
    "{clients} clients with {pvs} PVs × {rate_hz} Hz each; the relay gets {signal}, and clients connect"
    " again as browsers do: to the next relay, which starts at once at the same address (SIGKILL) or runs"
    " beside it (SIGTERM), n = {rounds} rounds, relays on one core, IOC and clients on the others."
)

# Not ready for 2 s, farewells over 3 s.
LONGEST_END_S = 15


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"]]


def measure(children, scenario, iocs, folder):
    """One round, and what came of it."""
    with ExitStack() as next_relay, Relay(children, scenario, iocs) as relay:
        words = ["--relay", relay.address, "--clients", scenario["clients"], "--names", iocs.names]
        is_planned = scenario["signal"] == "SIGTERM"
        if is_planned:
            beside = next_relay.enter_context(Relay(children, scenario, iocs))
            words += ["--next", beside.address]
        load = children.start(
            [TARGET / "pvwire-bench", "restart", *words],
            OTHER_CORES,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        wait_for_line(load.stderr, "ready", "the clients")
        if is_planned:
            relay.process.terminate()
        else:
            relay.process.kill()
            relay.process.wait()
            next_relay.enter_context(Relay(children, scenario, iocs, listen=relay.address))
        output = children.wait(load)
        if load.returncode != 0:
            sys.exit("the clients didn't come back")
        if is_planned and relay.process.wait(LONGEST_END_S) != 0:
            sys.exit(f"the relay ended with {relay.process.returncode}")
    run = json.loads(output)
    if is_planned and run["notified"] != run["clients"]:
        sys.exit(f"only {run['notified']} of {run['clients']} clients were told that the relay restarts")
    wrong = {what: run["faults"][what] for what in ("gaps", "wrongValues", "repeated")}
    if any(wrong.values()):
        sys.exit(f"clients that came back got something wrong: {wrong}")
    figures = {f"back_{which}_s": run["back"][f"{which}Ms"] / 1000 for which in ("p50", "p99", "max")}
    figures["attempts"] = run["attempts"] / run["clients"]
    say(
        f"   back with all values: half of them after {figures['back_p50_s']:.2f} s, 99 % after"
        f" {figures['back_p99_s']:.2f} s, the last after {figures['back_max_s']:.2f} s"
    )
    return figures, {"restart": run}


LABELS = {
    "back_p50_s": ("Connection lost until every PV has a value again, median of clients", "s"),
    "back_p99_s": ("the same, 99 % of clients", "s"),
    "back_max_s": ("the same, last client", "s"),
    "attempts": ("Attempts to connect, per client", ""),
}
