"""What compiling a crate by lint.py refuses."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from runner import ROOT
from test import LINTED

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
