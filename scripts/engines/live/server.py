"""A vLLM server on a processor, with a one-layer model of dummy weights."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

BLOCK = 32
MODEL_NAME = "one-layer"
VOCABULARY = 32_000
START_SECONDS = 600

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "num_hidden_layers": 1,
    "max_position_embeddings": 16_384,
    "vocab_size": VOCABULARY,
    "torch_dtype": "bfloat16",
}


def connector(**extra):
    """The value of `--kv-transfer-config` that loads kvset's connector."""
    return {
        "kv_connector": "KvsetConnector",
        "kv_connector_module_path": "kvset.vllm",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {"replica": "live", "request_ids": True} | extra,
    }


def beside_another(transfer, folder):
    """The same alongside another connector, which stores nothing of what it is offered."""
    return {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"connectors": [
        {"kv_connector": "ExampleConnector", "kv_role": "kv_both", "kv_connector_extra_config": {
            "shared_storage_path": str(folder)}},
        transfer | {"kv_role": "kv_both"},
    ]}}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@dataclasses.dataclass(frozen=True)
class Server:
    """A server that answers."""

    address: str
    group: int
    """The group of its processes."""


@contextlib.contextmanager
def serving(home, blocks, transfer=None, sequences=64, log="server.log", ranks=1):
    """Starts a server whose ranks have so many usable blocks; gives it. Their first block holds nothing, so they get one more."""
    home = Path(home).resolve()
    model = home / "model"
    model.mkdir(parents=True, exist_ok=True)
    (model / "config.json").write_text(json.dumps(MODEL))
    port = free_port()
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name", MODEL_NAME,
        "--host", "127.0.0.1", "--port", str(port), "--load-format", "dummy", "--skip-tokenizer-init",
        "--num-gpu-blocks-override", str(blocks + 1), "--block-size", str(BLOCK), "--enforce-eager", "--dtype", "bfloat16",
        "--max-model-len", str(min(16_384, blocks * BLOCK)), "--max-num-seqs", str(sequences), "--enable-prompt-tokens-details",
    ]  # fmt: skip
    if ranks > 1:
        command += ["--data-parallel-size", str(ranks)]
    if transfer is not None:
        command += ["--kv-transfer-config", json.dumps(transfer)]
    environment = os.environ | {
        # A part a rank.
        "VLLM_CPU_OMP_THREADS_BIND": "|".join(["0-1"] * ranks),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
    }
    with open(home / log, "wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True, cwd=home
        )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(process, address, home / log)
        yield Server(address, process.pid)
    finally:
        # The group is the server's own: the engine's process is in it.
        stop(process)


def wait_until_ready(process, address, log):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the server ended with {process.returncode}:\n{tail(log)}")
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"{address}/health", timeout=5).close()
            return
        time.sleep(0.5)
    raise SystemExit(f"the server does not answer after {START_SECONDS} s:\n{tail(log)}")


def tail(log):
    return "\n".join(log.read_text(errors="replace").splitlines()[-40:])


def stop(process):
    """Asks it to stop, and ends what is left of its group."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def metric(address, name):
    """Sum of a metric over its labels."""
    text = urllib.request.urlopen(f"{address}/metrics", timeout=30).read().decode()
    lines = [line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
