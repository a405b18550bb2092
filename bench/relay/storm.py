"""Time until all clients have all values: when they connect at once, or after their relay was killed or stopped."""

import json
import subprocess
import sys
from contextlib import ExitStack

from processes import OTHER_CORES, TARGET, Relay, say, wait_for_line

ABOUT = {
    "storm": "{clients} clients connect at the same time, each subscribes to the same {each} PVs × {rate_hz} Hz,"
    " n = {rounds} rounds, relay on one core, IOC and clients on the others.",
    "restart": "{clients} clients with {pvs} PVs × {rate_hz} Hz each; the relay gets {signal}, and clients connect"
    " again as browsers do: to the next relay, which starts at once at the same address (SIGKILL) or runs"
    " beside it (SIGTERM), n = {rounds} rounds, relays on one core, IOC and clients on the others.",
}

# Not ready for 2 s, close messages over 3 s.
LONGEST_END_S = 15


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"]] * (1 if scenario["kind"] == "restart" else 2)


def measure_storm(children, scenario, iocs, folder):
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


def measure_restart(children, scenario, iocs, folder):
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


MEASURES = {"storm": measure_storm, "restart": measure_restart}

LABELS = {
    "storm": {
        "new_p50_s": ("A relay that has just started: every PV has a value, median of clients", "s"),
        "new_p99_s": ("the same, 99 % of clients", "s"),
        "new_max_s": ("the same, last client", "s"),
        "again_p50_s": ("A relay that has the PVs: every PV has a value, median of clients", "s"),
        "again_p99_s": ("the same, 99 % of clients", "s"),
        "again_max_s": ("the same, last client", "s"),
        "new_cpu_s": ("A relay that has just started: its CPU until all have them", "s"),
        "again_cpu_s": ("A relay that has the PVs: its CPU until all have them", "s"),
        "relay_rss_mb": ("Relay: memory afterwards", "MB"),
    },
    "restart": {
        "back_p50_s": ("Connection lost until every PV has a value again, median of clients", "s"),
        "back_p99_s": ("the same, 99 % of clients", "s"),
        "back_max_s": ("the same, last client", "s"),
        "attempts": ("Attempts to connect, per client", ""),
    },
}
