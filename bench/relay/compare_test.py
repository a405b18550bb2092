"""The comparison with other systems: what is counted and checked, and what its page says."""

import contextlib
import io
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock
from xml.etree import ElementTree

# Text needs no matplotlib.
sys.argv.append("--text")
sys.path.append(str(Path(__file__).parent / "peers"))

import compare  # noqa: E402
import compare_page  # noqa: E402
import fidelity  # noqa: E402
import flame  # noqa: E402
import systems  # noqa: E402
import usage  # noqa: E402
from intake import Intake  # noqa: E402
from processes import Disturbed  # noqa: E402
from report import summary  # noqa: E402

POINT = {"clients": 1, "pvs": 2, "rate_hz": 10, "warm_up_s": 1, "seconds": 2}
LOAD = {"load_average_before": 1, "load_average_after": 2, "other_cores": 0, "stolen_cores": 0, "other_processes": []}


def part(rows, **more):
    known = {"set": "full", "commit": "abc123", "date": "2026-11-26", "machine": "2 cores", "took_s": 9, "versions": {}}
    return known | LOAD | {"rows": rows} | more


def row(system, cpu_us, way="its own clients", point="a", protocol="ca", **figures):
    known = {"made": 100, "missed": 0, "cpu_us_per_update": cpu_us, "cpu_percent": cpu_us / 5} | figures
    return {"system": system, "way": way, "protocol": protocol, "point": point, "n": 1, "figures": summary([known])}


class Page(unittest.TestCase):
    def line(self, page, beginning):
        (found,) = [line for line in page.splitlines() if line.startswith(beginning)]
        return found

    def test_system_that_is_absent_or_fails_is_a_row_that_says_so(self):
        failed = {"system": "PVWS", "way": "JSON", "protocol": "ca", "point": "a", "failed": systems.WAR}
        page = compare_page.page({"costs": part([row("pvwire", 5), failed])})
        self.assertIn("PVWS_WAR=/path/to/pvws.war", self.line(page, "| a | PVWS, JSON"))

    def test_ratio_is_to_pvwire_by_the_same_protocol_at_the_same_point(self):
        rows = [
            row("pvwire", 5), row("pvwire", 10, protocol="pva"), row("pvwire", 50, point="b"),
            row("Coniql", 500, way="GraphQL"), row("p4p", 80, way="client", protocol="pva"),
            row("Coniql", 100, way="GraphQL", point="b"), row("Coniql", 100, way="GraphQL", point="c"),
        ]
        self.assertEqual([compare_page.ratio(rows, each) for each in rows], ["–", "–", "–", "100", "8", "2", "–"])

    def test_missed_updates_are_shown_with_what_was_due(self):
        page = compare_page.page({"costs": part([row("Coniql", 5, made=200, missed=50)])})
        self.assertIn("| 2,000 | 50 of 200 (25%) |", page)

    def test_each_part_says_commit_date_load_and_whether_it_was_quick(self):
        page = compare_page.page({"costs": part([row("pvwire", 5)]), "grid": part([row("pvwire", 5)], set="quick")})
        self.assertEqual(page.count("Commit abc123, 2026-11-26, 2 cores, 9 s; load average 1.0 before"), 2)
        self.assertEqual(page.count("too short for figures to keep"), 1)
        self.assertNotIn("was busy", page)
        self.assertIn("was busy", compare_page.page({"costs": part([row("pvwire", 5)], other_cores=1.5)}))
        self.assertEqual(page.count("Not measured yet."), 6)

    def test_time_that_the_measurements_took_is_on_the_page_and_nowhere_else(self):
        parts = {name: part([], took_s=150) for name in compare.PARTS}
        for rows in ("serialisers", "profile"):
            parts[rows] = part([{"failed": "no perf", "way": "a"}], took_s=150)
        self.assertIn("took 20 minutes to measure", compare_page.page(parts))
        self.assertNotIn("to measure;", compare_page.page(parts | {"costs": part([], set="quick")}))
        del parts["costs"]
        self.assertNotIn("to measure;", compare_page.page(parts))
        for name in ("Makefile", "CONTRIBUTING.md", "bench/README.md"):
            for line in (compare.ROOT / name).read_text().splitlines():
                if "make compare" in line or line.startswith("compare:"):
                    self.assertNotRegex(line, r"\bhours?\b|(?<!five )\bminutes\b", name)

    def test_edits_during_a_run_are_not_changes_of_what_it_measures(self):
        kept, known = [], iter(("abc123", "abc123 with changes", "abc123 with changes"))
        with (
            mock.patch.object(sys, "argv", ["compare.py", "--only", "costs", "--only", "grid"]),
            mock.patch.multiple(compare, commit=lambda: next(known), comparison=dict, keep_comparison=kept.append,
                                measure_part=lambda *_: [], own_versions=dict, say=lambda _: None),
            mock.patch.object(compare.signal, "signal"),
            mock.patch.object(compare.systems, "versions", dict),
            mock.patch.object(compare_page, "PAGE", mock.MagicMock()),
        ):
            compare.main()
        self.assertEqual([each["commit"] for each in kept[-1].values()], ["abc123", "abc123"])

    def test_fidelity_has_a_column_for_each_system_and_counts_what_is_right(self):
        cells = {"NaN": fidelity.cell(True, "NaN"), "A label": fidelity.cell(False, "old")}
        rows = [{"system": "p4p", "way": "client", "cells": cells},
                {"system": "aioca", "way": "client", "failed": "failed: no value"}]
        page = compare_page.page({"fidelity": part(rows)})
        self.assertIn("| NaN | ✓ NaN |", page)
        self.assertIn("| A label | ✗ old |", page)
        self.assertIn("| Right | 1 of 2 |", page)
        self.assertIn("aioca, client: failed: no value.", page)


