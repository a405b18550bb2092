"""The systems that `make compare` measures beside each other, each with the same report of a measurement.

A report has `updates`, `missing`, `seconds`, `cpuNs`, `latency`, `bytesPerUpdate` and `rssKb`: of a server it is what its
clients got and what that cost the server; of a client library what the library got and what that cost its process.
"""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import peer
from processes import ROOT, Disturbed, Relay
from usage import Sampler

PEERS_PYTHON = ROOT / ".local/peers/bin/python"
PACKAGES = ("aioca", "caproto", "coniql", "orjson", "p4p", "protobuf", "pyepics")

# Beside warm-up and measurement: starting, connecting, and a measurement that lags behind.
SLACK_S = 75

DISTURBED_ROUNDS = 2


class Failed(Exception):
    """A system that can't be measured; the message says why, for its row."""


@dataclass(frozen=True)
class System:
    """A server with its clients, or a client library."""

    name: str
    # What its clients speak.
    way: str
    # By which protocol it reads the IOC: ca or pva.
    protocol: str
    # (run, settings) → report.
    measure: object
    # The package that must be there.
    package: str = ""
    # What a row says where the system is unavailable by the user's choice.
    needs: str = ""
    # A server that needs a while until it is in step, or a JVM until it is compiled.
    warm_up_s: int = 0


@dataclass
class Run:
    """One IOC with two lists of its PVs' names, for all systems that are measured on it."""

    children: object
    iocs: object
    folder: object
    versions: dict

    def names_for(self, protocol):
        """The same PVs by Channel Access or by pvAccess."""
        plain = [name.removeprefix("pva://") for name in (self.folder / "names").read_text().splitlines()]
        file = self.folder / f"names-{protocol}"
        scheme = {"ca": "", "pva": "pva://"}[protocol]
        file.write_text("".join(f"{scheme}{name}\n" for name in plain))
        return file


def relay_report(flags=(), dialect=None, arguments=()):
    """Measures pvwire: its own clients, or those of a door."""

    def measure(run, settings, system):
        scenario = settings | {"flags": list(flags), "may_skip": True, "protocol": system.protocol}
        run.iocs.names = run.names_for(system.protocol)
        with Relay(run.children, scenario, run.iocs) as relay:
            port = int(relay.address.rsplit(":", 1)[1])
            with Sampler(relay.process.pid, port) as sampler:
                if dialect:
                    scenario |= {"dialect": dialect, "arguments": list(arguments)}
                    found = relay.door(scenario, settings["clients"], run.iocs)
                else:
                    found = relay.load(scenario, settings["clients"], run.iocs)
        updates = found["counts"]["updates"]
        report = {
            "updates": updates,
            "missing": found["faults"]["missing"] + found["faults"]["skipped"],
            "seconds": found["seconds"],
            "cpuNs": found["relayCpuNs"],
            "latency": found["latency"],
        }
        return report | sampler.figures(updates / found["seconds"], settings["seconds"])

    return measure


def peer_report(program, *arguments):
    """Measures another system by its program in peers/."""

    def measure(run, settings, system):
        file = run.names_for(system.protocol)
        words = list(arguments)
        if settings.get("each", settings["pvs"]) != settings["pvs"]:
            words += ["--each", settings["each"]]
        for setting in ("monitors", "elements"):
            if setting in settings:
                words += [f"--{setting}", settings[setting]]
        words += ["--ioc-port", ioc_port(run.iocs.environment, system.protocol)]
        run.iocs.names = file
        scenario = settings | {"peer": system.name, "program": program, "arguments": words}
        within_s = settings["warm_up_s"] + settings["seconds"] + SLACK_S
        return peer.run_peer(run.children, scenario, run.iocs, run.folder, within_s)

    return measure


def ioc_port(environment, protocol):
    if protocol == "ca":
        return environment["EPICS_CA_SERVER_PORT"]
    return environment["EPICS_PVA_NAME_SERVERS"].split()[0].rsplit(":", 1)[1]


