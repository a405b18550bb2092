"""Draws docs/explanations/pictures/ from bench/results/, and writes the figures of the documents.

A block of docs/explanations/performance.md stands between `<!-- from NAME -->` and `<!-- end -->`; NAME is
one of `BLOCKS`. Everything in it comes from result files and says which. A single figure in a sentence of
any document stands between `<!-- figure SCENARIO FIGURE -->` and `<!-- end -->`: its median, unless `min`
or `max` follows, times a factor such as `×100`, if there is one.

With `--text` no pictures are drawn. With `--check` nothing is written; it fails when a document says
something else than the results.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import goals
from report import figure



class Undrawn:
    """Takes all that is drawn and draws nothing: text needs no matplotlib."""

    def __getattr__(self, _):
        return self

    def __call__(self, *_, **__):
        return self

    def __iter__(self):
        return iter((self, self))


CHECKS = "--check" in sys.argv
DRAWS = not CHECKS and "--text" not in sys.argv
if not DRAWS:
    plt = Undrawn()
else:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
PAGE = ROOT / "docs/explanations/performance.md"
PICTURES = ROOT / "docs/explanations/pictures"

BLUE, ORANGE, GREY, GREEN = "#1f77b4", "#e07b00", "#888888", "#2a8f4d"

# µs that other servers ask for a delivered update, and the updates a second at which one of them is at
# its end: docs/explanations/performance.md says where that is from.
CONIQL_US, CONIQL_MOST = 350, 2_000
PVWS_US = (12, 15)
PVWS_FAN_OUT_US = (24, 36)

plt.rcParams.update(
    {
        "figure.figsize": (7.2, 4.0),
        "font.size": 10,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        # The same results give the same bytes.
        "svg.hashsalt": "pvwire",
        "svg.fonttype": "none",
    }
)


def result(name):
    """A scenario's result, if there is one."""
    file = RESULTS / f"{name}.json"
    if not file.exists():
        return None
    found = json.loads(file.read_text())
    return found if "points" in found else None


def median(point, key):
    return point["figures"][key]["median"]


def spread(points, key):
    """Distances from the median to the least and the most, for error bars."""
    figures = [point["figures"][key] for point in points]
    return [
        [one["median"] - one["min"] for one in figures],
        [one["max"] - one["median"] for one in figures],
    ]


def source(found):
    """Where a block's numbers are from."""
    name = found["scenario"]
    return (
        f"[bench/results/{name}.md](../../bench/results/{name}.md): commit {found['commit']},"
        f" {found['date']}, n = {len(found['points'][0]['rounds'])}, others used"
        f" {found['other_cores']:.2f} cores meanwhile."
    )


def missing(name):
    writer = "bench-browser" if name.startswith("browser-") else "bench-full"
    return [f"No result yet: `make {writer}` writes bench/results/{name}.json."]


def save(drawing, name):
    if not DRAWS:
        return
    PICTURES.mkdir(exist_ok=True)
    drawing.tight_layout()
    drawing.savefig(PICTURES / f"{name}.svg", metadata={"Date": None})
    plt.close(drawing)


def picture(name, says):
    return [f"![{says}](pictures/{name}.svg)", ""]


def table(heads, rows):
    yield f"| {' | '.join(heads)} |"
    yield f"|---|{'---:|' * (len(heads) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def points_table(found, columns):
    """One row a point of a sweep; `columns` are figures with their heads."""
    heads = [""] + [head for _, head in columns]
    cells = (
        [point["label"]] + [figure(median(point, key)) for key, _ in columns]
        for point in found["points"]
    )
    return list(table(heads, cells))


def goals_block():
    listed = goals.measured(json.loads(goals.GOALS.read_text()), RESULTS)
    yield from table(("Goal", "Bound", "Measured", "", "From"), goals.rows(listed))


