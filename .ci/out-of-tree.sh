#!/usr/bin/env bash
# Test what lives in a project of its own: the plugin under docs/examples.
#
# usage: .ci/out-of-tree.sh [PYTHON]
#
# It is installed as a wheel, beside a wheel of this checkout, into an environment without torch and without any
# built-in backend's library. That is kept outside the checkout, in ${XDG_CACHE_HOME:-~/.cache}/structout, and is built
# anew when this script or one of the projects' metadata changes; the wheels are built every time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

checkout="$PWD"
example="$checkout/docs/examples/structout-lmfe"
python="${1:-python3}"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/structout"
env="$cache/out-of-tree"
recipe="$(cat .ci/out-of-tree.sh pyproject.toml "$example/pyproject.toml" | sha256sum | cut -d' ' -f1)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

wheel() {
    "$env/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/wheels" "$@"
}

install() {
    "$env/bin/python" -m pip install --quiet --no-deps --force-reinstall "$@"
}

build() {
    rm -rf "$env"
    "$python" -m venv "$env"
    "$env/bin/python" -m pip install --quiet 'hatchling>=1.27' 'pytest>=9.2,<10'
    wheel "$checkout" "$example"
    "$env/bin/python" -m pip install --quiet "$(echo "$work"/wheels/structout-*.whl)[cli,fuzz]" "$work"/wheels/structout_*.whl
    echo "$recipe" >"$env/recipe"
}

mkdir -p "$cache"
exec 9>"$env.lock"
flock 9
[ "$(cat "$env/recipe" 2>/dev/null)" = "$recipe" ] || build
wheel "$checkout" "$example"
install "$work"/wheels/structout*.whl

# What is tested are the installed packages: nothing of the checkout may be on the path.
cd "$work"
"$env/bin/structout" backends --json | "$env/bin/python" -c '
import json, sys

found = {each["id"]: each["distribution"] for each in json.load(sys.stdin)["backends"]}
print("backends:", found)
assert "lmfe" in found, "the plugin was installed, and is not found"
'
"$env/bin/python" -m pytest -c "$example/pyproject.toml" --rootdir "$example" -p no:cacheprovider "$example/tests"
