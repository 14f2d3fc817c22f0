"""The connector's methods, compared with vLLM's base classes of two versions, as recorded."""

import copy
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts/engines"))

import vllm_interface  # noqa: E402


class Interface(unittest.TestCase):
    def test_the_connector_fits_each_recorded_version(self):
        recorded = vllm_interface.recorded()
        self.assertGreaterEqual(len(recorded), 2)
        for version, vllm in recorded.items():
            self.assertEqual(vllm_interface.faults(version, vllm), [])

    def test_what_a_version_changes_is_found(self):
        version, vllm = next(iter(vllm_interface.recorded().items()))

        def faults(change):
            changed = copy.deepcopy(vllm)
            change(changed, changed["classes"]["KVConnectorBase_V1"])
            return vllm_interface.faults(version, changed)

        changes = {
            "new_duty is not defined": lambda _, base: base["abstract"].append("new_duty"),
            "update_state_after_alloc has": lambda _, base: base["methods"]["update_state_after_alloc"].append("step"),
            "requires_kv_delivery has": lambda _, base: base["properties"].clear(),
            "request.block_hashes is read": lambda vllm, _: vllm["read"]["request"].remove("block_hashes"),
            "stats.num_local_cached_tokens is read": lambda vllm, _: vllm["read"]["stats"].clear(),
            "the scheduler calls surprise": lambda vllm, _: vllm["called"].append("surprise"),
            "parallel.data_parallel_index is read": lambda vllm, _: vllm["read"]["parallel"].remove("data_parallel_index"),
            "told apart by something else": lambda vllm, _: vllm["data_parallel"]["suffixes"].clear(),
            "takes something else": lambda vllm, _: vllm["functions"]["resolve_kv_cache_block_sizes"].pop(),
        }
        for words, change in changes.items():
            self.assertTrue(any(words in fault for fault in faults(change)), words)


if __name__ == "__main__":
    unittest.main()
