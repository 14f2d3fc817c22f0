"""The connector, driven by a scheduler's calls."""

import base64
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import fakes

fakes.install()

from kvset.vllm import KvsetConnector  # noqa: E402
from kvset.vllm.clock import EventClock  # noqa: E402
from kvset.vllm.recorder import Recorder  # noqa: E402
from kvset.vllm.replicas import ClaimedName  # noqa: E402
from kvset.vllm.settings import FileSettings, KafkaSettings, Settings, SettingsError  # noqa: E402
from kvset.vllm.sinks import FileSink, KafkaSink  # noqa: E402
from kvset.vllm.tracking import Followed, Finished  # noqa: E402

logging.getLogger("vllm.kvset").setLevel(logging.CRITICAL)


def ids(packed):
    raw = base64.b64decode(packed)
    return [int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 8)]


class ConnectorTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def connector(self, role=fakes.Role.SCHEDULER, config=None, **extra):
        extra = {"path": str(self.folder), "replica": "r-0"} | extra
        connector = KvsetConnector(config or fakes.config(extra), role, None)
        self.addCleanup(connector.shutdown)
        return connector

    def events(self, connector):
        connector.shutdown()
        text = "".join(path.read_text() for path in sorted(self.folder.iterdir()))
        return [json.loads(line) for line in text.splitlines()]

    def test_a_request_becomes_an_event(self):
        connector = self.connector()
        # 16 tokens per page: 2 full pages and 3 tokens; 30 outputs fill 2 more, the last sampled token is in none.
        request = fakes.Request("a", 35, [1, 2], arrival=time.time() - 1.5)
        fakes.serve(connector, request, cached=16, outputs=30, hashes=[3, 4])
        [event] = self.events(connector)
        self.assertAlmostEqual(event["event_time"] / 1000, time.time(), delta=30)
        self.assertEqual(event.pop("complete_before"), event.pop("event_time") + event["duration_ms"], "nothing else was in flight")
        self.assertAlmostEqual(event.pop("queue_ms"), 1500, delta=500)
        self.assertLess(event.pop("duration_ms"), 5000)
        self.assertEqual((ids(event.pop("page_ids")), ids(event.pop("output_page_ids"))), ([1, 2], [3, 4]))
        said = {"pool": "org/model", "replica": "r-0", "page_size": 16, "ids_chained": True, "id_scheme": "vllm:sha256:16"}
        self.assertEqual(event, said | {"input_tokens": 35, "output_tokens": 30, "cached_tokens": 16})
        self.assertEqual(connector.counts(), {"offered": 1, "written": 1, "dropped": 0, "faults": 0})

    def test_an_engine_that_names_no_algorithm_has_ids_of_no_known_scheme(self):
        config = fakes.config({"path": str(self.folder), "replica": "r-0"})
        del config.cache_config
        connector = self.connector(config=config)
        fakes.serve(connector, fakes.Request("a", 16, [1]))
        [event] = self.events(connector)
        self.assertNotIn("id_scheme", event)

    def test_the_last_sampled_token_is_in_no_page(self):
        connector = self.connector()
        fakes.serve(connector, fakes.Request("a", 20, [1]), outputs=12, hashes=[2])
        fakes.serve(connector, fakes.Request("b", 20, [1]), outputs=13, hashes=[2])
        outputs = [ids(event.get("output_page_ids", "")) for event in self.events(connector)]
        self.assertEqual(outputs, [[], [2]])

    def test_the_look_up_that_admits_counts_and_preemptions_change_nothing(self):
        connector = self.connector()
        request = fakes.Request("a", 64, [1, 2, 3, 4])
        with mock.patch("kvset.vllm.connector.time.time", side_effect=[10.0, 11.0, 12.0, 13.0]):
            # No room at first.
            connector.get_num_new_matched_tokens(request, 48)
            connector.get_num_new_matched_tokens(request, 32)
            request.prefill_stats.num_local_cached_tokens = 32
            connector.update_state_after_alloc(request, None, 0)
            request.prefill_stats, request.num_preemptions = None, 1
            connector.get_num_new_matched_tokens(request, 16)
            connector.update_state_after_alloc(request, None, 0)
            fakes.finish(connector, request)
        [event] = self.events(connector)
        told = [event[name] for name in ("event_time", "duration_ms", "queue_ms", "cached_tokens")]
        self.assertEqual(told, [11_000, 2_000, 11_000, 32])

    def test_each_event_says_before_which_look_up_all_are_written(self):
        connector = self.connector()
        first, waits, last = (fakes.Request(name, 64, [1, 2, 3, 4]) for name in "abc")
        with mock.patch("kvset.vllm.connector.time.time", side_effect=[10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0]):
            for request in (first, waits, last):
                connector.get_num_new_matched_tokens(request, 0)
            # There was no room for it; what it is looked up for again counts, so it is behind the last one then.
            connector.get_num_new_matched_tokens(waits, 0)
            for request in (first, last, waits):
                connector.update_state_after_alloc(request, None, 0)
                fakes.finish(connector, request)
        told = [(event["event_time"], event["complete_before"]) for event in self.events(connector)]
        self.assertEqual(told, [(10_000, 12_000), (12_000, 13_000), (13_000, 16_000)])

    def test_tiers_below_are_counted_and_told_apart(self):
        connector = self.connector()
        # As one of several connectors it is told of no external tokens; the request's own figures say.
        fakes.serve(connector, fakes.Request("a", 64, [1, 2, 3, 4]), cached=16, below=32)
        request = fakes.Request("b", 64, [1, 2, 3, 4])
        request.prefill_stats = None
        connector.get_num_new_matched_tokens(request, 16)
        connector.update_state_after_alloc(request, None, 47)
        fakes.finish(connector, request)
        found = [(event["cached_tokens"], event["external_cached_tokens"]) for event in self.events(connector)]
        self.assertEqual(found, [(48, 32), (63, 47)])

    def test_a_request_without_a_place_in_the_cache_is_no_event(self):
        connector = self.connector()
        aborted, never = fakes.Request("a", 64, [1, 2, 3, 4]), fakes.Request("b", 64, [1, 2, 3, 4])
        connector.get_num_new_matched_tokens(aborted, 0)
        self.assertEqual(fakes.finish(connector, aborted), (False, None))
        self.assertEqual(fakes.finish(connector, never), (False, None))
        self.assertEqual(self.events(connector), [])
        self.assertEqual(connector._tracker._followed, {})

    def test_it_matches_nothing_holds_nothing_and_sends_nothing(self):
        connector = self.connector()
        request = fakes.Request("a", 64, [1, 2, 3, 4])
        self.assertEqual(connector.get_num_new_matched_tokens(request, 16), (0, False))
        self.assertEqual(connector.request_finished(request, [1]), (False, None))
        self.assertEqual(connector.request_finished_all_groups(request, ([1], [2])), (False, None))
        self.assertFalse(connector.requires_kv_delivery)
        self.assertIsInstance(connector, fakes.sys.modules[
            "vllm.distributed.kv_transfer.kv_connector.v1.base"].SupportsHMA)

    def test_nothing_is_raised_into_the_engine(self):
        connector = self.connector()

        class Hostile:
            def __getattr__(self, name):
                raise RuntimeError("a secret prompt")

        with self.assertLogs("vllm.kvset", logging.WARNING) as logs:
            logging.getLogger("vllm.kvset").setLevel(logging.WARNING)
            self.addCleanup(logging.getLogger("vllm.kvset").setLevel, logging.CRITICAL)
            self.assertEqual(connector.get_num_new_matched_tokens(Hostile(), 0), (0, False))
            self.assertIsNone(connector.update_state_after_alloc(Hostile(), None, 0))
            self.assertEqual(connector.request_finished_all_groups(Hostile(), ()), (False, None))
            self.assertEqual(connector.request_finished(None, []), (False, None))
        self.assertEqual(connector.counts()["faults"], 4)
        self.assertEqual(len(logs.output), 1)
        self.assertNotIn("secret", logs.output[0])

    def test_pages_that_do_not_fit_the_tokens_are_dropped_and_not_guessed(self):
        connector = self.connector()
        fakes.serve(connector, fakes.Request("a", 64, [1, 2, 3, 4, 5, 6, 7]))
        fakes.serve(connector, fakes.Request("b", 64, [1]))
        fakes.serve(connector, fakes.Request("c", 64, [1, 2, 3, 4]))
        self.assertEqual([ids(event["page_ids"]) for event in self.events(connector)], [[1, 2, 3, 4]])
        self.assertEqual(connector.counts()["dropped"], 2)

    def test_a_page_without_a_hash_is_nobody_elses(self):
        connector = self.connector()
        with mock.patch("kvset.vllm.connector.time.time", side_effect=[1.0, 2.0, 3.0, 4.0]):
            for name in "ab":
                fakes.serve(connector, fakes.Request(name, 64, [1, 2, 3]), outputs=0)
        first, second = (ids(event["page_ids"]) for event in self.events(connector))
        self.assertEqual((first[:3], second[:3], len(first)), ([1, 2, 3], [1, 2, 3], 4))
        self.assertNotEqual(first[3], second[3])

    def test_tenants_are_hashed_and_opt_in_and_no_token_or_name_is_written(self):
        request = fakes.Request("secret-id", 32, [1, 2], salt="secret-salt", extra={"team": "secret-team"})
        for tenant, is_there in ((None, False), ("cache_salt", True), ("vllm_xargs:team", True), ("vllm_xargs:x", False)):
            connector = self.connector(**({"tenant": tenant} if tenant else {}))
            fakes.serve(connector, request)
            request.block_hashes = request.block_hashes[:2]
            event = self.events(connector)[-1]
            self.assertEqual("tenant" in event, is_there, tenant)
        text = "".join(path.read_text() for path in self.folder.iterdir())
        self.assertNotIn("secret", text)
        self.assertNotIn("424242", text)

    def replicas_of(self, configs):
        """Names that engines running at a time write under, one after another, and how many files there are."""
        connectors = [self.connector(config=config) for config in configs]
        for connector in connectors:
            for _ in range(2):
                fakes.serve(connector, fakes.Request("a", 32, [1, 2]))
        events = [json.loads(line) for connector in connectors for line in self.lines_of(connector)]
        return [event["replica"] for event in events[::2]]

    def lines_of(self, connector):
        connector.shutdown()
        own = re.compile(f"requests-{connector._claimed.name}-[0-9]+-[0-9]+.jsonl")
        paths = [path for path in self.folder.iterdir() if own.fullmatch(path.name)]
        return [line for path in paths for line in path.read_text().splitlines()]

    def test_each_data_parallel_rank_is_a_replica(self):
        for experts in (False, True):
            for extra in ({}, {"replica": "named"}):
                extra = {"path": str(self.folder), "files": 1} | extra
                name = extra.get("replica") or "host"
                with mock.patch("kvset.vllm.settings.socket.gethostname", return_value="host"):
                    configs = [fakes.config(extra, ranks=4, rank=rank, experts=experts) for rank in (0, 1, 2, 3)]
                    self.assertEqual(self.replicas_of(configs), [f"{name}-dp{rank}" for rank in (0, 1, 2, 3)], experts)

    def test_ranks_of_several_hosts_have_the_name_of_theirs(self):
        names = []
        # Hybrid load balancing: each host has its own server, whose ranks begin where those of the former end.
        for host, first in (("east", 0), ("west", 2)):
            with mock.patch("kvset.vllm.settings.socket.gethostname", return_value=host):
                extra = {"path": str(self.folder)}
                names += self.replicas_of([fakes.config(extra, ranks=4, rank=rank) for rank in (first, first + 1)])
        self.assertEqual(names, ["east-dp0", "east-dp1", "west-dp2", "west-dp3"])

    def test_two_servers_of_one_host_are_two_replicas(self):
        # External load balancing of a dense model: vLLM refuses ranks there, and each server knows of itself alone.
        logging.getLogger("vllm.kvset").setLevel(logging.WARNING)
        self.addCleanup(logging.getLogger("vllm.kvset").setLevel, logging.CRITICAL)
        with mock.patch("kvset.vllm.settings.socket.gethostname", return_value="host"):
            configs = [fakes.config({"path": str(self.folder), "files": 1}) for _ in range(3)]
            with self.assertLogs("vllm.kvset", logging.WARNING) as logs:
                self.assertEqual(self.replicas_of(configs), ["host", "host-server2", "host-server3"])
            said = [line for line in logs.output if "already" in line]
            self.assertIn("is replica host already, so this one is host-server2; `replica` names each", said[0])
            # A server that ended leaves its name to the next one, which keeps one file, as it was told.
            self.assertEqual(self.replicas_of(configs[:1]), ["host"])

    def test_a_name_ends_with_its_process(self):
        source = "import os; from kvset.vllm.replicas import ClaimedName; c = ClaimedName('p'); print(c.name, flush=True)"
        held = subprocess.Popen(
            [sys.executable, "-c", source + "; input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        )
        self.assertEqual(held.stdout.readline(), "p\n")
        other = ClaimedName("p")
        self.assertEqual(other.name, "p-server2")
        other.release()
        held.kill()
        held.communicate()
        again = ClaimedName("p")
        self.assertEqual(again.name, "p")
        again.release()

    def test_the_served_model_is_the_pool(self):
        connector = self.connector(config=fakes.config({"path": str(self.folder)}, served=["served", "alias"]))
        fakes.serve(connector, fakes.Request("a", 32, [1, 2]))
        self.assertEqual([event["pool"] for event in self.events(connector)], ["served"])

    def test_each_configuration_of_the_documentation_is_one(self):
        page = (Path(__file__).resolve().parents[2] / "docs/vllm.md").read_text()
        told = [json.loads(text) for text in re.findall(r"--kv-transfer-config '(.*?)'", page, re.DOTALL)]
        self.assertEqual([one["kv_connector"] for one in told], ["KvsetConnector", "MultiConnector"])
        for one in told[0], *told[1]["kv_connector_extra_config"]["connectors"]:
            if one["kv_connector"] != "KvsetConnector":
                continue
            self.assertTrue(hasattr(__import__(one["kv_connector_module_path"], fromlist=["_"]), one["kv_connector"]))
            extra = one["kv_connector_extra_config"]
            self.assertEqual(extra.pop("path"), "/var/log/kvset")
            Settings.read(extra | {"path": str(self.folder)}, "model", None)

    def test_beside_offloading_it_says_how_both_are_named(self):
        import kvset.vllm

        # vLLM asks the module for the connector that the option puts in the place of this one.
        for name in ("OffloadingConnector", "SimpleCPUOffloadConnector", "LMCacheMPConnector"):
            with self.assertRaisesRegex(SettingsError, f"put {name} in the place of KvsetConnector: leave them out.*MultiConnector"):
                getattr(kvset.vllm, name)
        self.assertFalse(hasattr(kvset.vllm, "AnotherConnector"))

    def test_a_worker_does_nothing(self):
        before = threading.active_count()
        worker = self.connector(role=fakes.Role.WORKER, config=fakes.config({}))
        self.assertEqual(threading.active_count(), before)
        for call in (worker.wait_for_save, lambda: worker.start_load_kv(None), worker.shutdown):
            self.assertIsNone(call())

    def test_a_request_id_is_written_where_it_is_asked_for(self):
        connector = self.connector(request_ids=True)
        fakes.serve(connector, fakes.Request("cmpl-7", 32, [1, 2]))
        self.assertEqual(self.events(connector)[0]["request_id"], "cmpl-7")


class ClockTest(unittest.TestCase):
    def test_look_ups_of_one_step_keep_their_order_and_come_after_earlier_finishes(self):
        clock = EventClock()
        self.assertEqual([clock.looked_up(5.0), clock.looked_up(5.0), clock.looked_up(5.0)], [5000, 5001, 5002])
        self.assertEqual(clock.finished(5.001), 5002)
        self.assertEqual(clock.looked_up(5.002), 5003)
        self.assertEqual(clock.finished(5.9), 5900)

    def test_a_burst_runs_ahead_by_a_second_at_most_and_a_clock_set_back_is_followed(self):
        clock = EventClock()
        moments = [clock.looked_up(5.0) for _ in range(3000)]
        self.assertEqual((moments[999], moments[-1]), (5999, 6000))
        self.assertEqual(clock.looked_up(1.0), 1000)


def fail():
    raise OSError(28, "No space left on device")


class FakeProducer:
    """A client whose queue holds so many messages; deliveries are told of by `poll`."""

    def __init__(self, room=10**9, fails=False):
        self.room, self.fails, self.sent, self.told = room, fails, [], []

    def produce(self, topic, value, key, on_delivery):
        if len(self.told) >= self.room:
            raise BufferError
        self.sent.append((topic, key, value))
        self.told.append(on_delivery)

    def poll(self, _seconds):
        if not self.fails:
            return
        while self.told:
            self.told.pop()("timed out", None)

    def flush(self, _seconds):
        return len(self.told)


def finished(pages=2):
    hashes = [fakes.digest(number) for number in range(pages)]
    return Finished(hashes, 16 * pages, 1, Followed(1, 0, 0, is_admitted=True), 2, 2, None, None)


class SinkTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_files_rotate_between_lines_and_the_oldest_go(self):
        other = self.folder / "requests-other-0000000000001-000001.jsonl"
        other.write_text("kept")
        sink = FileSink(FileSettings(self.folder, file_bytes=100, files=3), "r")
        for number in range(40):
            self.assertEqual(sink.write([json.dumps({"n": number}).encode()] * 2), 0)
        sink.close(0)
        names = sorted(path.name for path in self.folder.iterdir())
        self.assertEqual((len(names), other.read_text()), (4, "kept"))
        lines = [line for name in names if "-r-" in name for line in (self.folder / name).read_text().splitlines()]
        numbers = [json.loads(line)["n"] for line in lines]
        self.assertEqual(numbers, sorted(numbers))
        self.assertEqual(numbers[-1], 39)

    def test_two_sinks_of_one_millisecond_have_files_of_their_own(self):
        with mock.patch("kvset.vllm.sinks.time.time", return_value=1.0):
            sinks = [FileSink(FileSettings(self.folder), "r") for _ in range(3)]
        for number, sink in enumerate(sinks):
            self.assertEqual(sink.write([str(number).encode()]), 0)
            sink.close(0)
        self.assertEqual([path.read_text() for path in sorted(self.folder.iterdir())], ["0\n", "1\n", "2\n"])

    def lines(self):
        return sorted(line for path in self.folder.glob("*.jsonl") for line in path.read_text().splitlines())

    def test_a_file_that_was_removed_or_moved_is_followed_by_the_next(self):
        sink = FileSink(FileSettings(self.folder), "r")
        self.assertEqual(sink.write([b"1"]), 0)
        [path] = self.folder.iterdir()
        path.unlink()
        self.assertEqual(sink.write([b"2"]), 0)
        self.assertEqual(self.lines(), ["2"])
        [path] = self.folder.iterdir()
        path.rename(self.folder / "kept")
        self.assertEqual(sink.write([b"3"]), 0)
        self.assertEqual((self.lines(), (self.folder / "kept").read_text()), (["3"], "2\n"))
        sink.close(0)

    def test_a_folder_that_was_removed_is_made_again(self):
        folder = self.folder / "log"
        folder.mkdir()
        sink = FileSink(FileSettings(folder), "r")
        sink.write([b"1"])
        shutil.rmtree(folder)
        self.assertEqual(sink.write([b"2"]), 0)
        self.assertEqual([path.read_text() for path in folder.iterdir()], ["2\n"])
        sink.close(0)

    def test_a_file_that_was_emptied_goes_on_without_a_gap(self):
        sink = FileSink(FileSettings(self.folder), "r")
        sink.write([b"1"] * 100)
        [path] = self.folder.iterdir()
        os.truncate(path, 0)
        real = os.write
        with mock.patch("kvset.vllm.sinks.os.write", lambda file, data: real(file, data[:2]) if len(data) > 2 else fail()), \
                self.assertRaises(OSError):
            sink.write([b"22", b"33"])
        sink._retry_at = 0
        sink.write([b"4"])
        sink.close(0)
        self.assertEqual(path.read_text(), "4\n")

    def test_a_full_disk_leaves_whole_lines_and_is_tried_again(self):
        sink = FileSink(FileSettings(self.folder), "r")
        sink.write([b"1"])
        real = os.write

        with mock.patch("kvset.vllm.sinks.os.write", lambda file, data: real(file, data[:2]) if len(data) > 2 else fail()), \
                self.assertRaises(OSError):
            sink.write([b"22", b"33"])
        self.assertEqual(sink.write([b"4"]), 1, "waits before it tries again")
        sink._retry_at = 0
        self.assertEqual(sink.write([b"5"]), 0)
        sink.close(0)
        self.assertEqual(next(self.folder.iterdir()).read_text(), "1\n5\n")

    def test_kafka_is_keyed_by_pool_and_what_it_refuses_or_loses_is_counted(self):
        producer = FakeProducer(room=3)
        sink = KafkaSink(KafkaSettings("events", {}), "pool", producer)
        self.assertEqual(sink.write([b"{}"] * 5), 2)
        self.assertEqual(set(producer.sent), {("events", b"pool", b"{}")})
        self.assertEqual(sink.fault, "the client's queue is full")
        sink.close(0.0)
        self.assertEqual(sink.lost(), 3, "what was not delivered at the end")
        failing = KafkaSink(KafkaSettings("events", {}), "pool", FakeProducer(fails=True))
        self.assertEqual((failing.write([b"{}"] * 5), failing.lost(), failing.lost()), (0, 5, 0))


class RecorderTest(unittest.TestCase):
    def recorder(self, sink, limit=1 << 20):
        recorder = Recorder(lambda finished: b"{}", [sink], limit, logging.getLogger("vllm.kvset"))
        self.addCleanup(recorder.close)
        return recorder

    def test_a_sink_that_hangs_bounds_memory_and_stops_nobody(self):
        release = threading.Event()
        sink = mock.Mock(write=lambda events: release.wait(30) and 0, lost=lambda: 0, fault="")
        recorder = self.recorder(sink)
        one = finished(pages=100)
        began = time.monotonic()
        for _ in range(20_000):
            recorder.offer(one)
            self.assertLessEqual(recorder.waiting_bytes, 1 << 20)
        self.assertLess(time.monotonic() - began, 20)
        held = (1 << 20) // one.bytes
        self.assertEqual(recorder.counts()["dropped"], 20_000 - held)
        release.set()
        recorder.close(30)
        self.assertEqual(recorder.counts(), {"offered": 20_000, "written": held, "dropped": 20_000 - held})

    def test_a_sink_that_fails_loses_events_and_the_next_are_written(self):
        fails = [True]

        def write(events):
            if fails[0]:
                raise OSError(28, "No space left on device")
            return 0

        recorder = self.recorder(mock.Mock(write=write, lost=lambda: 0, fault=""))
        recorder.offer(finished())
        deadline = time.monotonic() + 20
        while recorder.counts()["dropped"] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        fails[0] = False
        recorder.offer(finished())
        recorder.close(20)
        self.assertEqual(recorder.counts(), {"offered": 2, "written": 1, "dropped": 1})
        self.assertEqual(recorder._reason, "OSError: No space left on device")


class SettingsTest(unittest.TestCase):
    def test_what_is_wrong_is_named_with_the_cure(self):
        os.environ.pop("KVSET_TEST_ABSENT", None)
        kafka = {"bootstrap.servers": "localhost:1"}
        cases = [
            ({}, "no sink"),
            ({"path": "/dev/null/x"}, "no folder"),
            ({"path": 7}, "path is no text"),
            ({"path": ""}, "path is empty"),
            ({"path": ".", "queue_bytes": 5}, "queue_bytes is 5: at least"),
            ({"path": ".", "queue_bytes": True}, "queue_bytes is no whole number"),
            ({"path": ".", "pth": 1}, "unknown settings pth; known are"),
            ({"path": ".", "replica": "a/b"}, "replica is 'a/b'"),
            ({"path": ".", "tenant": "header:x"}, "tenant is 'header:x'"),
            ({"path": ".", "pool": "p" * 300}, "longer than 256 bytes"),
            ({"topic": "t"}, "Kafka needs both"),
            ({"kafka": kafka}, "Kafka needs both"),
            ({"topic": "t", "kafka": {"x": 1}}, "Kafka needs both"),
            ({"topic": "t", "kafka": kafka | {"sasl.password": "hunter2"}}, "kafka.sasl.password is a secret"),
            ({"topic": "t", "kafka": kafka | {"ssl.key.pem": "hunter2"}}, "kafka.ssl.key.pem is a secret"),
            ({"topic": "t", "kafka": kafka | {"sasl.password": "env:KVSET_TEST_ABSENT"}}, "that is not set"),
            ({"topic": "t", "kafka": kafka | {"sasl.password": "file:/none"}}, "cannot be read"),
            ({"topic": "t", "kafka": kafka | {"x": None}}, "neither a text nor a number"),
        ]
        for told, words in cases:
            with self.assertRaises(SettingsError) as caught:
                Settings.read(told, "model", None)
            self.assertIn(words, str(caught.exception), told)
            self.assertNotIn("hunter2", str(caught.exception))

    def test_a_home_folder_is_expanded(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        home = folder.name
        Path(home, "secret").write_text("hunter2\n")
        told = {"path": "~/kv", "topic": "t", "kafka": {"bootstrap.servers": "b", "sasl.password": "file:~/secret"}}
        with mock.patch.dict(os.environ, {"HOME": home}):
            settings = Settings.read(told, "model", None)
        self.assertEqual(settings.file.folder, Path(home, "kv"))
        self.assertTrue(Path(home, "kv").is_dir())
        self.assertEqual(settings.kafka.properties["sasl.password"], "hunter2")
        with self.assertRaisesRegex(SettingsError, "begins in a home folder that is not known"):
            Settings.read({"path": "~nobody-of-this-name/kv"}, "model", None)

    def test_it_says_in_one_line_what_it_does_and_no_secret(self):
        told = {
            "topic": "events",
            "kafka": {"bootstrap.servers": "broker:9092", "sasl.password": "env:KVSET_TEST_SECRET"},
            "tenant": "cache_salt",
            "replica": "r",
        }
        with mock.patch.dict(os.environ, {"KVSET_TEST_SECRET": "hunter2"}):
            settings = Settings.read(told, "model", None)
        self.assertEqual(settings.kafka.properties["sasl.password"], "hunter2")
        self.assertNotIn("hunter2", repr(settings) + settings.in_words())
        self.assertEqual(
            settings.in_words(),
            "request events of pool model, replica r, tenant from cache_salt (hashed) go to topic events at broker:9092; "
            "at most 64 MiB wait",
        )


if __name__ == "__main__":
    unittest.main()
