"""Cost of incoming updates: small ones, large ones, and the first of each PV."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

from processes import PYTHON, SERVER_CORE, Disturbed, Relay, say

# The relay's threads that aren't the EPICS libraries'.
OWN_THREADS = {"tick": "tick", "shard": "shards"}
REST = {"pvwire-relay", "ca-cmd", "pva-cmd", "sim", "sim-timer"}

# Blocks that are counted as copies: a whole array, give or take the header of its message.
WHOLE = 0.9

ABOUT = {
    "ingest": "1 client × {pvs} PVs × {rate_hz} Hz ({protocol}), {seconds} s a round,"
    " n = {rounds} rounds, relay on one core, IOC and client on the others.",
    "connect": "1 client × {pvs} PVs ({protocol}) of {iocs} IOCs, n = {rounds} rounds, each with a"
    " relay that has just started, relay on one core, IOCs and client on the others.",
    "array": "{clients} client(s) × one array of {elements} doubles × {rate_hz} Hz ({protocol}), {seconds} s a"
    " round, n = {rounds} rounds, relay on one core, IOC and client on the others.",
}


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    clients = scenario.get("clients", 1)
    if scenario["kind"] == "array" or "floor" in scenario:
        return [clients, 1]
    return [clients]


def measure(children, scenario, iocs, folder):
    """One round, and what came of it."""
    with Relay(children, scenario, iocs) as relay:
        run = relay.load(scenario, scenario.get("clients", 1), iocs)
        counters = relay.counters()
        again = sum("is tried again" in line for line in relay.output)
    raw = {"relay": run, "counters": counters}
    if scenario["kind"] == "connect":
        figures = connect_figures(run)
        say(f"   {figures['first_values_s']:.2f} s; {again} monitors had to be opened again")
        raw["openedAgain"] = again
        if scenario.get("floor"):
            raw["floor"] = floor(children, scenario, iocs, folder)
            alone_s = raw["floor"]["firstValuesS"]
            say(f"   {alone_s:.2f} s by libca alone")
            figures |= {
                "floor_first_values_s": alone_s,
                "ratio_to_floor": figures["first_values_s"] / alone_s,
            }
        return figures, raw
    figures = update_figures(run)
    if scenario.get("floor"):
        raw["floor"] = floor(children, scenario, iocs, folder)
        figures |= floor_figures(figures, raw["floor"])
    if scenario["kind"] == "array":
        # How often an array is copied doesn't depend on the clients.
        if scenario.get("clients", 1) == 1:
            raw["copies"] = copies(children, scenario, iocs, folder)
        figures |= array_figures(scenario, run, counters, raw.get("copies", {}))
    say(
        f"   {figures['relay_us_per_update']:.3g} µs an update; of it libraries"
        f" {figures['library_us_per_update']:.3g}, tick {figures['tick_us_per_update']:.3g},"
        f" shards {figures['shards_us_per_update']:.3g}"
    )
    return figures, raw


def update_figures(run):
    updates = run["counts"]["updates"]
    groups = {"library": 0, "tick": 0, "shards": 0, "rest": 0}
    for thread, ns in run["relayCpuNsByThread"].items():
        groups[OWN_THREADS.get(thread, "rest" if thread in REST else "library")] += ns
    return {
        "relay_us_per_update": run["relayCpuNs"] / updates / 1000,
        **{f"{group}_us_per_update": ns / updates / 1000 for group, ns in groups.items()},
        "relay_cores": run["relayCpuNs"] / run["seconds"] / 1e9,
        "updates_per_s": updates / run["seconds"],
        "bytes_per_update": run["counts"]["bytes"] / updates,
        "page_faults_per_update": run["relayPageFaults"] / updates,
        "latency_p50_ms": run["latency"]["p50Ms"],
        "latency_p99_ms": run["latency"]["p99Ms"],
        "latency_max_ms": run["latency"]["maxMs"],
        "first_values_s": run["firstValuesMs"] / 1000,
    }


def floor_program(protocol, folder):
    """The program that takes updates by the EPICS library alone."""
    is_ca = protocol == "ca"
    program = folder / f"floor-{protocol}"
    source = Path(__file__).with_name("floor_ca.cpp" if is_ca else "floor.cpp")
    if not program.exists():
        [packages] = PYTHON.parent.parent.glob("lib/python*/site-packages")
        pvxs, base = packages / "pvxslibs", packages / "epicscorelibs"
        # The layout of strings is that of the wheel.
        flags = ["-O2", "-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=0", "-o", program, source]
        for package in (pvxs, base):
            library = package / "lib"
            flags += [f"-I{package / 'include'}", f"-L{library}", f"-Wl,-rpath,{library}"]
        for system in ("os/Linux", "compiler/gcc"):
            flags.append(f"-I{base / 'include' / system}")
        compiler = os.environ.get("CXX", "c++")
        subprocess.run([compiler, *flags, "-lca" if is_ca else "-lpvxs", "-lCom"], check=True)
    return program


def floor(children, scenario, iocs, folder):
    """The same updates taken by the EPICS library alone, on the same core, and thrown away."""
    program = floor_program(scenario["protocol"], folder)
    words = [iocs.names, scenario["warm_up_s"], scenario["seconds"]]
    child = children.start(
        [program, *words], {SERVER_CORE}, env=iocs.environment, stdout=subprocess.PIPE
    )
    found = json.loads(children.wait(child))
    due = scenario.get("rate_hz", 0) * scenario["seconds"]
    if child.returncode != 0 or found["wrong"] or found["least"] < due - 2 or found["most"] > due + 2:
        raise Disturbed(f"the library alone took other than {due} updates of each PV: {found}")
    return found


def floor_figures(figures, found):
    us_per_update = found["cpuNs"] / found["updates"] / 1000
    say(f"   {us_per_update:.3g} µs by the library alone")
    return {
        "floor_us_per_update": us_per_update,
        "ratio_to_floor": figures["relay_us_per_update"] / us_per_update,
    }


def connect_figures(run):
    return {"first_values_s": run["firstValuesMs"] / 1000}


def array_figures(scenario, run, counters, copied):
    array = scenario["elements"] * 8
    if run["counts"]["bytes"] < array * run["counts"]["updates"]:
        sys.exit("the arrays had not all their elements")
    # Two that are on their way are counted by one counter and not yet by the other. Where they come
    # faster than they are dealt with, some are replaced by newer ones before they are counted.
    on_the_way = 2.5
    updates = counters["pvwire_updates_received_total"]
    out = {
        way: counters[f"pvwire_array_bytes_{way}_total"] / array / updates
        for way in ("copied", "shared")
    }
    if scenario.get("may_skip"):
        on_the_way += 0.1 * updates
    wanted = {"ca": (1, 0), "pva": (0, 1)}[scenario["protocol"]]
    for is_now, should_be in zip(out.values(), wanted):
        if abs(is_now - should_be) * updates > on_the_way:
            sys.exit(f"arrays were copied out {out['copied']} times, shared {out['shared']} times")
    own_ns = sum(
        ns for name, ns in run["relayCpuNsByThread"].items() if name in OWN_THREADS or name in REST
    )
    made = scenario["rate_hz"] * run["seconds"]
    got = run["counts"]["updates"] / run["clients"]
    return {
        "own_cores": own_ns / run["seconds"] / 1e9,
        "values_per_s_each": got / run["seconds"],
        "delivered_percent": min(100, got / (made - 1) * 100),
        "skipped": run["faults"]["skipped"],
        "left_out_before": run["faults"]["missing"],
        "copied_out_per_update": out["copied"],
        "shared_per_update": out["shared"],
        **{f"copies_{group}_per_update": count for group, count in copied.items()},
    }


def copies(children, scenario, iocs, folder):
    """How often each kind of thread copies a whole array for one update, by a separate run in
    which the copying functions of the C library count."""
    library, counts = folder / "copies.so", folder / "copies"
    source = Path(__file__).with_name("copies.c")
    compiler = os.environ.get("CC", "cc")
    flags = ["-O2", "-shared", "-fPIC", "-fno-builtin", "-o"]
    subprocess.run([compiler, *flags, library, source, "-ldl"], check=True)
    counts.unlink(missing_ok=True)
    preload = {
        "LD_PRELOAD": str(library),
        "BENCH_COPIES_FILE": str(counts),
        "BENCH_COPIES_LEAST": str(int(scenario["elements"] * 8 * WHOLE)),
    }
    with Relay(children, scenario, iocs, preload) as relay:
        relay.load(scenario | {"seconds": 2}, 1, iocs)
        updates = relay.counters()["pvwire_updates_received_total"]
        found = counts.read_bytes()
    groups = {"library": 0, "tick": 0, "shards": 0}
    for name, number, _ in struct.iter_unpack("16sQQ", found):
        thread = name.split(b"\0")[0].decode().rstrip("-0123456789")
        groups[OWN_THREADS.get(thread, "library")] += number
    return {group: number / updates for group, number in groups.items()}


UPDATE_LABELS = {
    "relay_us_per_update": ("Relay, all threads: CPU per update", "µs"),
    "library_us_per_update": ("of it: threads of the EPICS library, callbacks included", "µs"),
    "tick_us_per_update": ("of it: tick", "µs"),
    "shards_us_per_update": ("of it: shards, which encode and write", "µs"),
    "rest_us_per_update": ("of it: the rest", "µs"),
    "floor_us_per_update": ("The library alone, which takes each update and throws it away: CPU", "µs"),
    "ratio_to_floor": ("Relay, all threads ÷ the library alone", ""),
    "relay_cores": ("Relay: cores used", ""),
    "updates_per_s": ("Updates delivered", "/s"),
    "bytes_per_update": ("Bytes on the wire per update", "B"),
    "page_faults_per_update": ("Page faults of the relay per update", ""),
    "latency_p50_ms": ("IOC time stamp to client, median", "ms"),
    "latency_p99_ms": ("IOC time stamp to client, 99 %", "ms"),
    "latency_max_ms": ("IOC time stamp to client, longest", "ms"),
    "first_values_s": ("Subscribe to the last first value", "s"),
}

LABELS = {
    "ingest": UPDATE_LABELS,
    "connect": {
        "first_values_s": ("Subscribe to the last first value at the client", "s"),
        "floor_first_values_s": ("libca alone: from opening to the last first value", "s"),
        "ratio_to_floor": ("Relay ÷ libca alone", ""),
    },
    "array": UPDATE_LABELS
    | {
        "own_cores": ("Relay: cores used beside the EPICS library's threads", ""),
        "values_per_s_each": ("Values that each client got", "/s"),
        "delivered_percent": ("Of the IOC's updates delivered", "%"),
        "skipped": ("Values that the relay left out, and said so", ""),
        "left_out_before": ("Values that IOC or library left out", ""),
        "copied_out_per_update": ("The relay's counter: copied out of the library, per update", ""),
        "shared_per_update": ("The relay's counter: shared with the library, per update", ""),
        "copies_library_per_update": ("memcpy of a whole array, the library's threads", ""),
        "copies_tick_per_update": ("memcpy of a whole array, tick", ""),
        "copies_shards_per_update": ("memcpy of a whole array, shards", ""),
    },
}

COLUMNS = {
    "array": (
        "relay_cores",
        "own_cores",
        "updates_per_s",
        "delivered_percent",
        "skipped",
        "left_out_before",
        "latency_p50_ms",
        "latency_p99_ms",
        "latency_max_ms",
    )
}
