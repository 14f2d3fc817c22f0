"""What a KV connector is called with, read from vLLM's sources without running them, and compared with kvset's connector.

    python3 scripts/engines/vllm_interface.py record WHEEL...     writes python/tests/vllm_interface.json
    python3 scripts/engines/vllm_interface.py check [WHEEL...]    compares the connector with what is recorded, and with wheels
    python3 scripts/engines/vllm_interface.py newest FOLDER       the same with the two newest wheels of the package index

Needs Python 3.10 or later and, for `newest`, pip; not vLLM, and no torch.
"""

import ast
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "python/tests/vllm_interface.json"
PACKAGE = ROOT / "python/src/kvset/vllm"

CLASSES = {
    "vllm/distributed/kv_transfer/kv_connector/v1/base.py": ["KVConnectorBase_V1", "SupportsHMA"],
}
# Whose attributes the connector reads, by the variable that it has them in: set in the class's body, in its __init__, or
# properties.
READ = {
    "request": ("vllm/v1/request.py", "Request"),
    "stats": ("vllm/v1/metrics/stats.py", "PrefillStats"),
    "parallel": ("vllm/config/parallel.py", "ParallelConfig"),
    "transfer": ("vllm/config/kv_transfer.py", "KVTransferConfig"),
    "model": ("vllm/config/model.py", "ModelConfig"),
}
FUNCTIONS = {"vllm/v1/core/kv_cache_utils.py": ["resolve_kv_cache_block_sizes"]}
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
# What an engine core of a dense model does to its configuration, and how it calls itself, before it makes its connector.
INDEPENDENT = ("vllm/config/parallel.py", "ParallelConfig", "reconfigure_for_independent_dp_rank")
CORE = "vllm/v1/engine/core.py"


def parameters(function):
    """Names of a function's parameters, with their stars."""
    named = function.args
    names = [argument.arg for argument in named.posonlyargs + named.args]
    names += [f"*{named.vararg.arg}"] if named.vararg else []
    names += [argument.arg for argument in named.kwonlyargs]
    return names + ([f"**{named.kwarg.arg}"] if named.kwarg else [])


def decorators(function):
    return {ast.unparse(decorator).rpartition(".")[2] for decorator in function.decorator_list}


def functions_of(body):
    return [item for item in body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))]


def class_of(tree, name):
    found = [item for item in ast.walk(tree) if isinstance(item, ast.ClassDef) and item.name == name]
    if not found:
        raise SystemExit(f"no class {name}: vLLM has moved it")
    return found[0]


def methods(tree, name):
    """Parameters of each method, those that must be defined, and properties."""
    found = functions_of(class_of(tree, name).body)
    return {
        "methods": {method.name: parameters(method) for method in found},
        "abstract": [method.name for method in found if "abstractmethod" in decorators(method)],
        "properties": [method.name for method in found if "property" in decorators(method)],
    }


def attributes(tree, name):
    body = class_of(tree, name).body
    found = {method.name for method in functions_of(body)}
    found |= {item.target.id for item in body if isinstance(item, ast.AnnAssign)}
    for method in functions_of(body):
        for item in ast.walk(method) if method.name == "__init__" else []:
            targets = item.targets if isinstance(item, ast.Assign) else [getattr(item, "target", None)]
            found |= {target.attr for target in targets if isinstance(target, ast.Attribute)}
    return sorted(found)


def constants_set(tree, class_name, method_name):
    """Attributes of its own that a method sets to a constant, with their values."""
    method = next(item for item in functions_of(class_of(tree, class_name).body) if item.name == method_name)
    set_to = [(item.targets[0], item.value) for item in ast.walk(method) if isinstance(item, ast.Assign)]
    return {target.attr: value.value for target, value in set_to
            if isinstance(target, ast.Attribute) and isinstance(value, ast.Constant)}


