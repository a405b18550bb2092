# What the scripts of this folder share; sourced by them.

say() { printf '\033[1m== %s\033[0m\n' "$*"; }
fail() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; exit 1; }

# A command that only root may run.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; return; fi
  command -v sudo > /dev/null || fail "run this as root: $*"
  sudo "$@"
}

# Installs Debian's packages, as root or through sudo.
packages() {
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

# The files of one of Debian's packages, in a folder and nowhere else.
unpack() {
  local package=$1 folder=$2 downloaded
  downloaded=$(mktemp -d)
  if ! (cd "$downloaded" && apt-get download -q "$package") > /dev/null 2>&1; then
    as_root apt-get update -q
    (cd "$downloaded" && apt-get download -q "$package") || fail "install Debian's package $package"
  fi
  mkdir -p "$folder"
  dpkg -x "$downloaded"/*.deb "$folder"
  rm -rf "$downloaded"
}
