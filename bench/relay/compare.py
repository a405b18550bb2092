"""Measures pvwire and other systems beside each other on the same IOCs, in one run: `make compare`.

Writes bench/results/compare.json and, from it, docs/explanations/compare.md. A system that can't be installed, fails or
isn't to be had is a row that says so. Nothing here fails because one system is slow, wrong or absent.
"""

import argparse
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

import compare_page
import fidelity
import flame
import machine
import serialisers
import systems
from processes import ROOT, TARGET, Children, Iocs, say
from report import figure, summary
from results import comparison, keep_comparison
from run import commit

# What the machine runs before: a peer that starts, the first values, and the end of it.
START_S = 4


def settings_of(clients, pvs, quick, **more):
    """One measurement. Quick ones show that everything works and are too short for figures to keep."""
    seconds = {"warm_up_s": 1, "seconds": 2} if quick else {"warm_up_s": 2, "seconds": 4}
    return {"clients": clients, "pvs": pvs, "rate_hz": 10} | seconds | more


def costs(quick):
    """Every system, with one client of 200 PVs."""
    point = settings_of(1, 200, quick)
    return [("1 client × 200 PVs × 10 Hz", point, systems.SERVERS + systems.CLIENTS, 1 if quick else 3)]


def one_client(quick):
    """More and more PVs for one client."""
    sizes = (200,) if quick else (10, 100, 200, 500)
    return [(f"1 client × {pvs} PVs", settings_of(1, pvs, quick), systems.CONIQL, 1) for pvs in sizes]


