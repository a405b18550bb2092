"""CPU time of an update that p4p's gateway passes on by pvAccess.

Starts it on one core and its clients, each the bare client of pvxs (`floor.cpp`), on the others; prints
one line of JSON.
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
from processes import Children

# Until the clients of a busy machine have all begun.
BEGUN_S = 1

PATIENCE_S = 30


def settings(port):
    """The gateway's own configuration."""
    return {
        "version": 2,
        "clients": [
            {
                "name": "iocs",
                "provider": "pva",
                "autoaddrlist": False,
                "EPICS_PVA_NAME_SERVERS": os.environ["EPICS_PVA_NAME_SERVERS"],
            }
        ],
        "servers": [
            {
                "name": "clients",
                "clients": ["iocs"],
                "interface": ["127.0.0.1"],
                "serverport": port,
                "bcastport": free_port(),
                "autoaddrlist": False,
            }
        ],
    }


def wait_until_it_listens(port, said):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if listens(port):
            return
        time.sleep(0.1)
    sys.exit(f"the gateway doesn't listen; it said:\n{''.join(said)}")


def cpu_ns(pid):
    schedstats = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(schedstat.read_text().split()[0]) for schedstat in schedstats)


def measure(children, given):
    port = free_port()
    conf = given.folder / "gateway.json"
    conf.write_text(json.dumps(settings(port)))
    gateway = children.start(
        [PEERS_PYTHON, "-m", "p4p.gw", conf],
        {given.server_core},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said = drain(gateway.stdout)
    wait_until_it_listens(port, said)
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
    children.end(gateway)
    if any(client["wrong"] or not client["least"] for client in found):
        sys.exit(f"a client of the gateway got nothing; the gateway said:\n{''.join(said)}")
    pvs = len(given.names.read_text().splitlines())
    all_of_them = sum(client["updates"] for client in found)
    updates = all_of_them * took / seconds
    # At the edges of a window one of each PV is not asked for.
    due = given.clients * pvs * (given.rate_hz * seconds - 1)
    return {
        "peer": "p4p gateway",
        "version": version("p4p"),
        "clients": given.clients,
        "pvs": pvs,
        "seconds": took,
        "updates": updates,
        "missing": max(0, round(due - all_of_them)),
        "cpuNs": used,
        "usPerUpdate": used / updates / 1000,
        "updatesPerCpuSecond": updates / used * 1e9,
    }


def main():
    given = arguments(__doc__)
    with Children() as children:
        print(json.dumps(measure(children, given)))


if __name__ == "__main__":
    sys.exit(main())