SCREENS = ("--selection", "screens")

SERVERS = [
    System("pvwire", "its own clients, Channel Access", "ca", relay_report()),
    System("pvwire", "its own clients, pvAccess", "pva", relay_report()),
    System("pvwire", "clients of PVWS", "ca", relay_report(("--pvws", "--pvws-throttle-ms", "0"), "pvws")),
    System("pvwire", "clients of Coniql", "ca", relay_report(("--coniql",), "coniql", SCREENS)),
    System("Coniql", "GraphQL", "ca", peer_report("run_coniql.py", *SCREENS), "coniql", warm_up_s=5),
    System("PVWS", "JSON", "ca", peer_report("run_pvws.py"), needs="PVWS_WAR", warm_up_s=30),
    System("p4p gateway", "pvAccess", "pva", peer_report("run_gateway.py", "--through", "p4p"), "p4p"),
]

CLIENTS = [
    System("aioca", "client of Channel Access", "ca", peer_report("run_client.py", "aioca"), "aioca"),
    System("p4p", "client of pvAccess", "pva", peer_report("run_client.py", "p4p"), "p4p"),
    System("caproto", "client of Channel Access", "ca", peer_report("run_client.py", "caproto"), "caproto"),
    System("pyepics", "client of Channel Access", "ca", peer_report("run_client.py", "pyepics"), "pyepics"),
]

CONIQL = [SERVERS[4], SERVERS[3], SERVERS[0]]
NATIVE_BOTH = SERVERS[:2]

WAR = "not run: PVWS's war must be fetched or built by hand; `make compare PVWS_WAR=/path/to/pvws.war` measures it"


def pvws_command(war):
    """The command that serves a war of PVWS in its own process."""
    classes = ROOT / ".local/serve-war"
    path = shlex.quote(str(Path(war).resolve()))
    return f"exec java -cp '{classes}/classes:{classes}/lib/*' ServeWar {path} $PVWS_PORT"


def versions():
    """Versions of the peers that are installed."""
    program = (
        "import json, sys\nfrom importlib.metadata import version, PackageNotFoundError\nfound = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try: found[name] = version(name)\n"
        "    except PackageNotFoundError: pass\n"
        "print(json.dumps(found))"
    )
    if not PEERS_PYTHON.exists():
        return {}
    words = [PEERS_PYTHON, "-c", program, *PACKAGES]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def unavailable(system, found):
    """Why a system can't be measured here; `None` if it can."""
    if system.needs and system.needs not in os.environ:
        return WAR
    if system.package and system.package not in found:
        return f"not run: {system.package} could not be installed into .local/peers"
    return None


def measured(run, system, settings):
    """A system's report; `Failed` says what went wrong."""
    if reason := unavailable(system, run.versions):
        raise Failed(reason)
    settings = settings | {"warm_up_s": max(settings["warm_up_s"], system.warm_up_s)}
    for attempt in range(DISTURBED_ROUNDS):
        try:
            return system.measure(run, settings, system)
        except Disturbed as disturbed:
            if attempt + 1 == DISTURBED_ROUNDS:
                raise Failed(f"failed: the machine is too busy: {disturbed}") from None
        except (SystemExit, subprocess.SubprocessError, OSError, KeyError) as error:
            if is_end(error):
                raise
            print(f"   {system.name}: {error}", file=sys.stderr, flush=True)
            raise Failed(f"failed: {first_line(error)}") from None
    raise AssertionError("a round is measured or fails")


def is_end(error):
    """Whether the run itself is ended by a signal, which is no failure of a system."""
    return isinstance(error, SystemExit) and isinstance(error.code, int)


def first_line(error):
    """The sentence of an error, without the output that follows it."""
    return f"{error}".split("\n", 1)[0].rstrip(":")[:160]
