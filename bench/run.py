"""What does a scenario cost? Runs IOC, relay and load client, and the raw-TCP calibration in turn
with them, and writes the result to bench/results/ as JSON and as a table.

Fails when a sequence number or a value is wrong, updates are missing, a PV is lost or a client is
forgotten; never because the machine is slow.
"""

import argparse
import json
import os
import random
import re
import signal
import socket
import statistics
import string
import subprocess
import sys
import tempfile
import threading
from collections import deque
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
PYTHON = ROOT / ".local/venv/bin/python"
IOC = "from epicscorelibs import ioc; ioc.main(extra_dbd_load=(), extra_dso_load=())"

# The relay, and in its turn the raw sender, have this core to themselves.
SERVER_CORE = 0
# Load client and IOC share the others.
OTHER_CORES = sorted(os.sched_getaffinity(0) - {SERVER_CORE}) or [SERVER_CORE]

# Fewer updates than this share of what the IOC makes: something is broken. A window may begin just
# after one scan and end just before another, so that one of each PV is not asked for.
LEAST_SHARE = 0.99

# With --quick: enough to see that everything works, too short for figures to keep.
QUICK_S = 2
WARM_UP_S, QUICK_WARM_UP_S = 3, 1


def say(text):
    print(text, flush=True)


def free_port(kind):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Children:
    """Ends by pid whatever was started, however the run ends."""

    def __init__(self):
        self.running = []

    def start(self, command, cores, **options):
        child = subprocess.Popen(
            [str(word) for word in command],
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
            text=True,
            **options,
        )
        self.running.append(child)
        return child

    def end(self, child):
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.running.remove(child)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in list(self.running):
            self.end(child)


def wait_for_line(stream, pattern, what):
    """The first match in what a child writes."""
    lines = []
    for line in stream:
        lines.append(line)
        if found := re.search(pattern, line):
            return found
    sys.exit(f"{what} ended before it was ready:\n{''.join(lines)}")


def drain(stream):
    """Reads on, so that no child waits for somebody to read; keeps what it said last."""
    last = deque(maxlen=50)
    threading.Thread(target=last.extend, args=(stream,), daemon=True).start()
    return last


def epics_environment():
    loopback = {"ADDR_LIST": "127.0.0.1", "AUTO_ADDR_LIST": "NO"}
    environment = dict(os.environ)
    environment.update({f"EPICS_CA_{key}": value for key, value in loopback.items()})
    environment.update({f"EPICS_PVA_{key}": value for key, value in loopback.items()})
    environment.update(
        EPICS_CAS_INTF_ADDR_LIST="127.0.0.1",
        EPICS_CA_SERVER_PORT=str(free_port(socket.SOCK_STREAM)),
        EPICS_CA_REPEATER_PORT=str(free_port(socket.SOCK_DGRAM)),
    )
    return environment


