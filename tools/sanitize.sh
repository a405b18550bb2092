#!/usr/bin/env bash
# Do the tests of relay/epics run without an error of memory, a leak or a data race, and the unit tests
# of the relay, whose own code has nothing unsafe, without a data race?
# `sanitize.sh [address] [thread]` runs them, with real IOCs, under each sanitizer named (both when
# none is). Any report fails it, besides those of the EPICS libraries' own that tools/sanitizers/
# gives a reason for.
#
# Instrumented are Rust's standard library, our crates and the C++ shim (by the C++ compiler; GCC's
# code runs with the runtime that rustc links). The wheels' libca, libCom and libpvxs are not: of
# them, only calls to malloc, free, memcpy, pthread and the like are seen. Nor are the IOCs, which
# are Python.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
triple=x86_64-unknown-linux-gnu
target=${CARGO_TARGET_DIR:-target}/sanitize
reports=.local/sanitize

. tools/shell.sh

needs() {
  [ "$(rustc -vV | sed -n 's/^host: //p')" = "$triple" ] || fail "the sanitizers need $triple"
  local source
  source=$(rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock
  if [ ! -f "$source" ]; then
    say "Source of Rust's standard library"
    command -v rustup > /dev/null || fail "$source is missing: install rust-src, or rustup"
    rustup component add rust-src
  fi
  # Suppressions name functions.
  if ! command -v llvm-symbolizer > /dev/null; then
    say "llvm-symbolizer"
    packages llvm
  fi
}

# What of the relay's runs under the thread sanitizer. The whole program doesn't: it makes sure that it
# is alone when it sets EPICS's variables, and the sanitizer has started a thread by then.
relay_tests=(-p pvwire-relay --lib)

# run NAME: the tests under that sanitizer.
run() {
  local name=$1 began=$SECONDS status=0 log=$reports/$1.log found passed failed
  say "$name sanitizer"
  rm -rf "${reports:?}/$name" "$log"
  mkdir -p "$reports/$name"
  local sanitized common="log_path=$root/$reports/$name/report"
  # Each test starts itself again as a separate process, which writes its reports to a file and
  # ends with an error if it had any. Build scripts run on the host and are not instrumented.
  sanitized=(env -u CARGO_ENCODED_RUSTFLAGS \
    RUSTC_BOOTSTRAP=1 \
    RUSTFLAGS="-Zsanitizer=$name -Cforce-frame-pointers=yes" \
    CXXFLAGS="-fsanitize=$name -fno-omit-frame-pointer -g" \
    CARGO_TARGET_DIR="$target/$name" \
    ASAN_OPTIONS="$common:detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1" \
    LSAN_OPTIONS="suppressions=$root/tools/sanitizers/leak.supp:print_suppressions=0" \
    TSAN_OPTIONS="$common:suppressions=$root/tools/sanitizers/thread.supp:history_size=7:second_deadlock_stack=1" \
    cargo test --locked --no-fail-fast -Zbuild-std --target "$triple")
  "${sanitized[@]}" --lib --tests -p ca-sys -p pvxs-sys -p pvwire-epics > "$log" 2>&1 || status=$?
  if [ "$name" = thread ]; then
    "${sanitized[@]}" "${relay_tests[@]}" >> "$log" 2>&1 || status=$?
  fi

  # A program's result is its last such line: the output of a test that failed contains one, too.
  read -r passed failed < <(awk '
    /^ +Running / { passed += p; failed += f; p = f = 0 }
    /^test result:/ { p = $4; f = $6 }
    END { print passed + p, failed + f }' "$log")
  found=$(cat "$reports/$name"/* 2> /dev/null | grep -cE '(WARNING|ERROR): [A-Za-z]+Sanitizer' || true)
  if [ "$found" -gt 0 ]; then
    cat "$reports/$name"/*
  elif [ "$status" -ne 0 ]; then
    cat "$log"
  fi
  printf '%s sanitizer: %d tests passed, %d failed, %d reports, %d s\n' \
    "$name" "$passed" "$failed" "$found" $((SECONDS - began))
  [ "$status" -eq 0 ] && [ "$found" -eq 0 ] && [ "$passed" -gt 0 ]
}

[ $# -gt 0 ] || set -- address thread
for name; do
  case $name in address | thread) ;; *) fail "no sanitizer $name: address or thread" ;; esac
done
needs
clean=0
for name; do run "$name" || clean=1; done
exit $clean
