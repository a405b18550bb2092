"""Cost of one more client, compared with the kernel's own cost of sending the same bytes."""

import json
import subprocess
import sys

from processes import OTHER_CORES, SERVER_CORE, TARGET, Relay, say, wait_for_line

ABOUT = (
    "{clients} clients × {each} PVs × {rate_hz} Hz, {seconds} s a round, n = {rounds} rounds, relay and"
    " raw TCP in turn, relay on one core."
)


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"], 1, 0]


def measure(children, scenario, iocs, folder):
    """One round, and what came of each of its parts."""
    record = folder / "record"
    with Relay(children, scenario, iocs) as relay:
        many = relay.load(scenario, scenario["clients"], iocs, record)
    with Relay(children, scenario, iocs) as relay:
        one = relay.load(scenario, 1, iocs)
    raw = measure_raw(children, scenario["clients"], record)
    figures = round_figures(one, many, raw)
    say(
        f"   raw {figures['raw_send_us']:.2f} µs a send, relay"
        f" {figures['relay_us_per_client_frame']:.2f} µs a client-frame: ratio"
        f" {figures['ratio_relay_to_raw']:.2f}, fan-out alone"
        f" {figures['ratio_fan_out_to_raw']:.2f}, one more client"
        f" {figures['ratio_marginal_to_raw']:.2f}"
    )
    return figures, {"relay": many, "one_client": one, "raw": raw}


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
    sent, received = children.wait(sender), children.wait(receiver)
    if sender.returncode != 0 or receiver.returncode != 0:
        sys.exit("the calibration failed")
    sent, received = json.loads(sent), json.loads(received)
    all_sent = sent["warmUpBytes"] + sent["bytes"]
    if all_sent != received["bytes"]:
        sys.exit(f"the calibration lost bytes: {all_sent} sent, {received['bytes']} received")
    return sent


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
    more_clients = relay["clients"] - one["clients"]
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
        "percent_of_a_core_per_client": cpu_ns / more_clients / 1e7,
        "rows_per_frame": counts["updates"] / counts["frames"],
        "updates_per_s": counts["updates"] / relay["seconds"],
        "client_frames_per_s": counts["frames"] / relay["seconds"],
        "bytes_per_update": counts["bytes"] / counts["updates"],
        "latency_p50_ms": relay["latency"]["p50Ms"],
        "latency_p99_ms": relay["latency"]["p99Ms"],
        "latency_max_ms": relay["latency"]["maxMs"],
        "relay_waited_percent": relay["relayWaitedNs"] / relay["seconds"] / 1e7,
        "load_client_cores": relay["ownCpuNs"] / relay["seconds"] / 1e9,
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
    "percent_of_a_core_per_client": ("Relay, all threads: CPU of one more client", "% of a core"),
    "rows_per_frame": ("Updates in a frame", ""),
    "updates_per_s": ("Updates delivered", "/s"),
    "client_frames_per_s": ("Client-frames", "/s"),
    "bytes_per_update": ("Bytes on the wire per update", "B"),
    "latency_p50_ms": ("IOC time stamp to client, median", "ms"),
    "latency_p99_ms": ("IOC time stamp to client, 99 %", "ms"),
    "latency_max_ms": ("IOC time stamp to client, longest", "ms"),
    "relay_waited_percent": ("Relay: time that its threads waited for their core", "%"),
    "load_client_cores": ("Load client: cores used", ""),
}
COLUMNS = (
    "ratio_fan_out_to_raw",
    "raw_send_us",
    "fan_out_us_per_client_frame",
    "relay_us_per_delivered_update",
    "relay_cores",
    "updates_per_s",
    "latency_p50_ms",
    "latency_p99_ms",
)
