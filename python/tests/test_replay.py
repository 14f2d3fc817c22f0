"""The functions, with the program that KVSET_PROGRAM names."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kvset

ROWS = [
    {"timestamp": 1000 * number, "input_length": 64, "output_length": 4, "hash_ids": [1, 2, 3, number // 2], "block_size": 16}
    for number in range(40)
]
HAS_PANDAS = importlib.util.find_spec("pandas") is not None
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


class Replay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.trace = self.folder / "trace.jsonl"
        self.trace.write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def test_paths_and_rows_give_what_the_program_gives(self):
        command = [kvset.find_program(), "replay", "--json", "--engine=vllm", "--capacities=4p,1MiB", str(self.trace)]
        command += ["--kv-bytes-per-token=1000", "--min-requests=1"]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        asked = {"engine": "vllm", "capacities": [4, "1MiB"], "kv_bytes_per_token": 1000, "min_requests": 1}
        for traces in (self.trace, str(self.trace), [self.trace], ROWS, iter(ROWS)):
            result = kvset.replay(traces, **asked)
            self.assertEqual(result.raw, told)
        self.assertEqual(result.trace.requests, 40)
        self.assertEqual(result.capacities[0].pages, 4)
        self.assertEqual(result.capacities[0].page_hits, told["capacities"][0]["page_hits"])
        self.assertEqual(result.answer.sentences[0], told["answer"]["sentences"][0])
        self.assertEqual(result.recommended[0].coverage, "p50")
        self.assertEqual(result.required[0].coverage[0].bytes, result.required[0].coverage[0].pages * 16_000)

    def test_every_field_of_the_types_is_one_that_the_program_writes(self):
        rows = [row | {"cached_tokens": 16 * (number % 2), "duration_ms": 3000} for number, row in enumerate(ROWS)]
        results = [
            kvset.replay(rows, engine="vllm", provisioned=4, capacities=[4], min_requests=1, kv_bytes_per_token=1000,
                         options=["--optimal"]),
            kvset.replay(rows, min_requests=1, target_ratios=[0.5], coverage=[0.5], windows=["last:10"]),
            kvset.replay(rows, options=["--max-tracked-pages=4", "--sample-rate=1"]),
            kvset.replay(rows, engine="vllm", overlap=False, warm_up=5),
        ]
        seen = {}

        def walk(value, raw):
            seen.setdefault(type(value), set()).update(raw)
            for name, inner in vars(value).items():
                items = inner if isinstance(inner, tuple) else (inner,)
                raws = raw.get(name)
                for item, its in zip(items, raws if isinstance(raws, list) else [raws]):
                    if hasattr(item, "__dataclass_fields__"):
                        walk(item, its)

        for result in results:
            walk(result, result.raw)
        own = {"raw", "per_request", "pool", "pools", "notes"}
        for kind, names in seen.items():
            unknown = set(kind.__dataclass_fields__) - names - own
            self.assertEqual(unknown - {"beyond_bound", "why", "optimal_page_hits", "bytes_from"}, set(), kind.__name__)
        self.assertIn(kvset.Measured, seen)
        self.assertIn(kvset.EffectiveCapacity, seen)
        self.assertIn(kvset.CapacityInFlight, seen)

    def test_a_row_for_each_request(self):
        result = kvset.replay(ROWS, engine="vllm", capacities=[4, 100], per_request=True)
        self.assertEqual(len(result.per_request), 40)
        hits = sum(row["prefix_hits"][1] for row in result.per_request)
        self.assertEqual(hits, result.capacities[1].prefix_hits)

    def test_each_model_has_a_result_of_its_own(self):
        rows = [{name: value for name, value in row.items() if name != "block_size"} | {"model": f"m{number % 2}"}
                for number, row in enumerate(ROWS)]
        result = kvset.replay(rows, page_size=16)
        self.assertEqual([pool.pool for pool in result.pools], ["m0", "m1"])
        self.assertEqual(sum(pool.trace.requests for pool in result.pools), 40)
        self.assertEqual(kvset.replay(rows, page_size=16, pool="m1").trace.requests, 20)

    def test_request_events_are_rows_too(self):
        events = [{"event_time": row["timestamp"], "page_ids": row["hash_ids"], "page_size": 16} for row in ROWS]
        self.assertEqual(kvset.replay(events).theoretical, kvset.replay(ROWS).theoretical)

    def test_what_the_program_refuses_is_raised_in_its_words(self):
        with self.assertRaises(kvset.ProgramError) as caught:
            kvset.replay(self.folder / "absent.jsonl")
        self.assertEqual(caught.exception.status, 1)
        self.assertIn("absent.jsonl", str(caught.exception))
        with self.assertRaises(kvset.ProgramError) as caught:
            kvset.replay(ROWS, capacities=["much"])
        self.assertEqual(caught.exception.status, 2)
        for traces, kind in (({"timestamp": 0}, TypeError), ([1, 2], TypeError), ([{"x": object()}], TypeError)):
            with self.assertRaises(kind):
                kvset.replay(traces)
        with self.assertRaises(ValueError):
            kvset.replay(ROWS, engine="vllm,sglang")
        # A path that looks like an option is a path.
        with self.assertRaises(kvset.ProgramError) as caught:
            kvset.replay("--version")
        self.assertIn("cannot open", str(caught.exception))

    def test_the_module_is_the_program(self):
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
        command = [sys.executable, "-m", "kvset", "--version"]
        said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        self.assertRegex(said, r"^kvset \d+\.\d+\.\d+")
        command[-1] = "--no-such-option"
        self.assertEqual(subprocess.run(command, capture_output=True, env=environment).returncode, 2)

    @unittest.skipUnless(HAS_PANDAS, "pandas is not installed")
    def test_tables(self):
        result = kvset.replay(ROWS, capacities=[4, 100], per_request=True, min_requests=1)
        shapes = {"capacities": 2, "recommended": 5, "required": 5, "windows": 1, "per_request": 40}
        for part, rows in shapes.items():
            self.assertEqual(len(result.to_pandas(part)), rows, part)
        frame = result.to_pandas()
        self.assertEqual(list(frame.pages), [4, 100])
        rows = frame.assign(timestamp=range(2), hash_ids=[[1], [1]], input_length=512)[["timestamp", "hash_ids", "input_length"]]
        self.assertEqual(kvset.replay(rows.to_dict("records")).theoretical.page_hits, 1)
        with self.assertRaises(ValueError):
            kvset.replay(ROWS).to_pandas("per_request")
        with self.assertRaises(ValueError):
            result.to_pandas("nothing")

    @unittest.skipUnless(HAS_MATPLOTLIB, "matplotlib is not installed")
    def test_a_plot(self):
        import matplotlib

        matplotlib.use("Agg")
        axes = kvset.replay(ROWS, kv_bytes_per_token=1000, min_requests=1).plot()
        self.assertEqual(axes.get_xlabel(), "capacity (GiB)")
        self.assertGreaterEqual(len(axes.lines), 2)
        self.assertEqual(kvset.replay(ROWS).plot(axes).get_xlabel(), "capacity (pages)")


if __name__ == "__main__":
    unittest.main()
