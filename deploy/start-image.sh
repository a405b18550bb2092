#!/usr/bin/env bash
# Starts an image as a cluster would and reads a PV from it, before it is released: `start-image.sh ARCHIVE VERSION`.
# The archive is what the Dockerfile builds (OCI); podman runs it without rights and with a read-only root file system.
set -euo pipefail
archive=$1 version=$2
fail() { printf 'start-image: %s\n' "$*" >&2; exit 1; }

image=$(podman pull --quiet "oci-archive:$archive")
container=
tidy() {
  [ -z "$container" ] || podman rm --force "$container" > /dev/null
  podman rmi --force "$image" > /dev/null
}
trap tidy EXIT

printed=$(podman run --rm "$image" --version)
[[ $printed == "pvwire-relay $version (commit "* ]] || fail "--version prints: $printed"
user=$(podman image inspect --format '{{.Config.User}}' "$image")
[ "$user" = 65532:65532 ] || fail "its user is $user"

container=$(podman run --detach --read-only --cap-drop all --security-opt no-new-privileges \
  --publish 127.0.0.1::8080 "$image" --allow-anonymous --enable-sim --drain-delay-ms 0)
address=$(podman port "$container" 8080/tcp)
get() { curl --silent --show-error --fail "http://$address$1"; }
# It has a minute to start.
for _ in $(seq 60); do
  [ -n "$address" ] && get /live > /dev/null 2>&1 && break
  [ "$(podman inspect --format '{{.State.Running}}' "$container")" = true ] || break
  sleep 1
done
if ! get /live > /dev/null || ! shown=$(get '/pv/sim:%2F%2Fcounter') || ! page=$(get /); then
  podman logs "$container"
  fail "it doesn't answer"
fi
[[ $shown =~ \"number\":[0-9] ]] || fail "the PV is $shown"
[[ $page == *'<div id="root">'* ]] || fail "it has no app"
podman stop --time 20 "$container" > /dev/null
status=$(podman wait "$container")
[ "$status" = 0 ] || fail "it ended with $status after SIGTERM"
echo "6 passed, 0 failed"
