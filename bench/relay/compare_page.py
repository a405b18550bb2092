"""Writes docs/explanations/compare.md from bench/results/compare.json, and nothing else into it."""

import machine
from report import figure
from results import ROOT

PAGE = ROOT / "docs/explanations/compare.md"

HEAD = """# Compared with other systems

pvwire beside other servers and client libraries of EPICS, on the same soft IOC, in the same run, on one machine.
`make compare` measures everything on this page and writes it; nothing in it is written by hand.

## How to repeat it

`make compare` installs what is missing into `.local` (every file by its hash), builds the relay and its load client, measures, and writes this page and `bench/results/compare.json`.
It needs Linux with Rust, Node, Python and two cores.{time}
`make compare QUICK=1` takes about five minutes and shows that everything works; `make compare ONLY="fidelity costs"` measures some parts and keeps the others.
PVWS can't be installed from a package registry: fetch or build its war by hand, and name it with `make compare PVWS_WAR=/path/to/pvws.war`.

A server, or a client library, has one core to itself; the IOC, and the clients of a server, share the others.
Every PV counts up by one, so each received value is checked and each missed update is counted.
A system that can't be installed, or fails, has a row that says so.
"""

FIDELITY = """## What a user sees

All systems follow the same IOC at the same time, each with a client as its users have it; pvwire three times, because it serves clients of PVWS and of Coniql too.
The IOC hangs (it is stopped as by a debugger), is killed, and is started again with another value and another label.
✓ is right and ✗ is wrong or misleading; a time says how long it took to be shown.
A put is right when it fails where nothing was written, and is answered as done once the record is done; PVWS's protocol has no answer to a write but an error.
A hang counts as shown when the PV is marked as disconnected, as invalid or as without a response.
Channel Access has no 64-bit integers, so that a system without pvAccess can't show one.
p4p may lose the first update of a monitor; its client opens such a monitor again, here and in the tables below.
Coniql's client merges its results, in which a part that didn't change is null.
Clients of pvAccess find the IOC by a name server here, whose connection pvxs tries again every ten seconds.
"""

COSTS = """## One client, 200 PVs at 10 Hz

200 PVs at 10 Hz, 2,000 updates a second: what Coniql's documents name as its limit, of which it may reach less here.
CPU is that of the server, or of the process of the client library, over the measured seconds.
"× pvwire" is CPU per update divided by that of pvwire's own clients with the same protocol to the IOC, in the same run.
A client library only takes updates in, while a server passes them on too.
Latency is from the IOC's time stamp to the client's callback; pvwire gathers updates in ticks of at least 5 ms, and the client of the gateway is one of p4p.
Bytes are those of the TCP connections to the clients; of a client library those from the IOC.
Memory is the resident memory of the process.
Missed updates are those between two that came, and those by which a PV is behind the others at the end; "of all" is with those that came.
A system whose PVs all lag by the same misses nothing by that count: its updates a second, of 2,000 here, and its latency show it.
Coniql is requested for what a screen shows: value, text, time, severity and display data.
"""

ONE_CLIENT = """## More PVs for one client

The first question of Coniql's own documentation ("Performance"): how many PVs at 10 Hz one client can subscribe before updates are missed.
CPU is in percent of a core.
"""

MANY_CLIENTS = """## 100 subscriptions over several clients

The second question of Coniql's documentation: whether it matters over how many clients 100 PVs at 10 Hz are spread.
"""

WAVEFORMS = """## Waveforms

One array of doubles at 10 Hz to one client. Each array's length, first and last element are checked, of pvwire's every element.
An IOC leaves arrays out when a client is slower than it; they are counted as missed, whether the IOC or the client left them out.
"""

GRID = """## PVs × monitors × rate

Monitors of pvwire are clients, each with all PVs; those of a client library are monitors of one process.
Monitors of one PV share a subscription in caproto.
"""

