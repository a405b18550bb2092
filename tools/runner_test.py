"""The order in which steps run, and what a run says at its end."""

import argparse
import contextlib
import io
import os
import re
import unittest
from unittest import mock

import runner
from runner import Run, Step
from test import STEPS, chosen


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


if __name__ == "__main__":
    unittest.main()
