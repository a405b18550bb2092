"""The goals, which of them are met, and how far the others fall short.

`goals.json` lists the goals; `results/goals.json` has the figure of each, and whether it is stale."""

import json

import results
from report import figure
from results import RESULTS, ROOT

GOALS = ROOT / "bench/relay/goals.json"


def measured():
    """Each goal with its figure; `None` where there is no result."""
    return [
        goal
        | {
            "measured": value,
            "met": None if value is None else is_met(goal, value),
            "stale": None if value is None else results.is_stale(results.result(goal["scenario"])),
        }
        for goal in json.loads(GOALS.read_text())
        for value in [value_of(goal)]
    ]


def value_of(goal):
    """The goal's figure, with what is added to it (`plus`) or what it is divided by (`over`)."""
    points = (results.result(goal["scenario"]) or {"points": []})["points"]

    def median(key, wanted):
        for point in points:
            if wanted in (None, point["label"]) and key in point["figures"]:
                return point["figures"][key]["median"]
        return None

    wanted = goal.get("point")
    parts = [median(key, wanted) for key in (goal["figure"], *goal.get("plus", []))]
    over = median(goal["over"], goal.get("over_point", wanted)) if "over" in goal else 1
    return None if None in (*parts, over) else sum(parts) / over


def is_met(goal, value):
    return value <= goal["goal"] if goal["bound"] == "at most" else value >= goal["goal"]


def short_by(goal):
    """By how much a goal is missed, in words."""
    if goal["measured"] is None:
        return "not measured here"
    if goal["met"]:
        return "met"
    wanted, value = goal["goal"], goal["measured"]
    off = f"{figure(abs(value - wanted))} {goal['unit']}".strip()
    return f"not met: {off} ({abs(value - wanted) / wanted:.0%}) off" if wanted else f"not met: {off} off"


def outcome(goal):
    """How far the goal is met, and whether the code has changed since it was measured."""
    return f"{short_by(goal)}, stale" if goal["stale"] else short_by(goal)


def rows(goals):
    """Cells of the table."""
    for goal in goals:
        value = goal["measured"]
        yield (
            goal["what"],
            f"{'≤' if goal['bound'] == 'at most' else '≥'} {goal['goal']:g} {goal['unit']}".strip(),
            "–" if value is None else f"{figure(value)} {goal['unit']}".strip(),
            outcome(goal),
            goal["scenario"],
        )


def text(goals):
    """The table for a terminal."""
    heads = ("Goal", "Bound", "Measured", "", "Scenario")
    cells = [heads, *rows(goals)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in cells]
    met = sum(goal["met"] is True for goal in goals)
    missed = sum(goal["met"] is False for goal in goals)
    lines.append(f"{met} met, {missed} not met, {len(goals) - met - missed} not measured here")
    lines.append(f"{sum(goal['stale'] is True for goal in goals)} figures are stale")
    return "\n".join(line.rstrip() for line in lines)


def written(goals):
    """The content of results/goals.json."""
    kept = ("id", "goal", "measured", "unit", "met", "stale")
    lines = [json.dumps({key: goal[key] for key in kept}, ensure_ascii=False) for goal in goals]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def report():
    """Writes results/goals.json and gives the table."""
    goals = measured()
    (RESULTS / "goals.json").write_text(written(goals))
    return text(goals)


if __name__ == "__main__":
    print(report())
