"""What a fleet of a given size needs, computed from what the benchmarks measured.

`Costs.measured` fits the costs of one update, one wake-up, one message and one client-frame to bench/results/. `replay`
computes what other results must then show, and `fleet_model_test.py` compares it with what they do show. `size` draws
which shards each edge follows, and adds up relays, cores, NATS servers and bytes.
"""

import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "relay"))

from results import RESULTS, medians  # noqa: E402

# Points of fleet-cost: PVs, and whether all records are processed at once. 10,000 PVs are ten shards.
POINTS = ("1,000 at once", "1,000 in 16 groups", "10,000 at once", "10,000 in 16 groups")

# PV numbers of one shard, and the shortest and longest tick, in seconds.
SHARD_PVS = 1024
SHORTEST_TICK_S, LONGEST_TICK_S = 0.005, 0.1

# A core is planned to be this busy. A relay has this many cores, and so has a NATS server.
BUSY, CORES = 0.5, 4

# No more of a relay than was measured: PVs that connect at once, clients of a relay.
MOST_PVS, MOST_CLIENTS = 100_000, 5_000

# Few threads share what an edge takes in. If they use one core together, the busiest is about half busy.
MOST_TAKEN_CORES = 1

# What a network card takes, half busy, in MB/s: 10 Gbit/s.
NETWORK_MB_S = 600

# Bytes that a message has beside its updates: a frame's tables, the subject, headers of TCP and IP.
MESSAGE_BYTES = 250

# One more of each, so that nothing is missing when one fails. An edge of another area can stand in.
SPARE = 1

# Edges of an area.
MOST_EDGES = 1000


def line(x1, y1, x2, y2):
    """Intercept and slope, neither below zero: noise makes no cost negative."""
    slope = max(0.0, (y2 - y1) / (x2 - x1))
    return max(0.0, y1 - slope * x1), slope


