"""The test run: the order in which steps run, what a run says at its end and which lines of a failed step, and what
compiling a crate by lint.py refuses."""

import argparse
import contextlib
import io
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import runner
from decisive import FAILURE_LINES, LINE_CHARACTERS, STEP_LINES, decisive_lines, last_lines
from runner import ROOT, Run, Step
from test import LINTED, STEPS, chosen


def ran(steps, keeps_going=False):
    """Exit status and output of a run."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        status = Run(steps, dict(os.environ), keeps_going).to_the_end()
    return status, written.getvalue()


class Jobs(unittest.TestCase):
    def test_jobs_of_ci_run_every_section(self):
        workflow = (runner.ROOT / ".github/workflows/ci.yml").read_text()
        jobs = [line.split() for line in re.findall(r"sections: (.+)", workflow)]
        self.assertEqual({section for job in jobs for section in job}, {step.section for step in STEPS})
        for section in {section for job in jobs for section in job} - {"setup", "wasm"}:
            self.assertEqual(sum(section in job for job in jobs), 1, section)

    def test_rust_is_linted_once_whichever_sections_run(self):
        for only in (["check"], ["check", "rust"], ["rust"]):
            steps = {step.name for step in chosen(argparse.Namespace(fast=False, only=only))}
            self.assertEqual("clippy" in steps, "rust" not in only, only)


class Runs(unittest.TestCase):
    def test_run_that_passes_counts_its_tests(self):
        counted = "echo 'test result: ok. 7 passed; 0 failed; 0 ignored'"
        status, output = ran([Step("a", "first", counted), Step("b", "second", "true", needs=("first",))])
        self.assertEqual(status, 0)
        self.assertLess(output.index("ok: first"), output.index("== second"))
        self.assertTrue(output.endswith("7 passed, 0 failed\n"))
        self.assertNotIn("FAILED", output)

    def test_failure_is_told_again_at_the_very_end(self):
        long = "echo 'error: it is wrong'; echo; seq 1000; exit 3"
        status, output = ran([Step("a", "first", long), Step("a", "second", "true")])
        self.assertEqual(status, 1)
        end = output.splitlines()[-5:]
        self.assertRegex(end[0], r"^== first FAILED after \d+ s: status 3$")
        self.assertEqual(
            end[1:],
            ["   error: it is wrong", "", "Not run to the end because of that: second", "0 passed, 1 failed"],
        )

    def test_all_failures_are_told_when_a_run_goes_on(self):
        steps = [Step("a", "first", "echo one; false"), Step("a", "second", "echo two; false")]
        _, output = ran(steps, keeps_going=True)
        end = output[output.index("section") :]
        self.assertRegex(end, r"(?s)== first FAILED .*   one\n.*== second FAILED .*   two\n.*0 passed, 2 failed\n$")

    def test_step_that_takes_too_long_is_ended_and_says_so(self):
        has_written = lambda step, _: bool(step.lines)  # noqa: E731
        with mock.patch.object(runner.Running, "takes_too_long", has_written):
            status, output = ran([Step("a", "first", "echo it waits; sleep 600")])
        self.assertEqual(status, 1)
        self.assertRegex(output, r"first FAILED after \d+ s: ended, because it took longer than 2400 s\n   it waits\n")

    def test_rust_test_that_hangs_is_named(self):
        hangs = "echo 'test states::a has been running for over 60 seconds'; sleep 600"
        with mock.patch.object(runner, "LONGEST_TEST_S", 60.3):
            _, output = ran([Step("a", "first", hangs)])
        self.assertIn("ended, because states::a took longer than 60.3 s", output)


RUST = """
running 2 tests
test states::value_is_kept ... ok
test damaged::files_stay_valid ... FAILED

failures:

---- damaged::files_stay_valid stdout ----

thread 'damaged::files_stay_valid' (20714) panicked at relay/tests/damaged.rs:177:13:
assertion `left == right` failed: pvwire_rules_stale:
[2026-11-22T23:03:59Z ERROR] jwt_keys: EOF while parsing a value
  left: 0
 right: 6
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/59807616/library/std/src/panicking.rs:689:5
   1: relay::damaged::files_stay_valid
             at ./tests/damaged.rs:142:82
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
--- the relay wrote:
error: this is a line of a relay
[2026-11-22T23:03:58Z INFO ] listening


