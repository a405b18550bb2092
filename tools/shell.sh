# What the scripts of this folder share; sourced by them.

say() { printf '\033[1m== %s\033[0m\n' "$*"; }
fail() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; exit 1; }

# Debian's packages, by whoever may install them.
packages() {
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || fail "install Debian's packages as root: $*"
    root=(sudo)
  fi
  "${root[@]}" apt-get update -q
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}
