"""Runs every check and test in order, and says for each section how long it took and what it counted.

Stops at the first step that fails and shows its output. `--only NAME` runs the steps of one section.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Section, what it is, command.
STEPS = [
    ("check", "rustfmt", "cargo fmt --all --check"),
    ("check", "generated code is current", "make --no-print-directory regen-check"),
    ("check", "links of the documentation", ".local/venv/bin/python tools/links.py"),
    # 1 s.
    ("check", "licences and sources", "make --no-print-directory deny"),
    ("check", "clippy", "cargo clippy --quiet --locked --workspace --all-targets -- -D warnings"),
    (
        "check",
        "rustdoc",
        "RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --workspace --no-deps"
        " --document-private-items",
    ),
    ("rust", "Rust tests", "cargo test --locked --workspace"),
    # 247 cases in 5 s, after half a minute of building a relay that echoes.
    ("rust", "WebSocket conformance", "make --no-print-directory conformance"),
    ("rust", "a stranger's reader", "make --no-print-directory stranger"),
    # 5 s for each reader, in the build of the tests.
    ("rust", "fuzzed input", "cargo run --quiet --locked -p pvwire-fuzz -- --seconds 5"),
    ("wasm", "WebAssembly and package", "make --no-print-directory wasm"),
    ("check", "eslint and prettier", "npm run --silent lint"),
    ("check", "TypeScript", "npm run --silent typecheck"),
    ("ts", "package tests in Node", "npm run --silent test:unit"),
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
    ("soak", "faults at random", "make --no-print-directory soak SECONDS=120"),
]

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


def run(name, command, environment):
    """Runs a step: its status, and what it came to."""
    print(f"== {name}", flush=True)
    step = Section()
    step.steps = 1
    began = time.monotonic()
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = []
    told = began
    for line in process.stdout:
        lines.append(line)
        if time.monotonic() - told > 30:
            told = time.monotonic()
            print(f"   … {told - began:.0f} s", flush=True)
    status = process.wait()
    step.seconds = time.monotonic() - began
    output = COLOURS.sub("", "".join(lines))
    step.passed, step.failed = totals(output)
    if status != 0:
        print(output)
        print(f"== {name} FAILED with status {status} after {step.seconds:.0f} s")
    else:
        counted = f", {step.passed} passed" if step.passed else ""
        print(f"   ok, {step.seconds:.0f} s{counted}", flush=True)
        # Tests that this machine can't run.
        for line in re.findall(r"^NOT RUN: .*", output, re.M):
            print(f"   {line}", flush=True)
    return status, step


def totals(output):
    passed = failed = 0
    for pattern in TOTALS:
        for found in pattern.finditer(output):
            passed += int(found["passed"] or 0)
            failed += int(found.groupdict().get("failed") or 0)
    return passed, failed


def report(sections):
    """Counts and times of each section, in a table."""
    print(f"\n{'section':<14}{'steps':>6}{'passed':>8}{'failed':>8}{'time':>9}")
    whole = Section()
    for name, section in sections.items():
        whole.add(section)
        print(line_of(name, section))
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
    for kind, name, command in STEPS:
        if only and kind != only:
            continue
        status, step = run(name, command, environment)
        sections.setdefault(kind, Section()).add(step)
        if status != 0:
            # A check that finds something counts nothing.
            if kind == "check" or not only:
                sections[kind].failed = max(sections[kind].failed, 1)
            break
    whole = report(sections)
    print(f"{whole.passed} passed, {whole.failed} failed")
    return 1 if status != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
