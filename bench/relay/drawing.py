"""Results, tables and pictures, as the blocks of the documents use them."""

import sys

import results
from report import figure
from results import ROOT


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
    """Where a block's numbers are from, and whether they are stale."""
    name = found["scenario"]
    if "browser" in found:
        page, load = "browser", f"{found['browser']}, load average {found['load_average_before']} before"
    else:
        page, load = "relay", f"other processes used {found['other_cores']:.2f} cores"
    return f"[{name}](../../bench/results/{page}.md#{name}): {results.origin(found)}; {load}."


def missing(name):
    writers = {"browser": "bench-browser", "fleet": "bench-fleet"}
    writers |= dict.fromkeys(("history", "replay", "archiver"), "bench-history")
    writer = writers.get(name.split("-")[0], "bench-full")
    return [f"No result yet: `make {writer}` measures {name}."]


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
