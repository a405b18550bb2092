"""Time and bytes of 1,000 updates as JSON, by protobuf, and as pvwire's rows and columns.

An update has a PV, a double, a severity and a time stamp in all of them. JSON is as PVWS sends it, one message an update;
protobuf is one message with the numbers of the PVs. pvwire's are those of a relay that serves 1,000 PVs: their time is
all CPU time of its own threads, which also gather and write, so it is an upper bound.
"""

import json
import random
import re
import string
import subprocess
import tempfile
from pathlib import Path

import systems
from ingest import update_figures
from processes import ROOT, Children, Iocs, Relay, say

EXPECTED_S = 40
UPDATES = 1_000
NUMBER = re.compile(r"([\d.]+) ns")


def measure(versions, quick):
    """A row for each way, or why it is missing."""
    rows = python_rows(versions, quick)
    rows += relay_rows(quick)
    rows += javascript_rows(quick)
    for row in rows:
        say(f"   {row['way']}: {row.get('failed') or row['figures']}")
    return rows


def python_rows(versions, quick):
    if not {"orjson", "protobuf"} <= versions.keys():
        return [{"way": "JSON, orjson, protobuf", "failed": "not run: the packages could not be installed"}]
    words = [systems.PEERS_PYTHON, Path(__file__).with_name("peers") / "serialise.py", UPDATES, 3 if quick else 30]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        return [{"way": "JSON, orjson, protobuf", "failed": f"failed: {done.stderr.strip().splitlines()[-1]}"}]
    return json.loads(done.stdout)


def relay_rows(quick):
    """What 1,000 PVs cost the relay's threads, plain and packed."""
    rows = []
    point = {"clients": 1, "pvs": UPDATES, "rate_hz": 10, "protocol": "ca", "may_skip": True}
    point |= {"warm_up_s": 1, "seconds": 2 if quick else 5}
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        iocs = Iocs(children, point, "SER" + "".join(random.choices(string.ascii_uppercase, k=6)), Path(folder))
        for way, more in (("pvwire, rows", {}), ("pvwire, packed columns (LZ4)", {"compression": "lz4"})):
            try:
                with Relay(children, point | more, iocs) as relay:
                    figures = update_figures(relay.load(point | more, 1, iocs))
            except SystemExit as error:
                if systems.is_end(error):
                    raise
                rows.append({"way": way, "failed": f"failed: {systems.first_line(error)}"})
                continue
            own_us = figures["tick_us_per_update"] + figures["shards_us_per_update"]
            written = {"encode_ns": own_us * 1000, "bytes_per_update": figures["bytes_per_update"]}
            rows.append({"way": way, "where": "relay, gathering and writing included", "figures": written})
    return rows


def javascript_rows(quick):
    """In Node: the text of an update parsed, and an update from the received bytes into the store of a page."""
    rounds = 50 if quick else 500
    yield from node_row("JSON of PVWS, JSON.parse", rounds, "bench/relay/peers/parse.mjs", UPDATES, rounds)
    # The script has 300 rounds.
    yield from node_row("pvwire, rows, into the store of a page", 300, "wasm-client/bench/rows.js")


def node_row(way, rounds, *words):
    done = subprocess.run(["node", *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    found = NUMBER.search(done.stdout)
    if done.returncode or not found:
        yield {"way": way, "failed": f"failed: {words[0]} (make wasm builds what it needs)"}
    else:
        yield {"way": way, "where": "Node", "n": rounds, "figures": {"decode_ns": float(found[1])}}
