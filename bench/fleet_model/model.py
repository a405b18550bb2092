"""What a fleet of a given size needs, computed from what the benchmarks measured.

`Costs.measured` solves the costs of one update, one message and one client-frame from bench/results/. `replay`
computes what other results must then show, and `fleet_model_test.py` compares it with what they do show. `size` draws
which shards each edge follows, and adds up relays, cores, NATS servers and bytes.
"""

import json
import math
import random
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "results"

# PV numbers of one shard, and the shortest and longest tick, in seconds.
SHARD_PVS = 1024
SHORTEST_TICK_S, LONGEST_TICK_S = 0.005, 0.1

# A core is planned to be this busy. A relay has this many cores, and so has a NATS server.
BUSY, CORES = 0.5, 4

# No more of a relay than was measured: PVs that connect at once, clients of a relay.
MOST_PVS, MOST_CLIENTS = 100_000, 5_000

# What a network card takes, half busy, in MB/s: 10 Gbit/s.
NETWORK_MB_S = 600

# Bytes that a message has beside its updates: a frame's tables, the subject, headers of TCP and IP.
MESSAGE_BYTES = 250

# One more of each, so that nothing is missing when one fails.
SPARE = 1


def figures(scenario, label=None, results=RESULTS):
    """Medians of a point of a scenario; nothing if it was not measured."""
    file = results / f"{scenario}.json"
    if not file.exists():
        return None
    for point in json.loads(file.read_text())["points"]:
        if label in (None, point["label"]):
            return {key: of["median"] for key, of in point["figures"].items()}
    return None


def line(x1, y1, x2, y2):
    """Intercept and slope, neither below zero: noise makes no cost negative."""
    slope = max(0.0, (y2 - y1) / (x2 - x1))
    return max(0.0, y1 - slope * x1), slope


@dataclass(frozen=True)
class Costs:
    """Microseconds of CPU."""

    # At an owner: taking an update from the IOC, publishing it, and each message.
    take: float
    owner_update: float
    owner_message: float
    # At an edge: an update, with its way into the table, and each message.
    edge_update: float
    edge_message: float
    # NATS, for each message in and each copy out.
    nats_in: float
    nats_out: float
    # Clients: a frame, a row of a shared frame, a row of a frame that one client gets.
    client_frame: float
    shared_row: float
    private_row: float
    # Bytes of an update on the bus and to a client.
    bus_bytes: float
    client_bytes: float
    # Cores that a relay uses without an update.
    idle_cores: float

    @classmethod
    def measured(cls, results=RESULTS):
        """From the results; `None` if one of them is missing."""
        few, many = (figures(f"ingest-ca-{pvs}", results=results) for pvs in (1000, 10_000))
        short, long, private = (
            figures(f"fan-out-1000x{kind}", results=results)
            for kind in ("1000-20ms", "1000-100ms", "200of2000-20ms")
        )
        at_once, apart = (figures("fleet-cost", label, results) for label in ("at once", "in 16 groups"))
        grown = figures("fleet-growth", results=results)
        if None in (few, many, short, long, private, at_once, apart, grown):
            return None
        idle, take = line(
            few["updates_per_s"], few["relay_cores"] * 1e6, many["updates_per_s"], many["relay_cores"] * 1e6
        )
        # Messages for each update.
        ratios = [one["bus_messages_per_s"] / one["updates_per_s"] for one in (at_once, apart)]

        def of(key):
            return line(ratios[0], at_once[key], ratios[1], apart[key])

        owner_update, owner_message = of("bus_owner_us_per_update")
        bus_update, edge_message = of("bus_edge_us_per_update")
        # One edge and three; announcements are in it too.
        per_message = [one["nats_us_per_update"] * one["updates_per_s"] / one["bus_messages_per_s"] for one in (at_once, grown)]
        nats_in, nats_out = line(1, per_message[0], 3, per_message[1])
        client_frame, shared_row = line(
            short["rows_per_frame"],
            short["marginal_us_per_client_frame"],
            long["rows_per_frame"],
            long["marginal_us_per_client_frame"],
        )
        alone = (private["marginal_us_per_client_frame"] - client_frame) / private["rows_per_frame"]
        return cls(
            take=take,
            owner_update=owner_update,
            owner_message=owner_message,
            edge_update=many["tick_us_per_update"] + bus_update,
            edge_message=edge_message,
            nats_in=nats_in,
            nats_out=nats_out,
            client_frame=client_frame,
            shared_row=shared_row,
            private_row=max(alone, shared_row),
            bus_bytes=at_once["bus_bytes_per_update"],
            client_bytes=private["bytes_per_update"],
            idle_cores=idle / 1e6,
        )


@dataclass(frozen=True)
class Load:
    """What a facility asks of a fleet."""

    pvs: int
    rate_hz: float
    clients: int
    # PVs of each client, drawn at random of all.
    each: int


