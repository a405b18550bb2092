"""Blocks of docs/explanations/performance.md about what Chromium measured."""

from drawing import (
    BLUE,
    ORANGE,
    median,
    missing,
    picture,
    plt,
    points_table,
    save,
    source,
    table,
)
from report import figure
from results import result

WAYS = {
    "decode_ns": "decoded and stored",
    "callback_ns": "and a callback",
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
    colours = [BLUE if index < 6 else ORANGE for index in range(len(WAYS))]
    axes.barh(list(WAYS.values()), values, color=colours)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("CPU of the page's main thread for an update, ns; blue: pvwire, orange: Coniql's messages")
    save(drawing, "browser-update")
    yield from picture("browser-update", "CPU of an update in the browser, by what is done with it")
    yield from table(["", "ns an update"], [[way, figure(median(point, key))] for key, way in WAYS.items()])
    yield ""
    yield source(found)


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
CHART_COLUMNS = (
    ("drawn_ms", "drawn after, ms"),
    ("columns_lost", "columns that lack a point"),
    ("pan_frames_per_s", "frames/s while it pans"),
    ("pan_longest_ms", "longest frame, ms"),
    ("pan_main_thread_percent", "main thread meanwhile, %"),
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
        "browser-chart": CHART_COLUMNS,
    }
    for name, chosen in columns.items():
        found = result(name)
        if found is None:
            yield from [*missing(name), ""]
            continue
        yield from [found["question"], "", *points_table(found, chosen), "", source(found), ""]


APP_FIGURES = {
    "first_value_ms": "From a navigation until the first value is painted, ms",
    "frames_per_s": "Table of 10,000 PVs at 10 Hz, screen frames/s",
    "scrolled_frames_per_s": "while it is scrolled in each frame",
    "tab_mib": "Memory of its tab, MiB",
    "heap_mib": "of it JavaScript, MiB",
    "take_ms": "Snapshot of 1,000 PVs, taken in ms",
    "restore_ms": "and restored in ms",
    "commands": "From nothing but Python and the wheel to a PV on a page, commands: an environment, the installation, the"
    " relay",
    "install_s": "of it the environment and the installation, s",
    "start_s": "the start of the relay, s",
    "value_s": "from the page's address to the PV's value, s",
    "total_s": "in all, without reading and typing, s",
}


def browser_app_block():
    found = result("browser-app")
    if found is None:
        yield from missing("browser-app")
        return
    measured = {key: values for point in found["points"] for key, values in point["figures"].items()}
    rows = [
        [label, *(figure(measured[key][which]) for which in ("median", "min", "max"))]
        for key, label in APP_FIGURES.items()
    ]
    yield from table(["", "median", "min", "max"], rows)
    yield ""
    yield source(found)