def fan_out_block():
    names = {
        "fan-out-1000x1000-20ms": "one set, 20 ms",
        "fan-out-1000x200of2000-20ms": "1,000 sets, 20 ms",
        "fan-out-1000x1000-100ms": "one set, 100 ms",
    }
    found = {label: result(name) for name, label in names.items()}
    if not all(found.values()):
        yield from missing(next(name for name, label in names.items() if not found[label]))
        return
    points = [one["points"][0] for one in found.values()]
    drawing, axes = plt.subplots()
    for place, (key, label, colour) in enumerate(
        (
            ("raw_send_us", "raw TCP send", GREY),
            ("fan_out_us_per_client_frame", "relay: tick and shard", BLUE),
            ("relay_us_per_client_frame", "relay: all threads", ORANGE),
        )
    ):
        axes.bar(
            [number + (place - 1) * 0.27 for number in range(len(points))],
            [median(point, key) for point in points],
            0.25,
            yerr=spread(points, key),
            label=label,
            color=colour,
            ecolor="#333333",
        )
    axes.set_xticks(range(len(points)), found)
    axes.set_ylabel("µs of CPU per client-frame")
    axes.legend()
    axes.grid(axis="x", visible=False)
    save(drawing, "fan-out")
    yield from picture("fan-out", "CPU per client-frame beside a raw TCP send of the same bytes")
    columns = (
        ("raw_send_us", "raw send, µs"),
        ("fan_out_us_per_client_frame", "tick and shard, µs"),
        ("ratio_fan_out_to_raw", "ratio"),
        ("ratio_relay_to_raw", "ratio of the whole relay"),
        ("rows_per_frame", "updates in a frame"),
        ("updates_per_s", "updates/s"),
        ("relay_cores", "cores"),
        ("latency_p99_ms", "99 % after, ms"),
    )
    cells = (
        [label] + [figure(median(one["points"][0], key)) for key, _ in columns]
        for label, one in found.items()
    )
    yield from table([""] + [head for _, head in columns], cells)
    yield ""
    yield from (source(one) for one in found.values())


