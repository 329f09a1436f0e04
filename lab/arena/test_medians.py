"""Medians are taken of the ratios of each run, not of the figures."""

import unittest

from medians import medians


def run(seed, normal, relevance):
    figures = {"avg_normalized_latency": 1, "total_s": 1, "io_bytes": 6, "cpu_fraction": 0.5, "sched_cpu_fraction": 0.001}
    policies = {
        "normal": {**figures, "avg_stream_s": normal},
        "relevance": {**figures, "avg_stream_s": relevance},
    }
    return {"seed": seed, "union_bytes": 3, "policies": policies}


class Medians(unittest.TestCase):
    def test_ratios_are_of_one_run(self):
        runs = [run(1, 20, 10), run(2, 300, 100), run(3, 8, 1)]
        rows = {(figure, policy): rest for figure, policy, *rest in medians(runs)}
        self.assertEqual(rows["stream time / relevance's", "normal"], [3, 2, 8])
        self.assertEqual(rows["stream time", "relevance"], [10, 1, 100])
        self.assertEqual(rows["bytes read / union", "relevance"], [2, 2, 2])

    def test_runs_have_to_be_alike(self):
        other = run(2, 1, 1)
        del other["policies"]["normal"]
        with self.assertRaises(ValueError):
            medians([run(1, 1, 1), other])


if __name__ == "__main__":
    unittest.main()
