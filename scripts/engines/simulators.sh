#!/usr/bin/env bash
# What other simulators answer on the recorded workloads: the tables of docs/engines-recorded.md, on standard output.
#
#   scripts/engines/simulators.sh
#
# Needs Python 3.11 or later with venv and the Python package index; 300 MB below target/engines, and a minute.
# KVSET is the program that makes the workloads (target/debug/kvset, built where it is missing).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

packages=(kvcache-simulator==0.1.3 sortedcontainers==2.4.0)
# By itself: its simulator needs nothing of what the package needs.
alone=lmcache==0.5.6
home=target/engines/simulators
kvset=${KVSET:-target/debug/kvset}

[[ -x $kvset ]] || cargo build --locked --bin kvset
if [[ $(cat "$home/installed" 2>/dev/null) != "${packages[*]} $alone" ]]; then
    rm -rf "$home"
    python3 -m venv "$home"
    "$home/bin/pip" install --quiet "${packages[@]}"
    "$home/bin/pip" install --quiet --no-deps "$alone"
    echo "${packages[*]} $alone" >"$home/installed"
fi
"$home/bin/python" -W ignore scripts/engines/simulators.py "$kvset" tests/fixtures/engines
