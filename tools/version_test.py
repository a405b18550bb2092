"""The version is the same in all files, and each file is found by what stands around it."""

import unittest

import version


class VersionTest(unittest.TestCase):
    def test_all_files_name_the_version_of_the_workspace(self):
        self.assertEqual(list(version.findings(version.workspace_version())), [])

    def test_every_file_that_names_another_version_is_found(self):
        files = {file for file, _ in version.places()}
        found = {finding.split(":")[0] for finding in version.findings("99.0.0")}
        self.assertEqual(found, files)
        for file in ("package.json", "wasm-client/package.json", "package-lock.json", "deploy/helm/pvwire/Chart.yaml"):
            self.assertIn(file, files)


if __name__ == "__main__":
    unittest.main()