def one_client_block():
    found = result("pvs-for-one-client")
    if not found:
        yield from missing("pvs-for-one-client")
        return
    points = found["points"]
    rates = [median(point, "updates_per_s") for point in points]
    drawing, axes = plt.subplots()
    axes.errorbar(
        rates,
        [median(point, "relay_cores") * 100 for point in points],
        [[each * 100 for each in side] for side in spread(points, "relay_cores")],
        marker="o",
        color=BLUE,
        label="pvwire, libca included",
    )
    ends = [rates[0], CONIQL_MOST]
    axes.plot(ends, [rate * CONIQL_US / 1e4 for rate in ends], "--", color=GREY)
    axes.plot(ends[1:], [CONIQL_MOST * CONIQL_US / 1e4], "x", color=GREY, label="Coniql, to its end")
    axes.fill_between(
        rates,
        *([rate * each / 1e4 for rate in rates] for each in PVWS_US),
        color=ORANGE,
        alpha=0.3,
        label="PVWS",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("updates/s to one client")
    axes.set_ylabel("% of a core")
    axes.legend()
    save(drawing, "one-client")
    yield from picture("one-client", "CPU for one client by updates a second")
    columns = (
        ("relay_cores", "cores"),
        ("relay_us_per_delivered_update", "µs an update"),
        ("updates_per_s", "updates/s"),
        ("skipped", "left out"),
        ("latency_p50_ms", "50 % after, ms"),
        ("latency_p99_ms", "99 % after, ms"),
    )
    yield from points_table(found, columns)
    yield from ["", source(found)]


def monitors_block():
    found = result("pvs-by-monitors")
    if not found:
        yield from missing("pvs-by-monitors")
        return
    drawing, axes = plt.subplots()
    by_clients = {}
    for point in found["points"]:
        by_clients.setdefault(point["settings"]["clients"], []).append(point)
    for clients, points in sorted(by_clients.items()):
        points.sort(key=lambda point: median(point, "updates_per_s"))
        axes.plot(
            [median(point, "updates_per_s") for point in points],
            [median(point, "relay_us_per_delivered_update") for point in points],
            marker="o",
            label=f"{clients:,} client{'s' if clients > 1 else ''}",
        )
    axes.axhspan(*PVWS_FAN_OUT_US, color=ORANGE, alpha=0.3, label="PVWS, many clients")
    axes.axhline(CONIQL_US, color=GREY, linestyle="--", label="Coniql, one client")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("delivered updates/s")
    axes.set_ylabel("µs of CPU per delivered update")
    axes.legend(fontsize=8, ncols=2)
    save(drawing, "monitors")
    yield from picture("monitors", "CPU per delivered update by updates a second and clients")
    columns = (
        ("relay_cores", "cores"),
        ("relay_us_per_delivered_update", "µs an update"),
        ("updates_per_s", "updates/s"),
        ("skipped", "left out"),
        ("latency_p50_ms", "50 % after, ms"),
        ("latency_p99_ms", "99 % after, ms"),
        ("relay_rss_mb", "relay, MB"),
    )
    yield from points_table(found, columns)
    yield from ["", source(found)]


def sweep_block(name, columns):
    def block():
        found = result(name)
        if not found:
            yield from missing(name)
            return
        yield from points_table(found, columns)
        yield from ["", source(found)]

    return block


CLIENT_COLUMNS = (
    ("relay_cores", "cores"),
    ("relay_us_per_delivered_update", "µs an update"),
    ("skipped", "left out"),
    ("latency_p50_ms", "50 % after, ms"),
    ("latency_p99_ms", "99 % after, ms"),
)


def latency_block():
    found = result("latency-1000")
    if not found:
        yield from missing("latency-1000")
        return
    steps = {
        "latency_p50_ms": "50 %",
        "latency_p90_ms": "90 %",
        "latency_p95_ms": "95 %",
        "latency_p99_ms": "99 %",
        "latency_p999_ms": "99.9 %",
        "latency_max_ms": "all",
    }
    drawing, axes = plt.subplots()
    for point in found["points"]:
        axes.plot(
            list(steps.values()),
            [median(point, key) for key in steps],
            marker="o",
            label=point["label"],
        )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("of the updates arrived within")
    axes.set_ylabel("ms from the IOC's time stamp")
    axes.legend()
    save(drawing, "latency")
    yield from picture("latency", "Latency percentiles by number of clients")
    yield from points_table(found, [(key, f"{label}, ms") for key, label in steps.items()])
    yield from ["", source(found)]


def waveforms_block():
    found = result("waveforms-ca")
    if not found:
        yield from missing("waveforms-ca")
        return
    points = found["points"]
    lengths = [point["settings"]["elements"] for point in points]
    drawing, axes = plt.subplots()
    for key, label, colour in (
        ("relay_cores", "relay, libca included", ORANGE),
        ("own_cores", "relay beside libca", BLUE),
    ):
        cores = [median(point, key) for point in points]
        axes.errorbar(
            lengths, cores, spread(points, key), marker="o", color=colour, label=label
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("doubles in the waveform, at 10 Hz")
    axes.set_ylabel("cores")
    axes.legend()
    save(drawing, "waveforms")
    yield from picture("waveforms", "CPU of one waveform at 10 Hz by its length")
    columns = (
        ("relay_cores", "cores"),
        ("own_cores", "cores beside libca"),
        ("delivered_percent", "% delivered"),
        ("skipped", "left out by the relay"),
        ("left_out_before", "left out before it"),
        ("latency_p50_ms", "50 % after, ms"),
        ("latency_p99_ms", "99 % after, ms"),
    )
    yield from points_table(found, columns)
    yield from ["", source(found)]


def figures_block(names):
    """Figures of scenarios with one point, with their spread."""

    def block():
        from kinds import KINDS

        for name in names:
            found = result(name)
            if not found:
                yield from [*missing(name), ""]
                continue
            labels = KINDS[found["settings"]["kind"]].labels
            for point in found["points"]:
                if point["label"]:
                    yield from [f"{point['label']}:", ""]
                rows = (
                    [f"{label}{f', {unit}' if unit else ''}"]
                    + [figure(point["figures"][key][which]) for which in ("median", "min", "max")]
                    for key, (label, unit) in labels.items()
                    if key in point["figures"]
                )
                yield from table(("", "Median", "Min", "Max"), rows)
                yield ""
            yield from [source(found), ""]

    return block


def soak_block():
    found = result("soak-1000x1000")
    if not found:
        yield from missing("soak-1000x1000")
        return
    point = found["points"][0]
    samples = point["raw_rounds"][0]["relay"]["memory"]["samples"]
    drawing, axes = plt.subplots()
    times = [each["seconds"] / 60 for each in samples]
    axes.plot(times, [each["rssKb"] / 1024 for each in samples], color=BLUE, label="relay")
    axes.plot(
        times, [each["tcpKb"] / 1024 for each in samples], color=GREY, label="all TCP sockets, kernel"
    )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("minutes")
    axes.set_ylabel("MB")
    axes.legend()
    save(drawing, "soak")
    yield from picture("soak", "Memory of the relay over the run")
    minutes = point["settings"]["seconds"] / 60
    yield (
        f"{minutes:.0f} minutes, {found['checked_updates']:,} updates, each checked: 0 missing,"
        f" repeated, wrong or skipped, no gap; the longest silence of a client was"
        f" {found['longest_silence_ms']:.0f} ms."
    )
    growth = median(point, "rss_growth_kb_per_minute")
    yield (
        f"The relay took {figure(median(point, 'relay_cores'))} cores and"
        f" {figure(median(point, 'rss_most_mb'))} MB at most; the line that fits its memory best"
        f" rises by {figure(growth)} KB a minute."
    )
    yield source(found)


def peers_block():
    names = sorted(path.stem for path in RESULTS.glob("peer-*.json"))
    if not names:
        yield from missing("peer-coniql-1x200")
        return
    columns = (
        ("peer_us_per_update", "peer, µs an update"),
        ("relay_us_per_delivered_update", "pvwire, µs an update"),
        ("ratio_updates_per_cpu_s", "updates per CPU second, ratio"),
        ("peer_updates_per_s", "peer, updates/s"),
        ("updates_per_s", "pvwire, updates/s"),
        ("peer_missing", "peer, missing"),
        ("skipped", "pvwire, left out"),
        ("peer_latency_p99_ms", "peer, 99 % after, ms"),
        ("latency_p99_ms", "pvwire, 99 % after, ms"),
    )
    rows, sources = [], []
    for found in filter(None, map(result, names)):
        sources.append(source(found))
        for point in found["points"]:
            settings = point["settings"]
            asked = " ".join(settings.get("arguments", []))
            what = f"{settings['clients']} × {settings.get('each', settings['pvs'])}"
            label = f"{settings['peer']}, {what}{f', `{asked}`' if asked else ''}"
            known = point["figures"]
            rows.append(
                [label] + [figure(median(point, key)) if key in known else "–" for key, _ in columns]
            )
    yield from table(["Peer, clients × PVs at 10 Hz"] + [head for _, head in columns], rows)
    yield ""
    yield from sources


# Figures of `browser-decode`, in the order of the picture.
WAYS = {
    "decode_ns": "decoded and stored",
    "told_ns": "and a callback",
    "light_ns": "and a light selection",
    "full_ns": "and a full selection",
    "graphql_light_ns": "light GraphQL subscription",
    "graphql_full_ns": "full GraphQL subscription",
    "json_parse_ns": "JSON.parse alone",
    "graphql_ws_ns": "graphql-ws",
    "apollo_no_cache_ns": "Apollo, no cache",
    "apollo_default_cache_ns": "Apollo, default cache",
}


def browser_update_block():
    found = result("browser-decode")
    if found is None:
        yield from missing("browser-decode")
        return
    (point,) = found["points"]
    values = [median(point, key) for key in WAYS]
    drawing, axes = plt.subplots()
    colours = [BLUE if place < 6 else ORANGE for place in range(len(WAYS))]
    axes.barh(list(WAYS.values()), values, color=colours)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("CPU of the page's main thread for an update, ns; blue: pvwire, orange: Coniql's messages")
    save(drawing, "browser-update")
    yield from picture("browser-update", "CPU of an update in the browser, by what is done with it")
    yield from table(["", "ns an update"], [[way, figure(median(point, key))] for key, way in WAYS.items()])
    yield ""
    yield browser_source(found)


REACT_COLUMNS = (
    ("main_thread_percent", "main thread, %"),
    ("script_percent", "of it JavaScript, %"),
    ("frames_per_s", "screen frames/s"),
    ("updates_per_s", "updates/s"),
)
CAMERA_COLUMNS = (
    ("made_per_s", "made/s"),
    ("shown_per_s", "shown/s"),
    ("left_out_per_s", "left out/s"),
    ("age_p50_ms", "50 % on the canvas after, ms"),
    ("age_p99_ms", "99 %, ms"),
    ("memory_first_mb", "memory in the first quarter, MB"),
    ("memory_last_mb", "in the last, MB"),
    ("seconds", "measured for, s"),
)
MODES_COLUMNS = (
    ("main_thread_percent", "main thread, each tab, %"),
    ("browser_percent", "whole browser, %"),
    ("latency_p50_ms", "50 % after, ms"),
    ("latency_p99_ms", "99 % after, ms"),
    ("connections", "connections"),
)
ARRAY_COLUMNS = (
    ("megabytes_per_s", "MB/s"),
    ("updates_per_s", "updates/s"),
    ("left_out_per_s", "left out/s"),
    ("main_thread_percent", "main thread, %"),
)


def browser_page_block():
    columns = {
        "browser-react": REACT_COLUMNS,
        "browser-wall": REACT_COLUMNS[:1] + REACT_COLUMNS[2:],
        "browser-camera": CAMERA_COLUMNS,
        "browser-modes": MODES_COLUMNS,
        "browser-array": ARRAY_COLUMNS,
    }
    for name, chosen in columns.items():
        found = result(name)
        if found is None:
            yield from [*missing(name), ""]
            continue
        yield from [found["question"], "", *points_table(found, chosen), "", browser_source(found), ""]


def browser_source(found):
    """As `source`, of a result that Chromium measured."""
    name, rounds = found["scenario"], len(found["points"][0]["rounds"])
    return (
        f"[bench/results/{name}.md](../../bench/results/{name}.md): commit {found['commit']},"
        f" {found['date']}, n = {rounds}, {found['browser']}, load average"
        f" {found['load_average_before']} before."
    )


BLOCKS = {
    "goals": goals_block,
    "browser-update": browser_update_block,
    "browser-page": browser_page_block,
    "fan-out": fan_out_block,
    "one-client": one_client_block,
    "monitors": monitors_block,
    "subscriptions": sweep_block("subscriptions-100", CLIENT_COLUMNS),
    "clients": sweep_block("clients-20", CLIENT_COLUMNS),
    "latency": latency_block,
    "waveforms": waveforms_block,
    "crowd": figures_block(["deliver-5000x1000-100ms", "deliver-50x1000"]),
    "stalled": figures_block(["stalled-100of1000"]),
    "storm": figures_block(["storm-1000"]),
    "memory": figures_block(["memory-idle-1000", "memory-busy-1000"]),
    "soak": soak_block,
    "peers": peers_block,
}


FIGURE = re.compile(r"(<!-- figure (\S+) (\S+)(?: (min|max))?(?: ×(\S+))? -->)(.*?)(<!-- end -->)", re.S)


def one_figure(found):
    """A figure between its marks, as the result has it."""
    begin, scenario, key, which, factor, _, end = found.groups()
    points = (result(scenario) or {"points": []})["points"]
    values = [point["figures"][key] for point in points if key in point["figures"]]
    if len(values) != 1:
        sys.exit(f"{begin}: {len(values)} points of {scenario} have this figure")
    return f"{begin}{figure(values[0][which or 'median'] * float(factor or 1))}{end}"


def with_blocks(page):
    """The page of performance with what is in the results now."""
    for name in re.findall(r"<!-- from (\S+) -->", page):
        if name not in BLOCKS:
            sys.exit(f"{PAGE}: there is no block {name}; there are {', '.join(BLOCKS)}")
        begin, end = f"<!-- from {name} -->\n", "<!-- end -->"
        before, rest = page.split(begin, 1)
        _, after = rest.split(end, 1)
        inner = "\n".join(BLOCKS[name]()).rstrip("\n")
        page = f"{before}{begin}\n{inner}\n\n{end}{after}"
    return page


def documents():
    """All documents of the tree but those of results."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [ROOT / name for name in listed if not name.startswith("bench/results/")]


def main():
    differ = []
    for document in documents():
        text = document.read_text()
        now = FIGURE.sub(one_figure, with_blocks(text) if document == PAGE else text)
        if now != text:
            differ.append(str(document.relative_to(ROOT)))
            if not CHECKS:
                document.write_text(now)
    if CHECKS and differ:
        sys.exit(f"figures in {', '.join(differ)} aren't those of bench/results: run make bench-pictures")
    if not CHECKS:
        pictures = f" and {PICTURES.relative_to(ROOT)}/" if DRAWS else ""
        print(f"written to {', '.join(differ) or 'no document'}{pictures}")


if __name__ == "__main__":
    main()
