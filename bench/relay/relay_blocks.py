"""Blocks of docs/explanations/performance.md about the relay."""

import goals
from drawing import (
    BLUE,
    GREY,
    ORANGE,
    median,
    missing,
    picture,
    plt,
    points_table,
    save,
    source,
    spread,
    table,
)
from report import figure
from results import result, results

# µs that other servers ask for a delivered update, and the updates a second at which one of them is at
# its end: docs/explanations/performance.md says where that is from.
CONIQL_US, CONIQL_MOST = 350, 2_000
PVWS_US = (12, 15)
PVWS_FAN_OUT_US = (24, 36)


def log_log(axes, x, y):
    """Both axes are logarithmic and have these labels."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def points_and_source(found, columns):
    """The table of a result's points, and where it is from."""
    yield from points_table(found, columns)
    yield from ["", source(found)]


def of_result(name):
    """Makes a block of a function of a scenario's result; without one the block says how to measure it."""

    def wrapped(describe):
        def block():
            found = result(name)
            yield from describe(found) if found else missing(name)

        return block

    return wrapped


def goals_block():
    yield from table(("Goal", "Bound", "Measured", "", "From"), goals.rows(goals.measured()))


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
    for index, (key, label, colour) in enumerate(
        (
            ("raw_send_us", "raw TCP send", GREY),
            ("fan_out_us_per_client_frame", "relay: tick and shard", BLUE),
            ("relay_us_per_client_frame", "relay: all threads", ORANGE),
        )
    ):
        axes.bar(
            [number + (index - 1) * 0.27 for number in range(len(points))],
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


@of_result("pvs-for-one-client")
def one_client_block(found):
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
    log_log(axes, "updates/s to one client", "% of a core")
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
    yield from points_and_source(found, columns)


@of_result("pvs-by-monitors")
def monitors_block(found):
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
    log_log(axes, "delivered updates/s", "µs of CPU per delivered update")
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
    yield from points_and_source(found, columns)


def sweep_block(name, columns):
    @of_result(name)
    def block(found):
        yield from points_and_source(found, columns)

    return block


CLIENT_COLUMNS = (
    ("relay_cores", "cores"),
    ("relay_us_per_delivered_update", "µs an update"),
    ("skipped", "left out"),
    ("latency_p50_ms", "50 % after, ms"),
    ("latency_p99_ms", "99 % after, ms"),
)


@of_result("latency-1000")
def latency_block(found):
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
    yield from points_and_source(found, [(key, f"{label}, ms") for key, label in steps.items()])


@of_result("waveforms-ca")
def waveforms_block(found):
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
    log_log(axes, "doubles in the waveform, at 10 Hz", "cores")
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
    yield from points_and_source(found, columns)


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


@of_result("soak-1000x1000")
def soak_block(found):
    point = found["points"][0]
    samples = point["memory_samples"]
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
    names = sorted(name for name in results() if name.startswith("peer-"))
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
            arguments = " ".join(word for word in settings.get("arguments", []) if word not in settings["peer"])
            what = f"{settings['clients']} × {settings.get('each', settings['pvs'])}"
            label = f"{settings['peer']}, {what}{f', `{arguments}`' if arguments else ''}"
            known = point["figures"]
            rows.append(
                [label] + [figure(median(point, key)) if key in known else "–" for key, _ in columns]
            )
    yield from table(["Peer, clients × PVs at 10 Hz"] + [head for _, head in columns], rows)
    yield ""
    yield from sources


# Figures of `browser-decode`, in the order of the picture.
