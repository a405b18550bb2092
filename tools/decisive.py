"""Selects the lines of a failed step's output that show what went wrong."""

import re
from dataclasses import dataclass

# Maximum number of lines per step, of lines per failure, and of characters per line.
STEP_LINES = 40
FAILURE_LINES = 12
LINE_CHARACTERS = 240

NEVER = re.compile(r"(?!)")
# The number of a thread.
THREAD = re.compile(r"(?<=') \(\d+\)")


@dataclass(frozen=True)
class Kind:
    """How one tool reports a failure."""

    begins: re.Pattern
    # The first line after it.
    ends: re.Pattern
    # How many of its first non-empty lines are kept, and which lines after them.
    first: int = 1
    keeps: re.Pattern = NEVER
    drops: re.Pattern = NEVER

    def kept(self, block):
        lines = [line for line in block if line.strip() and not self.drops.match(line)]
        behind = [line for line in lines[self.first :] if self.keeps.search(line)]
        return (lines[: self.first] + behind)[:FAILURE_LINES]


TESTS = [
    # A panic in Rust: test and location, message, both sides of an assertion, callers in the tests.
    Kind(
        begins=re.compile(r"^thread '.*' (\(\d+\) )?panicked at "),
        ends=re.compile(
            r"^thread '.*' (\(\d+\) )?panicked at |^---- .* stdout ----|^--- the "
            r"|^failures:|^test .* \.\.\. |^test result:"
        ),
        first=5,
        keeps=re.compile(r"^ +(left|right): |^ +at \./"),
        drops=re.compile(r"^(stack backtrace:|note: )|^ +\d+: |^ +at (?!\./)|^\[\d{4}-"),
    ),
    # A test of Playwright: title, error with expected and received values, line of the test.
    Kind(
        begins=re.compile(r"^ +\d+\) \[?[\w-]+\]? ›|^ +\d+\) \S+\.spec\.ts"),
        ends=re.compile(r"^ +\d+\) |^ +\d+ (failed|flaky|passed|did not run)|^ +attachment #|^ +[✓✘-] +\d+ "),
        first=9,
        keeps=re.compile(r"^ +> *\d+ \|"),
        drops=re.compile(r"^ +\d* *\|( |$)"),
    ),
    # A test of vitest.
    Kind(
        begins=re.compile(r"^ *FAIL +\S"),
        ends=re.compile(r"^ *FAIL +\S|^⎯{5}|^ +(Test Files|Tests) "),
        first=7,
        keeps=re.compile(r"^ +❯ \S+:\d+:\d+"),
    ),
    # A test of Python's unittest.
    Kind(
        begins=re.compile(r"^(FAIL|ERROR): \w+"),
        ends=re.compile(r"^={20}|^Ran \d+ test"),
        first=1,
        keeps=re.compile(r'^\w|^  File "'),
        drops=re.compile(r"^-{20}|^Traceback "),
    ),
    # A program that was ended by a signal.
    Kind(begins=re.compile(r".*\(signal: \d+"), ends=re.compile("")),
]

# Output of a program under test may look like one of these, so they are used only if no test failed.
CHECKS = [
    # Errors of rustc, clippy and rustdoc, without cargo's own.
    Kind(
        begins=re.compile(r"^error(\[\w+\])?: (?!test failed|could not |aborting |process didn't exit)"),
        ends=re.compile(r"^$"),
        first=8,
    ),
    # TypeScript.
    Kind(begins=re.compile(r"^\S+\(\d+,\d+\): error TS|^\S+:\d+:\d+ - error TS"), ends=re.compile("")),
    # A file for which eslint lists problems.
    Kind(
        begins=re.compile(r"^/\S+\.[cm]?[jt]sx?$"),
        ends=re.compile(r"^$"),
        keeps=re.compile(r"^ +\d+:\d+ +error "),
    ),
    # Files that Prettier and rustfmt would change.
    Kind(begins=re.compile(r"^\[(warn|error)\] "), ends=re.compile("")),
    Kind(begins=re.compile(r"^Diff in "), ends=re.compile(r"^Diff in "), first=7),
]


def decisive_lines(output, most=STEP_LINES):
    """At most `most` lines: the failures that the output reports, or its last lines if it reports none."""
    failures = failures_of(output, TESTS) or failures_of(output, CHECKS)
    return [shortened(line) for line in fitting(failures, most)] or last_lines(output, most)


def failures_of(output, kinds):
    lines = output.splitlines()
    found = {}
    at = 0
    while at < len(lines):
        kind = next((kind for kind in kinds if kind.begins.match(lines[at])), None)
        end = at + 1
        if kind:
            while end < len(lines) and not kind.ends.match(lines[end]):
                end += 1
            failure = kind.kept(lines[at:end])
            # Several threads may fail in the same place, and a tool may repeat its failures at the end.
            found.setdefault(THREAD.sub("", "\n".join(failure)), failure)
        at = end
    return list(found.values())


def last_lines(output, most=STEP_LINES):
    """The last lines of a step's output, without empty ones."""
    return [shortened(line) for line in output.splitlines() if line.strip()][-most:]


def fitting(failures, most):
    """The failures that fit, and the number of the others."""
    kept = []
    for number, failure in enumerate(failures):
        others = len(failures) - number - 1
        if len(kept) + len(failure) > most - (others > 0):
            return [*kept, f"… and {others + 1} more, above"]
        kept += failure
    return kept


def shortened(line):
    line = line.rstrip()
    return line if len(line) <= LINE_CHARACTERS else line[: LINE_CHARACTERS - 1] + "…"
