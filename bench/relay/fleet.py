"""What a fleet on NATS costs: CPU per update at the owner and at the edges beside a lone relay's, NATS's own, the
added latency, and whether the IOC serves one monitor per PV while every client gets every update."""

import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack

from ingest import OWN_THREADS, REST
from processes import (
    OTHER_CORES,
    ROOT,
    Disturbed,
    SERVER_CORE,
    Relay,
    drain,
    free_port,
    say,
    wait_for_line,
)

ABOUT = (
    "{ingest} ingest relays, {edges} edges with {clients} clients each ({own_clients} more clients of an owner),"
    " one NATS server; each client {pvs} PVs × {rate_hz} Hz ({protocol}), {seconds} s a round, n = {rounds} rounds."
    "{lone_words} The relay whose CPU time is measured has one core to itself; the rest is on the others."
)

# Threads that a relay has only in a fleet.
BUS_THREADS = ("fleet", "bus")

# A relay that starts listens first; the others know of it then.
MEMBERS_WITHIN_S = 20

# PVs stay open for so long after the clients have left: until the IOC has reported its monitors.
LINGER_MS = 60_000

# The IOC writes the report of its monitors within this time.
REPORT_WITHIN_S = 20


def words(scenario):
    """What the sentence about a scenario says of its settings."""
    lone = " Before it in each round, a lone relay with as many clients as an edge." if scenario["lone"] else ""
    return {"lone_words": lone}


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    fleet = scenario["clients"] * scenario["edges"] + scenario["own_clients"]
    return [scenario["clients"]] * scenario["lone"] + [fleet] * len(scenario["alone"])


def measure(children, scenario, iocs, folder):
    """One round, and what came of it."""
    raw, figures = {}, {}
    if scenario["lone"]:
        with Relay(children, scenario, iocs) as relay:
            raw["lone"] = relay.load(scenario, scenario["clients"], iocs)
        figures |= lone_figures(raw["lone"])
    for alone in scenario["alone"]:
        with Fleet(children, scenario, iocs, alone) as fleet:
            found = fleet.load(scenario, iocs)
            figures |= fleet.check_monitors(scenario, iocs, folder)
            figures |= owner_figures(found) if alone == "owner" else {}
            figures |= edge_figures(scenario, found, fleet) if alone == "edge" else {}
        raw |= {f"{name} ({alone} alone)": run for name, run in found.items()}
    if scenario["lone"]:
        figures |= beyond_figures(figures)
    tell(figures)
    return figures, raw


def nats_program():
    """The server that `tools/setup.sh` installed, or that of the machine."""
    ours = ROOT / ".local/nats/usr/sbin/nats-server"
    return os.environ.get("PVWIRE_NATS_SERVER") or (ours if ours.exists() else "nats-server")


def start_nats(children, opened):
    """A server that ends with `opened`, and its address."""
    address = f"127.0.0.1:{free_port()}"
    host, port = address.split(":")
    server = children.start([nats_program(), "--addr", host, "--port", port], OTHER_CORES, stderr=subprocess.PIPE)
    opened.callback(children.end, server)
    wait_for_line(server.stderr, "Server is ready", "NATS")
    drain(server.stderr)
    return server, address