class Rows(unittest.TestCase):
    def measured(self, measure, rounds=1, **more):
        system = systems.System("some", "way", "ca", measure, **more)
        run = SimpleNamespace(versions={"there": "1.0"})
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return compare.measure_system(run, system, POINT, rounds)

    def report(self, **more):
        return {"updates": 40, "missing": 0, "seconds": 2, "cpuNs": 4_000_000} | more

    def test_figures_are_per_update_of_what_came(self):
        found = self.measured(lambda *_: self.report(rssKb=2048, latency={"p50Ms": 3}))["figures"]
        self.assertEqual(found["cpu_us_per_update"]["median"], 100)
        self.assertEqual(found["cpu_percent"]["median"], 0.2)
        self.assertEqual(found["memory_mb"]["median"], 2)
        self.assertEqual(found["latency_p50_ms"]["median"], 3)
        self.assertNotIn("bytes_per_update", found)

    def test_client_that_lags_misses_no_more_than_was_due(self):
        found = self.measured(lambda *_: self.report(updates=10, missing=500))["figures"]
        self.assertEqual(found["missed"]["median"], 32)
        few = self.measured(lambda *_: self.report(updates=39, missing=1))["figures"]
        self.assertEqual(few["missed"]["median"], 1)

    def test_package_that_is_not_installed_is_not_run(self):
        found = self.measured(mock.Mock(side_effect=AssertionError), package="absent")
        self.assertIn("absent could not be installed", found["failed"])

    def test_program_that_fails_or_a_busy_machine_is_a_row(self):
        self.assertEqual(self.measured(mock.Mock(side_effect=SystemExit("it ended:\nlong")))["failed"], "failed: it ended")
        with self.assertRaises(SystemExit):
            self.measured(mock.Mock(side_effect=SystemExit(143)))
        busy = mock.Mock(side_effect=[Disturbed("late"), self.report()])
        self.assertNotIn("failed", self.measured(busy))
        busy = mock.Mock(side_effect=Disturbed("late"))
        self.assertEqual(self.measured(busy)["failed"], "failed: the machine is too busy: late")

    def test_profile_has_shares_of_threads_and_a_box_for_each_function(self):
        script = "shard-0 \n\t12 send\n\t34 serve<T>\n\nshard-1 \n\t34 serve<T>\n\ntick\n\t56 turn\n\n"
        stacks = flame.collapsed(script)
        self.assertEqual(stacks, {("shard", "serve<T>", "send"): 1, ("shard", "serve<T>"): 1, ("tick", "turn"): 1})
        drawn = ElementTree.fromstring(flame.svg(stacks))
        titles = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(titles, ["shard 66.7%", "serve<T> 66.7%", "send 33.3%", "tick 33.3%", "turn 33.3%"])
        rows = [{"thread": "shard", "samples": 2}, {"thread": "tick", "samples": 1}]
        page = compare_page.page({"profile": part([each | {"clients": 100, "pvs": 1000} for each in rows])})
        self.assertIn("| shard | 67% |", page)

    def test_every_part_has_points_and_takes_at_most_half_an_hour_together(self):
        for quick, most_s in ((True, 8 * 60), (False, 24 * 60)):
            self.assertLess(sum(compare.expected_s(each, quick) for each in compare.PARTS), most_s)


