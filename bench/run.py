"""What does a scenario cost? Runs IOCs, relay and load client, measures, and writes the result to
bench/results/ as JSON and as a table.

Fails when a sequence number or a value is wrong, updates are missing, a PV is lost or a client is
forgotten; never because the machine is slow.
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import string
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import fanout
import ingest
from processes import ROOT, Children, Iocs, say

# With --quick: enough to see that everything works, too short for figures to keep.
QUICK_S = 2
WARM_UP_S, QUICK_WARM_UP_S = 3, 2


def measures(scenario):
    """How a scenario is measured, what its figures are called, and how it is told in a line."""
    kind = scenario["kind"]
    if kind == "fan-out":
        return fanout.measure, fanout.LABELS, fanout.ABOUT
    return ingest.measure, ingest.LABELS[kind], ingest.ABOUT[kind]


def summary(rounds):
    return {
        key: {
            "min": min(one[key] for one in rounds),
            "median": statistics.median(one[key] for one in rounds),
            "max": max(one[key] for one in rounds),
        }
        for key in rounds[0]
    }


def figure(value):
    """Three digits, or all that stand before the point."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def goal_line(result):
    goal = result["settings"]["goal"]
    name, unit = measures(result["settings"])[1][goal["figure"]]
    median = result["figures"][goal["figure"]]["median"]
    met = "met" if median <= goal["at_most"] else "not met"
    return f"Goal: {name} at most {goal['at_most']} {unit}; {met} by a median of {figure(median)} {unit}."


def table(result):
    settings = result["settings"]
    _, labels, about = measures(settings)
    rounds = len(result["rounds"])
    lines = [
        f"# {result['scenario']}",
        "",
        settings["question"],
        "",
        about.format(**{"iocs": 1} | settings | {"rounds": rounds}),
        f"Commit {result['commit']}, {result['date']}, {result['machine']},"
        f" load average {result['load_average_before']:.1f} before and"
        f" {result['load_average_after']:.1f} after.",
    ]
    if "rate_hz" in settings:
        lines.append(
            f"Checked: {result['checked_updates']} updates, each sequence number and value;"
            " none missing, repeated, wrong or skipped, no PV lost; the longest silence of a client"
            f" was {result['longest_silence_ms']:.0f} ms."
        )
    else:
        again = sum(each["openedAgain"] for each in result["raw_rounds"])
        lines.append(
            "Checked: every PV has its value, and none was lost in the seconds after;"
            f" {again} monitors had to be opened again."
        )
    if "goal" in settings:
        lines.append(goal_line(result))
    lines += ["", "| Figure | Unit | Min | Median | Max |", "|---|---|---:|---:|---:|"]
    for key, (label, unit) in labels.items():
        cells = (figure(result["figures"][key][which]) for which in ("min", "median", "max"))
        lines.append(f"| {label} | {unit} | {' | '.join(cells)} |")
    if "rate_hz" in settings:
        relay = result["raw_rounds"][0]["relay"]
        lines += ["", "CPU of the relay by thread, first round, % of a core:", ""]
        for name, ns in sorted(relay["relayCpuNsByThread"].items()):
            share = ns / relay["seconds"] / 1e7
            if share >= 0.01:
                lines.append(f"- {name}: {share:.2f}")
    return "\n".join(lines) + "\n"


def commit():
    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = git("status", "--porcelain", "--", ".", ":!bench/results")
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def machine():
    model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return f"{os.cpu_count()} cores {model[1] if model else ''}, Linux {os.uname().release}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--scenario",
        action="append",
        help="a file of bench/scenarios; may be given several times (default: all of them)",
    )
    parser.add_argument("--rounds", type=int, help="how often to measure (default: the scenario's)")
    parser.add_argument(
        "--quick", action="store_true", help="one short round, printed and not written"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    say("== building relay and load client (release)")
    subprocess.run(
        "cargo build --quiet --locked --release -p pvwire-relay -p pvwire-bench".split(),
        cwd=ROOT,
        check=True,
    )
    every = sorted(path.stem for path in (ROOT / "bench/scenarios").glob("*.json"))
    failed = []
    for name in arguments.scenario or every:
        try:
            run(name, arguments)
        except SystemExit as end:
            if not isinstance(end.code, str):
                raise
            say(f"{name} failed: {end.code}")
            failed.append(name)
    return f"failed: {', '.join(failed)}" if failed else 0


def run(name, arguments):
    scenario = json.loads((ROOT / "bench/scenarios" / f"{name}.json").read_text())
    rounds = arguments.rounds or (1 if arguments.quick else scenario["rounds"])
    scenario["warm_up_s"] = WARM_UP_S
    if arguments.quick:
        scenario.update(seconds=min(QUICK_S, scenario["seconds"]), warm_up_s=QUICK_WARM_UP_S)
    measure = measures(scenario)[0]
    load_before = os.getloadavg()[0]
    prefix = "BENCH" + "".join(random.choices(string.ascii_uppercase, k=6))
    measured = []
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        folder = Path(folder)
        iocs = Iocs(children, scenario, prefix, folder)
        for number in range(1, rounds + 1):
            say(f"== {name}: round {number} of {rounds}")
            measured.append(measure(children, scenario, iocs, folder))
    per_round, raw_rounds = ([each[of] for each in measured] for of in (0, 1))
    runs = [each[of] for each in raw_rounds for of in ("relay", "one_client") if of in each]
    result = {
        "scenario": name,
        "settings": scenario,
        "commit": commit(),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "load_average_before": load_before,
        "load_average_after": os.getloadavg()[0],
        "checked_updates": sum(run["counts"]["updates"] for run in runs),
        "longest_silence_ms": max(run["longestSilenceMs"] for run in runs),
        "figures": summary(per_round),
        "rounds": per_round,
        "raw_rounds": raw_rounds,
    }
    say("")
    say(table(result))
    if arguments.quick:
        return
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    (results / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (results / f"{name}.md").write_text(table(result))
    say(f"written to bench/results/{name}.json and .md")


if __name__ == "__main__":
    sys.exit(main())