def start_ioc(children, scenario, prefix, folder, environment):
    names = [f"{prefix}:N{number:05d}" for number in range(scenario["pvs"])]
    scan = {10: ".1 second", 5: ".2 second", 2: ".5 second", 1: "1 second"}[scenario["rate_hz"]]
    record = 'record(calc, "{name}") {{ field(SCAN, "{scan}") field(CALC, "VAL+1") }}\n'
    (folder / "bench.db").write_text("".join(record.format(name=n, scan=scan) for n in names))
    (folder / "names").write_text("\n".join(names) + "\n")
    ioc = children.start(
        [PYTHON, "-c", IOC, "-d", folder / "bench.db"],
        OTHER_CORES,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    drain(ioc.stdout)
    return folder / "names"


def measure_relay(children, scenario, clients, names, record, environment):
    relay = children.start(
        [TARGET / "pvwire-relay", "--listen", "127.0.0.1:0", "--shards", "1"],
        {SERVER_CORE},
        env=environment,
        stderr=subprocess.PIPE,
    )
    address = wait_for_line(relay.stderr, r"listening on http://(\S+)", "the relay")[1]
    said = drain(relay.stderr)
    load = children.start(
        [TARGET / "pvwire-bench", "load", "--relay", address, "--pid", relay.pid]
        + ["--clients", clients, "--names", names, "--record", record]
        + ["--warm-up-s", scenario["warm_up_s"], "--seconds", scenario["seconds"]],
        OTHER_CORES,
        stdout=subprocess.PIPE,
    )
    output, _ = load.communicate()
    children.running.remove(load)
    children.end(relay)
    if load.returncode != 0:
        sys.exit(f"the load client failed; the relay said:\n{''.join(said)}")
    result = json.loads(output)
    if wrong := list(faults(scenario, result)):
        sys.exit(f"the relay lost something: {', '.join(wrong)}")
    return result


def measure_raw(children, clients, record):
    sender = children.start(
        [TARGET / "pvwire-bench", "raw-send", "--clients", clients, "--record", record],
        {SERVER_CORE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    address = wait_for_line(sender.stderr, r"listening on (\S+)", "the raw sender")[1]
    receiver = children.start(
        [TARGET / "pvwire-bench", "raw-receive", "--sender", address, "--clients", clients],
        OTHER_CORES,
        stdout=subprocess.PIPE,
    )
    sent, received = sender.communicate()[0], receiver.communicate()[0]
    for child in (sender, receiver):
        children.running.remove(child)
        if child.returncode != 0:
            sys.exit("the calibration failed")
    sent, received = json.loads(sent), json.loads(received)
    all_sent = sent["warmUpBytes"] + sent["bytes"]
    if all_sent != received["bytes"]:
        sys.exit(f"the calibration lost bytes: {all_sent} sent, {received['bytes']} received")
    return sent


FAULTS = {
    "gaps": "frames that don't follow on the one before",
    "missing": "missing values",
    "repeated": "repeated values",
    "wrongValues": "values that the IOC never had",
    "skipped": "values that the relay says it skipped",
    "lost": "PVs disconnected or not found",
}


def faults(scenario, relay):
    for what, words in FAULTS.items():
        if relay["faults"][what]:
            yield f"{relay['faults'][what]} {words}"
    if relay["silentClients"]:
        silence = relay["longestSilenceMs"] / 1000
        yield f"{relay['silentClients']} clients got nothing for more than 2 s, one for {silence:.1f} s"
    scans = scenario["rate_hz"] * relay["seconds"]
    expected = relay["clients"] * relay["pvs"] * (scans - 1)
    updates = relay["counts"]["updates"]
    if updates < LEAST_SHARE * expected:
        yield f"{updates} updates where at least {expected:.0f} were made"


def round_figures(one, relay, raw):
    counts, threads = relay["counts"], relay["relayCpuNsByThread"]
    fan_out_ns = sum(ns for name, ns in threads.items() if name in ("tick", "shard"))
    raw_us = raw["cpuNs"] / raw["sends"] / 1000
    frame_us = relay["relayCpuNs"] / counts["frames"] / 1000
    fan_out_us = fan_out_ns / counts["frames"] / 1000
    # What the relay pays for the updates that come in, however many clients there are, cancels out.
    cpu_ns, frames = (
        relay_of / relay["seconds"] - one_of / one["seconds"]
        for relay_of, one_of in (
            (relay["relayCpuNs"], one["relayCpuNs"]),
            (counts["frames"], one["counts"]["frames"]),
        )
    )
    more_us = cpu_ns / frames / 1000
    return {
        "raw_send_us": raw_us,
        "relay_us_per_client_frame": frame_us,
        "fan_out_us_per_client_frame": fan_out_us,
        "marginal_us_per_client_frame": more_us,
        "ratio_relay_to_raw": frame_us / raw_us,
        "ratio_fan_out_to_raw": fan_out_us / raw_us,
        "ratio_marginal_to_raw": more_us / raw_us,
        "relay_us_per_delivered_update": relay["relayCpuNs"] / counts["updates"] / 1000,
        "relay_cores": relay["relayCpuNs"] / relay["seconds"] / 1e9,
        "relay_cores_one_client": one["relayCpuNs"] / one["seconds"] / 1e9,
        "updates_per_s": counts["updates"] / relay["seconds"],
        "client_frames_per_s": counts["frames"] / relay["seconds"],
        "bytes_per_update": counts["bytes"] / counts["updates"],
        "latency_p50_ms": relay["latency"]["p50Ms"],
        "latency_p99_ms": relay["latency"]["p99Ms"],
        "latency_max_ms": relay["latency"]["maxMs"],
    }


LABELS = {
    "raw_send_us": ("Raw TCP: CPU per send of the same bytes", "µs"),
    "relay_us_per_client_frame": ("Relay, all threads: CPU per client-frame", "µs"),
    "fan_out_us_per_client_frame": ("Relay, tick and shard threads: CPU per client-frame", "µs"),
    "marginal_us_per_client_frame": ("Relay, all threads: CPU of one more client-frame", "µs"),
    "ratio_relay_to_raw": ("Ratio of the whole relay to raw TCP", ""),
    "ratio_fan_out_to_raw": ("Ratio of tick and shard threads to raw TCP", ""),
    "ratio_marginal_to_raw": ("Ratio of one more client-frame to raw TCP", ""),
    "relay_us_per_delivered_update": ("Relay, all threads: CPU per delivered update", "µs"),
    "relay_cores": ("Relay: cores used", ""),
    "relay_cores_one_client": ("Relay: cores used with one client", ""),
    "updates_per_s": ("Updates delivered", "/s"),
    "client_frames_per_s": ("Client-frames", "/s"),
    "bytes_per_update": ("Bytes on the wire per update", "B"),
    "latency_p50_ms": ("IOC time stamp to client, median", "ms"),
    "latency_p99_ms": ("IOC time stamp to client, 99 %", "ms"),
    "latency_max_ms": ("IOC time stamp to client, longest", "ms"),
}


def summary(rounds):
    figures = {}
    for key in LABELS:
        values = [one[key] for one in rounds]
        figures[key] = {
            "min": min(values),
            "median": statistics.median(values),
            "max": max(values),
        }
    return figures


def figure(value):
    """Three digits, or all that stand before the point."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def table(result):
    lines = [
        f"# {result['scenario']}",
        "",
        result["settings"]["question"],
        "",
        f"{result['settings']['clients']} clients × {result['settings']['pvs']} PVs ×"
        f" {result['settings']['rate_hz']} Hz, {result['settings']['seconds']} s a round,"
        f" n = {len(result['rounds'])} rounds, relay and raw TCP in turn, relay on one core.",
        f"Commit {result['commit']}, {result['date']}, {result['machine']},"
        f" load average {result['load_average_before']:.1f} before and"
        f" {result['load_average_after']:.1f} after.",
        f"Checked: {result['checked_updates']} updates, each sequence number and value;"
        " none missing, repeated, wrong or skipped, no PV lost; the longest silence of a client was"
        f" {result['longest_silence_ms']:.0f} ms.",
        "",
        "| Figure | Unit | Min | Median | Max |",
        "|---|---|---:|---:|---:|",
    ]
    for key, (label, unit) in LABELS.items():
        cells = (figure(result["figures"][key][which]) for which in ("min", "median", "max"))
        lines.append(f"| {label} | {unit} | {' | '.join(cells)} |")
    lines += ["", "CPU of the relay by thread, first round, % of a core:", ""]
    seconds = result["raw_rounds"][0]["relay"]["seconds"]
    for name, ns in sorted(result["raw_rounds"][0]["relay"]["relayCpuNsByThread"].items()):
        if ns / seconds / 1e7 >= 0.01:
            lines.append(f"- {name}: {ns / seconds / 1e7:.2f}")
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
    parser.add_argument("--scenario", default="fan-out-100x1000", help="a file of bench/scenarios")
    parser.add_argument("--rounds", type=int, help="how often to measure (default: the scenario's)")
    parser.add_argument(
        "--quick", action="store_true", help="one short round, printed and not written"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    path = ROOT / "bench/scenarios" / f"{arguments.scenario}.json"
    scenario = json.loads(path.read_text())
    rounds = arguments.rounds or (1 if arguments.quick else scenario["rounds"])
    scenario["warm_up_s"] = WARM_UP_S
    if arguments.quick:
        scenario.update(seconds=QUICK_S, warm_up_s=QUICK_WARM_UP_S)

    say("== building relay and load client (release)")
    subprocess.run(
        "cargo build --quiet --locked --release -p pvwire-relay -p pvwire-bench".split(),
        cwd=ROOT,
        check=True,
    )
    load_before = os.getloadavg()[0]
    prefix = "BENCH" + "".join(random.choices(string.ascii_uppercase, k=6))
    environment = epics_environment()
    raw_rounds = []
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        folder = Path(folder)
        names = start_ioc(children, scenario, prefix, folder, environment)
        for number in range(1, rounds + 1):
            say(f"== round {number} of {rounds}: relay with all clients and with one, raw TCP")
            relay, one = (
                measure_relay(children, scenario, clients, names, record, environment)
                for clients, record in (
                    (scenario["clients"], folder / "record"),
                    (1, folder / "record-of-one"),
                )
            )
            raw = measure_raw(children, scenario["clients"], folder / "record")
            raw_rounds.append({"relay": relay, "one_client": one, "raw": raw})
            figures = round_figures(one, relay, raw)
            say(
                f"   raw {figures['raw_send_us']:.2f} µs a send, relay"
                f" {figures['relay_us_per_client_frame']:.2f} µs a client-frame: ratio"
                f" {figures['ratio_relay_to_raw']:.2f}, fan-out alone"
                f" {figures['ratio_fan_out_to_raw']:.2f}, one more client"
                f" {figures['ratio_marginal_to_raw']:.2f}"
            )
    per_round = [
        round_figures(each["one_client"], each["relay"], each["raw"]) for each in raw_rounds
    ]
    runs = [each[of] for each in raw_rounds for of in ("relay", "one_client")]
    result = {
        "scenario": arguments.scenario,
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
    if arguments.quick:
        say("")
        say(table(result))
        return 0
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    (results / f"{arguments.scenario}.json").write_text(json.dumps(result, indent=1) + "\n")
    (results / f"{arguments.scenario}.md").write_text(table(result))
    say("")
    say(table(result))
    say(f"written to bench/results/{arguments.scenario}.json and .md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
