"""The text of a result."""

import statistics

import machine
from kinds import KINDS


def summary(rounds):
    """Least, middle and most of each figure."""
    return {
        key: {
            "min": min(one[key] for one in rounds),
            "median": statistics.median(one[key] for one in rounds),
            "max": max(one[key] for one in rounds),
        }
        for key in rounds[0]
    }


def figure(value):
    """Three digits, or all that stand before the point."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def about(scenario, rounds):
    """The scenario in a sentence."""
    settings = {"iocs": 1, "clients": 1, "each": scenario.get("pvs"), "rate_hz": 0} | scenario
    tick = f" The tick is {scenario['tick_ms']} ms." if "tick_ms" in scenario else ""
    phases = (
        f" Records are processed in {scenario['phases']} groups, evenly spread over the period."
        if "phases" in scenario
        else ""
    )
    picked = {
        "random": " Each client has its own random set.",
        "slice": " No two clients have a PV in common.",
    }.get(scenario.get("pick"), "")
    kind = KINDS[scenario["kind"]]
    return kind.about.format(**settings | kind.words(scenario) | {"rounds": rounds}) + picked + tick + phases


def checked(result):
    """Which checks passed, in a sentence."""
    settings = result["settings"]
    if sentence := KINDS[settings["kind"]].checked:
        return sentence
    if "rate_hz" not in settings:
        return "Checked: every PV has its value, and none was lost in the seconds after."
    words = "none missing, repeated, wrong or skipped"
    if settings.get("may_skip"):
        words = "none wrong; those that were left out are counted below"
    return (
        f"Checked: {result['checked_updates']:,} updates, each sequence number and value; {words},"
        f" no PV lost; the longest silence of a client was {result['longest_silence_ms']:.0f} ms."
    )


def table(result):
    """The result as a section of a page."""
    settings, points = result["settings"], result["points"]
    kind = KINDS[settings["kind"]]
    rounds = points[0]["n"]
    lines = [f"## {result['scenario']}", "", settings["question"], ""]
    if len(points) == 1:
        lines.append(about(points[0]["settings"], rounds))
    else:
        sweep = settings | {key: "…" for key in settings["sweep"][0]}
        lines.append(about(sweep, rounds))
    lines += [
        f"Commit {result['commit']}, {result['date']}, {result['machine']}, the {result['set']} set,"
        f" {machine.described(result)}",
        checked(result),
    ]
    if again := sum(raw.get("openedAgain", 0) for point in points for raw in point["raw_rounds"]):
        lines.append(f"{again} monitors had to be opened again.")
    if repeated := sum(point["repeated_rounds"] for point in points):
        lines.append(f"{repeated} rounds were repeated: the machine kept the load client from running.")
    if len(points) == 1:
        lines += one_point(points[0], kind)
    else:
        lines += many_points(points, kind)
    return "\n".join(lines) + "\n"


def one_point(point, kind):
    yield from ["", "| Figure | Unit | Min | Median | Max |", "|---|---|---:|---:|---:|"]
    for key, (label, unit) in kind.labels.items():
        if key in point["figures"]:
            cells = (figure(point["figures"][key][which]) for which in ("min", "median", "max"))
            yield f"| {label} | {unit} | {' | '.join(cells)} |"
    relay = point["raw_rounds"][0].get("relay")
    # Not known of a relay that was killed.
    if relay is None:
        return
    yield from ["", "CPU of the relay by thread, first round, % of a core:", ""]
    for name, ns in sorted(relay["relayCpuNsByThread"].items()):
        share = ns / relay["seconds"] / 1e7
        if share >= 0.01:
            yield f"- {name}: {share:.2f}"


def many_points(points, kind):
    keys = [key for key in kind.columns or kind.labels if key in points[0]["figures"]]
    heads = [
        f"{label}{f' ({unit})' if unit else ''}" for label, unit in (kind.labels[key] for key in keys)
    ]
    yield from ["", "Median of the rounds, and from which to which they went.", ""]
    yield f"| | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * len(keys)}"
    for point in points:
        cells = []
        for key in keys:
            least, middle, most = (point["figures"][key][of] for of in ("min", "median", "max"))
            spread = f" ({figure(least)}–{figure(most)})" if figure(least) != figure(most) else ""
            cells.append(figure(middle) + spread)
        yield f"| {point['label']} | {' | '.join(cells)} |"
