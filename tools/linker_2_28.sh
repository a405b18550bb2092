#!/usr/bin/env bash
# Links programs that start on systems with glibc 2.28 or later, such as RHEL 8: the linker of `make wheel`.
# It is cc with the symbols and start files of glibc 2.28 in place of this machine's. These come from Zig,
# which makes them in .local/glibc-2.28. The C++ library is this machine's: old_systems.c has what it has and
# GCC 8's hasn't, and the wheel's check finds more of that.
set -euo pipefail
# A compiler's plug-in (a macro's crate) runs on this machine alone.
for argument in "$@"; do [ "$argument" != -shared ] || exec cc "$@"; done
root=$(cd "$(dirname "$0")/.." && pwd)
glibc=$root/.local/glibc-2.28
gcc=$(dirname "$(cc -print-file-name=crtbeginS.o)")

arguments=()
for argument in "$@"; do
  case $argument in
    -lc) arguments+=("$glibc/libc.so.6" "$glibc/libc_nonshared.a") ;;
    -lm) arguments+=("$glibc/libm.so.6") ;;
    -lpthread) arguments+=("$glibc/libpthread.so.0") ;;
    -ldl) arguments+=("$glibc/libdl.so.2") ;;
    -lrt) arguments+=("$glibc/librt.so.1") ;;
    -lutil) arguments+=("$glibc/libutil.so.1") ;;
    # By their files, because a search would find this machine's libc beside them.
    -lgcc_s) arguments+=("$(cc -print-file-name=libgcc_s.so.1)") ;;
    # Released programs find their libraries beside them only.
    -Wl,-rpath,/*) ;;
    -lstdc++) arguments+=("$(cc -print-file-name=libstdc++.so.6)") ;;
    *) arguments+=("$argument") ;;
  esac
done
# This machine's C++ library needs newer symbols of glibc than the linked program may.
exec cc -nostartfiles "$glibc/Scrt1.o" "$(cc -print-file-name=crti.o)" "$gcc/crtbeginS.o" "${arguments[@]}" \
  "$glibc/old_systems.o" -Wl,--allow-shlib-undefined "$gcc/crtendS.o" "$(cc -print-file-name=crtn.o)"
