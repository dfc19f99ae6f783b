#!/usr/bin/env bash
# Write the locks in requirements/ anew. Arguments go to `uv pip compile`: --upgrade moves every pin,
# without it pins that still satisfy pyproject.toml stay.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}

# --universal: one lock for every Python and platform of pyproject.toml, differences written as markers.
# The --no-emit flags keep out whatever package index this machine happens to be set up for.
compile() {
  "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-header --no-emit-index-url --no-emit-find-links "$@"
}

compile -o requirements/runtime.txt "$@" pyproject.toml
# Constrained by the one before: tests run on the very versions that are shipped.
compile -o requirements/dev.txt -c requirements/runtime.txt "$@" pyproject.toml --group dev
compile -o requirements/build.txt -c requirements/dev.txt "$@" requirements/build.in
compile -o requirements/clients.txt -c requirements/dev.txt "$@" requirements/clients.in
compile -o requirements/docs.txt -c requirements/dev.txt "$@" requirements/docs.in
compile -o requirements/lock.txt "$@" requirements/lock.in
compile -o requirements/page.txt -c requirements/dev.txt "$@" requirements/page.in
