"""CPU time of an update that PVWS delivers, and the updates that it leaves out.

BENCH_PVWS is a command that serves `ws://127.0.0.1:$PVWS_PORT/pvws/pv`, in the
command's process (by exec). It gets EPICS's variables. Prints one line of JSON.
"""

import json
import os
import subprocess
import sys
import time

from program import arguments

from child import drain, listens
from ports import free_port
from processes import TARGET, Children
from usage import Sampler

# A JVM that starts, and then compiles what it does often.
PATIENCE_S = 60


def wait_until_it_listens(port):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if listens(port):
            return
        time.sleep(0.2)
    sys.exit("PVWS doesn't listen")


def measure(children, given):
    port = free_port()
    server = children.start(
        ["sh", "-c", os.environ["BENCH_PVWS"]],
        {given.server_core},
        env=os.environ | {"PVWS_PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = drain(server.stdout)
    wait_until_it_listens(port)
    words = ["--dialect", "pvws", "--server", f"127.0.0.1:{port}", "--path", "/pvws/pv"]
    words += ["--pid", server.pid, "--names", given.names, "--clients", given.clients]
    words += ["--warm-up-s", given.warm_up_s, "--seconds", given.seconds]
    with Sampler(server.pid, port) as sampler:
        driver = children.start(
            [TARGET / "pvwire-bench", "peer", *words], given.other_cores, stdout=subprocess.PIPE
        )
        report = children.wait(driver)
    if driver.returncode != 0:
        sys.exit(f"the driver failed; PVWS printed:\n{''.join(output)}")
    children.end(server)
    report = json.loads(report)
    report |= sampler.figures(report["updates"] / report["seconds"], given.seconds)
    return {"peer": "PVWS", "version": "as BENCH_PVWS starts it"} | report


def main():
    given = arguments(__doc__)
    with Children() as children:
        print(json.dumps(measure(children, given)))


if __name__ == "__main__":
    sys.exit(main())