class Fleet:
    """NATS, the relays that hold monitors, and the edges. The first of one kind has the relays' core to itself."""

    def __init__(self, children, scenario, iocs, alone):
        with ExitStack() as opened:
            self.nats, bus = start_nats(children, opened)

            def relay(role, has_core):
                flags = ["--bus", f"nats://{bus}", "--role", role, "--linger-ms", LINGER_MS]
                flags += scenario.get("flags", [])
                cores = {SERVER_CORE} if has_core else OTHER_CORES
                return opened.enter_context(Relay(children, scenario | {"flags": flags}, iocs, cores=cores))

            of_owners = "both" if scenario["own_clients"] else "ingest"
            owner, edge = alone == "owner", alone == "edge"
            self.ingest = [relay(of_owners, owner and not number) for number in range(scenario["ingest"])]
            self.edges = [relay("edge", edge and not number) for number in range(scenario["edges"])]
            self.wait_for_members()
            self.open = opened.pop_all()

    def wait_for_members(self):
        """Returns when all relays know each other."""
        wanted = len(self.ingest) + len(self.edges)
        deadline = time.monotonic() + MEMBERS_WITHIN_S
        for relay in self.ingest + self.edges:
            while (known := members(relay)) != wanted:
                if time.monotonic() > deadline:
                    sys.exit(f"a relay knows of {known} relays where {wanted} are")
                time.sleep(0.1)

    def load(self, scenario, iocs):
        """What the clients of each relay say after their measurement, all at the same time."""
        relays = {f"edge{number}": (relay, scenario["clients"]) for number, relay in enumerate(self.edges)}
        if scenario["own_clients"]:
            relays["owner"] = (self.ingest[0], scenario["own_clients"])
        also = [self.nats.pid, *(relay.process.pid for relay in self.ingest)]
        loads = {}
        for name, (relay, clients) in relays.items():
            further = [word for pid in also if name == "edge0" for word in ("--also", pid)]
            loads[name] = relay.start_part("load", scenario, clients, iocs, further, stderr=subprocess.PIPE)
        outputs = {}
        for name, (load, _) in loads.items():
            wait_for_line(load.stderr, "the measurement begins", f"the load client of {name}")
            outputs[name] = drain(load.stderr)
        self.before = self.bus_counters()
        found, wrong = {}, []
        for name, (relay, _) in relays.items():
            try:
                found[name] = relay.end_part(scenario, loads[name], iocs)
            except (Disturbed, SystemExit) as end:
                # The others must end too.
                wrong.append((name, end))
                say("".join(outputs[name]))
        self.after = self.bus_counters()
        for name, end in wrong:
            if isinstance(end, SystemExit):
                sys.exit(f"clients of {name}: {end.code}")
        for name, end in wrong:
            raise Disturbed(f"clients of {name}: {end}")
        return found

    def bus_counters(self):
        """What the relays of each kind have counted, added up."""
        total = {}
        for kind, relays in (("ingest", self.ingest), ("edges", self.edges)):
            for relay in relays:
                for name, count in relay.counters().items():
                    total[kind, name] = total.get((kind, name), 0) + count
        return total

    def between(self, kind, name):
        """By how much a counter has grown in the measurement."""
        return self.after[kind, f"pvwire_{name}_total"] - self.before[kind, f"pvwire_{name}_total"]

    def check_monitors(self, scenario, iocs, folder):
        """Ends the run unless the IOCs serve one monitor of each PV, and the relays lost nothing between them."""
        names = iocs.names.read_text().split()
        served = monitors(iocs, scenario["protocol"], folder)
        if sorted(served) != sorted(name.removeprefix("pva://") for name in names):
            sys.exit(f"the IOC serves {len(served)} monitors of {len(set(served))} PVs; there are {len(names)} PVs")
        for kind, what in (
            ("edges", "fleet_gaps"),
            ("edges", "fleet_messages_damaged"),
            ("edges", "fleet_messages_discarded"),
            ("ingest", "bus_messages_refused"),
        ):
            if count := self.between(kind, what):
                raise Disturbed(f"{what}: {count:.0f}")
        return {"monitors_per_pv": len(served) / len(names)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open.close()


def members(relay):
    """How many live relays of the fleet a relay knows of, itself included."""
    return relay.added_up("pvwire_fleet_members")


def monitors(iocs, protocol, folder):
    """The PVs that the IOCs serve monitors of, once for each monitor of values."""
    served = []
    for number in range(len(iocs.processes)):
        if protocol == "pva":
            report = iocs.ask(number, "pvxsr 9", folder, REPORT_WITHIN_S)
            served += served_by_pv_access(report)
        else:
            report = iocs.ask(number, "casr 4", folder, REPORT_WITHIN_S)
            served += served_by_channel_access(report)
    return served


def served_by_channel_access(report):
    """A relay has two event subscriptions on a PV's channel, one of values and alarms and one of metadata; channels
    of other fields have none that count here."""
    channel, served = None, []
    for line in map(str.strip, report.splitlines()):
        if line.startswith("Channel: '"):
            channel = line.removeprefix("Channel: '").rstrip("'")
        elif line.startswith("# on eventq=") and channel and "." not in channel:
            served += [channel] * (int(line.removeprefix("# on eventq=").split(",")[0]) // 2)
    return served


def served_by_pv_access(report):
    """The server writes the name of a channel before the traffic, and then the channel's operations."""
    channel, served = None, []
    for found in re.finditer(r"(?P<channel>\S+) TX=\d+ RX=\d+|ioid=\d+ MONITOR", report):
        channel = found["channel"] or channel
        if not found["channel"]:
            served.append(channel)
    return served


def own_ns(by_thread):
    """CPU time beside that of the EPICS libraries."""
    own = {*OWN_THREADS, *REST, *BUS_THREADS, "tokio-rt-worker"}
    return sum(ns for name, ns in by_thread.items() if name in own)


def lone_figures(run):
    updates = run["counts"]["updates"]
    each = updates / run["clients"]
    return {
        "lone_us_per_update": run["relayCpuNs"] / each / 1000,
        "lone_own_us_per_update": own_ns(run["relayCpuNsByThread"]) / each / 1000,
        "lone_us_per_delivered_update": run["relayCpuNs"] / updates / 1000,
        "lone_latency_p50_ms": run["latency"]["p50Ms"],
        "lone_latency_p99_ms": run["latency"]["p99Ms"],
        "lone_frames_per_s": run["counts"]["frames"] / run["seconds"] / run["clients"],
    }


def by_thread(of, times, updates):
    """CPU of some threads per update."""
    return {
        f"{of}_{thread}_us_per_update": times.get(thread, 0) / updates / 1000
        for thread in ("tick", "shard", *BUS_THREADS)
    }


def owner_figures(found):
    """The only owner, with its core."""
    first = found["edge0"]
    taken = first["counts"]["updates"] / first["clients"]
    _, owner = first["alsoCpuNsByThread"]
    return {
        "owner_us_per_update": sum(owner.values()) / taken / 1000,
        "owner_own_us_per_update": own_ns(owner) / taken / 1000,
        **by_thread("owner", owner, taken),
    }


def edge_figures(scenario, found, fleet):
    """The first edge, with its core; latency of all; NATS and what passes it."""
    edges = [found[f"edge{number}"] for number in range(scenario["edges"])]
    first = edges[0]
    taken = first["counts"]["updates"] / first["clients"]
    nats, *owners = first["alsoCpuNsByThread"]
    updates = sum(run["counts"]["updates"] for run in edges)

    def of_edges(take):
        return max(take(run) for run in edges)

    published = fleet.between("ingest", "updates_received")
    figures = {
        "seconds": first["seconds"],
        "updates_per_s": taken / first["seconds"],
        "edge_us_per_update": first["relayCpuNs"] / taken / 1000,
        **by_thread("edge", first["relayCpuNsByThread"], taken),
        "edge_us_per_delivered_update": first["relayCpuNs"] / first["counts"]["updates"] / 1000,
        "nats_us_per_update": sum(nats.values()) / taken / 1000,
        "nats_cores": sum(nats.values()) / first["seconds"] / 1e9,
        "bus_bytes_per_update": fleet.between("ingest", "bus_bytes_sent") / published,
        "bus_messages_per_s": fleet.between("ingest", "bus_messages_sent")
        / published
        * taken
        / first["seconds"],
        "edge_frames_per_s": first["counts"]["frames"] / first["clients"] / first["seconds"],
        "delivered_per_s": updates / first["seconds"],
        "owner_cores": sum(sum(owner.values()) for owner in owners) / first["seconds"] / 1e9,
        "edge_cores": of_edges(lambda run: run["relayCpuNs"] / run["seconds"] / 1e9),
        "edge_latency_p50_ms": of_edges(lambda run: run["latency"]["p50Ms"]),
        "edge_latency_p99_ms": of_edges(lambda run: run["latency"]["p99Ms"]),
        "edge_latency_max_ms": of_edges(lambda run: run["latency"]["maxMs"]),
        "edge_rss_mb": of_edges(lambda run: run["memory"]["atEnd"]["rssKb"] / 1024),
        "load_client_cores": sum(run["ownCpuNs"] / run["seconds"] / 1e9 for run in edges),
    }
    if owner := found.get("owner"):
        figures |= {
            "owner_latency_p50_ms": owner["latency"]["p50Ms"],
            "owner_latency_p99_ms": owner["latency"]["p99Ms"],
        }
        for of in ("p50", "p99"):
            figures[f"added_latency_{of}_ms"] = (
                figures[f"edge_latency_{of}_ms"] - figures[f"owner_latency_{of}_ms"]
            )
    return figures


def beyond_figures(figures):
    """What the bus adds. Of an edge, to a lone relay without the EPICS libraries, which an edge has not.

    The libraries do the same work at the owner and at the lone relay, but beside an owner the other cores have edge and
    NATS to serve. What they cost the owner in excess shows how far the two differ for other reasons than the bus.
    """
    own = figures["lone_own_us_per_update"]
    of_owner = {}
    if "owner_us_per_update" in figures:
        of_owner = {
            "bus_owner_us_per_update": figures["owner_own_us_per_update"] - own,
            "owner_beyond_lone_us_per_update": figures["owner_us_per_update"] - figures["lone_us_per_update"],
            "ratio_owner_library_to_lone": (figures["owner_us_per_update"] - figures["owner_own_us_per_update"])
            / (figures["lone_us_per_update"] - own),
        }
    return of_owner | {
        "bus_edge_us_per_update": figures["edge_us_per_update"] - own,
        "edge_beyond_lone_us_per_update": figures["edge_us_per_update"] - figures["lone_us_per_update"],
        "ratio_edge_to_lone": figures["edge_us_per_delivered_update"] / figures["lone_us_per_delivered_update"],
    }


def tell(figures):
    def of(key, digits=3):
        return f"{figures[key]:.{digits}f}" if key in figures else "–"

    say(
        f"   bus: owner {of('bus_owner_us_per_update')} µs, edge {of('bus_edge_us_per_update')} µs,"
        f" NATS {of('nats_us_per_update')} µs an update;"
        f" {of('bus_bytes_per_update', 1)} B; edge ÷ lone {of('ratio_edge_to_lone')};"
        f" added p50 {of('added_latency_p50_ms', 2)} ms, p99 {of('added_latency_p99_ms', 2)} ms"
    )


LABELS = {
    "seconds": ("Time in which each update was checked", "s"),
    "updates_per_s": ("Updates of the IOC", "/s"),
    "monitors_per_pv": ("Monitors that the IOC serves for each PV", ""),
    "lone_us_per_update": ("Lone relay, all threads: CPU per update of the IOC", "µs"),
    "lone_own_us_per_update": ("of it: without the threads of the EPICS library", "µs"),
    "owner_us_per_update": ("Owners, all threads: CPU per update of the IOC", "µs"),
    "owner_own_us_per_update": ("of it: without the threads of the EPICS library", "µs"),
    "owner_tick_us_per_update": ("of it: tick", "µs"),
    "owner_shard_us_per_update": ("of it: shards", "µs"),
    "owner_fleet_us_per_update": ("of it: thread of the fleet", "µs"),
    "owner_bus_us_per_update": ("of it: connection to NATS", "µs"),
    "bus_owner_us_per_update": ("Bus at the owner: its threads but the library's, minus those of the lone relay", "µs"),
    "owner_beyond_lone_us_per_update": ("Owner minus lone relay, all threads", "µs"),
    "ratio_owner_library_to_lone": ("Threads of the EPICS library (same work), owner ÷ lone relay", ""),
    "edge_us_per_update": ("Edge, all threads: CPU per update of the IOC", "µs"),
    "edge_tick_us_per_update": ("of it: tick", "µs"),
    "edge_shard_us_per_update": ("of it: shards", "µs"),
    "edge_fleet_us_per_update": ("of it: thread of the fleet", "µs"),
    "edge_bus_us_per_update": ("of it: connection to NATS", "µs"),
    "bus_edge_us_per_update": ("Bus at an edge: all its threads, minus those of the lone relay but the library's", "µs"),
    "edge_beyond_lone_us_per_update": ("Edge minus lone relay, all threads", "µs"),
    "nats_us_per_update": ("nats-server: CPU per update of the IOC", "µs"),
    "nats_cores": ("nats-server: cores used", ""),
    "bus_bytes_per_update": ("Bytes on the bus per update", "B"),
    "bus_messages_per_s": ("Messages on the bus", "/s"),
    "lone_frames_per_s": ("Lone relay: frames to a client", "/s"),
    "edge_frames_per_s": ("Edge: frames to a client", "/s"),
    "delivered_per_s": ("Updates delivered by all edges", "/s"),
    "owner_cores": ("All owners: cores used", ""),
    "edge_cores": ("Edge: cores used, the busiest", ""),
    "lone_us_per_delivered_update": ("Lone relay: CPU per delivered update", "µs"),
    "edge_us_per_delivered_update": ("Edge: CPU per delivered update", "µs"),
    "ratio_edge_to_lone": ("CPU per delivered update, edge ÷ lone relay", ""),
    "lone_latency_p50_ms": ("IOC time stamp to client of the lone relay, median", "ms"),
    "lone_latency_p99_ms": ("IOC time stamp to client of the lone relay, 99 %", "ms"),
    "owner_latency_p50_ms": ("IOC time stamp to client of the owner, median", "ms"),
    "owner_latency_p99_ms": ("IOC time stamp to client of the owner, 99 %", "ms"),
    "edge_latency_p50_ms": ("IOC time stamp to client of an edge, median", "ms"),
    "edge_latency_p99_ms": ("IOC time stamp to client of an edge, 99 %", "ms"),
    "edge_latency_max_ms": ("IOC time stamp to client of an edge, longest", "ms"),
    "added_latency_p50_ms": ("Added by bus and edge, median", "ms"),
    "added_latency_p99_ms": ("Added by bus and edge, 99 %", "ms"),
    "edge_rss_mb": ("Edge: memory", "MB"),
    "load_client_cores": ("Load clients: cores used", ""),
}
