"""Profiles the relay while it serves clients, as a flame graph: the part "profile" of `make compare`."""

import collections
import html
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

from processes import OTHER_CORES, ROOT, Children, Iocs, Relay, say

PICTURE = ROOT / "docs/explanations/pictures/relay-profile.svg"
EXPECTED_S = 15
HERTZ = 1999

# All PVs have values after this time.
CONNECT_S = 2

# Pixels. A frame narrower than the smallest is left out: nothing in it could be read.
WIDTH, ROW, LEAST = 1200, 16, 2
PIXELS_PER_LETTER = 6.6


def measure(settings):
    """The picture, and a row for each kind of thread with its share of the relay's CPU time."""
    row = {"system": "pvwire", "way": "its own clients", "clients": settings["clients"], "pvs": settings["pvs"]}
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        iocs = Iocs(children, settings | {"protocol": "ca"}, "FLAME", Path(folder))
        scenario = settings | {"flags": [], "may_skip": True, "protocol": "ca"}
        with Relay(children, scenario, iocs) as relay:
            samples = Path(folder) / "perf.data"
            load = relay.start_part("load", scenario, settings["clients"], iocs, ["--stalled", 0])
            # perf follows the threads that are there when it begins; those of connections to IOCs come late.
            time.sleep(settings["warm_up_s"] + CONNECT_S)
            try:
                profiler = children.start(record(relay.process.pid, samples), OTHER_CORES, stderr=subprocess.DEVNULL)
            except FileNotFoundError:
                return [row | {"failed": "perf isn't installed (on Debian by linux-perf)"}]
            relay.end_part(scenario, load, iocs)
            children.end(profiler)
        script = subprocess.run(
            ["perf", "script", "--input", samples, "--fields", "comm,ip,sym", "--no-inline"],
            capture_output=True,
            text=True,
            check=False,
        )
    stacks = collapsed(script.stdout)
    if not stacks:
        return [row | {"failed": "perf may not record here (kernel.perf_event_paranoid)"}]
    PICTURE.write_text(svg(stacks))
    say(f"   {sum(stacks.values())} samples, written to {PICTURE.relative_to(ROOT)}")
    threads = collections.Counter()
    for (thread, *_), count in stacks.items():
        threads[thread] += count
    return [row | {"thread": thread, "samples": count} for thread, count in threads.most_common()]


def record(pid, samples):
    """The command that records where the threads of a process spend their CPU time, until it is ended."""
    how = ["--event", "cpu-clock", "--freq", HERTZ, "--call-graph", "dwarf,8192", "--mmap-pages", "16M"]
    return ["perf", "record", *how, "--pid", pid, "--output", samples]


def collapsed(script):
    """How many samples have each stack: the kind of its thread, and its functions from the outermost on."""
    stacks = collections.Counter()
    for sample in script.split("\n\n"):
        thread, *frames = sample.strip("\n").splitlines() or [""]
        if not thread.strip():
            continue
        # Threads of one kind differ by a number.
        kind = thread.strip().rstrip("0123456789").rstrip("-") or thread.strip()
        functions = (frame.split(maxsplit=1)[-1] for frame in reversed(frames))
        stacks[kind, *functions] += 1
    return stacks


def svg(stacks):
    """Each frame as wide as its share of the samples, above the one that called it."""
    boxes, depth = [], max(map(len, stacks)) + 1
    total = sum(stacks.values())

    def place(entries, left, level):
        """The frames that these stacks have at a level, from the left on."""
        inner = collections.defaultdict(list)
        for stack, count in entries:
            if len(stack) > level:
                inner[stack[level]].append((stack, count))
        for function, below in sorted(inner.items()):
            count = sum(each for _, each in below)
            width = WIDTH * count / total
            if width >= LEAST:
                boxes.append(box(function, count / total, left, level, width))
                place(below, left, level + 1)
            left += width

    place(list(stacks.items()), 0, 0)
    height = depth * ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="11">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n'
        f'<g transform="translate(0 {height}) scale(1 -1)">\n{"".join(boxes)}</g>\n</svg>\n'
    )


def box(function, share, left, level, width):
    letters = int((width - 4) / PIXELS_PER_LETTER)
    text = function if len(function) <= letters else function[: letters - 1] + "…"
    words = f'<text x="2" y="-4" transform="scale(1 -1)">{html.escape(text)}</text>' if letters > 2 else ""
    # Threads are grey, functions of a module have a colour.
    colour = f"hsl({zlib.crc32(function.rpartition('::')[0].encode()) % 70},80%,75%)" if level else "#ddd"
    return (
        f'<g transform="translate({left:.1f} {level * ROW})"><title>{html.escape(function)} {share:.1%}</title>'
        f'<rect width="{max(width - 0.5, 0.5):.1f}" height="{ROW - 1}" fill="{colour}"/>{words}</g>\n'
    )
