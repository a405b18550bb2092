"""How are IOCs, relay and load client started, kept to their cores, listened to and ended?"""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
PYTHON = ROOT / ".local/venv/bin/python"

# An IOC of Channel Access alone, and one of pvAccess too.
IOC = {
    "ca": ["-c", "from epicscorelibs import ioc; ioc.main(extra_dbd_load=(), extra_dso_load=())"],
    "pva": ["-m", "pvxslibs.ioc"],
}

# The relay, and in its turn the raw sender, have this core to themselves.
SERVER_CORE = 0
# Load client and IOCs share the others.
OTHER_CORES = sorted(os.sched_getaffinity(0) - {SERVER_CORE}) or [SERVER_CORE]

# Fewer updates than this share of what the IOC makes: something is broken. A window may begin just
# after one scan and end just before another, so that one of each PV is not asked for.
LEAST_SHARE = 0.99

SCANS = {10: ".1 second", 5: ".2 second", 2: ".5 second", 1: "1 second"}

# How many updates an array can count up to: enough for every round of a run.
ARRAY_STEPS = 10_000


def say(text):
    print(text, flush=True)


def free_port():
    """A port that nobody has now, neither by TCP nor by UDP."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            try:
                udp.bind(tcp.getsockname())
            except OSError:
                continue
            return tcp.getsockname()[1]


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


class Iocs:
    """The IOCs of a scenario, the file with the names of their PVs, and how clients find them."""

    def __init__(self, children, scenario, prefix, folder):
        self.names = folder / "names"
        self.environment = dict(os.environ)
        access, repeater, pva = free_port(), free_port(), []
        self.environment.update(
            EPICS_CA_ADDR_LIST="127.0.0.1",
            EPICS_CA_AUTO_ADDR_LIST="NO",
            EPICS_CA_SERVER_PORT=str(access),
            EPICS_CA_REPEATER_PORT=str(repeater),
            EPICS_CAS_INTF_ADDR_LIST="127.0.0.1",
            EPICS_CAS_BEACON_ADDR_LIST="127.0.0.1",
            EPICS_CAS_AUTO_BEACON_ADDR_LIST="NO",
            EPICS_CAS_BEACON_PORT=str(repeater),
            EPICS_PVA_ADDR_LIST="",
            EPICS_PVA_AUTO_ADDR_LIST="NO",
            EPICS_PVA_BROADCAST_PORT=str(free_port()),
            EPICS_PVAS_INTF_ADDR_LIST="127.0.0.1",
            EPICS_PVAS_BEACON_ADDR_LIST="127.0.0.1",
            EPICS_PVAS_AUTO_BEACON_ADDR_LIST="NO",
        )
        kind = "pva" if scenario["protocol"] == "pva" or "elements" in scenario else "ca"
        names, databases = database(scenario, prefix)
        for number, records in enumerate(databases):
            (folder / f"bench{number}.db").write_text(records)
            pva.append(free_port())
            ioc = children.start(
                [PYTHON, "-u", *IOC[kind], "-d", folder / f"bench{number}.db"],
                OTHER_CORES,
                env=self.environment
                | {
                    "EPICS_CA_MAX_ARRAY_BYTES": "64000000",
                    "EPICS_PVAS_SERVER_PORT": str(pva[-1]),
                    "EPICS_PVAS_BROADCAST_PORT": str(free_port()),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            wait_for_line(ioc.stdout, "All initialization complete", "an IOC")
            drain(ioc.stdout)
        servers = " ".join(f"127.0.0.1:{port}" for port in pva)
        if kind == "pva":
            self.environment["EPICS_PVA_NAME_SERVERS"] = servers
        if "elements" in scenario:
            fill(prefix, scenario["elements"], servers)
        scheme = {"ca": "", "pva": "pva://"}[scenario["protocol"]]
        self.names.write_text("".join(f"{scheme}{name}\n" for name in names))


def database(scenario, prefix):
    """Names of the PVs, and the records of each IOC."""
    if "elements" in scenario:
        # A window that moves by one element with every update, over numbers that count up.
        elements = scenario["elements"]
        return [f"{prefix}:ARRAY"], [
            f"""
            record(waveform, "{prefix}:SOURCE") {{
                field(FTVL, "DOUBLE") field(NELM, "{elements + ARRAY_STEPS}")
            }}
            record(calcout, "{prefix}:STEP") {{
                field(SCAN, "{SCANS[scenario["rate_hz"]]}") field(CALC, "VAL+1")
                field(OUT, "{prefix}:ARRAY.INDX NPP") field(FLNK, "{prefix}:ARRAY")
            }}
            record(subArray, "{prefix}:ARRAY") {{
                field(INP, "{prefix}:SOURCE") field(FTVL, "DOUBLE")
                field(NELM, "{elements}") field(MALM, "{elements + ARRAY_STEPS}")
            }}
            """
        ]
    names = [f"{prefix}:N{number:05d}" for number in range(scenario["pvs"])]
    if "rate_hz" in scenario:
        scan = f'field(SCAN, "{SCANS[scenario["rate_hz"]]}") field(CALC, "VAL+1")'
    else:
        scan = 'field(PINI, "YES") field(CALC, "7")'
    records = [f'record(calc, "{name}") {{ {scan} }}\n' for name in names]
    iocs = scenario.get("iocs", 1)
    return names, ["".join(records[number::iocs]) for number in range(iocs)]


def fill(prefix, count, servers):
    # Needed for arrays alone.
    import numpy
    from p4p.client.thread import Context

    found_by = {
        "EPICS_PVA_ADDR_LIST": "",
        "EPICS_PVA_AUTO_ADDR_LIST": "NO",
        "EPICS_PVA_NAME_SERVERS": servers,
    }
    with Context("pva", conf=found_by, useenv=False) as context:
        context.put(f"{prefix}:SOURCE", numpy.arange(float(count + ARRAY_STEPS)), timeout=30)
        # What went before had too few elements.
        while len(context.get(f"{prefix}:ARRAY", timeout=30)) < count:
            time.sleep(0.1)


class Relay:
    """A relay on its core."""

    def __init__(self, children, iocs, preload=None):
        environment = iocs.environment | (preload or {})
        self.children = children
        self.process = children.start(
            [TARGET / "pvwire-relay", "--listen", "127.0.0.1:0", "--shards", "1"]
            + ["--max-subscriptions", "40000"],
            {SERVER_CORE},
            env=environment,
            stderr=subprocess.PIPE,
        )
        stderr = self.process.stderr
        self.address = wait_for_line(stderr, r"listening on http://(\S+)", "the relay")[1]
        self.said = drain(stderr)

    def counters(self):
        """What it counts, by name."""
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return {
            line.split()[0]: float(line.split()[1])
            for line in lines
            if line and not line.startswith("#") and "{" not in line
        }

    def load(self, scenario, clients, iocs, record=None):
        """What the load client says after its measurement; ends the run when something is lost."""
        load = self.children.start(
            [TARGET / "pvwire-bench", "load", "--relay", self.address, "--pid", self.process.pid]
            + ["--clients", clients, "--names", iocs.names]
            + (["--record", record] if record else [])
            + (["--warm-up-may-skip"] if "elements" in scenario else [])
            + ["--warm-up-s", scenario["warm_up_s"], "--seconds", scenario["seconds"]],
            OTHER_CORES,
            stdout=subprocess.PIPE,
        )
        output, _ = load.communicate()
        self.children.running.remove(load)
        if load.returncode != 0:
            sys.exit(f"the load client failed; the relay said:\n{''.join(self.said)}")
        result = json.loads(output)
        if wrong := list(faults(scenario, result)):
            sys.exit(f"the relay lost something: {', '.join(wrong)}")
        return result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.children.end(self.process)


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
    if "rate_hz" not in scenario:
        return
    if relay["silentClients"]:
        silence = relay["longestSilenceMs"] / 1000
        yield f"{relay['silentClients']} clients got nothing for more than 2 s, one for {silence:.1f} s"
    scans = scenario["rate_hz"] * relay["seconds"]
    expected = relay["clients"] * relay["pvs"] * (scans - 1)
    updates = relay["counts"]["updates"]
    if updates < LEAST_SHARE * expected:
        yield f"{updates} updates where at least {expected:.0f} were made"
