#!/usr/bin/env bash
# Print the Python of an environment that holds one client of the server, and nothing of this checkout; build it first
# where it is missing.
#
# usage: .ci/client-env.sh openai|instructor|guidellm|smg [PYTHON]
#
# The environments are kept outside the checkout, in ${XDG_CACHE_HOME:-~/.cache}/structout/clients, and one is built anew
# when what is installed into it changes. All are small (50 to 150 MB) but guidellm's, which brings torch: 1.5 GB.
set -euo pipefail

client="${1:?which client: openai, instructor, guidellm or smg}"
python="${2:-python3}"

case "$client" in
    openai) packages=(openai==3.57.0) ;;
    instructor) packages=(instructor==1.17.0 openai==3.3.0) ;;
    # torch is named so that nothing else decides which one it is.
    guidellm) packages=(guidellm==0.8.1 torch==2.13.0) ;;
    smg) packages=(smg-grpc-proto==0.4.28 grpcio==1.85.3 grpcio-reflection==1.85.1 grpcio-health-checking==1.85.1 protobuf==7.36.2) ;;
    *) echo "there is no client $client: openai, instructor, guidellm or smg" >&2 && exit 2 ;;
esac

clients="${XDG_CACHE_HOME:-$HOME/.cache}/structout/clients"
env="$clients/$client"
recipe="$(printf '%s\n' "$("$python" --version)" "${packages[@]}" | sha256sum | cut -d' ' -f1)"

build() {
    rm -rf "$env"
    "$python" -m venv "$env"
    "$env/bin/python" -m pip install "${packages[@]}"
    echo "$recipe" >"$env/recipe"
}

mkdir -p "$clients"
exec 9>"$env.lock"
flock 9
[ "$(cat "$env/recipe" 2>/dev/null)" = "$recipe" ] || build >&2
echo "$env/bin/python"