@dataclass(frozen=True)
class Fleet:
    """What it takes."""

    ingest: int
    edges: int
    nats: int
    ingest_cores: float
    edge_cores: float
    nats_cores: float
    messages_per_s: float
    # Into NATS, out of it, and to all clients.
    bus_in_mb_s: float
    bus_out_mb_s: float
    clients_mb_s: float
    # Share of the shards that an edge follows.
    followed: float


def followed_shards(load, shards, clients, seed=1):
    """Share of all shards of which one of this many clients wants a PV, drawn."""
    draws = random.Random(seed)
    wanted = set()
    for _ in range(clients * load.each):
        wanted.add(draws.randrange(shards))
        if len(wanted) == shards:
            break
    return len(wanted) / shards


def messages(updates_per_s, shards, tick_s):
    """Messages a second, when updates come evenly: a message for each shard and tick that has one."""
    per_tick = updates_per_s * tick_s / shards
    return shards / tick_s * (1 - math.exp(-per_tick))


def client_cores(costs, load, clients, tick_s=LONGEST_TICK_S):
    """Cores for frames to clients of different sets, with the tick that many clients bring about."""
    rows = load.each * load.rate_hz * tick_s
    frames = (1 - math.exp(-rows)) / tick_s
    row_us = load.each * load.rate_hz * costs.private_row
    return clients * (frames * costs.client_frame + row_us) / 1e6


def size(costs, load):
    """The smallest fleet in which no relay and no server is busier than planned, with spares."""
    updates = load.pvs * load.rate_hz
    edges, ingest = 1, max(1, math.ceil(load.pvs / MOST_PVS))
    while True:
        shards = ingest * math.ceil(load.pvs / ingest / SHARD_PVS)
        published = messages(updates, shards, SHORTEST_TICK_S)
        owner = costs.idle_cores + (
            updates / ingest * (costs.take + costs.owner_update) + published / ingest * costs.owner_message
        ) / 1e6
        share = followed_shards(load, shards, math.ceil(load.clients / edges))
        # The thread that takes the messages and the one of the tick share this.
        takes = share * (updates * costs.edge_update + published * costs.edge_message) / 1e6
        writes = client_cores(costs, load, load.clients / edges)
        if owner > CORES * BUSY and ingest < 1000:
            ingest += 1
        elif (writes > (CORES - 1) * BUSY or load.clients / edges > MOST_CLIENTS) and edges < 10_000:
            edges += 1
        else:
            break
    nats_cores = published * (costs.nats_in + edges * share * costs.nats_out) / 1e6
    bus_in = (updates * costs.bus_bytes + published * MESSAGE_BYTES) / 1e6
    bus_out = bus_in * edges * share
    servers = max(math.ceil(nats_cores / (CORES * BUSY)), math.ceil(bus_out / NETWORK_MB_S))
    delivered = load.clients * load.each * load.rate_hz
    return Fleet(
        ingest=ingest + SPARE,
        edges=edges + SPARE,
        nats=max(3, servers + SPARE),
        ingest_cores=owner * ingest,
        edge_cores=(costs.idle_cores + takes + writes) * edges,
        nats_cores=nats_cores,
        messages_per_s=published,
        bus_in_mb_s=bus_in,
        bus_out_mb_s=bus_out,
        clients_mb_s=delivered * costs.client_bytes / 1e6,
        followed=share,
    )


def replay(costs, results=RESULTS):
    """What the model says of measured points: name, computed, measured."""
    at_once, apart = (figures("fleet-cost", label, results) for label in ("at once", "in 16 groups"))
    grown = figures("fleet-growth", results=results)
    for name, one in (("at once", at_once), ("in 16 groups", apart)):
        ratio = one["bus_messages_per_s"] / one["updates_per_s"]
        yield f"owner, {name}", costs.owner_update + ratio * costs.owner_message, one["bus_owner_us_per_update"]
        bus = costs.edge_update + ratio * costs.edge_message
        tick = figures("ingest-ca-10000", results=results)["tick_us_per_update"]
        yield f"edge, {name}", bus - tick, one["bus_edge_us_per_update"]
        nats = (costs.nats_in + costs.nats_out) * ratio
        yield f"NATS, {name}", nats, one["nats_us_per_update"]
    # Three edges with a hundred clients each, of which nothing above is but NATS's cost of a copy.
    ratio = grown["bus_messages_per_s"] / grown["updates_per_s"]
    frames = grown["edge_frames_per_s"] / grown["updates_per_s"]
    computed = (
        costs.idle_cores * 1e6 / grown["updates_per_s"]
        + costs.edge_update
        + ratio * costs.edge_message
        + 100 * (frames * costs.client_frame + costs.shared_row)
    )
    yield "edge with 100 clients", computed, grown["edge_us_per_update"]
    yield "NATS with three edges", (costs.nats_in + 3 * costs.nats_out) * ratio, grown["nats_us_per_update"]
