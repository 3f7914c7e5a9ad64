#!/usr/bin/env bash
# The way of a new backend's author: a fresh environment, `structout new-plugin`, install, and the plugin's own tests.
#
# usage: .ci/new-plugin.sh [PYTHON]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

checkout="$PWD"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
pip=("$work/env/bin/python" -m pip)

"${1:-python3}" -m venv "$work/env"
"${pip[@]}" install --quiet 'hatchling>=1.27' 'pytest>=9.2,<10'
"${pip[@]}" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/wheels" "$checkout"
"${pip[@]}" install --quiet "$(echo "$work"/wheels/structout-*.whl)[cli,fuzz]"

# What is tested are installed packages: nothing of the checkout may be on the path.
cd "$work"
env/bin/structout new-plugin example
"${pip[@]}" install --quiet --no-deps --no-build-isolation ./structout-example
env/bin/structout backends
cd structout-example
../env/bin/python -m pytest -p no:cacheprovider
echo "from an empty environment to a green plugin: $SECONDS s"
