"""The functions, with the program that KVSET_PROGRAM names."""

import functools
import html
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import typing
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
        for traces in (self.trace, str(self.trace), [self.trace], ROWS, iter(ROWS), self.folder, [self.folder]):
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
        # A path that looks like an option is a path.
        with self.assertRaises(kvset.ProgramError) as caught:
            kvset.replay("--version")
        self.assertIn("cannot open", str(caught.exception))

    def test_what_is_no_log_is_named(self):
        wrong = (
            ({"timestamp": 0}, "a row is no log"),
            (5, "a DataFrame, not of type int"),
            ([1, 2], r"rows\[0\] is of type int"),
            ([ROWS[0], None], r"rows\[1\] is of type NoneType"),
            ([ROWS[0], {"x": object()}], r"rows\[1\]: a object has no form in JSON"),
        )
        for traces, words in wrong:
            with self.assertRaisesRegex(TypeError, words):
                kvset.replay(traces)

    def test_several_engines_are_refused_wherever_they_are_named(self):
        refused = ({"engine": "vllm,sglang"}, {"options": ["--engine=vllm,sglang"]}, {"options": ["--engine", "vllm"]})
        for asked in refused:
            with self.assertRaisesRegex(ValueError, "one engine at a time"):
                kvset.replay(ROWS, **asked)

    def test_the_types_name_what_the_program_takes(self):
        for argument, kind in (("engine", kvset.Engine), ("outputs", kvset.Outputs)):
            with self.assertRaises(kvset.ProgramError) as caught:
                kvset.replay(ROWS, **{argument: "none-such"})
            named = re.search(r"possible values: ([^]]*)", str(caught.exception))[1]
            self.assertEqual(re.split(r",\s+", named), list(typing.get_args(kind)))

    def test_one_value_may_stand_for_a_list(self):
        rows = [row | {"session_id": "s"} for row in ROWS]
        lists = kvset.replay(rows, capacities=[4], coverage=[0.5], target_ratios=[0.5], windows=["last:10"], routers=["hash:2"],
                             options=["--optimal"])
        alone = kvset.replay(rows, capacities=4, coverage=0.5, target_ratios=0.5, windows="last:10", routers="hash:2",
                             options="--optimal")
        self.assertEqual(alone.raw, lists.raw)
        with self.assertRaisesRegex(kvset.ProgramError, "is 10GiB, a size in bytes"):
            kvset.replay(ROWS, capacities="10GiB")

    def test_an_error_names_the_row_of_the_caller(self):
        rows = [dict(row) for row in ROWS]
        rows[7] = {"nothing": 1}
        with self.assertRaises(kvset.ProgramError) as caught:
            kvset.replay(rows)
        self.assertIn("\n  rows[7]: field `timestamp` is missing", str(caught.exception))
        self.assertNotIn("rows.jsonl", str(caught.exception))
        [note] = [note for note in kvset.replay([*ROWS[1:], ROWS[0] | {"duration_ms": 1}]).notes if "run backwards" in note]
        self.assertIn(" at rows[39], which", note)
        with self.assertRaisesRegex(kvset.ProgramError, r"cannot tell the format of the rows from rows\[0\]: "):
            kvset.replay([{"nothing": 1}])

    def test_a_field_that_is_nan_is_absent(self):
        nan = float("nan")
        without = kvset.replay(ROWS, engine="vllm")
        fields = ("cached_tokens", "replica", "session_id", "duration_ms", "tenant")
        self.assertEqual(kvset.replay([row | dict.fromkeys(fields, nan) for row in ROWS], engine="vllm").raw, without.raw)
        some = [row | ({"cached_tokens": 16} if number % 2 else {}) for number, row in enumerate(ROWS)]
        mixed = [row | {"cached_tokens": 16.0 if number % 2 else nan} for number, row in enumerate(ROWS)]
        self.assertEqual(kvset.replay(mixed, engine="vllm").raw, kvset.replay(some, engine="vllm").raw)
        self.assertEqual(kvset.replay(some, engine="vllm").measured.requests, 20)

    def test_a_folder_is_its_files(self):
        folder = self.folder / "log"
        (folder / "deeper").mkdir(parents=True)
        for name, rows in (("b.jsonl", ROWS[20:]), ("a.jsonl", ROWS[:20]), (".hidden", [{"nothing": 1}])):
            (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.assertEqual(kvset.replay(folder).raw, kvset.replay(ROWS).raw)
        with self.assertRaisesRegex(ValueError, "deeper holds no file"):
            kvset.replay(folder / "deeper")

    def test_a_result_is_shown_in_a_line_and_as_a_table(self):
        result = kvset.replay(ROWS, engine="vllm", min_requests=1, kv_bytes_per_token=1000)
        self.assertEqual(repr(result), f"<kvset.Result of 40 requests, vllm: {result.answer.sentences[0]}>")
        shown = result._repr_html_()
        self.assertIn(f"<b>{html.escape(result.answer.sentences[0])}</b>", shown)
        self.assertIn("<td>p99.9</td><td>0.00 GiB</td><td>5</td><td>", shown)
        rows = [{name: value for name, value in row.items() if name != "block_size"} | {"model": f"<m{number % 2}>"}
                for number, row in enumerate(ROWS)]
        pools = kvset.replay(rows, page_size=16)
        self.assertEqual(repr(pools), "<kvset.Result of 2 pools: <m0>, <m1>>")
        self.assertIn("<h4>&lt;m1&gt;</h4>", pools._repr_html_())
        self.assertIn("too few requests", pools._repr_html_().lower())
        self.assertEqual(repr(kvset.replay([])), f"<kvset.Result of 0 requests, paper: {kvset.replay([]).answer.sentences[0]}>")

    def test_the_version_is_the_programs(self):
        said = subprocess.run([kvset.find_program(), "--version"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(kvset.__version__, said.split()[1])
        self.assertFalse(hasattr(kvset, "__other__"))

    def test_an_interrupt_ends_the_program_and_leaves_nothing(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        source = "import sys, kvset\ntry: kvset.replay(sys.argv[1])\nexcept KeyboardInterrupt: print('interrupted')"
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), TMPDIR=str(self.folder))
        # Of a shell's background, which these tests may be run in, interrupts are ignored.
        heeding = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        held = subprocess.Popen(
            [sys.executable, "-c", source, str(pipe)], stdout=subprocess.PIPE, env=environment, preexec_fn=heeding
        )
        # The program opens the pipe, and waits for what is written to it.
        with pipe.open("wb"):
            held.send_signal(signal.SIGINT)
            self.assertEqual(held.communicate(timeout=60)[0], b"interrupted\n")
        with self.assertRaises(OSError):
            os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.is_dir()], [])

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
        self.assertEqual(list(result.to_pandas().pages), [4, 100])
        with self.assertRaises(ValueError):
            kvset.replay(ROWS).to_pandas("per_request")
        with self.assertRaises(ValueError):
            result.to_pandas("nothing")

    @unittest.skipUnless(HAS_PANDAS, "pandas is not installed")
    def test_windows_have_their_requirement(self):
        result = kvset.replay(ROWS, windows="last:10", coverage=[0.5, 0.999], min_requests=1, kv_bytes_per_token=1000)
        frame = result.to_pandas("windows")
        columns = ["kind", "start_ms", "end_ms", "requests", "p50_pages", "p99.9_pages", "p50_bytes", "p99.9_bytes"]
        self.assertEqual(list(frame), columns)
        told = [[one["pages"] for one in window["coverage"]] for window in result.raw["windows"]]
        self.assertEqual(frame[["p50_pages", "p99.9_pages"]].values.tolist(), told)
        self.assertTrue((frame["p50_bytes"] == 16_000 * frame["p50_pages"]).all())
        self.assertNotIn("p50_bytes", kvset.replay(ROWS, windows="last:10").to_pandas("windows"))

    @unittest.skipUnless(HAS_PANDAS, "pandas is not installed")
    def test_a_data_frame_is_its_rows(self):
        import pandas

        frame = pandas.DataFrame(ROWS)
        told = kvset.replay(ROWS, engine="vllm").raw
        self.assertEqual(kvset.replay(frame, engine="vllm").raw, told)
        # A column that some rows have not, of each kind; times as pandas has them, in the index.
        frame["timestamp"] = pandas.to_datetime(frame["timestamp"], unit="ms", utc=True)
        odd = range(1, 40, 2)
        frame["cached_tokens"] = pandas.Series([16] * 20, index=odd)
        frame["session_id"] = pandas.Series(["s"] * 20, index=odd)
        frame["duration_ms"] = pandas.array([5 if number % 2 else None for number in range(40)], dtype="Int64")
        # From 1970 on, which a number of milliseconds is the same as.
        rows = [row | ({"cached_tokens": 16, "session_id": "s", "duration_ms": 5} if number % 2 else {})
                for number, row in enumerate(ROWS)]
        told = kvset.replay(rows, engine="vllm")
        for log in (frame, frame.set_index("timestamp")):
            result = kvset.replay(log, engine="vllm")
            self.assertEqual((result.measured, result.capacities, result.in_flight),
                             (told.measured, told.capacities, told.in_flight))
        frame.loc[7, "input_length"] = -1
        with self.assertRaisesRegex(kvset.ProgramError, r"\n  frame\.iloc\[7\]: "):
            kvset.replay(frame)

    def test_a_data_frame_of_polars_is_its_rows(self):
        # As polars has it: iterating over it gives columns, and what is missing is None.
        class Frame:
            columns = list(ROWS[0])

            def __iter__(self):
                return iter([[row[name] for row in ROWS] for name in self.columns])

            def iter_rows(self, named):
                assert named
                return (row | {"session_id": None} for row in ROWS)

        self.assertEqual(kvset.replay(Frame()).raw, kvset.replay(ROWS).raw)

    @unittest.skipUnless(HAS_MATPLOTLIB, "matplotlib is not installed")
    def test_a_plot(self):
        import matplotlib

        matplotlib.use("Agg")
        result = kvset.replay(ROWS, kv_bytes_per_token=1000, min_requests=1)
        axes = result.plot()
        self.assertEqual(axes.get_xlabel(), "capacity (GiB)")
        self.assertEqual((axes.get_ylim(), axes.get_title()), ((0, 1), "Hits by cache size, 40 requests, paper"))
        # Sizes that lie on each other share a label, which lies within the figure.
        self.assertEqual([text.get_text() for text in axes.texts], ["p50, p90, p95, p99, p99.9"])
        axes.figure.canvas.draw()
        frame = axes.figure.bbox
        for text in (*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label):
            box = text.get_window_extent()
            self.assertTrue(frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1), text.get_text())
        self.assertGreater(len(result.plot(axes).lines), 4)
        with self.assertRaisesRegex(ValueError, r"the axes are of capacity \(GiB\), and this result is of capacity \(pages\)"):
            kvset.replay(ROWS).plot(axes)
        self.assertEqual(kvset.replay(ROWS).plot().get_xlabel(), "capacity (pages)")
        self.assertEqual(len(kvset.replay([]).plot().texts), 0)


if __name__ == "__main__":
    unittest.main()
