"""Starts IOCs, relay and load client, pins them to cores, reads their output and ends them."""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "testbed/python"))

from child import drain  # noqa: E402
from ports import free_port, private_network  # noqa: E402

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

# The words before a program that is to run at the other end of a line with a delay, where there is one
# (`tools/delayed_network.py`).
FAR_END = os.environ.get("DELAYED_FAR_END", "").split()

# Fewer updates than this share of what the IOC makes: something is broken. A window may begin just
# after one scan and end just before another, so that one of each PV is not expected.
LEAST_SHARE = 0.99
# Of records that are set off one group after the other the next turn waits for the last one.
LEAST_SHARE_IN_PHASES = 0.9

# The slowest of these that fits is the turn in which groups of records follow each other.
TURN_HZ = 10
# Links of a seq record.
MOST_PHASES = 16

SCANS = {10: ".1 second", 5: ".2 second", 2: ".5 second", 1: "1 second"}

# How many updates an array can count up to: enough for every round of a run.
ARRAY_STEPS = 10_000


def say(text):
    print(text, flush=True)


def is_beside_others(scenario):
    """Whether attackers share the cores of the IOC and the clients. Attackers elsewhere would not delay these."""
    return scenario.get("kind") == "attack"


class Children:
    """Ends by pid whatever was started, however the run ends."""

    def __init__(self):
        self.running = []

    def start(self, command, cores, goes_first=False, **options):
        """`goes_first`: others on its cores never delay it, if the system permits that (to root)."""

        def prepare():
            os.sched_setaffinity(0, cores)
            if goes_first:
                with contextlib.suppress(PermissionError):
                    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            # A socket for each of some thousand clients.
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

        child = subprocess.Popen(
            [str(word) for word in command], preexec_fn=prepare, text=True, **options
        )
        self.running.append(child)
        return child

    def wait(self, child, within_s=None):
        """Output of a child until it ended by itself."""
        output, _ = child.communicate(timeout=within_s)
        self.running.remove(child)
        return output

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
        # A second Ctrl-C must not leave one of them behind.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for child in self.running:
            if child.poll() is None:
                child.terminate()
        for child in list(self.running):
            self.end(child)
        signal.signal(signal.SIGINT, before)


def wait_for_line(stream, pattern, what):
    """The first match in what a child writes."""
    lines = []
    for line in stream:
        lines.append(line)
        if found := re.search(pattern, line):
            return found
    sys.exit(f"{what} ended before it was ready:\n{''.join(lines)}")


