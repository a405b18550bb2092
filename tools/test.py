"""Runs every check and test in order, and says for each section how long it took and what it counted.

Steps that mostly wait, or whose result doesn't depend on time, run beside those that follow.
Stops at the first step that fails and shows its output. `--only NAME` runs the steps of one section.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Section, what it is, command.
STEPS = [
    ("check", "rustfmt", "cargo fmt --all --check"),
    ("check", "generated code is current", "make --no-print-directory regen-check"),
    ("check", "links of the documentation", ".local/venv/bin/python tools/links.py"),
    # Less than 1 s.
    ("check", "figures of the documentation", ".local/venv/bin/python bench/relay/plots.py --check"),
    # 1 s.
    ("check", "licences and sources", "make --no-print-directory deny"),
    ("check", "advisories", "make --no-print-directory advisories"),
    ("check", "clippy", "cargo clippy --quiet --locked --workspace --all-targets -- -D warnings"),
    (
        "check",
        "rustdoc",
        "RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --workspace --no-deps"
        " --document-private-items",
    ),
    ("rust", "Rust tests", "cargo test --locked --workspace --exclude pvwire-relay"),
    # 20 s, half of it compiling: libca with the C library's own recv and send, the shim with the public
    # interface of pvxs alone. Its own folder, because the shim would be compiled again for other builds.
    (
        "rust",
        "EPICS clients without replaced functions",
        "export PVWIRE_PVXS_PUBLIC_API=1;"
        " plain='cargo test --locked -p pvwire-epics --no-default-features --target-dir target/plain';"
        " $plain --lib; $plain --test epics -- ca_without_recv puts_of_every values_of_every"
        " arrays_of_every structures_arrive scalars_of_every",
    ),
    # They mostly wait for IOCs and relays: more of them at a time than there are cores.
    ("rust", "the relay's tests", "RUST_TEST_THREADS=6 cargo test --locked -p pvwire-relay"),
    # 247 cases in 5 s, after half a minute of building a relay that echoes.
    ("rust", "WebSocket conformance", "make --no-print-directory conformance"),
    ("rust", "a stranger's reader", "make --no-print-directory stranger"),
    # The corpus, and 5 s for each reader, in the build of the tests.
    ("rust", "fuzzed input", "cargo run --quiet --locked -p pvwire-fuzz -- --seconds 5"),
    ("soak", "faults at random", "make --no-print-directory soak SECONDS=120"),
    ("wasm", "WebAssembly and package", "make --no-print-directory wasm"),
    ("check", "eslint and prettier", "npm run --silent lint"),
    ("check", "TypeScript", "npm run --silent typecheck"),
    (
        "ts",
        "package tests in Node",
        "cargo build --quiet --locked -p pvwire-relay; npm run --silent test:unit",
    ),
    ("ts", "package tests in the browser", "npm run --silent test:browser"),
    (
        "e2e",
        "end-to-end tests",
        "cargo build --quiet --locked -p pvwire-relay; npm run --silent test -w pvwire-e2e",
    ),
    # 5 s: the relay is built.
    ("deploy", "the image's root file system", "make --no-print-directory image-check"),
    # 5 s.
    ("deploy", "manifests", "make --no-print-directory manifests"),
    # 8 s, most of it the wait for farewells.
    ("deploy", "pods that end", "make --no-print-directory pods"),
    ("instructions", "instruction counts", "make --no-print-directory instructions"),
    ("packaging", "the package in other people's apps", "make --no-print-directory packaging-test"),
]

# Steps that run beside those that follow; they end before the run does.
BESIDE = {"faults at random", "fuzzed input", "instruction counts"}

COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

# How each runner says what it ran: (pattern, which groups are passed and failed).
TOTALS = [
    re.compile(r"^test result: .*? (?P<passed>\d+) passed; (?P<failed>\d+) failed", re.M),
    re.compile(r"^\s*Tests\s+(?:(?P<failed>\d+) failed \| )?(?P<passed>\d+) passed", re.M),
    re.compile(r"^\s*(?P<passed>\d+) passed \(\d", re.M),
    re.compile(r"^(?P<passed>\d+) passed, (?P<failed>\d+) failed$", re.M),
]


class Section:
    """What the steps of one section came to."""

    def __init__(self):
        self.steps = self.passed = self.failed = 0
        self.seconds = 0.0

    def add(self, other):
        self.steps += other.steps
        self.passed += other.passed
        self.failed += other.failed
        self.seconds += other.seconds


class Step:
    """A step that runs. `finish` waits for it and reports it."""

    def __init__(self, kind, name, command, environment):
        self.kind = kind
        self.name = name
        self.began = time.monotonic()
        self.lines = []
        self.process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.seconds = 0.0
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        self.lines.extend(self.process.stdout)
        self.process.wait()
        self.seconds = time.monotonic() - self.began

    def finish(self):
        """Waits for the step, with signs of life: its status, and what it came to."""
        while self.reader.is_alive():
            self.reader.join(30)
            if self.reader.is_alive():
                print(f"   … {time.monotonic() - self.began:.0f} s", flush=True)
        came_to = Section()
        came_to.steps = 1
        came_to.seconds = self.seconds
        output = COLOURS.sub("", "".join(self.lines))
        came_to.passed, came_to.failed = totals(output)
        status = self.process.returncode
        if status != 0:
            print(output)
            print(f"== {self.name} FAILED with status {status} after {self.seconds:.0f} s")
        else:
            counted = f", {came_to.passed} passed" if came_to.passed else ""
            print(f"   ok, {self.seconds:.0f} s{counted}", flush=True)
            # Tests that this machine can't run.
            for line in re.findall(r"^NOT RUN: .*", output, re.M):
                print(f"   {line}", flush=True)
        return status, came_to

    def end(self):
        """Ends a step whose result is not needed, with all that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.reader.join(10)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.reader.join()


