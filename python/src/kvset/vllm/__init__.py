"""A passive KV connector that has vLLM write a request event for each request.

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "KvsetConnector", "kv_connector_module_path": "kvset.vllm",
        "kv_role": "kv_producer", "kv_connector_extra_config": {"path": "/var/log/kvset"}}'

It matches nothing and transfers nothing; it looks at what the scheduler does. Only `KvsetConnector` needs vLLM, so the other
modules can be imported without it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .connector import KvsetConnector

__all__ = ["KvsetConnector"]

# What `--kv-offloading-size` puts in the place of `kv_connector`. vLLM then looks for it in the module named beside it.
_OFFLOADING = ("OffloadingConnector", "SimpleCPUOffloadConnector", "LMCacheMPConnector")


def __getattr__(name: str) -> Any:
    if name == "KvsetConnector":
        from .connector import KvsetConnector

        return KvsetConnector
    if name in _OFFLOADING:
        from .settings import SettingsError

        raise SettingsError(
            f"kvset: --kv-offloading-size and --kv-offloading-backend put {name} in the place of KvsetConnector: leave "
            f"them out, and name {name} and KvsetConnector as `connectors` of a MultiConnector (docs/vllm.md says how)"
        )
    raise AttributeError(f"module {__name__} has no attribute {name}")
