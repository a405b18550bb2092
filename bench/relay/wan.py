"""Throughput over a network with a round-trip time, compared with plain TCP over the same network.

Runs inside `tools/delayed_network.py`: IOC and relay at one end, the client at the other.
"""

import json
import socket
import subprocess
import sys
import time

from processes import FAR_END, OTHER_CORES, Relay, say

ABOUT = (
    "{clients} client(s) × {what} × {rate_hz} Hz over a round trip of {round_trip_ms} ms, {seconds} s a"
    " round, n = {rounds} rounds, relay and plain TCP in turn, IOC and relay in one network namespace,"
    " the client in another."
)

# For how long plain TCP sends, and how much of that doesn't count: its window grows.
PLAIN_S, PLAIN_WARM_UP_S = 4, 1.5


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [scenario["clients"], 0]


def measure(children, scenario, iocs, folder):
    """One round, and what came of each of its parts."""
    with Relay(children, scenario, iocs) as relay:
        run = relay.load(scenario, scenario["clients"], iocs)
    plain = plain_tcp(children)
    counts, seconds = run["counts"], run["seconds"]
    made = run["clients"] * run["pvs"] * (scenario["rate_hz"] * seconds - 1)
    mb_per_s = counts["bytes"] / seconds / 1e6
    # What would have come with nothing left out.
    wanted = mb_per_s * max(1, made / counts["updates"])
    figures = {
        "values_per_s_each": counts["updates"] / seconds / run["clients"] / run["pvs"],
        "delivered_percent": min(100, counts["updates"] / made * 100),
        "mb_per_s": mb_per_s,
        "plain_mb_per_s": plain["mbPerS"],
        "ratio_to_plain": mb_per_s / min(wanted, plain["mbPerS"]),
        "skipped": run["faults"]["skipped"],
        "left_out_before": run["faults"]["missing"],
        "latency_p50_ms": run["latency"]["p50Ms"],
        "latency_p99_ms": run["latency"]["p99Ms"],
        "relay_cores": run["relayCpuNs"] / seconds / 1e9,
    }
    say(
        f"   {figures['values_per_s_each']:.2f} values/s, {mb_per_s:.1f} MB/s; plain TCP"
        f" {plain['mbPerS']:.1f} MB/s: ratio {figures['ratio_to_plain']:.2f}"
    )
    return figures, {"relay": run, "plain": plain}


def plain_tcp(children):
    """What one connection with the kernel's own settings carries."""
    with socket.create_server(("10.203.0.1", 0)) as server:
        port = server.getsockname()[1]
        receiver = children.start(
            [*FAR_END, sys.executable, __file__, port], OTHER_CORES, stdout=subprocess.PIPE
        )
        connection, _ = server.accept()
        with connection:
            block, end = bytes(1 << 20), time.monotonic() + PLAIN_S
            while time.monotonic() < end:
                connection.send(block)
    return json.loads(children.wait(receiver))


def receive(port):
    """The far end of `plain_tcp`."""
    buffer = bytearray(1 << 20)
    with socket.create_connection(("10.203.0.1", port)) as connection:
        start, first, taken = time.monotonic(), None, 0
        while count := connection.recv_into(buffer):
            now = time.monotonic() - start
            taken += count
            if first is None and now > PLAIN_WARM_UP_S:
                first = (now, taken)
            last = (now, taken)
    print(json.dumps({"mbPerS": (last[1] - first[1]) / (last[0] - first[0]) / 1e6}))


LABELS = {
    "values_per_s_each": ("Values of each PV that each client got", "/s"),
    "delivered_percent": ("Of the IOC's updates delivered", "%"),
    "mb_per_s": ("Relay: bytes to clients", "MB/s"),
    "plain_mb_per_s": ("Plain TCP over the same network", "MB/s"),
    "ratio_to_plain": ("Relay ÷ plain TCP, or ÷ what the IOC made if that is smaller", ""),
    "skipped": ("Values that the relay left out, and said so", ""),
    "left_out_before": ("Values that IOC or library left out", ""),
    "latency_p50_ms": ("IOC time stamp to client, median", "ms"),
    "latency_p99_ms": ("IOC time stamp to client, 99 %", "ms"),
    "relay_cores": ("Relay: cores used", ""),
}

if __name__ == "__main__":
    receive(int(sys.argv[1]))
