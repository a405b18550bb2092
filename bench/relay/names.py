"""How long the relay takes to suggest names, and what that costs."""

import http.client
import itertools
import json
import statistics
import sys
import time
from urllib.parse import quote

from processes import Relay, say
from usage import cpu_ns, rss_kb

ABOUT = (
    "a relay that knows {names} names from a file; {requests} requests for 20 names that contain a text or fit a pattern,"
    " one after the other over one connection, n = {rounds} rounds, relay on one core, client on the others."
)

TEXTS = ("s", "sr", "temp", "bpm:00", "SR07:*:X-*", "*-012345", "nothing", "*")
SUGGESTIONS = 20


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return [0]


def name(number):
    """A name as facilities have them: sector, kind of device, its number, signal."""
    device, signal = ("BPM", "PS", "VAC", "RF")[number % 4], ("X", "Y", "I", "TEMP", "STAT")[number % 5]
    return f"SR{number % 24:02}:{device}:{number // 20:04}:{signal}-{number:06}"


def measure(children, scenario, iocs, folder):
    """One round, and what came of it."""
    known = folder / "known.txt"
    known.write_text("".join(f"{name(number)}\n" for number in range(scenario["names"])))
    with Relay(children, scenario | {"flags": ["--names-file", known]}, iocs) as relay:
        pid, connection = relay.process.pid, http.client.HTTPConnection(relay.address, timeout=30)
        for text in TEXTS:
            suggested(connection, text)
        times, used = [], cpu_ns(pid)
        for text in itertools.islice(itertools.cycle(TEXTS), scenario["requests"]):
            began = time.monotonic()
            found = suggested(connection, text)
            times.append((time.monotonic() - began) * 1000)
            if (not found) != (text == "nothing") or len(found) > SUGGESTIONS:
                sys.exit(f"{text} found {len(found)} names")
        figures = {
            "answer_p50_ms": statistics.median(times),
            "answer_p99_ms": statistics.quantiles(times, n=100)[-1],
            "answer_max_ms": max(times),
            "cpu_ms_per_answer": (cpu_ns(pid) - used) / len(times) / 1e6,
            "relay_rss_mb": rss_kb(pid) / 1024,
        }
    say(f"   after {figures['answer_p50_ms']:.2f} ms (99 %: {figures['answer_p99_ms']:.2f} ms)")
    return figures, {}


def suggested(connection, text):
    """The names that the relay suggests for a text."""
    connection.request("GET", f"/names?q={quote(text)}&limit={SUGGESTIONS}")
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        sys.exit(f"the relay answered {answer.status}: {body[:200]}")
    return json.loads(body)["names"]


LABELS = {
    "answer_p50_ms": ("Request to the whole answer, median", "ms"),
    "answer_p99_ms": ("the same, 99 %", "ms"),
    "answer_max_ms": ("the same, longest", "ms"),
    "cpu_ms_per_answer": ("Relay: CPU of an answer", "ms"),
    "relay_rss_mb": ("Relay: memory", "MB"),
}