def many_clients(quick):
    """100 subscriptions over more and more clients."""
    sizes = (10,) if quick else (1, 2, 10)
    return [
        (
            f"{clients} client{'s' if clients > 1 else ''} × {100 // clients} PVs",
            settings_of(clients, 100, quick, each=100 // clients, pick="slice"),
            # The client of the doors subscribes every PV on each connection.
            [systems.CONIQL[0], systems.CONIQL[2]],
            1,
        )
        for clients in sizes
    ]


def waveforms(quick):
    """One array of doubles at 10 Hz."""
    sizes = (100_000,) if quick else (100, 10_000, 100_000, 1_000_000, 10_000_000)
    found = systems.NATIVE_BOTH + systems.CLIENTS
    return [(f"{elements:,} doubles", settings_of(1, 1, quick, elements=elements), found, 1) for elements in sizes]


def grid(quick):
    """PVs × monitors of each × rate."""
    points = ((100, 10, 10),) if quick else (
        (100, 1, 1), (100, 10, 10), (1000, 1, 10), (1000, 10, 10), (100, 1, 100)
    )
    return [
        (
            f"{pvs} PVs × {monitors} monitor{'s' if monitors > 1 else ''} × {rate} Hz",
            settings_of(monitors, pvs, quick, monitors=monitors, rate_hz=rate),
            systems.NATIVE_BOTH + systems.CLIENTS,
            1,
        )
        for pvs, monitors, rate in points
    ]


# Parts of the page that are measured in the same way, by name.
MEASURED = {
    "costs": costs,
    "one-client": one_client,
    "many-clients": many_clients,
    "waveforms": waveforms,
    "grid": grid,
}
PARTS = ("fidelity", *MEASURED, "serialisers", "profile")


def expected_s(part, quick):
    """About how long a part takes."""
    if part == "fidelity":
        return fidelity.EXPECTED_S
    if part == "serialisers":
        return serialisers.EXPECTED_S
    if part == "profile":
        return flame.EXPECTED_S
    return sum(
        START_S + rounds * sum(START_S + point["warm_up_s"] + point["seconds"] for _ in which)
        for _, point, which, rounds in MEASURED[part](quick)
    )


def measure_part(part, quick, versions):
    """The rows of a part, point after point."""
    rows = []
    for label, point, which, rounds in MEASURED[part](quick):
        say(f"== {part}: {label}")
        with tempfile.TemporaryDirectory() as folder, Children() as children:
            prefix = "CMP" + "".join(random.choices(string.ascii_uppercase, k=6))
            # An IOC of both protocols.
            iocs = Iocs(children, point | {"protocol": "pva"}, prefix, Path(folder))
            run = systems.Run(children, iocs, Path(folder), versions)
            rows += [measure_system(run, system, point, rounds) | {"point": label} for system in which]
    return rows


def measure_system(run, system, point, rounds):
    """A row: figures of all rounds, or why there are none."""
    row = {"system": system.name, "way": system.way, "protocol": system.protocol, "version": run.versions.get(system.package)}
    found = []
    try:
        for _ in range(rounds):
            found.append(figures_of(systems.measured(run, system, point), point))
    except systems.Failed as failed:
        say(f"   {system.name} ({system.way}): {failed}")
        return row | {"failed": str(failed)}
    row |= {"n": len(found), "figures": summary(found)}
    shown = {key: of["median"] for key, of in row["figures"].items()}
    say(
        f"   {system.name} ({system.way}): {figure(shown['cpu_us_per_update'])} µs of CPU an update,"
        f" {figure(shown['missed'])} of {figure(shown['made'])} missed"
    )
    return row


def figures_of(report, point):
    """What a row shows of a report."""
    updates, latency = report["updates"], report.get("latency") or {}
    subscriptions = point["clients"] * point.get("each", point["pvs"])
    due = subscriptions * point["rate_hz"] * report["seconds"]
    # A client that lags may be behind by more than what was due; at the edges one of each PV may be on its way.
    missed = min(report["missing"], max(0, due - updates) + subscriptions)
    figures = {
        "made": updates + missed,
        "missed": missed,
        "cpu_us_per_update": report["cpuNs"] / updates / 1000,
        "cpu_percent": report["cpuNs"] / report["seconds"] / 1e7,
        "bytes_per_update": report.get("bytesPerUpdate"),
        "memory_mb": report["rssKb"] / 1024 if "rssKb" in report else None,
        "latency_p50_ms": latency.get("p50Ms"),
        "latency_p99_ms": latency.get("p99Ms"),
    }
    return {key: value for key, value in figures.items() if value is not None}


def part_result(part, quick, versions, measured):
    """A part with what must be known of its run. `measured` is the commit of the relay, which was built before the run."""
    watch = machine.Watch()
    say(f"== {part}, about {expected_s(part, quick) / 60:.1f} min")
    if part == "fidelity":
        found = fidelity.measure(versions)
    elif part == "serialisers":
        found = serialisers.measure(versions, quick)
    elif part == "profile":
        found = flame.measure(settings_of(100, 1000, quick) | {"seconds": 2 if quick else 15})
    else:
        found = measure_part(part, quick, versions)
    return {
        "rows": found,
        # The checks of fidelity are never shortened.
        "set": "quick" if quick and part != "fidelity" else "full",
        "commit": measured,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine.name(),
        "versions": versions | own_versions(),
        **watch.result(),
    }


def own_versions():
    """Of the relay, and the library that the IOC is of."""
    printed = subprocess.run([TARGET / "pvwire-relay", "--version"], capture_output=True, text=True, check=True)
    return {"pvwire-relay": printed.stdout.strip().removeprefix("pvwire-relay "), "Python": sys.version.split()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=PARTS, help="these parts alone; the page keeps the others")
    parser.add_argument("--quick", action="store_true", help="few points, one short round of each")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    versions, measured = systems.versions(), commit()
    parts = arguments.only or PARTS
    left = sum(expected_s(part, arguments.quick) for part in parts)
    say(f"== {', '.join(parts)}: about {left / 60:.0f} min")
    if war := os.environ.get("PVWS_WAR"):
        os.environ["BENCH_PVWS"] = systems.pvws_command(war)
    found = comparison()
    began = time.monotonic()
    for part in parts:
        found[part] = part_result(part, arguments.quick, versions, measured)
        left -= expected_s(part, arguments.quick)
        # A run that is ended keeps what it has.
        keep_comparison(found)
        say(f"== {(time.monotonic() - began) / 60:.1f} min done, about {max(0, left) / 60:.0f} min left")
    compare_page.PAGE.write_text(compare_page.page(found))
    say(f"written to bench/results/compare.json and {compare_page.PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
