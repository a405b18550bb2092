#!/usr/bin/env bash
# Creates a root file system that contains only what the relay needs to run.
# `rootfs.sh RELAY FOLDER` copies into FOLDER: the program, the libraries that the loader finds for it on
# this machine (EPICS's in the run path `$ORIGIN/../lib`) with what Debian says of their licences, certificates and a
# user.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
relay=$1 root=$2
fail() { printf 'rootfs: %s\n' "$*" >&2; exit 1; }

[ -x "$relay" ] || fail "no program $relay: build it by make relay"
certificates=/etc/ssl/certs/ca-certificates.crt
[ -f "$certificates" ] || fail "$certificates is missing: install ca-certificates"

# The container's runtime mounts file systems on the empty folders; the loader needs /proc for `$ORIGIN`.
mkdir -p "$root"/{etc/ssl/certs,opt/pvwire/bin,opt/pvwire/lib,usr/bin,dev,proc,sys,tmp}
chmod 755 "$root"
strip --strip-unneeded -o "$root/opt/pvwire/bin/pvwire-relay" "$relay"
ln -sf /opt/pvwire/bin/pvwire-relay "$root/usr/bin/pvwire-relay"

# Copies the licence of a library of Debian; other systems keep it elsewhere.
licence_of() {
  local package text
  package=$(dpkg --search "*/${1##*/}" 2> /dev/null | sed -n '1s/[:,].*//p') || true
  text=/usr/share/doc/${package:-none}/copyright
  [ ! -f "$text" ] || cp -L "$text" "$root/usr/share/doc/pvwire-relay/$package.txt"
}
mkdir -p "$root/usr/share/doc/pvwire-relay"
cp "$here/LICENSE" "$root/usr/share/doc/pvwire-relay"

# "name => /path (0x…)" and, for the loader itself, "/path (0x…)".
ldd "$relay" | sed -nE 's/^\s*(\S+ => )?(\/\S+) \(0x.*/\2/p' | while read -r library; do
  case $library in
    /lib/* | /lib64/* | /usr/lib/* | /usr/lib64/*)
      mkdir -p "$root$(dirname "$library")"
      cp -L "$library" "$root$library"
      licence_of "$library" ;;
    *) strip --strip-unneeded -o "$root/opt/pvwire/lib/$(basename "$library")" "$(readlink -f "$library")" ;;
  esac
done

cp -L "$certificates" "$root$certificates"
echo 'pvwire:x:65532:65532:pvwire:/:/nonexistent' > "$root/etc/passwd"
echo 'pvwire:x:65532:' > "$root/etc/group"
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
chmod -R a+rX,go-w "$root"