class Iocs:
    """The IOCs of a scenario, the file with the names of their PVs, and how clients find them."""

    def __init__(self, children, scenario, prefix, folder):
        self.names = folder / "names"
        self.processes = []
        self.environment = dict(os.environ)
        self.environment.update(private_network())
        # Without IOCs of pvAccess there is no server of it.
        del self.environment["EPICS_PVA_NAME_SERVERS"]
        pva = []
        kind = "pva" if scenario["protocol"] == "pva" or "elements" in scenario else "ca"
        names, databases = database(scenario, prefix)
        for number, records in enumerate(databases):
            (folder / f"bench{number}.db").write_text(records)
            pva.append(free_port())
            ioc = children.start(
                [PYTHON, "-u", *IOC[kind], "-d", folder / f"bench{number}.db"],
                OTHER_CORES,
                goes_first=is_beside_others(scenario),
                env=self.environment
                | {
                    "EPICS_CA_MAX_ARRAY_BYTES": "100000000",
                    "EPICS_PVAS_SERVER_PORT": str(pva[-1]),
                    "EPICS_PVAS_BROADCAST_PORT": str(free_port()),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            self.processes.append(ioc)
            wait_for_line(ioc.stdout, "All initialization complete", "an IOC")
            drain(ioc.stdout)
        servers = " ".join(f"127.0.0.1:{port}" for port in pva)
        if kind == "pva":
            self.environment["EPICS_PVA_NAME_SERVERS"] = servers
        if "elements" in scenario:
            fill(prefix, scenario["elements"], servers)
        scheme = {"ca": "", "pva": "pva://"}[scenario["protocol"]]
        self.names.write_text("".join(f"{scheme}{name}\n" for name in names))

    def ask(self, number, command, folder, within_s):
        """What the shell of an IOC answers to a command."""
        answer, done = folder / "answer", folder / "done"
        done.unlink(missing_ok=True)
        shell = self.processes[number].stdin
        # Its console is Python's; the second line runs when the first has ended.
        shell.write(f"ioc('{command} > {answer}')\nopen('{done}', 'w').close()\n")
        shell.flush()
        deadline = time.monotonic() + within_s
        while not done.exists():
            if time.monotonic() > deadline:
                sys.exit(f"an IOC did not answer {command}")
            time.sleep(0.05)
        return answer.read_text()

    def waited_s(self):
        """For how long their threads could have run and the machine had no core for them."""
        schedstats = (
            schedstat.read_text()
            for ioc in self.processes
            for schedstat in Path(f"/proc/{ioc.pid}/task").glob("*/schedstat")
        )
        return sum(int(schedstat.split()[1]) for schedstat in schedstats) / 1e9


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
    if is_in_phases(scenario):
        return names, [in_phases(scenario, prefix, names)]
    if "rate_hz" in scenario:
        scan = f'field(SCAN, "{SCANS[scenario["rate_hz"]]}") field(CALC, "{calc(scenario)}")'
    else:
        scan = 'field(PINI, "YES") field(CALC, "7")'
    records = [f'record(calc, "{name}") {{ {scan} }}\n' for name in names]
    iocs = scenario.get("iocs", 1)
    return names, ["".join(records[number::iocs]) for number in range(iocs)]


def calc(scenario):
    """What the records calculate: they count, unless what their values are matters."""
    return scenario.get("calc", "VAL+1")


def is_in_phases(scenario):
    return "phases" in scenario or scenario.get("rate_hz", 0) > max(SCANS)


def in_phases(scenario, prefix, names):
    """Records that are set off in groups, evenly spread over the scan's period or faster than any
    scan: one seq record posts one event after the other."""
    often = max(1, scenario["rate_hz"] // TURN_HZ)
    groups = scenario.get("phases", 1)
    steps = groups * often
    if steps > MOST_PHASES or scenario["rate_hz"] % TURN_HZ:
        sys.exit(f"{steps} phases of records can't be made")
    # The last step leaves a little time before the next turn, which would be left out otherwise.
    spacing = 0.95 / TURN_HZ / steps if often > 1 else 1 / TURN_HZ / steps
    links = "".join(
        f'field(DLY{step:X}, "{spacing if step else 0}") field(DO{step:X}, "1")'
        f' field(LNK{step:X}, "{prefix}:E{step % groups}.PROC")\n'
        for step in range(steps)
    )
    turn = f'record(seq, "{prefix}:TURN") {{ field(SCAN, "{SCANS[TURN_HZ]}")\n{links} }}\n'
    events = "".join(
        f'record(event, "{prefix}:E{group}") {{ field(VAL, "group{group}") }}\n'
        for group in range(groups)
    )
    return turn + events + "".join(
        f'record(calc, "{name}") {{ field(SCAN, "Event") field(EVNT, "group{number % groups}")'
        f' field(CALC, "{calc(scenario)}") }}\n'
        for number, name in enumerate(names)
    )


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
    """A relay on its core, with the settings that the scenario gives it."""

    def __init__(self, children, scenario, iocs, preload=None, listen="127.0.0.1:0", cores=None):
        environment = iocs.environment | (preload or {})
        subscriptions = max(40_000, scenario.get("pvs", 0))
        flags = ["--max-subscriptions", subscriptions, "--evict-after-ms", EVICT_AFTER_MS]
        # Clients at the far end of a line.
        self.far_end = FAR_END if "round_trip_ms" in scenario else []
        if self.far_end:
            listen = "10.203.0.1:0"
            flags.append("--allow-anonymous")
        if "tick_ms" in scenario:
            tick = scenario["tick_ms"]
            flags += ["--shortest-tick-ms", tick, "--longest-tick-ms", tick]
        if "tls_cert" in scenario:
            cert = scenario["tls_cert"]
            flags += ["--tls-cert", cert, "--tls-key", cert.with_name("key.pem")]
        flags += scenario.get("flags", [])
        self.children = children
        self.process = children.start(
            [TARGET / "pvwire-relay", "--listen", listen, "--shards", "1", "--enable-sim", *flags],
            cores or {SERVER_CORE},
            env=environment,
            stderr=subprocess.PIPE,
        )
        stderr = self.process.stderr
        self.address = wait_for_line(stderr, r"listening on https?://(\S+)", "the relay")[1]
        self.output = drain(stderr)

    def counters(self):
        """What it counts, by name."""
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return {
            line.split()[0]: float(line.split()[1])
            for line in lines
            if line and not line.startswith("#") and "{" not in line
        }

    def load(self, scenario, clients, iocs, record=None, stalled=0, storm=False):
        """What the load client says after its measurement; ends the run when something is lost."""
        words = ["--stalled", stalled]
        for flag in ("each", "pick", "sample_every_s"):
            if flag in scenario:
                words += [f"--{flag.replace('_', '-')}", scenario[flag]]
        words += ["--storm"] if storm else []
        words += ["--lz4"] if scenario.get("compression") == "lz4" else []
        words += ["--tls-cert", scenario["tls_cert"]] if "tls_cert" in scenario else []
        words += ["--record", record] if record else []
        return self.measure("load", scenario, clients, iocs, words)

    def added_up(self, name):
        """A counter that has labels, added up."""
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))

    def skipped(self):
        """Updates that it left out for clients that were behind."""
        return self.added_up("pvwire_updates_skipped_total")

    def door(self, scenario, clients, iocs):
        """The same of clients of a door, which aren't told which values were left out."""
        before = self.skipped()
        words = ["--dialect", scenario["dialect"], *scenario.get("arguments", [])]

        def counted(result):
            faults = result["faults"]
            if faults["missing"] <= self.skipped() - before:
                faults["skipped"], faults["missing"] = faults["missing"], 0

        return self.measure("door", scenario, clients, iocs, words, counted)

    def measure(self, part, scenario, clients, iocs, words, counted=lambda _: None):
        """What a part of the load client says after its measurement."""
        load = self.start_part(part, scenario, clients, iocs, words)
        return self.end_part(scenario, load, iocs, counted)

    def start_part(self, part, scenario, clients, iocs, words, **options):
        """Starts a part of the load client."""
        words += ["--relay", self.address, "--pid", self.process.pid, "--names", iocs.names]
        words += ["--clients", clients]
        words += ["--warm-up-s", scenario["warm_up_s"], "--seconds", scenario["seconds"]]
        waited_s = iocs.waited_s()
        command = [*self.far_end, TARGET / "pvwire-bench", part, *words]
        goes_first = is_beside_others(scenario)
        load = self.children.start(command, OTHER_CORES, goes_first, stdout=subprocess.PIPE, **options)
        return load, waited_s

    def end_part(self, scenario, load, iocs, counted=lambda _: None):
        """What it says after its measurement; ends the run when something is lost."""
        load, waited_s = load
        output = load.stdout.read()
        load.wait()
        self.children.end(load)
        if load.returncode != 0:
            sys.exit(f"the load client failed; the relay printed:\n{''.join(self.output)}")
        result = json.loads(output)
        counted(result)
        if wrong := list(faults(scenario, result)):
            waited = (iocs.waited_s() - waited_s) / result["seconds"]
            if is_disturbed(result, waited):
                raise Disturbed(", ".join(wrong))
            sys.exit(f"the relay lost something: {', '.join(wrong)}")
        before = [(what, result[f"{what}Before"]) for what in ("missing", "repeated")]
        if any(count for _, count in before) and not scenario.get("may_skip"):
            words = " and ".join(f"{count} values {what}" for what, count in before if count)
            raise Disturbed(f"{words} while clients connected")
        if few := too_few(scenario, result):
            raise Disturbed(few)
        return result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.children.end(self.process)


# Who doesn't read stays: that it stalls is what is measured, or the fault of a busy machine.
EVICT_AFTER_MS = 120_000

# A load client that was kept from running for longer at a time, or for a larger share of the time, may
# have fallen behind through no fault of the relay; and so may an IOC, which then leaves values out
# before the relay hears of them.
LONGEST_PAUSE_MS = 200
MOST_WAITED = 0.1


class Disturbed(Exception):
    """The load client or an IOC didn't get round to its work: the round says nothing, and is repeated."""


def is_disturbed(relay, iocs_waited):
    """Whether nothing worse happened than that values were left out by those that the machine kept
    from running; of all seconds of the run and more, IOCs waited for `iocs_waited`."""
    waited = relay["ownWaitedNs"] / relay["seconds"] / 1e9
    excused = {"skipped"} if relay["ownLongestPauseMs"] > LONGEST_PAUSE_MS or waited > MOST_WAITED else set()
    if iocs_waited > MOST_WAITED:
        excused |= {"missing"}
    found = {what for what in FAULTS if relay["faults"][what]}
    return bool(excused) and found <= excused


FAULTS = {
    "gaps": "frames that don't follow on the one before",
    "missing": "missing values",
    "repeated": "repeated values",
    "wrongValues": "values that the IOC never had",
    "skipped": "values that the relay says it skipped",
    "lost": "PVs disconnected or not found",
}


# What is no fault where values may be left out: by the relay, which says so, and before it.
MAY_SKIP = {"skipped", "missing"}

# An IOC of EPICS base whose event queue for an array is full drops an update of it and sends the newer
# elements in the older one's place, and then once more.
MAY_SKIP_ARRAYS = MAY_SKIP | {"repeated"}


def faults(scenario, relay):
    """What is wrong with a run, in words."""
    allowed = set()
    if scenario.get("may_skip"):
        of_array = "elements" in scenario and scenario["protocol"] == "ca"
        allowed = MAY_SKIP_ARRAYS if of_array else MAY_SKIP
    for what, words in FAULTS.items():
        if relay["faults"][what] and what not in allowed:
            yield f"{relay['faults'][what]} {words}"
    # Who stalled has skipped values, and nothing worse.
    for what, words in FAULTS.items():
        resumed = relay["resumed"]
        if resumed and what != "skipped" and resumed["faults"][what]:
            yield f"{resumed['faults'][what]} {words} by those who had stalled"
    if "rate_hz" not in scenario:
        return
    if relay["silentClients"] and not allowed:
        silence = relay["longestSilenceMs"] / 1000
        yield f"{relay['silentClients']} clients got nothing for more than 2 s, one for {silence:.1f} s"
    if not relay["counts"]["updates"]:
        yield "no updates at all"


def too_few(scenario, relay):
    """Of a run without faults, whether the IOCs' records were processed less often than their scan period says. The
    records count, and no count was missing at any client; so the IOCs didn't get round to it."""
    if "rate_hz" not in scenario or scenario.get("may_skip"):
        return None
    least = LEAST_SHARE_IN_PHASES if is_in_phases(scenario) else LEAST_SHARE
    due = least * relay["clients"] * relay["pvs"] * (scenario["rate_hz"] * relay["seconds"] - 1)
    updates = relay["counts"]["updates"]
    return f"the IOCs made {updates} updates where at least {due:.0f} were due" if updates < due else None


def gateway_settings(port, servers):
    """Configuration of p4p's gateway, between IOCs and clients on loopback: its port, and the servers behind it."""
    return {
        "version": 2,
        "clients": [
            {
                "name": "iocs",
                "provider": "pva",
                "autoaddrlist": False,
                "EPICS_PVA_NAME_SERVERS": servers,
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
