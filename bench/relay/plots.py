"""Draws docs/explanations/pictures/ from bench/results/, and writes the figures of the documents.

A block of a document, mostly docs/explanations/performance.md, stands between `<!-- from NAME -->` and
`<!-- end -->`; NAME is one of `BLOCKS`. Everything in it comes from result files and says which. A single figure in a sentence of
any document stands between `<!-- figure SCENARIO FIGURE -->` and `<!-- end -->`: its median, unless `min`
or `max` follows, times a factor such as `×100`, if there is one.
 `<!-- origin SCENARIO -->`
says which commit was measured and whether the figures are stale; a document with a figure of a scenario needs it.
docs/explanations/compare.md is written whole by `compare_page.py`.

With `--text` no pictures are drawn. With `--check` nothing is written; it fails when a document or goals.json says
something else than the results.
"""

import re
import subprocess
import sys

import compare_page
import goals
from browser_blocks import browser_app_block, browser_page_block, browser_update_block
from drawing import CHECKS, DRAWS, PICTURES
from fleet_blocks import sizing_block
from report import figure
from results import RESULTS, ROOT, comparison, origin, result
from relay_blocks import (
    CLIENT_COLUMNS,
    fan_out_block,
    figures_block,
    goals_block,
    latency_block,
    monitors_block,
    one_client_block,
    peers_block,
    soak_block,
    sweep_block,
    waveforms_block,
)

BLOCKS = {
    "goals": goals_block,
    "browser-update": browser_update_block,
    "browser-page": browser_page_block,
    "browser-app": browser_app_block,
    "fan-out": fan_out_block,
    "one-client": one_client_block,
    "monitors": monitors_block,
    "subscriptions": sweep_block("subscriptions-100", CLIENT_COLUMNS),
    "clients": sweep_block("clients-20", CLIENT_COLUMNS),
    "latency": latency_block,
    "waveforms": waveforms_block,
    "crowd": figures_block(["deliver-5000x1000-100ms", "deliver-50x1000"]),
    "door": figures_block(
        [
            "door-pvws-1x1000",
            "door-pvws-50x1000",
            "door-coniql-1x200",
            "door-coniql-50x200",
            "attack-reconnects-100",
        ]
    ),
    "stalled": figures_block(["stalled-100of1000"]),
    "storm": figures_block(["storm-1000"]),
    "memory": figures_block(["memory-idle-1000", "memory-busy-1000"]),
    "fleet": figures_block(["fleet-cost", "fleet-growth", "fleet-300x1000", "fleet-300x1000-pva"]),
    "history": figures_block(
        [
            "history-ring",
            "history-bytes",
            "history-resume",
            "history-kills",
            "replay-size",
            "replay-seek",
            "archiver-week",
        ]
    ),
    "sizing": sizing_block,
    "soak": soak_block,
    "peers": peers_block,
}


FIGURE = re.compile(r"(<!-- figure (\S+) (\S+)(?: (min|max))?(?: ×(\S+))? -->)(.*?)(<!-- end -->)", re.S)
ORIGIN = re.compile(r"(<!-- origin (\S+) -->)(.*?)(<!-- end -->)", re.S)


def one_origin(found):
    """Commit, date and staleness between their marks."""
    begin, scenario, _, end = found.groups()
    if not (known := result(scenario)):
        sys.exit(f"{begin}: {scenario} has not been measured")
    return f"{begin}{origin(known)}{end}"


def with_figures(document, text):
    """A document with the figures of the results, and their origins."""
    named = {found[2] for found in FIGURE.finditer(text)}
    for scenario in sorted(named - {found[2] for found in ORIGIN.finditer(text)}):
        sys.exit(f"{document}: figures of {scenario} without <!-- origin {scenario} --><!-- end -->")
    return ORIGIN.sub(one_origin, FIGURE.sub(one_figure, with_blocks(document, text)))


def one_figure(found):
    """A figure between its marks, as the result has it."""
    begin, scenario, key, which, factor, _, end = found.groups()
    points = (result(scenario) or {"points": []})["points"]
    values = [point["figures"][key] for point in points if key in point["figures"]]
    if len(values) != 1:
        sys.exit(f"{begin}: {len(values)} points of {scenario} have this figure")
    return f"{begin}{figure(values[0][which or 'median'] * float(factor or 1))}{end}"


def with_blocks(document, page):
    """A document with what is in the results now."""
    for name in re.findall(r"<!-- from (\S+) -->", page):
        if name not in BLOCKS:
            sys.exit(f"{document}: there is no block {name}; there are {', '.join(BLOCKS)}")
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
    return [ROOT / name for name in listed if not name.startswith("bench/results/") and (ROOT / name).exists()]


def main():
    differ = []
    pages = {RESULTS / "goals.json": goals.written(goals.measured())}
    pages |= {document: with_figures(document, document.read_text()) for document in documents()}
    pages[compare_page.PAGE] = compare_page.page(comparison())
    for document, now in pages.items():
        if now != document.read_text():
            differ.append(str(document.relative_to(ROOT)))
            if not CHECKS:
                document.write_text(now)
    if CHECKS and differ:
        sys.exit(f"figures in {', '.join(differ)} aren't those of bench/results, or the measured code has changed: run make figures")
    if not CHECKS:
        pictures = f" and {PICTURES.relative_to(ROOT)}/" if DRAWS else ""
        print(f"written to {', '.join(differ) or 'no document'}{pictures}")


if __name__ == "__main__":
    main()
