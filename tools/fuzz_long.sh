#!/usr/bin/env bash
# Looks for inputs that reach new code in every reader, under libFuzzer and the address sanitizer.
# `fuzz_long.sh SECONDS [TARGET …]` gives each target that long (all when none is named), and then
# writes the smallest set of inputs that reaches the same code to fuzz/corpus.txt.
#
# What is found is kept in .local/fuzz/TARGET/found/; `cargo run -p pvwire-fuzz -- --replay FILE TARGET`
# reads it again. A finding becomes a test.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/shell.sh

VERSION=0.13.2
# Longest input, in bytes: the readers' own limits lie far above, and the corpus must stay small.
MAX_BYTES=4096
seconds=${1:?SECONDS}
shift

cargo_fuzz=.local/cargo-fuzz/bin/cargo-fuzz
if [ "$("$cargo_fuzz" --version 2> /dev/null)" != "cargo-fuzz $VERSION" ]; then
  say "cargo-fuzz $VERSION"
  cargo install --quiet --locked --root .local/cargo-fuzz "cargo-fuzz@$VERSION"
fi

say "Building the targets"
# libFuzzer's instrumentation is a nightly feature; the compiler is the one that releases are built with.
export RUSTC_BOOTSTRAP=1
build=${CARGO_TARGET_DIR:-target}/fuzz
"$cargo_fuzz" build --fuzz-dir fuzz --features libfuzzer --codegen-units 16 --target-dir "$build" coverage
program=$build/x86_64-unknown-linux-gnu/release/coverage
# Without cargo they find the EPICS libraries by their run path.
cargo build --quiet --locked -p pvwire-fuzz
fuzz=${CARGO_TARGET_DIR:-target}/debug/pvwire-fuzz

[ $# -gt 0 ] || mapfile -t targets < <("$fuzz" --list)
[ $# -eq 0 ] || targets=("$@")
found=0
for target in "${targets[@]}"; do
  folder=.local/fuzz/$target
  rm -rf "$folder"/{seeds,corpus,small}
  mkdir -p "$folder"/{work,found,small}
  "$fuzz" --write "$folder" "$target"
  export PVWIRE_FUZZ_TARGET=$target
  say "$target, $seconds s"
  status=0
  # libFuzzer takes no empty dictionary.
  words=()
  [ ! -s "$folder/words" ] || words=(-dict="$folder/words")
  "$program" "$folder/work" "$folder/corpus" "$folder/seeds" \
    -max_total_time="$seconds" -max_len="$MAX_BYTES" -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 \
    "${words[@]}" -artifact_prefix="$folder/found/" > "$folder/log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/log")
  if [ "$status" -ne 0 ]; then
    found=1
    tail -n 40 "$folder/log"
    printf '%s: a finding in %s\n' "$target" "$folder/found"
    continue
  fi
  "$program" -set_cover_merge=1 -max_len="$MAX_BYTES" "$folder/small" "$folder/corpus" "$folder/work" \
    "$folder/seeds" > "$folder/merge.log" 2>&1
  printf '%s: %s runs\n' "$target" "$runs"
  "$fuzz" --keep "$folder/small" "$target"
done
exit $found
