"""CPU time of an update that p4p's gateway passes on by pvAccess.

Starts it on one core and its clients, each the bare client of pvxs (`floor.cpp`), on the others; prints
one line of JSON. With `--through p4p` the client is one of p4p, which knows how late each update is and which are missing.
"""

import json
import os
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from program import PEERS_PYTHON, arguments

from child import drain, listens
from ingest import floor_program
from ports import free_port
from processes import Children, gateway_settings
from usage import Sampler, cpu_ns

# Until the clients of a busy machine have all begun.
BEGUN_S = 1

PATIENCE_S = 30


def wait_until_it_listens(port, output):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if listens(port):
            return
        time.sleep(0.1)
    sys.exit(f"the gateway doesn't listen; it printed:\n{''.join(output)}")


def measure(children, given):
    """Starts the gateway and measures it with its clients."""
    port = free_port()
    conf = given.folder / "gateway.json"
    conf.write_text(json.dumps(gateway_settings(port, os.environ["EPICS_PVA_NAME_SERVERS"])))
    gateway = children.start(
        [PEERS_PYTHON, "-m", "p4p.gw", conf],
        {given.server_core},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = drain(gateway.stdout)
    wait_until_it_listens(port, output)
    if given.through == "p4p":
        report = through_p4p(children, given, gateway, port)
    else:
        report = through_pvxs(children, given, gateway, port, output)
    children.end(gateway)
    return {"peer": "p4p gateway", "version": version("p4p")} | report


def through_p4p(children, given, gateway, port):
    """One client of p4p, which checks each update."""
    words = ["--names", given.names, "--warm-up-s", given.warm_up_s, "--seconds", given.seconds]
    words += ["--server-core", min(given.other_cores)]
    with Sampler(gateway.pid, port) as sampler:
        client = children.start(
            [sys.executable, Path(__file__).with_name("run_client.py"), "p4p", *words],
            given.other_cores,
            env=os.environ | {"EPICS_PVA_NAME_SERVERS": f"127.0.0.1:{port}"},
            stdout=subprocess.PIPE,
        )
        report = children.wait(client)
    if client.returncode != 0:
        sys.exit("the client of the gateway failed")
    report = json.loads(report)
    usage = sampler.figures(report["updates"] / report["seconds"], given.seconds)
    if not usage:
        sys.exit("the gateway's connections could not be sampled")
    return report | usage | {"cpuNs": usage["cpuNsPerS"] * report["seconds"]}


def through_pvxs(children, given, gateway, port, output):
    """Bare clients of pvxs, which count."""
    program = floor_program("pva", given.folder)
    # The clients begin one after the other; each measures for longer than the gateway is measured.
    seconds = given.seconds + 2 * BEGUN_S
    clients = [
        children.start(
            [program, given.names, given.warm_up_s, seconds],
            given.other_cores,
            env=os.environ | {"EPICS_PVA_NAME_SERVERS": f"127.0.0.1:{port}"},
            stdout=subprocess.PIPE,
        )
        for _ in range(given.clients)
    ]
    time.sleep(given.warm_up_s + BEGUN_S)
    before, began = cpu_ns(gateway.pid), time.monotonic()
    time.sleep(given.seconds)
    used, took = cpu_ns(gateway.pid) - before, time.monotonic() - began
    found = [json.loads(children.wait(client)) for client in clients]
    if any(client["wrong"] or not client["least"] for client in found):
        sys.exit(f"a client of the gateway got nothing; the gateway printed:\n{''.join(output)}")
    pvs = len(given.names.read_text().splitlines())
    all_of_them = sum(client["updates"] for client in found)
    updates = all_of_them * took / seconds
    # At the edges of a window one of each PV is not expected.
    due = given.clients * pvs * (given.rate_hz * seconds - 1)
    return {
        "clients": given.clients,
        "pvs": pvs,
        "seconds": took,
        "updates": updates,
        "missing": max(0, round(due - all_of_them)),
        "cpuNs": used,
        "usPerUpdate": used / updates / 1000,
        "updatesPerCpuSecond": updates / used * 1e9,
    }


def through(parser):
    parser.add_argument("--through", choices=("pvxs", "p4p"), default="pvxs", help="whose clients (default: pvxs)")


def main():
    given = arguments(__doc__, through)
    with Children() as children:
        print(json.dumps(measure(children, given)))


if __name__ == "__main__":
    sys.exit(main())
