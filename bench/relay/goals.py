"""The goals, which of them are met, and how far the others fall short.

`goals.json` lists the goals; `results/goals.json` says what was measured for each."""

import json

from processes import ROOT
from report import figure

GOALS = ROOT / "bench/relay/goals.json"
RESULTS = ROOT / "bench/results"


def measured(goals, results=RESULTS):
    """Each goal with what was measured; `None` where there is no result."""
    return [
        goal | {"measured": value, "met": None if value is None else is_met(goal, value)}
        for goal in goals
        for value in [value_of(goal, results)]
    ]


def value_of(goal, results):
    """The goal's figure, with what is added to it (`plus`) or what it is divided by (`over`)."""
    file = results / f"{goal['scenario']}.json"
    if not file.exists():
        return None
    points = json.loads(file.read_text()).get("points", [])

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


def rows(goals):
    """Cells of the table."""
    for goal in goals:
        value = goal["measured"]
        yield (
            goal["what"],
            f"{'≤' if goal['bound'] == 'at most' else '≥'} {goal['goal']:g} {goal['unit']}".strip(),
            "–" if value is None else f"{figure(value)} {goal['unit']}".strip(),
            short_by(goal),
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
    return "\n".join(line.rstrip() for line in lines)


def report(results=RESULTS):
    """Writes results/goals.json and gives the table."""
    goals = measured(json.loads(GOALS.read_text()), results)
    kept = ("id", "goal", "measured", "unit", "met")
    lines = [json.dumps({key: goal[key] for key in kept}, ensure_ascii=False) for goal in goals]
    (results / "goals.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return text(goals)