class Usage(unittest.TestCase):
    def test_rates_are_those_of_the_window_before_the_clients_left(self):
        # Seconds, CPU, memory and bytes; the connections' first bytes don't count, nor those that closed.
        samples = [(0, 0, 10, 90_000), (1, 100, 20, 91_000), (2, 200, 30, 92_000), (3, 300, 25, 93_000), (3.2, 310, 9, 0)]
        found = usage.steady(samples, updates_per_s=100, window_s=2)
        self.assertEqual(found, {"bytesPerUpdate": 10, "rssKb": 30, "cpuNsPerS": 100})
        self.assertEqual(usage.steady([], 1, 1), {})

    def test_bytes_of_a_connection_are_counted_by_the_kernel(self):
        import socket

        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.assertIsNone(usage.tcp_bytes("sport", port, "bytes_acked"))
            with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as accepted:
                accepted.sendall(b"x" * 1000)
                client.recv(1000, socket.MSG_WAITALL)
                self.assertEqual(usage.tcp_bytes("dport", port, "bytes_received"), 1000)


class Counting(unittest.TestCase):
    def intake(self, values, elements=0):
        names = SimpleNamespace(read_text=lambda: "A\n")
        given = SimpleNamespace(names=names, monitors=1, elements=elements, ioc_port=None)
        intake = Intake(given, read=lambda kept: (kept, 0.0))
        receive = intake.receiver(0)
        receive(values[0])
        intake.begin()
        for value in values[1:]:
            receive(value)
        intake.end()
        return intake.report("some", "1")

    def test_values_that_were_left_out_are_missing(self):
        self.assertEqual(self.intake([1, 2, 5, 6])["missing"], 2)
        self.assertEqual(self.intake([1, 2, 3])["missing"], 0)

    def test_older_value_or_no_value_ends_the_program(self):
        for values in ([5, 4], [5]):
            with self.assertRaises(SystemExit):
                self.intake(values)

    def test_array_is_checked_by_its_length_and_ends(self):
        self.assertEqual(self.intake([[1, 2, 3], [2, 3, 4], [4, 5, 6]], elements=3)["missing"], 1)
        for wrong in ([2, 3], [2, 3, 9]):
            with self.assertRaises(SystemExit):
                self.intake([[1, 2, 3], wrong], elements=3)


class Fidelity(unittest.TestCase):
    def watcher(self, **states):
        each = SimpleNamespace(states=states, outcomes={})
        each.value = lambda key: states.get(key, {}).get("value")
        each.severity = lambda key: states.get(key, {}).get("severity")
        return each

    def test_pv_is_lost_when_any_way_of_the_system_says_so(self):
        for state in ({"connected": False}, {"stale": True, "connected": True}, {"severity": "INVALID"},
                      {"severity": "UNDEFINED"}):
            self.assertTrue(fidelity.is_lost(state), state)
        self.assertFalse(fidelity.is_lost({"connected": None, "severity": "MAJOR"}))

    def test_value_counts_only_while_it_is_shown_as_current(self):
        self.assertTrue(fidelity.shows(self.watcher(X={"value": "2.0", "connected": True}), 2))
        for state in ({"value": "2.0", "connected": False}, {"value": "1"}, {"value": None}, {}):
            self.assertFalse(fidelity.shows(self.watcher(X=state), 2), state)

    def test_values_must_arrive_undamaged(self):
        right = self.watcher(BIG={"value": str(2**53 + 1)}, NAN={"value": "NaN"}, TEXT={"value": fidelity.TEXT},
                             ALARM={"severity": "MAJOR"})
        self.assertTrue(all(cell["right"] for cell in fidelity.value_cells(right).values()))
        wrong = self.watcher(BIG={"value": "9007199254740992"}, NAN={"value": "0"}, TEXT={"value": fidelity.TEXT[:39]},
                             ALARM={"severity": "NO_ALARM"})
        self.assertFalse(any(cell["right"] for cell in fidelity.value_cells(wrong).values()))

    def test_severity_that_stays_without_alarm_is_wrong_for_a_disconnected_pv(self):
        self.assertFalse(fidelity.severity_cell({"severity": "NO_ALARM"})["right"])
        for severity in ("INVALID", None):
            self.assertTrue(fidelity.severity_cell({"severity": severity})["right"])

    def test_new_value_that_stays_invalid_is_reported_with_its_severity(self):
        found = fidelity.return_cell(self.watcher(X={"value": "2.0", "severity": "INVALID"}), None)
        self.assertEqual(found, fidelity.cell(False, "not within 60 s: 2.0 is shown as INVALID"))

    def test_put_must_fail_when_refused_and_be_done_only_when_it_is(self):
        def cells(locked, slow, at):
            watcher = self.watcher()
            watcher.outcomes = {"P:LOCKED": (locked, 0), "P:SLOW.A": (slow, at)}
            return [cell["right"] for cell in fidelity.put_cells(watcher, "P", began=10).values()]

        self.assertEqual(cells("failed: no", "done", 11.0), [True, True])
        self.assertEqual(cells("done", "done", 10.1), [False, False])
        self.assertEqual(cells("no answer", "no answer", 10), [False, False])


if __name__ == "__main__":
    unittest.main()