def totals(output):
    passed = failed = 0
    for pattern in TOTALS:
        for found in pattern.finditer(output):
            passed += int(found["passed"] or 0)
            failed += int(found.groupdict().get("failed") or 0)
    return passed, failed


def run_all(steps, environment, sections, beside):
    """Runs the steps until one fails: its status, or 0. What still runs then is left in `beside`."""

    def finished(step):
        status, came_to = step.finish()
        sections.setdefault(step.kind, Section()).add(came_to)
        return status

    for kind, name, command in steps:
        later = name in BESIDE
        print(f"== {name}{', beside what follows' if later else ''}", flush=True)
        step = Step(kind, name, command, environment)
        beside.append(step)
        if later:
            continue
        status = finished(step)
        beside.remove(step)
        if status != 0:
            return status
        for other in [other for other in beside if not other.reader.is_alive()]:
            print(f"== {other.name}", flush=True)
            beside.remove(other)
            if (status := finished(other)) != 0:
                return status
    for other in list(beside):
        print(f"== {other.name}", flush=True)
        status = finished(other)
        beside.remove(other)
        if status != 0:
            return status
    return 0


def report(sections, elapsed):
    """Counts and times of each section, in a table. Sections overlap, so the times' sum isn't shown."""
    print(f"\n{'section':<14}{'steps':>6}{'passed':>8}{'failed':>8}{'time':>9}")
    whole = Section()
    for name, section in sections.items():
        whole.add(section)
        print(line_of(name, section))
    whole.seconds = elapsed
    print(line_of("all", whole))
    return whole


def line_of(name, section):
    minutes, seconds = divmod(round(section.seconds), 60)
    counts = f"{section.steps:>6}{section.passed:>8}{section.failed:>8}"
    return f"{name:<14}{counts}{minutes:>6}:{seconds:02}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="run the steps of this section", choices=sorted({s[0] for s in STEPS}))
    only = parser.parse_args().only
    environment = dict(os.environ, CARGO_TERM_COLOR="never", FORCE_COLOR="0", CI="true")
    sections = {}
    beside = []
    began = time.monotonic()
    try:
        status = run_all([step for step in STEPS if only in (None, step[0])], environment, sections, beside)
    finally:
        for step in beside:
            step.end()
    # A check that finds something counts nothing.
    if status != 0 and not any(section.failed for section in sections.values()):
        sections[next(reversed(sections))].failed = 1
    whole = report(sections, time.monotonic() - began)
    print(f"{whole.passed} passed, {whole.failed} failed")
    return 1 if status != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
