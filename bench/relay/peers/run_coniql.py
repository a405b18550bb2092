"""CPU time of an update that Coniql delivers, and the updates that it leaves out.

Starts it on one core and the driver, `pvwire-bench peer`, on the others; prints one line of JSON.
"""

import json
import subprocess
import sys
from pathlib import Path

from program import PEERS_PYTHON, arguments

from child import drain
from ports import free_port
from processes import TARGET, Children, wait_for_line
from usage import Sampler

SERVER = Path(__file__).with_name("serve_coniql.py")


def measure(children, given):
    port = free_port()
    server = children.start(
        [PEERS_PYTHON, "-u", SERVER, port],
        {given.server_core},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    version = wait_for_line(server.stdout, r"Coniql (\S+)", "Coniql")[1]
    wait_for_line(server.stdout, "Running on", "Coniql")
    output = drain(server.stdout)
    words = ["--dialect", "coniql", "--server", f"127.0.0.1:{port}", "--pid", server.pid]
    words += ["--names", given.names, "--clients", given.clients]
    words += ["--selection", given.selection]
    words += ["--each", given.each] if given.each else []
    words += ["--warm-up-s", given.warm_up_s, "--seconds", given.seconds]
    with Sampler(server.pid, port) as sampler:
        driver = children.start(
            [TARGET / "pvwire-bench", "peer", *words], given.other_cores, stdout=subprocess.PIPE
        )
        report = children.wait(driver)
    if driver.returncode != 0:
        sys.exit(f"the driver failed; Coniql printed:\n{''.join(output)}")
    children.end(server)
    report = json.loads(report)
    report |= sampler.figures(report["updates"] / report["seconds"], given.seconds)
    return {"peer": "Coniql", "version": version, "selection": given.selection} | report


def selection(parser):
    parser.add_argument(
        "--selection",
        choices=("values", "screens"),
        default="values",
        help="fields of each update: what ours has, or what a screen shows (default: values)",
    )


def main():
    given = arguments(__doc__, selection)
    with Children() as children:
        print(json.dumps(measure(children, given)))


if __name__ == "__main__":
    sys.exit(main())
