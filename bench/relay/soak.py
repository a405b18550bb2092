"""A long run without a gap and without growing memory."""

import sys

import deliver
from processes import say

ABOUT = (
    "{clients} clients × {each} PVs × {rate_hz} Hz for {seconds} s, n = {rounds} rounds, relay on one"
    " core, IOC and clients on the others."
)


runs = deliver.runs


def measure(children, scenario, iocs, folder):
    """One round, and what came of it; ends the run when the relay grows."""
    figures, raw = deliver.measure(children, scenario, iocs, folder)
    grown = figures["rss_growth_kb_per_minute"] * scenario["seconds"] / 60
    say(f"   the relay's memory grew by {grown:.0f} KB, by the line that fits best")
    if grown > scenario["most_growth_kb"]:
        sys.exit(f"the relay grew by {grown:.0f} KB where {scenario['most_growth_kb']} are allowed")
    return figures, raw


LABELS = deliver.LABELS | {
    "rss_growth_kb_per_minute": ("Relay: memory, slope of the line that fits best", "KB/min"),
    "rss_most_mb": ("Relay: memory, most at any time", "MB"),
}