def interface(read):
    """All of it; `read` gives the text of a file of vLLM's."""
    tree = {path: ast.parse(read(path)) for path in [*CLASSES, *FUNCTIONS, *(path for path, _ in READ.values())]}
    return {
        "classes": {name: methods(tree[path], name) for path, names in CLASSES.items() for name in names},
        "read": {what: attributes(tree[path], name) for what, (path, name) in READ.items()},
        "functions": {
            name: next(parameters(f) for f in functions_of(tree[path].body) if f.name == name)
            for path, names in FUNCTIONS.items()
            for name in names
        },
        # Each call of the scheduler's, by name.
        "called": sorted(set(re.findall(r"self\.connector\.(\w+)\(", read(SCHEDULER)))),
        "data_parallel": {
            "independent": constants_set(tree[INDEPENDENT[0]], *INDEPENDENT[1:]),
            # Of `f"{...engine_id}_dp{dp_rank}"`.
            "suffixes": sorted(set(re.findall(r"engine_id\}(\w+)\{dp_rank\}", read(CORE)))),
        },
    }


def of_wheel(path):
    version = Path(path).name.split("-")[1]
    with zipfile.ZipFile(path) as wheel:
        return version, interface(lambda name: wheel.read(name).decode())


def faults(version, vllm):
    """What the connector lacks for a version of vLLM, in words."""
    sources = {path.stem: ast.parse(path.read_text()) for path in PACKAGE.glob("*.py")}
    own = methods(sources["connector"], "KvsetConnector")
    found = []
    for base, its in vllm["classes"].items():
        found += [f"{base}.{name} is not defined" for name in its["abstract"] if name not in own["methods"]]
        for name in set(its["methods"]) & set(own["methods"]) - {"__init__"}:
            ours, theirs = own["methods"][name], its["methods"][name]
            if ours != theirs or (name in own["properties"]) != (name in its["properties"]):
                found.append(f"{base}.{name} has {', '.join(theirs)}, and here {', '.join(ours)}")
    base = vllm["classes"]["KVConnectorBase_V1"]["methods"]
    found += [f"the scheduler calls {name}, which no base class has" for name in vllm["called"] if name not in base
              and name not in vllm["classes"]["SupportsHMA"]["methods"]]
    for what, known in vllm["read"].items():
        used = {
            item.attr
            for source in sources.values()
            for item in ast.walk(source)
            if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == what
        }
        if not used:
            found.append(f"nothing is read of {what}: the check looks in the wrong place")
        found += [f"{what}.{name} is read, which vLLM does not have" for name in sorted(used - set(known))]
    ranks = vllm["data_parallel"]
    if "data_parallel_index" in ranks["independent"] or ranks["suffixes"] != ["_dp"]:
        found.append(f"ranks of dense models are told apart by something else: {ranks}")
    if vllm["functions"]["resolve_kv_cache_block_sizes"] != ["kv_cache_config", "vllm_config"]:
        found.append("resolve_kv_cache_block_sizes takes something else")
    return [f"vLLM {version}: {fault}" for fault in found]


def recorded():
    return json.loads(RECORDED.read_text())


def newest(folder):
    """Wheels of the two newest versions in the package index."""
    pip = [sys.executable, "-m", "pip"]
    listed = subprocess.run([*pip, "index", "versions", "vllm"], check=True, capture_output=True, text=True).stdout
    versions = listed.partition("Available versions:")[2].split("\n")[0].replace(" ", "").split(",")[:2]
    for version in versions:
        subprocess.run([*pip, "download", "--quiet", "--no-deps", "--dest", folder, f"vllm=={version}"], check=True)
    return [next(Path(folder).glob(f"vllm-{version}-*.whl")) for version in versions]


def main():
    command, arguments = (sys.argv[1:] or ["help"])[0], sys.argv[2:]
    if command == "record" and arguments:
        versions = dict(sorted(map(of_wheel, arguments)))
        RECORDED.write_text(json.dumps(versions, indent=1) + "\n")
        return
    if command not in ("check", "newest"):
        raise SystemExit(__doc__)
    versions = list(recorded().items())
    if command == "newest":
        try:
            arguments = newest(arguments[0])
        except subprocess.CalledProcessError:
            print("left out, for the package index is out of reach: the newest versions of vLLM")
            arguments = []
    versions += [of_wheel(path) for path in arguments]
    found = [fault for version, vllm in versions for fault in faults(version, vllm)]
    print("\n".join(found) or f"the connector fits vLLM {', '.join(dict(versions))}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
