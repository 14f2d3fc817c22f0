#!/usr/bin/env bash
# Records what the engines' own cache classes answer, request by request, into tests/fixtures/engines/.
#
#   scripts/engines/record.sh                                record the versions in versions.txt
#   scripts/engines/record.sh vllm==0.33.0                   record this engine's files only
#   scripts/engines/record.sh --check                        run again; a table of what differs from the committed files
#   scripts/engines/record.sh --check vllm==0.32.0 sglang    other versions; without a version, the newest
#   scripts/engines/record.sh --check vllm_lmcache==0.33.0+0.5.6    vLLM with LMCache below it; both versions are wanted
#
# Needs Python 3.11 or later with venv, zstd, the Python package index, and 8 GB below target/engines; no accelerator. Mooncake's
# store needs libibverbs1 and libnuma1 of the distribution, though no such device, and runs at the speed of its traces: eleven minutes.
# ONLY='vllm_agents-16_* *_chats-*' in the environment restricts it to the files that match one of the patterns.
# KVSET is the program that makes the workloads (target/debug/kvset, built where it is missing).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

here=scripts/engines
home=target/engines
committed=tests/fixtures/engines
kvset=${KVSET:-target/debug/kvset}

check=false
if [[ ${1:-} == --check ]]; then
    check=true
    shift
fi
[[ ${1:-} != -* ]] || { echo "usage: $here/record.sh [--check] [ENGINE[==VERSION]...]" >&2; exit 2; }
mapfile -t engines < <(if (($#)); then printf '%s\n' "$@"; else cat "$here/versions.txt"; fi)

[[ -x $kvset ]] || cargo build --locked --bin kvset
if ! cmp -s "$here/requirements.txt" "$home/requirements.txt"; then
    python3 -m venv "$home/venv"
    "$home/venv/bin/pip" install --quiet --requirement "$here/requirements.txt"
    cp "$here/requirements.txt" "$home/requirements.txt"
fi

# The packages of an engine, with their versions.
packages() {
    case $1 in
        paper*) ;;
        vllm_lmcache==*+*)
            local versions=${1#*==}
            echo "vllm==${versions%+*} lmcache==${versions#*+}"
            ;;
        vllm_lmcache*)
            echo "$1: say both versions, such as vllm_lmcache==0.33.0+0.5.6" >&2
            return 2
            ;;
        vllm_offload*) echo "${1/vllm_offload/vllm}" ;;
        mooncake*) echo "${1/mooncake/mooncake-transfer-engine-non-cuda}" ;;
        *) echo "$1" ;;
    esac
}

# The folder a package is installed to, by itself, so that versions do not touch each other.
installed() {
    local folder=$home/$1
    # The newest version is another one tomorrow.
    [[ $1 == *==* ]] || rm -rf "$folder"
    if [[ ! -f $folder/installed ]]; then
        rm -rf "$folder"
        "$home/venv/bin/pip" install --quiet --no-deps --target "$folder" "$1"
        touch "$folder/installed"
    fi
    echo "$folder"
}

folders=()
for engine in "${engines[@]}"; do
    name=${engine%%==*}
    [[ -f $here/drive_$name.py ]] || { echo "no driver for $name in $here" >&2; exit 2; }
    path=
    needed=$(packages "$engine")
    for package in $needed; do
        path+=${path:+:}$(installed "$package")
    done
    folder=$committed
    if $check; then
        folder=$home/recorded/$engine
        rm -rf "$folder"
    fi
    folders+=("$folder")
    echo "== $engine" >&2
    PYTHONPATH=$path "$home/venv/bin/python" -W ignore "$here/run.py" "$name" "$kvset" "$folder" >"$home/$engine.log" 2>&1 \
        || { tail -30 "$home/$engine.log" >&2; exit 1; }
    grep " requests at " "$home/$engine.log" >&2
done
if $check; then
    "$home/venv/bin/python" "$here/compare.py" "$committed" "${folders[@]}"
fi
