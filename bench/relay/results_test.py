"""Results are kept by scenario, and are stale once the code that they measure has changed."""

import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

# Text needs no matplotlib.
sys.argv.append("--text")

import goals  # noqa: E402
import plots  # noqa: E402
import results  # noqa: E402

POINT = {"label": "a", "n": 1, "figures": {"x": {"min": 1, "median": 2, "max": 3}}}
RESULT = {"scenario": "ingest-ca-1", "commit": "abc", "date": "today", "points": [POINT]}


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def kept(self, **more):
        results.keep("relay", RESULT | more, f"## {RESULT['scenario']}\n\ntext\n", self.folder)
        return results.result(RESULT["scenario"], self.folder)

    def test_result_is_kept_beside_others_and_read_again(self):
        self.kept(scenario="storm-1")
        self.kept()
        self.kept(date="later")
        self.assertEqual(list(results.results(self.folder)), ["ingest-ca-1", "storm-1"])
        self.assertEqual(results.result("ingest-ca-1", self.folder)["date"], "later")
        self.assertEqual(results.medians("ingest-ca-1", "a", self.folder), {"x": 2})
        self.assertIsNone(results.medians("ingest-ca-1", "b", self.folder))

    def test_result_is_stale_once_a_file_of_its_code_changes(self):
        found = self.kept()
        self.assertFalse(results.is_stale(found))
        self.assertNotIn("stale", results.origin(found))
        with mock.patch.object(results, "fingerprint", lambda paths: f"changed {paths}"):
            self.assertTrue(results.is_stale(found))
            self.assertIn("stale", results.origin(found))

    def test_fingerprint_changes_with_content_and_name(self):
        first = results.digest([("a.rs", results.blob(b"one"))])
        self.assertNotEqual(first, results.digest([("a.rs", results.blob(b"two"))]))
        self.assertNotEqual(first, results.digest([("b.rs", results.blob(b"one"))]))

    def test_result_of_an_unknown_state_is_stale(self):
        self.assertTrue(results.is_stale(RESULT))


class Code(unittest.TestCase):
    def test_all_named_paths_have_files(self):
        for path in {path for paths in results.CODE.values() for path in paths}:
            with self.subTest(path):
                self.assertNotEqual(results.fingerprint((path,)), results.digest([]))

    def test_every_scenario_of_a_goal_is_measured_with_known_code(self):
        for goal in goals.measured():
            with self.subTest(goal["id"]):
                self.assertTrue(results.paths(goal["scenario"]))


class Documents(unittest.TestCase):
    def test_stale_goal_is_marked_in_the_table_and_in_goals_json(self):
        with mock.patch.object(results, "is_stale", lambda result: result["scenario"] == "storm-1000"):
            listed = {goal["id"]: goal for goal in goals.measured()}
            (row,) = goals.rows([listed["storm"]])
        self.assertTrue(row[3].endswith(", stale"), row)
        self.assertIn('"stale": true', goals.written([listed["storm"]]))
        self.assertIn('"stale": false', goals.written([listed["connect"]]))

    def test_figure_without_its_origin_is_refused(self):
        text = (results.ROOT / "README.md").read_text()
        figure = re.search(r"<!-- figure (\S+)", text)[1]
        self.assertIn(f"<!-- origin {figure} -->", text)
        with self.assertRaises(SystemExit):
            plots.with_figures("README.md", text.replace(f"<!-- origin {figure} -->", ""))


if __name__ == "__main__":
    unittest.main()
