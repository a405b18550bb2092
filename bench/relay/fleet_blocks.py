"""Blocks of the documents about fleets: what was measured, and the table for sizing."""

import math
import sys

from drawing import BLUE, GREEN, ORANGE, missing, plt, save, source, table
from relay_blocks import log_log
from report import figure
from results import ROOT, result

sys.path.append(str(ROOT / "bench/fleet_model"))

import model  # noqa: E402

MEASURED = ("fleet-cost", "fleet-growth")

# From a beamline to the largest facility that the model is made for.
LOADS = (
    model.Load(10_000, 10, 1_000, 200),
    model.Load(100_000, 1, 10_000, 200),
    model.Load(300_000, 1, 30_000, 200, 3),
    model.Load(1_000_000, 1, 100_000, 200, 10),
)

CLIENTS_OF_AREA = 10_000


def sizing_block():
    """Fleets for several loads, by the model."""
    costs = model.Costs.measured()
    if costs is None or not result("fleet-growth"):
        yield from missing(next((name for name in MEASURED if not result(name)), MEASURED[0]))
        return
    sizes = [(load, model.size(costs, load)) for load in LOADS]
    heads = (
        "PVs × rate",
        "clients × PVs",
        "areas",
        "ingest relays",
        "their cores",
        "edges",
        "their cores",
        "NATS servers",
        "their cores",
        "MB/s into NATS",
        "MB/s out of NATS",
        "MB/s to clients",
    )
    yield from table(
        heads,
        (
            (
                f"{load.pvs:,} × {load.rate_hz} Hz",
                f"{load.clients:,} × {load.each}",
                str(load.areas),
                str(fleet.ingest),
                figure(fleet.ingest_cores),
                str(fleet.edges),
                figure(fleet.edge_cores),
                str(fleet.nats),
                figure(fleet.nats_cores),
                figure(fleet.bus_in_mb_s),
                figure(fleet.bus_out_mb_s),
                figure(fleet.clients_mb_s),
            )
            for load, fleet in sizes
        ),
    )
    draw(costs)
    yield ""
    yield "![Cores of a fleet by its number of clients](../explanations/pictures/fleet-size.svg)"
    yield ""
    yield (
        "Measured: "
        + " ".join(source(result(name)) for name in MEASURED)
    )


def draw(costs):
    """Cores by clients, with ten PVs for each client, at 1 Hz, in areas of at most as many clients as the table's."""
    clients = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]
    loads = [model.Load(10 * each, 1, each, 200, math.ceil(each / CLIENTS_OF_AREA)) for each in clients]
    fleets = [model.size(costs, load) for load in loads]
    drawing, axes = plt.subplots()
    for key, label, colour in (
        ("edge_cores", "edges", BLUE),
        ("ingest_cores", "ingest relays", ORANGE),
        ("nats_cores", "NATS", GREEN),
    ):
        axes.plot(clients, [getattr(fleet, key) for fleet in fleets], "o-", label=label, color=colour)
    log_log(axes, "clients, each with 200 of 10 × as many PVs × 1 Hz", "cores")
    axes.legend()
    save(drawing, "fleet-size")
