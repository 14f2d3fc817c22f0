#!/usr/bin/env bash
# Real parts beside the broker, for tests: on loopback only, thrown away at the end.
#
#   scripts/parts.sh start [PART...]          start them, print their variables on standard output
#   scripts/parts.sh stop [PART...]           stop them; what they held is gone
#   scripts/parts.sh run [PART...] -- CMD...  run CMD with their variables set; exit with its status
#
# Parts, all of them where none is named:
#   registry    Apicurio Registry, in memory, by its Confluent-compatible API (needs java 17 or later and mvn)
#                 KVSET_TEST_REGISTRY=URL, KVSET_TEST_PYTHON=an interpreter with Confluent's deserialisers
#   s3          an S3 server, moto (needs python3 with venv)
#                 KVSET_TEST_S3=URL
#   kubernetes  kustomize, helm and kubernetes-validate (needs go 1.26 or later, python3 with venv)
#                 KVSET_TEST_KUSTOMIZE, KVSET_TEST_HELM, KVSET_TEST_KUBERNETES_VALIDATE=programs
#
# Everything is kept in target/parts; KVSET_PARTS_DIR moves it. Tests that find no part are skipped and say so;
# with KVSET_REQUIRE_PARTS=1 they fail.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
dir=${KVSET_PARTS_DIR:-$root/target/parts}
venv=$dir/venv
all_parts=(registry s3 kubernetes)
ready_seconds=90
stop_seconds=15

registry_version=2.6.13.Final
kustomize_version=v5.8.2
helm_version=v3.22.0

