"""Measures what the relay costs and reaches. Runs scenarios with IOCs, relay and load client,
and writes each result to bench/results/ as JSON and as a table, and which goals are met.

Fails when a sequence number or a value is wrong, updates are missing, a PV is lost or a client is
forgotten; never because the machine is slow or a goal is not met.
"""

import argparse
import json
import os
import random
import signal
import string
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import goals
import machine
from kinds import KINDS
from processes import FAR_END, ROOT, Children, Disturbed, Iocs, say
from report import summary, table
from results import keep

SCENARIOS = ROOT / "bench/relay/scenarios.json"
# Every round as it was measured; not in the repository.
ROUNDS = ROOT / ".local/bench"

WARM_UP_S = 2

# With --quick: enough to see that everything works, too short for figures to keep.
QUICK_S, QUICK_WARM_UP_S = 2, 2

# Rounds of one point that may be lost to a busy machine.
MOST_REPEATED = 3

# What `tools/delayed_network.py` ends with where namespaces can't be made.
NO_NAMESPACES = 77

# What a run takes beside warm-up and measurement, and what connecting a client adds.
START_S, CLIENT_S = 2.5, 0.004


def scenarios():
    """All scenarios by name, in the names' order."""
    kinds = json.loads(SCENARIOS.read_text())
    found = {name: {"kind": kind} | each for kind, scenarios in kinds.items() for name, each in scenarios.items()}
    return dict(sorted(found.items()))


def as_measured(scenario, which):
    """A scenario as the set measures it; `None` when it isn't in it."""
    quick = scenario.pop("quick", None)
    if which == "quick":
        if quick is None:
            return None
        scenario |= quick
    return {"warm_up_s": WARM_UP_S} | scenario


def points_of(scenario):
    """Settings of each of its points."""
    return [scenario | point for point in scenario.get("sweep", [{}])]


def expected_s(scenario):
    """About how long it takes."""
    seconds = 0
    for point in points_of(scenario):
        seconds += START_S
        for clients in KINDS[point["kind"]].runs(point) * point["rounds"]:
            # The calibration has no warm-up.
            warm_up = point["warm_up_s"] if clients else 0
            seconds += START_S + warm_up + point["seconds"] + clients * CLIENT_S
    return seconds