SERIALISERS = """## Serialisers

1,000 updates, each with a PV, a double, a severity and a time stamp; median of the rounds, per update.
In Python the time includes making objects from what was decoded. What the relay's row says is all CPU time of its own threads, which also gather updates and write to the socket: an upper bound of encoding. It doesn't include receiving from the IOC.
"""

PROFILE = """## Where the relay's time goes

The relay under `perf` while it serves clients: each function is above the one that called it, as wide as its share of the relay's CPU time.
Clients share the tick's encoded updates, so nearly all of the time of `shard` is the kernel's, which sends.
"""

LIMITS = """## What this page doesn't say

- One machine: there is no network between IOC, server and clients.
- Coniql, PVWS and the gateway do other work per update: Coniql resolves a GraphQL document, PVWS and Coniql write JSON for each client, the gateway keeps pvAccess's structures.
- The figures are those of one run. Ratios hold between rows of one table only.
- How pvwire scales to a thousand clients: [Performance](performance.md).
"""

# Of the page, each measured by itself.
PARTS = 8

# More than this of other work delays what is measured.
BUSY_CORES = 0.3

COLUMNS = (
    ("updates_per_s", "updates/s"),
    ("missed", "missed, of all"),
    ("cpu_us_per_update", "CPU, µs an update"),
    ("ratio", "× pvwire"),
    ("latency_p50_ms", "latency p50, ms"),
    ("latency_p99_ms", "latency p99, ms"),
    ("bytes_per_update", "bytes an update"),
    ("memory_mb", "memory, MB"),
    ("cpu_percent", "CPU, % of a core"),
)


def table(heads, rows):
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def page(found):
    """The whole document."""
    lines = [HEAD.replace("{time}", time_of(found)), "## Systems and versions", "", *versions_table(found), ""]
    for part, text, write in (
        ("fidelity", FIDELITY, fidelity_tables),
        ("costs", COSTS, points_table),
        ("one-client", ONE_CLIENT, points_table),
        ("many-clients", MANY_CLIENTS, points_table),
        ("waveforms", WAVEFORMS, points_table),
        ("grid", GRID, points_table),
        ("serialisers", SERIALISERS, serialisers_table),
        ("profile", PROFILE, profile_table),
    ):
        lines += [text]
        if part in found:
            lines += [*write(found[part]["rows"]), "", origin(found[part]), ""]
        else:
            lines += ["Not measured yet.", ""]
    return "\n".join([*lines, LIMITS.rstrip()]) + "\n"


def time_of(found):
    """How long the measurements on the page took; nothing until all of them were made in full."""
    if len(found) < PARTS or any(part["set"] == "quick" for part in found.values()):
        return ""
    minutes = sum(part["took_s"] for part in found.values()) / 60
    return f"\nWhat is on this page took {minutes:.0f} minutes to measure; on a bare machine the set-up and the build come before."


def origin(part):
    """When, of what, and beside what load a part was measured."""
    short = " **A quick run, too short for figures to keep.**" if part["set"] == "quick" else ""
    if part["other_cores"] > BUSY_CORES:
        short += " **The machine was busy with other work: servers and clients waited for their core.**"
    return (
        f"Commit {part['commit']}, {part['date']}, {part['machine']}, {part['took_s']} s;"
        f" {machine.described(part)}{short}"
    )


def versions_table(found):
    known = {}
    for part in found.values():
        known |= part["versions"]
    yield from table(("System", "Version"), ([name, version] for name, version in sorted(known.items())))


def name_of(row):
    return f"{row['system']}, {row['way']}"


def fidelity_tables(rows):
    """One table with a column for each system, and the systems that have none."""
    checked = [row for row in rows if "cells" in row]
    checks = list(dict.fromkeys(check for row in checked for check in row["cells"]))
    lines = [[check] + [mark(row["cells"].get(check)) for row in checked] for check in checks]
    right = [f"{sum(bool(cell['right']) for cell in row['cells'].values())} of {len(checks)}" for row in checked]
    yield from table(["", *map(name_of, checked)], [*lines, ["Right", *right]])
    for row in rows:
        if "failed" in row:
            yield from ["", f"{name_of(row)}: {row['failed']}."]