say() { printf 'parts.sh: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
need() { command -v "$1" >/dev/null || die "$1 not found: $2"; }

free_port() {
    local port
    for _ in $(seq 100); do
        # Below the range the kernel hands out by itself, so no client's own socket takes it meanwhile.
        port=$((20000 + RANDOM % 12000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            printf '%s' "$port"
            return
        fi
    done
    die "found no free port between 20000 and 32000"
}

# The recorded process of a part, if it still is ours and not a later process that got its number.
server_pid() {
    local pid
    pid=$(cat "$dir/$1.pid" 2>/dev/null) || return 1
    [ -n "$pid" ] && ps -o args= -p "$pid" 2>/dev/null | grep -qF -- "$dir" && printf '%s' "$pid"
}

# Starts `serve NAME PATH COMMAND...` and waits until it answers at the path; @port in the command is its port.
serve() {
    local name=$1 path=$2 port url pid
    shift 2
    if server_pid "$name" >/dev/null; then return; fi
    port=$(free_port)
    url=http://127.0.0.1:$port
    # A session of its own, so that a Ctrl-C meant for the tests does not take it down first.
    setsid "${@//@port/$port}" >"$dir/$name.log" 2>&1 </dev/null &
    pid=$!
    printf '%s' "$pid" >"$dir/$name.pid"
    for _ in $(seq $((ready_seconds * 5))); do
        if curl --silent --fail --max-time 2 --output /dev/null "$url$path"; then
            printf '%s' "$url" >"$dir/$name.url"
            say "$name $url is up (log: $dir/$name.log)"
            return
        fi
        kill -0 "$pid" 2>/dev/null || die "$name stopped while starting, see $dir/$name.log"
        sleep 0.2
    done
    kill "$pid"
    die "$name was not ready within $ready_seconds s, see $dir/$name.log"
}

halt() {
    local pid
    pid=$(server_pid "$1") || { rm -f "$dir/$1.pid" "$dir/$1.url"; return 0; }
    kill "$pid"
    for _ in $(seq $((stop_seconds * 5))); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.2
    done
    if kill -0 "$pid" 2>/dev/null; then
        say "$1 ignored SIGTERM for $stop_seconds s: killing it"
        kill -9 "$pid"
    fi
    rm -f "$dir/$1.pid" "$dir/$1.url"
}

python_packages() {
    [ -e "$venv/.complete" ] && [ "$venv/.complete" -nt "$here/parts/requirements.txt" ] && return
    need python3 "install Python 3 with venv"
    say "installing Python packages"
    python3 -m venv "$venv" >&2 || die "python3 could not make an environment: install its venv module"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/parts/requirements.txt" >&2 ||
        die "pip could not install what $here/parts/requirements.txt names"
    touch "$venv/.complete"
}

start_registry() {
    local home=$dir/registry-$registry_version jar
    python_packages
    jar=$home/apicurio-registry-app-$registry_version-runner.jar
    need java "install a JDK 17+"
    if [ ! -e "$home/.complete" ]; then
        need mvn "install Maven"
        say "fetching Apicurio Registry with Maven"
        rm -rf "$home"
        mkdir -p "$home"
        mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
            "-Dartifact=io.apicurio:apicurio-registry-app:$registry_version:tar.gz:all" \
            "-DoutputDirectory=$home" >&2 || die "mvn could not fetch Apicurio Registry"
        tar -xzf "$home/apicurio-registry-app-$registry_version-all.tar.gz" -C "$home"
        rm "$home/apicurio-registry-app-$registry_version-all.tar.gz"
        touch "$home/.complete"
    fi
    serve registry /apis/ccompat/v7/subjects env QUARKUS_HTTP_HOST=127.0.0.1 QUARKUS_HTTP_PORT=@port \
        java -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -jar "$jar"
    printf 'KVSET_TEST_REGISTRY=%s/apis/ccompat/v7\n' "$(cat "$dir/registry.url")"
    printf 'KVSET_TEST_PYTHON=%s\n' "$venv/bin/python"
}

start_s3() {
    python_packages
    serve s3 /moto-api/data.json "$venv/bin/python" "$venv/bin/moto_server" -H 127.0.0.1 -p @port
    printf 'KVSET_TEST_S3=%s\n' "$(cat "$dir/s3.url")"
}

# Builds a program of a Go module, unless this version of it is there.
go_program() {
    local name=$1 module=$2 version=$3
    [ -x "$dir/bin/$name" ] && [ "$(cat "$dir/bin/$name.version" 2>/dev/null)" = "$version" ] && return
    need go "install Go 1.26 or later"
    say "building $name $version"
    GOBIN=$dir/bin go install "$module@$version" >&2 || die "go could not build $module"
    printf '%s' "$version" >"$dir/bin/$name.version"
}

start_kubernetes() {
    python_packages
    go_program kustomize sigs.k8s.io/kustomize/kustomize/v5 "$kustomize_version"
    go_program helm helm.sh/helm/v3/cmd/helm "$helm_version"
    printf 'KVSET_TEST_KUSTOMIZE=%s\n' "$dir/bin/kustomize"
    printf 'KVSET_TEST_HELM=%s\n' "$dir/bin/helm"
    printf 'KVSET_TEST_KUBERNETES_VALIDATE=%s\n' "$venv/bin/kubernetes-validate"
}

start() {
    local part
    mkdir -p "$dir/bin"
    for part in "$@"; do "start_$part"; done
}

stop() {
    local part
    for part in "$@"; do halt "$part"; done
}

run() {
    local part parts=() ours=() lines
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        parts+=("$1")
        shift
    done
    [ $# -gt 1 ] || die "run takes a command: scripts/parts.sh run registry -- cargo test"
    shift
    mapfile -t parts < <(chosen "${parts[@]}")
    # Whoever started a part stops it: one found running is used and left as it was.
    for part in "${parts[@]}"; do
        server_pid "$part" >/dev/null || ours+=("$part")
    done
    # shellcheck disable=SC2064
    trap "stop ${ours[*]:-}" EXIT
    lines=$(start "${parts[@]}") || exit 1
    mapfile -t lines <<<"$lines"
    env "${lines[@]}" "$@"
}

# The parts named, or all of them.
chosen() {
    local part
    for part in "$@"; do
        case " ${all_parts[*]} " in
            *" $part "*) ;;
            *) die "no part is called '$part'; there are ${all_parts[*]}" ;;
        esac
    done
    if [ $# -gt 0 ]; then printf '%s\n' "$@"; else printf '%s\n' "${all_parts[@]}"; fi
}

command=${1:-}
[ $# -eq 0 ] || shift
case "$command" in
    start | stop)
        parts=$(chosen "$@") || exit 1
        # shellcheck disable=SC2086
        "$command" $parts
        ;;
    run) run "$@" ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
