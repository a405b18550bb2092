"""Runs the steps of a test run in parallel, ends those that hang, and counts their tests."""

import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from decisive import decisive_lines, last_lines

ROOT = Path(__file__).resolve().parent.parent
CORES = 2
# Only what hangs reaches these limits: on a machine that others use too, a step takes several times as long.
# The maximum time of a Rust test: the test runner names a test that runs for more than 60 s.
LONGEST_TEST_S = 480
LONGEST_STEP_S = 2400
SIGN_OF_LIFE_S = 30

COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
SLOW = re.compile(r"^test (\S+).* has been running for over 60 seconds")
ENDED = re.compile(r"^test (\S+) .*\.\.\. ")

# How each test runner reports its counts.
TOTALS = [
    re.compile(r"^test result: .*? (?P<passed>\d+) passed; (?P<failed>\d+) failed", re.M),
    re.compile(r"^\s*Tests\s+(?:(?P<failed>\d+) failed \| )?(?P<passed>\d+) passed", re.M),
    re.compile(r"^\s*(?P<passed>\d+) passed \(\d", re.M),
    re.compile(r"^(?P<passed>\d+) passed, (?P<failed>\d+) failed$", re.M),
    re.compile(r"^Ran (?P<passed>\d+) tests? in .*\n\nOK", re.M),
]


@dataclass(frozen=True)
class Step:
    """One command of a test run."""

    section: str
    name: str
    command: str
    # Cores that it keeps busy.
    cores: float = CORES
    # Steps that must have passed before, if they are part of the run.
    needs: tuple[str, ...] = ()
    fast: bool = False
    only_fast: bool = False
    # Left out when all sections run.
    only_alone: bool = False


class Running:
    """A step that is running."""

    def __init__(self, step, environment):
        self.step = step
        self.lines = []
        self.slow = {}
        self.too_long = None
        self.seconds = self.cpu_s = 0.0
        self.status = None
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", step.command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line)
                if found := SLOW.match(line):
                    self.slow[found[1]] = time.monotonic() + LONGEST_TEST_S - 60
                elif found := ENDED.match(line):
                    self.slow.pop(found[1], None)
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - self.began
        self.cpu_s = used.ru_utime + used.ru_stime

    def has_ended(self):
        return not self.reader.is_alive()

    def end_if_it_hangs(self):
        now = time.monotonic()
        late = [name for name, until in list(self.slow.items()) if now > until]
        if late:
            self.too_long = f"{', '.join(late)} took longer than {LONGEST_TEST_S} s"
        elif self.takes_too_long(now):
            self.too_long = f"it took longer than {LONGEST_STEP_S} s"
        if self.too_long:
            self.end()

    def takes_too_long(self, now):
        return now > self.began + LONGEST_STEP_S

    def end(self):
        """Ends the step and all processes that it started."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self.reader.is_alive():
                os.killpg(self.process.pid, sign)
                self.reader.join(10)

    def output(self):
        return COLOURS.sub("", "".join(self.lines))


@dataclass
class Section:
    """Counts and times of the steps of one section."""

    steps: int = 0
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0

    def add(self, other):
        self.steps += other.steps
        self.passed += other.passed
        self.failed += other.failed
        self.seconds += other.seconds
        self.cpu_s += other.cpu_s


@dataclass
class Run:
    """A run of steps: those that wait, those that are running, and the results of those that ended."""

    steps: list
    environment: dict
    # Whether the other steps run after one has failed.
    keeps_going: bool = False
    running: list = field(default_factory=list)
    sections: dict = field(default_factory=dict)
    # For each failed step: a title with its name and the reason, and the lines that show the failure.
    failures: list = field(default_factory=list)

    def to_the_end(self):
        """Runs all steps, by default until one fails, and returns the exit status."""
        began = reported = time.monotonic()
        waiting = list(self.steps)
        try:
            while (waiting or self.running) and (self.keeps_going or not self.failures):
                self.start_what_fits(waiting)
                self.running[0].reader.join(0.2)
                for running in self.running:
                    running.end_if_it_hangs()
                for running in [each for each in self.running if each.has_ended()]:
                    self.running.remove(running)
                    self.finish(running)
                    reported = time.monotonic()
                if time.monotonic() > reported + SIGN_OF_LIFE_S:
                    reported = time.monotonic()
                    names = ", ".join(
                        f"{each.step.name} {reported - each.began:.0f} s" for each in self.running
                    )
                    print(f"   … {names}", flush=True)
        finally:
            for running in self.running:
                running.end()
        whole = self.report(time.monotonic() - began)
        self.explain([each.step.name for each in self.running], [step.name for step in waiting])
        print(f"{whole.passed} passed, {whole.failed} failed")
        return 1 if self.failures else 0

    def start_what_fits(self, waiting):
        open_names = {step.name for step in waiting} | {each.step.name for each in self.running}
        free = CORES - sum(each.step.cores for each in self.running)
        for step in list(waiting):
            if open_names.intersection(step.needs):
                continue
            if step.cores > free + 0.01:
                if step.cores > 1:
                    # Small steps must not keep a large one waiting for ever.
                    break
                continue
            waiting.remove(step)
            print(f"== {step.name}", flush=True)
            self.running.append(Running(step, self.environment))
            free -= step.cores

    def finish(self, running):
        output = running.output()
        passed, failed = totals(output)
        came_to = Section(1, passed, failed, running.seconds, running.cpu_s)
        status = running.process.returncode
        if status != 0 or running.too_long:
            # A failed check that counts no tests is one failure.
            came_to.failed = came_to.failed or 1
            why = f"ended, because {running.too_long}" if running.too_long else f"status {status}"
            title = f"== {running.step.name} FAILED after {running.seconds:.0f} s: {why}"
            # The last lines of a step that hangs show where it hangs.
            lines = last_lines(output) if running.too_long else decisive_lines(output)
            self.failures.append((title, lines))
            print(output)
            print(title, flush=True)
        else:
            counted = f", {passed} passed" if passed else ""
            print(
                f"   ok: {running.step.name}, {running.seconds:.0f} s,"
                f" {running.cpu_s:.0f} s of CPU{counted}",
                flush=True,
            )
            # Tests that this machine can't run.
            for line in re.findall(r"^NOT RUN: .*", output, re.M):
                print(f"   {line}", flush=True)
        self.sections.setdefault(running.step.section, Section()).add(came_to)

    def explain(self, ended, waiting):
        """Prints the failures at the very end, because often only the last lines of a long output are kept."""
        for title, lines in self.failures:
            print(f"\n{title}")
            for line in lines:
                print(f"   {line}")
        if self.failures and (ended or waiting):
            print(f"\nNot run to the end because of that: {', '.join(ended + waiting)}")

    def report(self, elapsed):
        """Prints counts and times of each section. Steps overlap, so the sections' times exceed the total."""
        print(f"\n{'section':<14}{'steps':>6}{'passed':>8}{'failed':>8}{'time':>9}{'CPU':>9}")
        whole = Section()
        for name, section in self.sections.items():
            whole.add(section)
            print(line_of(name, section))
        whole.seconds = elapsed
        print(line_of("all", whole))
        return whole


def totals(output):
    passed = failed = 0
    for pattern in TOTALS:
        for found in pattern.finditer(output):
            passed += int(found["passed"] or 0)
            failed += int(found.groupdict().get("failed") or 0)
    return passed, failed


def line_of(name, section):
    times = "".join(f"{minutes_of(seconds):>9}" for seconds in (section.seconds, section.cpu_s))
    return f"{name:<14}{section.steps:>6}{section.passed:>8}{section.failed:>8}{times}"


def minutes_of(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02}"
