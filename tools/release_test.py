"""A release has the same version in all files, each found by what stands around it, and the changelog's page of it, with
links that work outside of the repository."""

import unittest

import release_notes
import version


class VersionTest(unittest.TestCase):
    def test_all_files_name_the_version_of_the_workspace(self):
        self.assertEqual(list(version.findings(version.workspace_version())), [])

    def test_documents_that_a_new_version_would_leave_behind_are_found(self):
        self.assertEqual(list(version.unlisted()), [])

    def test_files_of_a_pre_release_have_the_names_that_their_tools_give_them(self):
        for place, spelling in (
            ("pvwire_relay-0.2.0-py3", "0.2.0rc1"),
            ("pvwire-relay_0.2.0_amd64", "0.2.0.rc.1"),
            ("pvwire-relay-0.2.0-1.x86_64", "0.2.0.rc.1"),
            ("pvwire-relay-0.2.0-linux", "0.2.0-rc.1"),
            ("pvwire-0.2.0.tgz", "0.2.0-rc.1"),
        ):
            self.assertEqual(version.spelled(place, "0.2.0-rc.1"), spelling)
            self.assertEqual(version.spelled(place, "0.2.0"), "0.2.0")

    def test_every_file_that_names_another_version_is_found(self):
        files = {file for file, _ in version.places()}
        found = {finding.split(":")[0] for finding in version.findings("99.0.0")}
        self.assertEqual(found, files)
        for file in ("package.json", "wasm-client/package.json", "package-lock.json", "deploy/helm/pvwire/Chart.yaml"):
            self.assertIn(file, files)


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
