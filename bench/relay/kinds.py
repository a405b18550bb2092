"""Kinds of scenarios: how each is measured, and the names of its figures."""

from dataclasses import dataclass
from typing import Callable

import attack
import deliver
import door
import fanout
import fleet
import history
import ingest
import memory
import names
import peer
import soak
import stall
import storm
import tls
import wan


@dataclass(frozen=True)
class Kind:
    """What `run.py` and the reports need of a kind of scenario."""

    # (children, scenario, iocs, folder) → figures and raw results of one round.
    measure: Callable
    # Clients of each run of a round, 0 for the calibration: for how long it takes.
    runs: Callable
    # Name and unit of each figure, in the order in which they are shown.
    labels: dict
    # The scenario in a sentence, with its settings in braces.
    about: str
    # Figures in the table of a scenario with several points (default: all).
    columns: tuple = ()
    # More words for the sentence, made of the settings.
    words: Callable = lambda scenario: {}
    # What was checked, where it is no stream of updates.
    checked: str = ""


def of(module):
    return Kind(
        module.measure,
        module.runs,
        module.LABELS,
        module.ABOUT,
        getattr(module, "COLUMNS", ()),
        getattr(module, "words", lambda scenario: {}),
    )


KINDS = {
    "fan-out": of(fanout),
    "deliver": of(deliver),
    "door": of(door),
    "soak": of(soak),
    "stall": of(stall),
    "attack": of(attack),
    "tls": of(tls),
    "names": of(names),
    "peer": of(peer),
    "wan": of(wan),
    "fleet": of(fleet),
    **{
        kind: Kind(
            ingest.measure,
            ingest.runs,
            ingest.LABELS[kind],
            ingest.ABOUT[kind],
            ingest.COLUMNS.get(kind, ()),
        )
        for kind in ("ingest", "connect", "array")
    },
    **{
        kind: Kind(measure, module.runs, module.LABELS[kind], module.ABOUT[kind], getattr(module, "COLUMNS", {}).get(kind, ()))
        for module in (memory, storm)
        for kind, measure in module.MEASURES.items()
    },
    **{
        kind: Kind(
            measure,
            history.runs,
            history.LABELS[kind],
            history.ABOUT[kind],
            words=history.words,
            checked=history.CHECKED.get(kind, ""),
        )
        for kind, measure in history.MEASURES.items()
    },
}
