"""SGLang's request log as its own logger writes it, from the sources in a wheel, without torch.

    python3 scripts/engines/sglang_log.py WHEEL > tests/fixtures/logs/sglang-requests.log

The logger (`utils/request_logger.py`) and its targets (`utils/log_utils.py`) run as they are; the request has every field of
`GenerateReqInput`, and `meta_info` those that the tokenizer manager sets, the ones of `--enable-metrics` among them.
"""

import ast
import dataclasses
import datetime
import logging
import sys
import types
import zipfile

PAGE = 16
FIRST = 1_764_151_200.25


def stand_in(name, **members):
    """Puts a module where the sources import it from, with all above it."""
    above, _, last = name.rpartition(".")
    if above and above not in sys.modules:
        stand_in(above)
    module = sys.modules.setdefault(name, types.ModuleType(name))
    vars(module).update(members)
    if above:
        setattr(sys.modules[above], last, module)
    return module


def run(wheel, name):
    """A module of the wheel."""
    path = name.replace(".", "/") + ".py"
    module = stand_in(name)
    exec(compile(wheel.read(path), path, "exec"), vars(module))  # noqa: S102
    return module


def fields(wheel):
    """The fields of a request, in their order."""
    tree = ast.parse(wheel.read("sglang/srt/managers/io_struct.py"))
    classes = {item.name: item for item in ast.walk(tree) if isinstance(item, ast.ClassDef)}
    own = [item.target.id for item in classes["GenerateReqInput"].body if isinstance(item, ast.AnnAssign)]
    return list(dict.fromkeys(["rid", *own]))


def main(path):
    wheel = zipfile.ZipFile(path)
    none = types.SimpleNamespace(get=lambda: 0)
    stand_in("torch.distributed", is_initialized=lambda: False)
    stand_in("sglang.srt.environ", envs=types.SimpleNamespace(
        SGLANG_LOG_REQUEST_HEADERS=types.SimpleNamespace(get=list), SGLANG_LOG_REQUEST_EXCEEDED_MS=none))
    features = types.SimpleNamespace(enable_watermark=False)
    stand_in("sglang.srt.runtime_context", get_exec=lambda: types.SimpleNamespace(features=features),
             get_context=lambda: types.SimpleNamespace(is_config_namespace_published=lambda name: True))
    stand_in("sglang.srt.sampling.watermarking.core", WATERMARK_CONTAINER_FIELD_NAMES=(), WATERMARK_SECRET_FIELD_NAMES=(),
             redact_watermark_secrets=lambda data, **named: data)
    targets = run(wheel, "sglang.srt.utils.log_utils")
    clock = [FIRST]

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.fromtimestamp(clock[0], datetime.timezone.utc).replace(tzinfo=None)

    targets.datetime = Clock
    logger = run(wheel, "sglang.srt.utils.request_logger").RequestLogger(True, 3, "json", ["stdout"])
    for target in logger.targets:
        formatter = target.handlers[0].formatter
        formatter.formatTime = lambda record, datefmt=None: Clock.now().strftime(datefmt)
        target.handlers[0] = logging.StreamHandler(sys.stdout)
        target.handlers[0].setFormatter(formatter)
    request = dataclasses.make_dataclass("GenerateReqInput", [(name, object, None) for name in fields(wheel)])
    # Two conversations on two data-parallel ranks; each turn goes on with the prompt and the answer before it.
    for turn, (session, rank, prompt, cached) in enumerate(
        [("one", 0, 48, 0), ("two", 1, 48, 0), ("one", 0, 96, 64), ("two", 1, 96, 64)]
    ):
        tokens = [1000 * (rank + 1) + at for at in range(prompt)]
        answer = [1000 * (rank + 1) + prompt + at for at in range(20)]
        received = FIRST + 2 * turn
        named = {"rid": f"r{turn}", "input_ids": tokens, "sampling_params": {"max_new_tokens": 20}, "stream": False,
                 "session_id": session, "routed_dp_rank": rank}
        obj = request(**{name: value for name, value in named.items() if name in request.__dataclass_fields__})
        clock[0] = received
        logger.log_received_request(obj)
        clock[0] = received + 1.5
        meta = {"id": obj.rid, "finish_reason": {"type": "length", "length": 20}, "prompt_tokens": prompt,
                "weight_version": "default", "num_retractions": 0, "queue_time": 0.25, "reasoning_tokens": 0,
                "completion_tokens": 20, "cached_tokens": cached,
                "cached_tokens_details": {"device": cached, "host": 0, "storage": 0}, "dp_rank": rank,
                "e2e_latency": 1.5, "request_received_ts": received}
        logger.log_finished_request(obj, {"text": "", "output_ids": answer, "meta_info": meta})


if __name__ == "__main__":
    main(*sys.argv[1:])
