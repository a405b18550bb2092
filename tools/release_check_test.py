"""A release is installed in every root, or the check says in which it isn't."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import release_check


class Roots(unittest.TestCase):
    def available(self, obstacles, required):
        printed = io.StringIO()
        with (
            mock.patch.object(release_check, "obstacle", lambda suite: obstacles.get(suite, "")),
            contextlib.redirect_stdout(printed),
        ):
            return release_check.available(required), printed.getvalue()

    def test_root_that_can_not_be_made_fails_a_release_and_is_named_elsewhere(self):
        self.assertEqual(self.available({}, required=True), (list(release_check.SUITES), ""))
        with self.assertRaisesRegex(SystemExit, "jammy: no keys"):
            self.available({"jammy": "no keys"}, required=True)
        found, printed = self.available({"jammy": "no keys"}, required=False)
        self.assertEqual((found, printed), (["bookworm", "bullseye"], "jammy: NOT RUN: no keys\n"))
        self.assertEqual(release_check.outcome(7, found), "7 passed, 0 failed, jammy NOT RUN")
        self.assertEqual(release_check.outcome(7, release_check.SUITES), "7 passed, 0 failed")

    def test_sizes_in_a_document_are_those_of_the_files(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            (folder / "a.deb").write_bytes(bytes(1_300_000))
            release_check.check_sizes("| File | MB |\n| `a.deb` | 1.5 | for all |", folder)
            for document, words in [("| `a.deb` | 1.9 |", "1.9 MB of a.deb, which has 1.3 MB"), ("", "no sizes")]:
                with self.assertRaisesRegex(SystemExit, words):
                    release_check.check_sizes(document, folder)

    def test_ubuntu_needs_its_keys_and_its_archive(self):
        with tempfile.TemporaryDirectory() as temporary:
            roots, keys = Path(temporary) / "roots", Path(temporary) / "keys.gpg"
            opened = mock.Mock(side_effect=OSError("no route"))
            with (
                mock.patch.multiple(release_check, ROOTS=roots, UBUNTU_KEYS=keys),
                mock.patch.object(release_check.urllib.request, "urlopen", opened),
            ):
                self.assertEqual(release_check.obstacle("bookworm"), "")
                self.assertIn("is missing", release_check.obstacle("jammy"))
                keys.touch()
                self.assertIn("can't be reached: no route", release_check.obstacle("jammy"))
                opened.side_effect = None
                self.assertEqual(release_check.obstacle("jammy"), "")
                opened.side_effect = OSError
                (roots / "jammy").mkdir(parents=True)
                self.assertEqual(release_check.obstacle("jammy"), "", "it was made before")


if __name__ == "__main__":
    unittest.main()
