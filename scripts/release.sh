#!/usr/bin/env bash
# What a release needs of the sources, whether a tag or a dry run asks for it.
#
#   scripts/release.sh check [TAG]    every file names the version of Cargo.toml, and the changelog has a dated section of it
#   scripts/release.sh notes          the changelog's section of that version: the words of the release
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

fail() { echo "scripts/release.sh: $*" >&2; exit 1; }

# `names FILE PATTERN`: each version that the pattern finds in the file is that of Cargo.toml, and it finds one.
names() {
    local found
    found=$(grep -oE "$2" "$1" | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | sort -u) || fail "$1 names no version ($2)"
    [ "$found" = "$version" ] || fail "$1 names ${found//$'\n'/, }; Cargo.toml says $version"
}

notes() {
    awk -v heading="## [$version]" 'index($0, heading) == 1 { on = 1; next } /^## \[/ { on = 0 } on' CHANGELOG.md
}

check() {
    [ -z "${1:-}" ] || [ "$1" = "v$version" ] || fail "the tag is $1; Cargo.toml says $version"
    names Cargo.toml '^kvset-[a-z]+ = \{ path = [^}]*version = "[^"]*"'
    names Cargo.lock '^version = "'"${version//./\\.}"'"'
    names deploy/helm/kvset/Chart.yaml '^(version|appVersion): .*'
    names deploy/kubernetes/kustomization.yaml 'newTag: .*'
    names docker-compose.yml 'image: kvset:.*'
    names deploy/vllm/docker-compose.yml 'image: kvset:.*'
    names Dockerfile 'kvset:[0-9.]+'
    names docs/quick-start.md 'kvset:[0-9.]+'
    grep -qE "^## \[${version//./\\.}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}\$" CHANGELOG.md ||
        fail "CHANGELOG.md has no section '## [$version] - YYYY-MM-DD'"
    [ -n "$(notes | tr -d '[:space:]')" ] || fail "CHANGELOG.md says nothing of $version"
    # What stands under Unreleased would be in the release, and not in its words.
    if [ -n "${1:-}" ] && awk '/^## \[Unreleased\]/ { on = 1; next } /^## \[/ { on = 0 } on' CHANGELOG.md | grep -q '[^[:space:]]'; then
        fail "CHANGELOG.md has lines under Unreleased: move them to $version"
    fi
    echo "$version"
}

case "${1:-}" in
    check) check "${2:-}" ;;
    notes) notes ;;
    *) fail "say check [TAG], or notes" ;;
esac