failures:
    damaged::files_stay_valid

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.58s

error: test failed, to rerun pass `-p pvwire-relay --test relay`
"""

PLAYWRIGHT = """
  ✓  1 [stories] › tests/puts.spec.ts:5:1 › a put is written (5.2s)
  ✘  2 [stories] › tests/large_array.spec.ts:51:1 › large array: nothing lost (9.0s)

  1) [stories] › tests/large_array.spec.ts:51:1 › large array: nothing lost ──────────

    Error: expect(received).toMatchObject(expected)

    - Expected  - 1
    + Received  + 1

      Object {
    -   "skipped": 0,
    +   "skipped": 2,
      }

      57 |   expect(wrong).toEqual([]);
    > 58 |   expect(inspection).toMatchObject({ skipped: 0 });
         |                      ^
      59 |
        at /work/e2e/tests/values.spec.ts:58:22

    attachment #3: relay output (text/plain) ──────────
    [2026-11-22T17:57:54Z INFO ] listening

  1 failed
    [stories] › tests/large_array.spec.ts:51:1 › large array: nothing lost ──────────
  1 passed (9.4m)
"""

VITEST = """
 FAIL   browser (chromium)  tests/hooks.test.tsx > usePvSummary > counts the PVs once each
AssertionError: expected [ +0, 1 ] to have a length of 3 but got 4

- Expected
+ Received

- 3
+ 4

 ❯ tests/hooks.test.tsx:417:18
    415|     const renders = seen.length;

⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/1]⎯

 Test Files  1 failed | 3 passed (4)
"""

CLIPPY = """
error: unresolved link to `SharedArray`
  --> relay/epics/src/pva/element.rs:23:37
   |
23 |     /// Bytes of one element in a [`SharedArray`]
   |                                     ^^^^^^^^^^^ no item named `SharedArray` in scope

error: could not document `pvwire-epics`
"""

TYPES_AND_LINT = """
wasm-client/ts/store.ts(12,3): error TS2322: Type 'string' is not assignable to type 'number'.
/work/e2e/tests/puts.spec.ts
  12:3   error    Unexpected any  @typescript-eslint/no-explicit-any
  14:1   warning  Unused directive

