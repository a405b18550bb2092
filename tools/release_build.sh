#!/usr/bin/env bash
# Builds what is released, so that it starts on systems with glibc 2.28 or later, and so that two builds of a commit
# are equal. `release_build.sh wheel` makes the wheel in .local/wheels, `release_build.sh program` prints the program's
# path. Both use a separate target folder, because another linker would have everything else built again.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${PVWIRE_RELEASE_TARGET:-$PWD/target/wheel}

if [ -z "${PVWIRE_COMMIT:-}" ]; then
  PVWIRE_COMMIT=$(git rev-parse --short=12 HEAD 2> /dev/null || true)
  [ -z "$PVWIRE_COMMIT" ] || [ -z "$(git status --porcelain --untracked-files=no)" ] || PVWIRE_COMMIT+=-changed
fi
export PVWIRE_COMMIT
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=$PWD/tools/linker_2_28.sh
# Nothing of this machine's folders is in the program.
export RUSTFLAGS="--remap-path-prefix=$PWD=/pvwire --remap-path-prefix=$target=/pvwire/target"
RUSTFLAGS+=" --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
export CFLAGS="-ffile-prefix-map=$PWD=/pvwire -ffile-prefix-map=$target=/pvwire/target"
CFLAGS+=" -ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo"
export CXXFLAGS=$CFLAGS
# The program has no path to EPICS's libraries of this machine (linker_2_28.sh): maturin looks for them here.
LIBRARIES=$(.local/venv/bin/python -c 'import epicscorelibs, pvxslibs
print(*(package.__path__[0] + "/lib" for package in (epicscorelibs, pvxslibs)), sep=":")')
# The time of files in archives.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || echo 0)}
export SOURCE_DATE_EPOCH
export PATH=$PWD/.local/wheel-tools/bin:$PATH
quietly=${CI:+--quiet}

case ${1:-} in
  wheel)
    rm -rf .local/wheels
    .local/venv/bin/python tools/wheel_parts.py
    LD_LIBRARY_PATH=$LIBRARIES maturin build $quietly --release --locked --manifest-path relay/Cargo.toml --target-dir "$target" \
      --out .local/wheels ;;
  program)
    cargo build $quietly --release --locked -p pvwire-relay --bin pvwire-relay --features built-pages \
      --target-dir "$target" >&2
    echo "$target/release/pvwire-relay" ;;
  *) echo "usage: release_build.sh wheel|program" >&2; exit 64 ;;
esac
