#!/usr/bin/env bash
# Print a folder with what drives a headless browser; fill it first where it is missing.
#
# usage: .ci/browser-env.sh [PYTHON]
#
# The folder has Playwright, for that Python's PYTHONPATH, and `chromium`, a link to Debian's. It is kept outside the
# checkout, in ${XDG_CACHE_HOME:-~/.cache}/structout, and is filled anew when this script changes. Chromium is
# installed by apt-get where it is missing and we may; where it cannot be had nothing is printed, and the tests say so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="${1:-python3}"
playwright="1.65.2"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/structout"
env="$cache/browser-$playwright-$("$python" -c 'import sys; print(sys.implementation.cache_tag)')"
recipe="$(sha256sum .ci/browser-env.sh | cut -d' ' -f1)"

browser() {
    command -v chromium && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >&2; then
        return
    fi
    apt-get update >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium >&2 || return 0
    command -v chromium
}

fill() {
    rm -rf "$env"
    "$python" -m pip install --target "$env" "playwright==$playwright"
    echo "$recipe" >"$env/recipe"
}

mkdir -p "$cache"
exec 9>"$env.lock"
flock 9
executable="$(browser)"
if [ -z "$executable" ]; then
    echo "Chromium is not installed, and cannot be: apt-get install chromium" >&2
    exit 0
fi
[ "$(cat "$env/recipe" 2>/dev/null)" = "$recipe" ] || fill >&2
ln -sfn "$executable" "$env/chromium"
echo "$env"