def mark(cell):
    if cell is None:
        return "–"
    return f"{'✓' if cell['right'] else '✗'} {cell['text']}"


def points_table(rows):
    """A line for each system at each point, with the columns that have figures."""
    measured = [row for row in rows if "figures" in row]
    columns = [
        (key, head)
        for key, head in COLUMNS
        if key in ("ratio", "updates_per_s") or any(key in row["figures"] for row in measured)
    ]
    lines = []
    for row in rows:
        begin = [row["point"], name_of(row)]
        if "failed" in row:
            lines.append([*begin, row["failed"], *[""] * len(columns)])
            continue
        lines.append([*begin, str(row["n"]), *(value_of(rows, row, key) for key, _ in columns)])
    yield from table(["Point", "System", "n"] + [head for _, head in columns], lines)


def value_of(rows, row, key):
    """A cell: the median, and how far the rounds differ."""
    figures = row["figures"]
    if key == "missed":
        missed, made = figures["missed"]["median"], figures["made"]["median"]
        return f"{missed:,.0f} of {made:,.0f}" + (f" ({missed / made:.0%})" if missed else "")
    if key == "ratio":
        return ratio(rows, row)
    if key == "updates_per_s":
        return figure(updates_per_s(figures))
    if key not in figures:
        return "–"
    least, middle, most = (figures[key][which] for which in ("min", "median", "max"))
    spread = f" ({figure(least)}–{figure(most)})" if figure(least) != figure(most) else ""
    return figure(middle) + spread


def updates_per_s(figures):
    """CPU time of a second divided by that of an update."""
    return figures["cpu_percent"]["median"] * 1e4 / figures["cpu_us_per_update"]["median"]


def ratio(rows, row):
    """CPU per update compared with pvwire's own clients at the same point, by the row's own protocol to the IOC."""
    own = [
        each
        for each in rows
        if each["system"] == "pvwire" and "own clients" in each["way"]
        and each["point"] == row["point"] and "figures" in each
    ]
    by_protocol = [each for each in own if each["protocol"] == row["protocol"]]
    if not by_protocol or row in own:
        return "–"
    beside = by_protocol[0]["figures"]["cpu_us_per_update"]["median"]
    return figure(row["figures"]["cpu_us_per_update"]["median"] / beside)


def serialisers_table(rows):
    columns = (
        ("encode_ns", "encode, ns"),
        ("decode_ns", "decode, ns"),
        ("bytes_per_update", "bytes an update"),
    )
    lines = []
    for row in rows:
        if "failed" in row:
            lines.append([row["way"], row["failed"], "", "", "", ""])
            continue
        cells = [figure(row["figures"][key]) if key in row["figures"] else "–" for key, _ in columns]
        lines.append([row["way"], row["where"], str(row["n"]) if "n" in row else "–", *cells])
    yield from table(["", "in", "n", *(head for _, head in columns)], lines)


def profile_table(rows):
    """The threads by their shares, and the picture."""
    if failed := [row["failed"] for row in rows if "failed" in row]:
        yield f"Not recorded: {failed[0]}."
        return
    total = sum(row["samples"] for row in rows)
    yield f"{rows[0]['clients']} clients, each with {rows[0]['pvs']:,} PVs at 10 Hz by Channel Access, {total:,} samples."
    yield ""
    shown = [row for row in rows if row["samples"] >= total / 100]
    yield from table(("Threads", "CPU time"), ([row["thread"], f"{row['samples'] / total:.0%}"] for row in shown))
    yield from ["", "![Flame graph of the relay](pictures/relay-profile.svg)"]