✖ 2 problems (1 error, 1 warning)
[warn] web-demo/src/app.tsx
"""


def stripped(output):
    return [line.strip() for line in decisive_lines(output)]


class Decisive(unittest.TestCase):
    def test_panic_has_test_place_message_and_both_sides(self):
        self.assertEqual(
            stripped(RUST),
            [
                "thread 'damaged::files_stay_valid' (20714) panicked at relay/tests/damaged.rs:177:13:",
                "assertion `left == right` failed: pvwire_rules_stale:",
                "left: 0",
                "right: 6",
                "at ./tests/damaged.rs:142:82",
            ],
        )

    def test_threads_that_fail_alike_are_told_once(self):
        panic = "thread '<unnamed>' ({}) panicked at client.rs:691:65:\na bad frame\n"
        self.assertEqual(len(decisive_lines(panic.format(7) + panic.format(8))), 2)

    def test_story_has_title_expected_received_and_line(self):
        lines = stripped(PLAYWRIGHT)
        self.assertIn("1) [stories] › tests/large_array.spec.ts:51:1 › large array: nothing lost", lines[0])
        self.assertEqual(lines[1], "Error: expect(received).toMatchObject(expected)")
        self.assertIn('-   "skipped": 0,', lines)
        self.assertIn('+   "skipped": 2,', lines)
        self.assertEqual(lines[-1], "> 58 |   expect(inspection).toMatchObject({ skipped: 0 });")
        self.assertEqual(len(lines), 9)

    def test_test_of_vitest_has_title_error_and_place(self):
        lines = stripped(VITEST)
        self.assertTrue(lines[0].endswith("usePvSummary > counts the PVs once each"))
        self.assertTrue(lines[1].startswith("AssertionError: "))
        self.assertEqual(lines[-3:], ["- 3", "+ 4", "❯ tests/hooks.test.tsx:417:18"])

    def test_compiler_has_message_and_place(self):
        lines = stripped(CLIPPY)
        self.assertEqual(lines[0], "error: unresolved link to `SharedArray`")
        self.assertEqual(lines[1], "--> relay/epics/src/pva/element.rs:23:37")
        self.assertNotIn("error: could not document `pvwire-epics`", lines)

    def test_types_lint_and_formatting_have_file_line_and_message(self):
        self.assertEqual(
            stripped(TYPES_AND_LINT),
            [
                "wasm-client/ts/store.ts(12,3): error TS2322: Type 'string' is not assignable to type 'number'.",
                "/work/e2e/tests/puts.spec.ts",
                "12:3   error    Unexpected any  @typescript-eslint/no-explicit-any",
                "[warn] web-demo/src/app.tsx",
            ],
        )

    def test_signal_that_ended_a_program_is_told(self):
        line = "  process didn't exit successfully: `relay` (signal: 11, SIGSEGV: invalid memory reference)"
        self.assertEqual(decisive_lines(f"test a ... ok\n{line}\n"), [line])

    def test_unittest_has_name_place_and_error(self):
        output = f"{'=' * 70}\nFAIL: test_a (a.A)\n{'-' * 70}\nTraceback (most recent call last):\n"
        output += '  File "a.py", line 3, in test_a\n    self.fail()\nAssertionError: 1 != 2\n'
        self.assertEqual(
            stripped(output), ["FAIL: test_a (a.A)", 'File "a.py", line 3, in test_a', "AssertionError: 1 != 2"]
        )

    def test_other_output_gives_its_last_lines(self):
        output = "".join(f"line {number}\n\n" for number in range(100))
        self.assertEqual(decisive_lines(output)[-1], "line 99")
        self.assertEqual(len(decisive_lines(output)), STEP_LINES)
        self.assertEqual(last_lines("a\n\nb\n", 1), ["b"])
        self.assertEqual(decisive_lines(""), [])

    def test_many_and_long_failures_are_cut(self):
        failure = "error: number {}\n" + "   | and more\n" * 99 + "\n"
        lines = decisive_lines("".join(failure.format(number) for number in range(50)))
        self.assertLessEqual(len(lines), STEP_LINES)
        self.assertEqual(lines[0], "error: number 0")
        self.assertEqual(lines[-1], f"… and {50 - sum('error' in line for line in lines)} more, above")
        self.assertLessEqual(len(decisive_lines(failure)), FAILURE_LINES)
        self.assertEqual(len(decisive_lines("error: " + "x" * 9999)[0]), LINE_CHARACTERS)


LEN_ZERO = "pub fn has_none(text: &str) -> bool { text.len() == 0 }"


def compiled(source, *flags, kind="lib", **variables):
    """Exit status and messages of rustc behind lint.py, as cargo calls it in a test run."""
    with tempfile.TemporaryDirectory() as folder:
        crate, built = Path(folder, "source.rs"), Path(folder, "target/debug/deps")
        crate.write_text(source)
        built.mkdir(parents=True)
        command = [LINTED["RUSTC_WORKSPACE_WRAPPER"], "rustc", "--crate-name", "linted", "--crate-type", kind]
        command += ["--edition=2024", "--emit=dep-info,metadata,link", *flags, crate, "--out-dir", built]
        environment = os.environ | LINTED | variables
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stderr


class Lints(unittest.TestCase):
    def refused(self, found, *arguments, **others):
        status, messages = compiled(*arguments, **others)
        self.assertNotEqual(status, 0)
        self.assertIn(found, messages)

    def test_lint_of_clippy_fails_the_build(self):
        self.refused("clippy::len-zero", LEN_ZERO)

    def test_warning_of_rustc_fails_the_build(self):
        self.refused("never used", "fn unused() {}")

    def test_link_of_the_documentation_that_leads_nowhere_fails_the_build(self):
        self.refused("unresolved link to `Missing`", "/// See [`Missing`].\npub fn documented() {}")
        self.refused("unresolved link to `Missing`", "//! See [`Missing`].\nfn main() {}", kind="bin")

    def test_optimised_crate_is_compiled_by_rustc(self):
        self.assertEqual(compiled(LEN_ZERO, "-C", "opt-level=3"), (0, ""))

    def test_name_of_a_program_with_a_hyphen_is_known(self):
        program = 'pub const PROGRAM: &str = env!("CARGO_BIN_EXE_a-program");'
        self.assertEqual(compiled(program, **{"CARGO_BIN_EXE_a-program": "/a"}), (0, ""))


if __name__ == "__main__":
    unittest.main()
