"""The model against what was measured, and against itself."""

import tempfile
import unittest
from pathlib import Path

import model

# Between what the model computes and what was measured: costs of a few wakes a second vary by this much.
MOST_OFF = 0.35

COSTS = model.Costs(
    owner=model.Part(second=300, update=0.02, wake=60, message=3),
    edge=model.Part(second=300, update=0.1, wake=70, message=3),
    nats=model.Part(second=1000, update=0, wake=20, message=2),
    take=0.35,
    table=0.07,
    client_frame=9,
    shared_row=0.0013,
    private_row=0.034,
    bus_bytes=12,
    client_bytes=14.5,
    idle_cores=0.01,
)


class Replay(unittest.TestCase):
    def test_measured_points_come_out_again(self):
        costs = model.Costs.measured()
        self.assertIsNotNone(costs, "a result that `model.Costs.measured` reads is missing")
        for name, computed, measured in model.replay(costs):
            with self.subTest(name):
                self.assertLess(abs(computed - measured), MOST_OFF * measured, (computed, measured))

    def test_missing_results_give_no_costs(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(model.Costs.measured(Path(folder)))


class Fits(unittest.TestCase):
    def test_costs_that_were_added_up_are_found(self):
        counts = [(1e4, 10, 13), (1e4, 133, 136), (1e5, 50, 490), (1e5, 160, 1600)]
        points = [(*each, COSTS.edge.cost(*each)) for each in counts]
        found = model.Part.fitted(points)
        for key in ("second", "update", "wake", "message"):
            self.assertAlmostEqual(getattr(found, key), getattr(COSTS.edge, key), places=4)

    def test_noise_makes_no_cost_negative(self):
        found = model.Part.fitted([(1e4, 10, 13, 3000), (1e4, 133, 136, 2000), (1e5, 50, 490, 900), (1e5, 160, 1600, 4000)])
        self.assertGreaterEqual(min(found.second, found.update, found.wake, found.message), 0)


class Sizes(unittest.TestCase):
    def test_more_of_anything_needs_no_less(self):
        small = model.size(COSTS, model.Load(1_000, 1, 100, 100))
        for load in (
            model.Load(100_000, 1, 100, 100),
            model.Load(1_000, 10, 100, 100),
            model.Load(1_000, 1, 50_000, 100),
        ):
            large = model.size(COSTS, load)
            for key in ("ingest", "edges", "nats", "ingest_cores", "edge_cores", "nats_cores"):
                self.assertGreaterEqual(getattr(large, key), getattr(small, key), (load, key))

    def test_smallest_fleet_has_a_spare_of_each(self):
        fleet = model.size(COSTS, model.Load(10, 1, 1, 10))
        self.assertEqual((fleet.ingest, fleet.edges, fleet.nats), (2, 2, 3))

    def test_no_relay_has_more_pvs_or_clients_than_were_measured(self):
        fleet = model.size(COSTS, model.Load(1_000_000, 1, 100_000, 200))
        self.assertGreaterEqual((fleet.ingest - 1) * model.MOST_PVS, 1_000_000)
        self.assertGreaterEqual((fleet.edges - 1) * model.MOST_CLIENTS, 100_000)

    def test_no_edge_is_busier_than_planned(self):
        with self.assertRaises(model.TooMuch):
            model.size(COSTS, model.Load(1_000_000, 10, 100_000, 200))
        fleet = model.size(COSTS, model.Load(1_000_000, 10, 100_000, 200, 100))
        self.assertLessEqual(fleet.edge_cores / (fleet.edges - 1), model.CORES * model.BUSY)

    def test_edges_of_an_area_follow_its_shards(self):
        whole = model.size(COSTS, model.Load(100_000, 1, 10_000, 200))
        fleet = model.size(COSTS, model.Load(100_000, 1, 10_000, 200, 10))
        self.assertAlmostEqual(fleet.followed, whole.followed / 10, delta=0.01)
        self.assertLess(fleet.nats_cores, 10 * whole.nats_cores)

    def test_messages_are_one_for_each_update_when_there_are_few(self):
        self.assertAlmostEqual(model.messages(10, 1, 0.005), 10, delta=0.5)
        self.assertAlmostEqual(model.messages(1e6, 1, 0.005), 200, delta=1e-6)

    def test_few_clients_follow_few_shards(self):
        load = model.Load(1_000_000, 1, 2, 10)
        self.assertLess(model.followed_shards(load, 977, 2), 0.03)
        self.assertEqual(model.followed_shards(load, 4, 100), 1)


if __name__ == "__main__":
    unittest.main()
