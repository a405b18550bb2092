"""Results, tables and pictures, as the blocks of the documents use them."""

import json
import sys
from pathlib import Path

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

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "bench/results"
PICTURES = ROOT / "docs/explanations/pictures"

BLUE, ORANGE, GREY, GREEN = "#1f77b4", "#e07b00", "#888888", "#2a8f4d"

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
        f" {found['date']}, n = {found['points'][0]['n']}, others used"
        f" {found['other_cores']:.2f} cores meanwhile."
    )


def missing(name):
    writers = {"browser": "bench-browser", "fleet": "bench-fleet"}
    writer = writers.get(name.split("-")[0], "bench-full")
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
