#!/usr/bin/env bash
# Checks that the relay in the image serves a PV. `check-image.sh RELAY` assembles the image's root file
# system, starts the relay in it (read-only, no root, no shell) and an IOC, and reads a PV's value with a
# client that shares no code with either. If buildah is installed and `IMAGE` names a file, the script
# builds the Dockerfile's last stage without a daemon, checks it, and writes it to that file.
set -euo pipefail
cd "$(dirname "$0")/.."
relay=$1
fail() { printf 'check-image: %s\n' "$*" >&2; exit 1; }
# A user who isn't root becomes root in a private namespace, where the relay's user is still unprivileged.
as_root=() user=(--userspec=65532:65532)
[ "$(id -u)" -eq 0 ] || as_root=(--map-root-user) user=()

work=$(mktemp -d)
started=()
tidy() {
  for pid in "${started[@]}"; do kill "$pid" 2> /dev/null || true; done
  wait 2> /dev/null || true
  rm -rf "$work"
}
trap tidy EXIT

deploy/rootfs.sh "$relay" "$work/built/rootfs"
if [ -n "${IMAGE:-}" ]; then
  command -v buildah > /dev/null || fail "buildah is missing: install Debian's buildah"
  # The stage that compiles isn't built: its result already exists here.
  sed -n '/^FROM scratch AS relay/,$p' deploy/Dockerfile | sed 's/--from=build \/rootfs /rootfs /' \
    > "$work/Dockerfile"
  version=$("$relay" --version | cut -d' ' -f2)
  buildah --storage-driver vfs bud --quiet --isolation chroot -f "$work/Dockerfile" \
    --build-arg "VERSION=$version" -t pvwire-relay "$work/built" > /dev/null
  rm -f "$IMAGE"
  # `podman load` and `docker load` give the image this name.
  buildah --storage-driver vfs push --quiet pvwire-relay "oci-archive:$IMAGE:pvwire-relay:$version"
  container=$(buildah --storage-driver vfs from pvwire-relay)
  root=$work/image
  mkdir "$root"
  cp -a "$(buildah --storage-driver vfs mount "$container")/." "$root"
  buildah --storage-driver vfs inspect --type image --format '{{.OCIv1.Config.User}}' pvwire-relay |
    grep -qx 65532:65532 || fail "the image's user isn't 65532"
  label=org.opencontainers.image.version
  buildah --storage-driver vfs inspect --type image --format "{{index .OCIv1.Config.Labels \"$label\"}}" pvwire-relay |
    grep -qx "$version" || fail "the image's label $label isn't $version"
  buildah --storage-driver vfs rm "$container" > /dev/null
  buildah --storage-driver vfs rmi pvwire-relay > /dev/null
  printf 'image: %s KiB as an OCI archive\n' "$(du -k "$IMAGE" | cut -f1)"
else
  root=$work/built/rootfs
fi
bytes=$(du -sb "$root" | cut -f1)
printf 'root file system: %s bytes in %s files\n' "$bytes" "$(find "$root" -type f | wc -l)"
# Users get a release build, whose size the document states in megabytes. Compilers and libraries change it a little.
if [[ $relay != */debug/* ]]; then
  said=$(sed -nE 's/^The image contains .*: ([0-9]+) MB, .*/\1/p' docs/how-to/kubernetes.md)
  (( bytes > (said - 2) * 1000000 && bytes < (said + 2) * 1000000 )) ||
    fail "docs/how-to/kubernetes.md says ${said:-nothing} MB, the image's files are $bytes bytes"
fi
for licence in LICENSE libc6.txt; do
  [ -s "$root/usr/share/doc/pvwire-relay/$licence" ] || fail "the licence $licence isn't in it"
done
[ -z "$(find "$root" -perm /6000 -o -perm /022 -type f)" ] || fail "something in it is setuid or writable"

python=$PWD/.local/venv/bin/python
# Ports that no other program gets while this one runs.
coproc ports { exec "$python" testbed/python/ports.py 2; }
started+=("$ports_PID")
read -r ca <&"${ports[0]}"
read -r pva <&"${ports[0]}"
export EPICS_CA_ADDR_LIST=127.0.0.1 EPICS_CA_AUTO_ADDR_LIST=NO EPICS_CAS_INTF_ADDR_LIST=127.0.0.1
export EPICS_CA_SERVER_PORT=$ca EPICS_CA_REPEATER_PORT=$pva EPICS_CAS_BEACON_ADDR_LIST=127.0.0.1
export EPICS_PVA_ADDR_LIST=127.0.0.1 EPICS_PVA_AUTO_ADDR_LIST=NO EPICS_PVA_BROADCAST_PORT=$pva
export EPICS_CAS_AUTO_BEACON_ADDR_LIST=NO
prefix=IMG$RANDOM
printf 'record(ao, "%s:temp") { field(VAL, "21.5") }\n' "$prefix" > "$work/one.db"
mkfifo "$work/console"
"$python" -u tools/softioc.py -d "$work/one.db" < "$work/console" > "$work/ioc.log" 2>&1 &
started+=($!)
exec 9> "$work/console"

# Inside, everything is read-only, and the user is unknown to this machine.
unshare "${as_root[@]}" --mount sh -euc '
  root=$1
  shift
  mount --bind "$root" "$root"
  mount -o remount,bind,ro,nosuid,nodev "$root"
  mount --rbind /proc "$root/proc"
  exec setpriv --no-new-privs \
    chroot "$@" "$root" /opt/pvwire/bin/pvwire-relay --listen 127.0.0.1:0 --drain-delay-ms 0' \
  sh "$root" "${user[@]}" > "$work/relay.log" 2>&1 &
relay_pid=$!
started+=("$relay_pid")
address=
for _ in $(seq 600); do
  address=$(sed -n 's/.*listening on http:\/\///p' "$work/relay.log")
  [ -n "$address" ] && break
  kill -0 "$relay_pid" 2> /dev/null || break
  sleep 0.1
done
[ -n "$address" ] || { cat "$work/relay.log"; fail "the relay doesn't start in its root file system"; }

"$PWD/.local/venv/bin/flatc" --python -o "$work/flat" schema/fbs/frame.fbs schema/fbs/request.fbs
value=$("$python" deploy/client.py "$work/flat" "$address" "$prefix:temp") ||
  { cat "$work/relay.log" "$work/ioc.log"; fail "no value: $value"; }
[ "$value" = 21.5 ] || fail "the value is $value, expected 21.5"
kill -TERM "$relay_pid"
wait "$relay_pid" || fail "the relay didn't end well after SIGTERM"
echo "1 passed, 0 failed"