def commit():
    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = git("status", "--porcelain", "--", ".", ":!bench/results", ":!docs")
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--set",
        choices=("quick", "full"),
        default="full",
        help="all scenarios, or briefly those that the goals need (default: full)",
    )
    parser.add_argument(
        "--scenario",
        action="append",
        help="a name in bench/relay/scenarios.json; may be given several times (default: all of the set)",
    )
    parser.add_argument("--rounds", type=int, help="how often to measure (default: the scenario's)")
    parser.add_argument(
        "--seconds", type=int, help="how long to measure in each round (default: the scenario's)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one short round, printed and not written"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A terminal that is closed: the relay takes that signal for another one.
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    plan = planned(arguments)
    say("== building relay and load client (release)")
    subprocess.run(
        "cargo build --quiet --locked --release -p pvwire-relay -p pvwire-bench".split(),
        cwd=ROOT,
        check=True,
    )
    failed = carry_out(plan, arguments)
    if not arguments.quick:
        say(goals.report())
        say("written to bench/results/goals.json")
    return f"failed: {', '.join(failed)}" if failed else 0


def planned(arguments):
    """Scenarios by name, as they are to be measured."""
    known, plan = scenarios(), {}
    for name in arguments.scenario or known:
        if name not in known:
            sys.exit(f"no scenario {name}; expected one of {', '.join(known)}")
        if scenario := as_measured(known[name], arguments.set):
            if arguments.quick:
                short = {"seconds": min(QUICK_S, scenario["seconds"]), "rounds": 1}
                scenario |= short | {"warm_up_s": QUICK_WARM_UP_S}
            if arguments.seconds:
                scenario["seconds"] = arguments.seconds
            if arguments.rounds:
                scenario["rounds"] = arguments.rounds
            plan[name] = scenario
    return plan


def carry_out(plan, arguments):
    """Measures one scenario after the other; says which failed."""
    left = sum(map(expected_s, plan.values()))
    say(f"== {len(plan)} scenarios, about {left / 60:.0f} min")
    began, failed = time.monotonic(), []
    for number, (name, scenario) in enumerate(plan.items(), 1):
        say(
            f"== {number} of {len(plan)}: {name}, about {expected_s(scenario) / 60:.1f} of"
            f" {left / 60:.0f} min that are left, {(time.monotonic() - began) / 60:.0f} min done"
        )
        left -= expected_s(scenario)
        try:
            run(name, scenario, arguments)
        except SystemExit as end:
            if not isinstance(end.code, str):
                raise
            say(f"{name} failed: {end.code}")
            failed.append(name)
    say(f"== done after {(time.monotonic() - began) / 60:.1f} min")
    return failed


def run(name, scenario, arguments):
    if (needed := scenario.get("needs")) and needed not in os.environ:
        say(f"NOT RUN: {name}: {needed} is not set")
        return
    if "round_trip_ms" in scenario and not FAR_END:
        run_with_delay(name, scenario, arguments)
        return
    watch = machine.Watch()
    points, broken = [], []
    for settings in points_of(scenario):
        label = scenario["label"].format(**settings) if "label" in scenario else ""
        try:
            points.append(measure_point(name, label, settings))
        except SystemExit as end:
            # The other points are worth having all the same.
            if not isinstance(end.code, str) or "sweep" not in scenario:
                raise
            broken.append(f"{label}: {end.code}")
            say(f"{name}, {broken[-1]}")
    if not points:
        sys.exit("; ".join(broken))
    report(name, scenario, arguments, watch, points)
    if broken:
        sys.exit("; ".join(broken))


def run_with_delay(name, scenario, arguments):
    """The same in a network namespace, joined to another one by a line with a delay."""
    line = [sys.executable, ROOT / "tools/delayed_network.py", scenario["round_trip_ms"]]
    again = [sys.executable, __file__, "--set", arguments.set, "--scenario", name]
    again += ["--rounds", scenario["rounds"]]
    again += ["--quick"] if arguments.quick else []
    status = subprocess.run([str(word) for word in line + again], check=False).returncode
    if status == NO_NAMESPACES:
        say(f"NOT RUN: {name}")
    elif status:
        sys.exit("it failed in its network namespace")


def report(name, scenario, arguments, watch, points):
    """Shows what was measured, and keeps it."""
    runs = [
        each
        for point in points
        for raw in point["raw_rounds"]
        for each in raw.values()
        if isinstance(each, dict) and "longestSilenceMs" in each
    ]
    result = {
        "scenario": name,
        "settings": scenario,
        "set": "trial" if arguments.quick else arguments.set,
        "commit": commit(),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine.name(),
        **watch.result(),
        "checked_updates": sum(run["counts"]["updates"] for run in runs),
        "longest_silence_ms": max((run["longestSilenceMs"] for run in runs), default=0),
        "points": points,
    }
    say("")
    say(table(result))
    if arguments.quick:
        return
    ROUNDS.mkdir(parents=True, exist_ok=True)
    (ROUNDS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    keep("relay", without_rounds(result), table(result))
    say(f"written to bench/results/relay.json and relay.md, with all rounds to .local/bench/{name}.json")


def without_rounds(result):
    """The result as it is kept in the repository: figures without what single rounds measured."""
    kept = ("label", "settings", "repeated_rounds", "n", "figures")
    points = []
    for point in result["points"]:
        points.append({key: point[key] for key in kept})
        if point["settings"]["kind"] == "soak":
            points[-1]["memory_samples"] = point["raw_rounds"][0]["relay"]["memory"]["samples"]
    return result | {"points": points}


def measure_point(name, label, settings):
    """All rounds of one point of a scenario, with separate IOCs."""
    prefix = "BENCH" + "".join(random.choices(string.ascii_uppercase, k=6))
    measured, repeated = [], 0
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        folder = Path(folder)
        iocs = Iocs(children, settings, prefix, folder)
        while len(measured) < settings["rounds"]:
            point = f"{name}, {label}" if label else name
            say(f"== {point}: round {len(measured) + 1} of {settings['rounds']}")
            try:
                measured.append(KINDS[settings["kind"]].measure(children, settings, iocs, folder))
            except Disturbed as disturbed:
                repeated += 1
                say(f"   the machine kept load client or IOC from running, so once more: {disturbed}")
                if repeated > MOST_REPEATED:
                    sys.exit(f"the machine is too busy: {disturbed}")
    per_round, raw_rounds = ([each[of] for each in measured] for of in (0, 1))
    return {
        "label": label,
        "settings": settings,
        "repeated_rounds": repeated,
        "n": len(per_round),
        "figures": summary(per_round),
        "rounds": per_round,
        "raw_rounds": raw_rounds,
    }


if __name__ == "__main__":
    sys.exit(main())
