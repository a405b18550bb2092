"""A release has the changelog's page of its version, with links that work outside of the repository."""

import unittest

import release_notes

CHANGELOG = """# Changelog

## Unreleased

- later

## 0.1.0 – 2026-12-01

### Values

- first ([how](docs/how-to/curl.md#read-the-past), [elsewhere](https://example.org/))
"""


class ReleaseNotesTest(unittest.TestCase):
    def test_the_page_is_that_of_the_version_and_ends_with_it(self):
        self.assertTrue(release_notes.page(CHANGELOG, "0.1.0").startswith("### Values\n\n- first"))
        self.assertEqual(release_notes.page(CHANGELOG, "0.2.0-rc.1"), "- later\n")

    def test_a_version_without_a_page_is_no_release(self):
        with self.assertRaisesRegex(SystemExit, "no page for 0.2.0"):
            release_notes.page(CHANGELOG, "0.2.0")

    def test_links_lead_to_the_files_of_the_tag(self):
        text = release_notes.absolute(CHANGELOG, "some/pvwire", "v0.1.0")
        self.assertIn("(https://github.com/some/pvwire/blob/v0.1.0/docs/how-to/curl.md#read-the-past)", text)
        self.assertIn("(https://example.org/)", text)


if __name__ == "__main__":
    unittest.main()
