#!/usr/bin/env bash
# Checks that another build of this commit in another folder gives the archive and the packages of .local/dist byte for
# byte: `make dist-check`, after `make dist`. It builds everything again, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT

git archive HEAD | tar x -C "$again"
# What isn't of the commit: tools and libraries that were installed, and the pages, which are built from it.
mkdir -p "$again/.local" "$again/web-demo/dist" "$again/app/dist"
for installed in venv wheel-tools glibc-2.28; do ln -s "$here/.local/$installed" "$again/.local/$installed"; done
ln -s "$here/node_modules" "$again/node_modules"
cp -r web-demo/dist/. "$again/web-demo/dist"
cp -r app/dist/. "$again/app/dist"

export SOURCE_DATE_EPOCH PVWIRE_COMMIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
PVWIRE_COMMIT=$(git rev-parse --short=12 HEAD)
cd "$again"
program=$(PVWIRE_RELEASE_TARGET=$again/target tools/release_build.sh program)
.local/venv/bin/python tools/dist.py "$program" > /dev/null
cd .local/dist
sha256sum -- * > "$again/sums"
cd "$here/.local/dist"
sha256sum --check --quiet "$again/sums" || {
  echo "dist-check: two builds of one commit differ" >&2
  exit 1
}
echo "$(wc -l < "$again/sums") files are equal"
echo "1 passed, 0 failed"
