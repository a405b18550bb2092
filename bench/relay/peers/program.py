"""Arguments of every program that measures a peer, and where peers and driver are.

The programs have no names of packages: a script's folder is searched before all packages.
"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
PEERS_PYTHON = BENCH.parent.parent / ".local/peers/bin/python"

sys.path += [str(BENCH), str(BENCH.parent.parent / "testbed/python")]


def arguments(about, add=lambda parser: None):
    """The settings that a scenario's peer is measured with; the peers are installed by then. `add` adds to them."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--names", type=Path, required=True, help="a file, one PV a line")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--each", type=int, help="PVs of each client (default: all for each)")
    parser.add_argument("--monitors", type=int, default=1, help="of each PV, for clients")
    parser.add_argument("--elements", type=int, default=0, help="of each array; 0 for numbers")
    parser.add_argument("--ioc-port", type=int, help="of the IOC, for clients")
    parser.add_argument("--folder", type=Path, help="for files of the run")
    parser.add_argument("--rate-hz", type=float, help="updates of each PV")
    parser.add_argument("--warm-up-s", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--server-core", type=int, default=0, help="for what is measured")
    parser.add_argument("--other-cores", default="1", help="for what isn't, as 1,2,3")
    add(parser)
    given = parser.parse_args()
    given.other_cores = {int(core) for core in given.other_cores.split(",")}
    subprocess.run([BENCH / "peers/setup.sh"], check=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return given


def become_peer(core):
    """Goes on in the peers' environment, on the core of what is measured."""
    os.sched_setaffinity(0, {core})
    if Path(sys.prefix) != PEERS_PYTHON.parent.parent:
        os.execv(PEERS_PYTHON, [str(PEERS_PYTHON), *sys.argv])


def leave():
    """Ends a client whose threads and handlers would wait for each other."""
    sys.stdout.flush()
    os._exit(0)
