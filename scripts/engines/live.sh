#!/usr/bin/env bash
# Serves generated workloads on a live vLLM server, on a processor, with kvset's connector in it, and compares what the
# server found with what `kvset replay` makes of the connector's log: request by request.
#
#   scripts/engines/live.sh                     every run of scripts/engines/live/runs.py, a table at the end
#   scripts/engines/live.sh agents-900          these runs only
#   scripts/engines/live.sh --record            writes the logs to tests/fixtures/engines/live, ids numbered from 1
#   scripts/engines/live.sh --cost              throughput with and without the connector, three alternating runs each
#   scripts/kafka.sh run -- scripts/engines/live.sh --kafka    events through a broker, which is away for a while
#   scripts/engines/live.sh --folder            events through a folder; the server and kvset run --folder are killed ten times
#
# Needs Python 3.11 or later with venv, the Python package index and 8 GB below target/engines; no accelerator. A run takes
# one to three minutes on two quiet cores. KVSET is the program (target/debug/kvset, built where it is missing).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=0.32.0
home=target/engines/live
venv=${KVSET_LIVE_VENV:-$home/venv}
export KVSET=${KVSET:-target/debug/kvset}
export PYTHONPATH=$PWD/python/src${PYTHONPATH:+:$PYTHONPATH}

[[ -x $KVSET ]] || cargo build --locked --bin kvset
mkdir -p "$home"
if [[ ! -f $venv/installed-$version ]]; then
    python3 -m venv "$venv"
    python3 scripts/engines/live/install.py "$version" "$venv" "$home"
    touch "$venv/installed-$version"
fi
exec "$venv/bin/python" scripts/engines/live/main.py --home "$home" "$@"
