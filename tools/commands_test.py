"""Each command of the documents is run by the test that is named for it."""

import subprocess
import unittest
from pathlib import Path
from unittest import mock

import commands
from shell_blocks import blocks

ROOT = Path(__file__).resolve().parent.parent


class Elsewhere(unittest.TestCase):
    def test_named_test_reads_the_document_or_has_the_words_of_the_command(self):
        files = ["git", "ls-files", "-co", "--exclude-standard", "*.md"]
        listed = subprocess.run(files, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
        found = [
            commands.runner_elsewhere(document, command.text)
            for document in listed
            if (ROOT / document).exists()
            for block in blocks((ROOT / document).read_text())
            for command in block
        ]
        used = {file for file in found if file}
        self.assertEqual(used, {file for _, file, _ in commands.ELSEWHERE}, "an entry of ELSEWHERE has no command")

    def runner(self, *entry):
        with mock.patch.object(commands, "ELSEWHERE", [entry]):
            return commands.runner_elsewhere("docs/a.md", "node follow.mjs URL")

    def test_test_that_does_not_run_the_command_is_not_accepted(self):
        programs = "wasm-client/tests/examples.node.test.ts"
        self.assertEqual(self.runner(r".*: node (follow\.mjs)", programs, None), programs)
        self.assertIsNone(self.runner(r".*: python", programs, None))
        for entry in (
            (r".*: node (follow\.mjs)", "tools/words.py", None),
            (r".*: node (follow\.mjs)", "tools/no_such.py", None),
            (r".*: node ", programs, None),
            (r".*: node ", programs, "docs/a.md"),
        ):
            with self.assertRaises(SystemExit):
                self.runner(*entry)


if __name__ == "__main__":
    unittest.main()