def solved(matrix, right):
    """The solution of linear equations, by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right)]
    for place in range(len(rows)):
        pivot = max(range(place, len(rows)), key=lambda row: abs(rows[row][place]))
        rows[place], rows[pivot] = rows[pivot], rows[place]
        for row in range(len(rows)):
            if row != place:
                factor = rows[row][place] / rows[place][place]
                rows[row] = [one - factor * other for one, other in zip(rows[row], rows[place])]
    return [row[-1] / row[place] for place, row in enumerate(rows)]


def fit(counts, costs):
    """What one of each costs, so that the sums are nearest to the costs in proportion; none is below zero."""
    used = list(range(len(counts[0])))
    while True:
        shares = [[row[place] / cost for place in used] for row, cost in zip(counts, costs)]
        # Counts differ by orders of magnitude.
        scale = [max(column) for column in zip(*shares)]
        shares = [[share / most for share, most in zip(row, scale)] for row in shares]
        pairs = [[sum(row[i] * row[j] for row in shares) for j in range(len(used))] for i in range(len(used))]
        found = solved(pairs, [sum(row[i] for row in shares) for i in range(len(used))])
        if min(found) >= 0 or len(used) == 1:
            by_place = dict(zip(used, (max(0.0, one) / most for one, most in zip(found, scale))))
            return [by_place.get(place, 0.0) for place in range(len(counts[0]))]
        used.pop(found.index(min(found)))


@dataclass(frozen=True)
class Part:
    """Microseconds of CPU of one part of a fleet: for each second, and for each update, wake-up and message.

    Messages that a tick of an owner brings come together, and wake their receivers once."""

    second: float
    update: float
    wake: float
    message: float

    @classmethod
    def fitted(cls, points):
        """From (updates, wake-ups, messages, µs) a second of several points."""
        return cls(*fit([[1, *counts] for *counts, _ in points], [cost for *_, cost in points]))

    def cost(self, updates, wakes, messages):
        """Microseconds a second."""
        return self.second + updates * self.update + wakes * self.wake + messages * self.message


def announced(relays):
    """Announcements a second, into NATS and out of it: each relay sends two to all."""
    return 2 * relays * (1 + relays)


def traffic(point, ingest, edges):
    """Updates, wake-ups and messages a second of a measured point: at a relay, and at NATS."""
    updates, wakes, messages = (
        point[key] for key in ("updates_per_s", "edge_frames_per_s", "bus_messages_per_s")
    )
    relays = announced(ingest + edges)
    return (updates, wakes, messages), (
        updates,
        ingest * wakes * (1 + edges) + relays,
        messages * (1 + edges),
    )


@dataclass(frozen=True)
class Costs:
    """Microseconds of CPU."""

    # The bus's share at an owner and at an edge, and NATS.
    owner: Part
    edge: Part
    nats: Part
    # At an owner: taking an update from the IOC. At an edge: its way into the table.
    take: float
    table: float
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
    def measured(cls, folder=RESULTS):
        """From the results; `None` if one of them is missing."""
        few, many = (medians(f"ingest-ca-{pvs}", folder=folder) for pvs in (1000, 10_000))
        short, long, private = (
            medians(f"fan-out-1000x{kind}", folder=folder)
            for kind in ("1000-20ms", "1000-100ms", "200of2000-20ms")
        )
        points = [medians("fleet-cost", label, folder) for label in POINTS]
        if None in (few, many, short, long, private, *points):
            return None
        idle, take = line(
            few["updates_per_s"], few["relay_cores"] * 1e6, many["updates_per_s"], many["relay_cores"] * 1e6
        )

        def part(key, place):
            counts = [(traffic(point, 1, 1)[place], point) for point in points]
            return Part.fitted([(*of, point[key] * point["updates_per_s"]) for of, point in counts])

        client_frame, shared_row = line(
            short["rows_per_frame"],
            short["marginal_us_per_client_frame"],
            long["rows_per_frame"],
            long["marginal_us_per_client_frame"],
        )
        alone = (private["marginal_us_per_client_frame"] - client_frame) / private["rows_per_frame"]
        return cls(
            owner=part("bus_owner_us_per_update", 0),
            edge=part("bus_edge_us_per_update", 0),
            nats=part("nats_us_per_update", 1),
            take=take,
            table=many["tick_us_per_update"],
            client_frame=client_frame,
            shared_row=shared_row,
            private_row=max(alone, shared_row),
            bus_bytes=points[0]["bus_bytes_per_update"],
            client_bytes=private["bytes_per_update"],
            idle_cores=idle / 1e6,
        )


@dataclass(frozen=True)
class Load:
    """What a facility asks of a fleet."""

    pvs: int
    rate_hz: float
    clients: int
    # PVs of each client, drawn at random from those of its area.
    each: int
    # Areas of equal size. The clients of an edge are of one area.
    areas: int = 1


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


def ticks(updates_per_s):
    """Ticks a second of a relay with updates that come evenly."""
    return (1 - math.exp(-updates_per_s * SHORTEST_TICK_S)) / SHORTEST_TICK_S


class TooMuch(Exception):
    """No fleet of such relays does it."""


def size(costs, load):
    """The smallest fleet in which no relay and no server is busier than planned, with spares.

    Raises `TooMuch` if the updates of an area are too many for an edge: further edges would take the same.
    """
    updates = load.pvs * load.rate_hz
    # Of an area.
    edges = 1
    ingest = max(1, math.ceil(load.pvs / MOST_PVS))
    while True:
        shards = ingest * math.ceil(load.pvs / ingest / SHARD_PVS)
        published = messages(updates, shards, SHORTEST_TICK_S)
        wakes = ticks(updates / ingest)
        bus = costs.owner.cost(updates / ingest, wakes, published / ingest)
        owner = costs.idle_cores + (updates / ingest * costs.take + bus) / 1e6
        clients = load.clients / load.areas / edges
        of_area = math.ceil(shards / load.areas)
        share = followed_shards(load, of_area, math.ceil(clients)) * of_area / shards
        bus = costs.edge.cost(share * updates, ingest * wakes, share * published)
        takes = costs.idle_cores + (share * updates * costs.table + bus) / 1e6
        writes = client_cores(costs, load, clients)
        if owner > CORES * BUSY and ingest < 1000:
            ingest += 1
        elif takes + writes > CORES * BUSY or clients > MOST_CLIENTS:
            edges += 1
        else:
            break
        if edges > MOST_EDGES:
            break
    if takes > MOST_TAKEN_CORES or edges > MOST_EDGES:
        raise TooMuch(f"an edge needs {takes:.3g} cores for the updates of its area alone: more areas are needed")
    edges *= load.areas
    copies = 1 + edges * share
    at_nats = ingest * wakes * (1 + edges) + announced(ingest + edges)
    nats_cores = costs.nats.cost(updates, at_nats, published * copies) / 1e6
    bus_in = (updates * costs.bus_bytes + published * MESSAGE_BYTES) / 1e6
    bus_out = bus_in * edges * share
    servers = max(math.ceil(nats_cores / (CORES * BUSY)), math.ceil(bus_out / NETWORK_MB_S))
    delivered = load.clients * load.each * load.rate_hz
    return Fleet(
        ingest=ingest + SPARE,
        edges=edges + SPARE,
        nats=max(3, servers + SPARE),
        ingest_cores=owner * ingest,
        edge_cores=(takes + writes) * edges,
        nats_cores=nats_cores,
        messages_per_s=published,
        bus_in_mb_s=bus_in,
        bus_out_mb_s=bus_out,
        clients_mb_s=delivered * costs.client_bytes / 1e6,
        followed=share,
    )


def replay(costs, folder=RESULTS):
    """What the model says of measured points: name, computed, measured."""
    for label in POINTS:
        point = medians("fleet-cost", label, folder)
        at_relay, at_nats = traffic(point, 1, 1)
        for name, part, counts, key in (
            ("owner", costs.owner, at_relay, "bus_owner_us_per_update"),
            ("edge", costs.edge, at_relay, "bus_edge_us_per_update"),
            ("NATS", costs.nats, at_nats, "nats_us_per_update"),
        ):
            yield f"{name}, {label}", part.cost(*counts) / point["updates_per_s"], point[key]
    # Three edges with a hundred clients each, of which nothing above is.
    grown = medians("fleet-growth", folder=folder)
    if grown is None:
        return
    updates, frames = grown["updates_per_s"], grown["edge_frames_per_s"]
    at_relay, at_nats = traffic(grown, 2, 3)
    to_clients = 100 * (frames * costs.client_frame + updates * costs.shared_row)
    computed = costs.idle_cores * 1e6 + updates * costs.table + costs.edge.cost(*at_relay) + to_clients
    yield "edge with 100 clients", computed / updates, grown["edge_us_per_update"]
    yield "NATS with three edges", costs.nats.cost(*at_nats) / updates, grown["nats_us_per_update"]
