#!/usr/bin/env bash
# Installs what a fresh Debian machine with Rust, Node and Python lacks, into the project's own folders.
# `setup.sh rust` installs only what Rust code needs to build. `setup.sh chromium` adds Chromium where there is no
# browser, `setup.sh browser` the servers in Java too, `setup.sh valgrind` Valgrind, `setup.sh deploy` what checks
# deploy/, `setup.sh wheel` what builds the relay's wheel and packages, `setup.sh roots` what checks them,
# `setup.sh site` what makes the documents a site, `setup.sh compare` the systems that the relay is compared with.
# Completed steps are skipped until their inputs change.
set -euo pipefail
cd "$(dirname "$0")/.."
stamps=.local/stamps
mkdir -p "$stamps"

. tools/shell.sh

# Python compiles the modules that are used when they are first imported: a tenth of what is installed.
export PIP_COMPILE=0

# done_for NAME INPUT…: whether step NAME was done for these very inputs.
done_for() { [ -f "$stamps/$1" ] && [ "$(cat "$stamps/$1")" = "$(sum_of "${@:2}")" ]; }
mark() { sum_of "${@:2}" > "$stamps/$1"; }
sum_of() { cat "$@" | sha256sum | cut -d' ' -f1; }

find_browser() {
  local candidate
  for candidate in "${PVWIRE_CHROMIUM:-}" chromium-headless-shell chromium chromium-browser google-chrome \
    google-chrome-stable; do
    [ -n "$candidate" ] && command -v "$candidate" && return 0
  done
  return 1
}

tools() {
  command -v cargo > /dev/null || fail "cargo is missing: install Rust by rustup"
  command -v node > /dev/null || fail "node is missing: install Node 20.19 or later"
  command -v npm > /dev/null || fail "npm is missing: install npm 10 or later"
  command -v python3 > /dev/null || fail "python3 is missing: install Python 3.11 or later"
  [ "$(node -p '([major, minor] = process.versions.node.split(".").map(Number)), major > 20 || (major === 20 && minor >= 19)')" = true ] ||
    fail "node is $(node --version), expected 20.19 or later"
}

# Rust links with the C compiler; pvAccess's library is C++.
compilers() {
  command -v cc > /dev/null && command -v c++ > /dev/null && return
  say "C and C++ compilers"
  packages gcc g++ libc6-dev
}

rust() {
  done_for rust rust-toolchain.toml && return
  say "Rust toolchain and WebAssembly target (rust-toolchain.toml)"
  if command -v rustup > /dev/null; then
    rustup toolchain install --no-self-update > /dev/null 2>&1 || rustup show > /dev/null
    rustup target add wasm32-unknown-unknown
  fi
  local found
  found=$(rustc --print sysroot)/lib/rustlib/wasm32-unknown-unknown
  [ -d "$found" ] || fail "Rust has no target wasm32-unknown-unknown: install it, or rustup"
  mark rust rust-toolchain.toml
}

python() {
  done_for python tools/requirements.txt && [ -x .local/venv/bin/python ] && return
  say "Python environment with the EPICS libraries (.local/venv)"
  # Debian's Python is without it until python3-venv is there.
  python3 -c 'import ensurepip' 2> /dev/null || packages python3-venv
  python3 -m venv .local/venv || fail "python3 can't make a virtual environment: install python3-venv"
  .local/venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
    -r tools/requirements.txt
  mark python tools/requirements.txt
}

# Lets IOCs start in a third of the time (tools/quick_start). The environment need not be made again for it.
quick_start() {
  local file packages
  for packages in .local/venv/lib/python3*/site-packages; do
    for file in tools/quick_start/quick_start.*; do
      cmp --silent "$file" "$packages/${file##*/}" || cp "$file" "$packages"
    done
  done
}

# Clients of PVWS as their users have them, for the tests of the door.
pvws_clients() {
  done_for pvws_clients tools/pvws_clients.txt && [ -d .local/pvws-clients/nova ] && return
  say "Clients of PVWS (.local/pvws-clients)"
  rm -rf .local/pvws-clients
  .local/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    --require-hashes --target .local/pvws-clients -r tools/pvws_clients.txt
  mark pvws_clients tools/pvws_clients.txt
}

# Coniql and its own tests, which the source package alone has, for the tests of the door.
coniql() {
  done_for coniql tools/coniql_clients.txt && [ -d .local/coniql/tests ] && return
  say "Coniql and its tests (.local/coniql)"
  rm -rf .local/coniql
  # The first environment's pip installs into this one, which takes less time than to install pip there too.
  python3 -m venv --without-pip .local/coniql
  local pip=".local/venv/bin/python -m pip --python .local/coniql/bin/python"
  $pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r tools/coniql_clients.txt
  sed -n '/^coniql==/,/[^\\]$/p' tools/coniql_clients.txt > .local/coniql/source.txt
  $pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --no-binary coniql --dest .local/coniql -r .local/coniql/source.txt
  tar xzf .local/coniql/coniql-0.4.2.tar.gz -C .local/coniql --strip-components=1 coniql-0.4.2/tests
  mark coniql tools/coniql_clients.txt
}

# Clients of GraphQL and of server-sent events as their users have them, for the tests of the doors.
script_clients() {
  done_for script_clients tools/script_clients.txt && [ -d .local/script-clients/gql ] && return
  say "Clients in Python (.local/script-clients)"
  rm -rf .local/script-clients
  .local/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    --require-hashes --target .local/script-clients -r tools/script_clients.txt
  mark script_clients tools/script_clients.txt
}

graphql_clients() {
  local lock=tools/graphql_clients/package-lock.json
  done_for graphql_clients "$lock" && [ -d .local/graphql-clients/node_modules ] && return
  say "Clients of GraphQL in JavaScript (.local/graphql-clients)"
  rm -rf .local/graphql-clients
  mkdir -p .local/graphql-clients
  cp tools/graphql_clients/package.json "$lock" .local/graphql-clients
  npm ci --prefix .local/graphql-clients --no-audit --no-fund --loglevel=error
  mark graphql_clients "$lock"
}

npm_packages() {
  done_for npm package-lock.json && [ -d node_modules ] && return
  say "npm packages (node_modules)"
  # Browsers come from Debian; Node 20 runs vitest although it asks for 22.
  PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-audit --no-fund --loglevel=error
  mark npm package-lock.json
}

browser() {
  # The fonts of the end-to-end tests (e2e/fixtures/fonts.conf).
  [ -f /usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf ] || {
    say "Fonts"
    packages fonts-dejavu-core
  }
  find_browser > /dev/null && return
  say "Chromium"
  # Distributions other than Debian have only the whole browser.
  packages chromium-headless-shell || packages chromium
  find_browser > /dev/null || fail "Chromium was installed but isn't found"
}

# Servers of Channel Access and pvAccess in Java, for the relay's tests.
java_servers() {
  done_for java testbed/java/* && [ -d .local/java/classes ] && return
  command -v mvn > /dev/null && command -v javac > /dev/null || {
    say "Java and Maven"
    packages default-jdk-headless maven
  }
  say "Servers in Java (.local/java)"
  rm -rf .local/java
  mvn --quiet --batch-mode --file testbed/java/pom.xml dependency:copy-dependencies \
    -DoutputDirectory="$PWD/.local/java/lib"
  javac -cp '.local/java/lib/*' -d .local/java/classes testbed/java/*.java
  mark java testbed/java/*
}

# Servers and clients that the relay is measured beside. A comparison without some of them says so.
peers() {
  bench/relay/peers/setup.sh || say "the peers (.local/peers) could not be installed"
  [ -z "${PVWS_WAR:-}" ] || bench/relay/peers/setup.sh war || say "what serves PVWS_WAR could not be installed"
}

# What the wheel is built with, and the symbols and start files of glibc 2.28 (tools/linker_2_28.sh).
wheel() {
  done_for wheel tools/wheel.txt tools/old_systems.c && [ -f .local/glibc-2.28/old_systems.o ] && return
  say "Builder of wheels (.local/wheel-tools, .local/glibc-2.28)"
  rm -rf .local/wheel-tools .local/glibc-2.28
  python3 -m venv --without-pip .local/wheel-tools
  .local/venv/bin/python -m pip --python .local/wheel-tools/bin/python install --quiet \
    --disable-pip-version-check --require-hashes -r tools/wheel.txt
  local made
  made=$(mktemp -d)
  echo 'int main(void) { return 0; }' > "$made/main.c"
  # Linking any program makes them.
  ZIG_GLOBAL_CACHE_DIR=$made/cache ZIG_LOCAL_CACHE_DIR=$made/cache .local/wheel-tools/bin/python -m ziglang cc \
    -target x86_64-linux-gnu.2.28 -fPIE -pie -o "$made/main" "$made/main.c"
  mkdir -p .local/glibc-2.28
  find "$made/cache" \( -name '*.so.*' -o -name libc_nonshared.a -o -name Scrt1.o \) \
    -exec cp -t .local/glibc-2.28 {} +
  cc -c -O2 -fPIC -fexceptions -Wall -Werror -o .local/glibc-2.28/old_systems.o tools/old_systems.c
  rm -rf "$made"
  mark wheel tools/wheel.txt tools/old_systems.c
}

# What makes the documents a site (tools/make_site.py): mdBook, and TypeDoc for the JavaScript API.
site() {
  local lock=tools/site/package-lock.json version=0.5.4
  if [ "$(.local/site-tools/bin/mdbook --version 2> /dev/null)" != "mdbook v$version" ]; then
    say "mdBook (.local/site-tools)"
    # Without optimization it is built in a third of the time, and makes the site in seconds.
    cargo install --quiet --locked --debug --no-default-features --features search --root .local/site-tools \
      --version "$version" mdbook
  fi
  done_for site "$lock" && [ -d .local/site-tools/node_modules ] && return
  say "TypeDoc (.local/site-tools)"
  cp tools/site/package.json "$lock" .local/site-tools
  npm ci --prefix .local/site-tools --no-audit --no-fund --loglevel=error
  mark site "$lock"
}

valgrind() {
  command -v valgrind > /dev/null && return
  say "Valgrind"
  packages valgrind
}

# What makes empty roots of Debian and installs packages of Red Hat, for the check of releases.
roots() {
  command -v debootstrap > /dev/null && command -v rpm > /dev/null && command -v gpgv > /dev/null || {
    say "debootstrap and rpm"
    packages debootstrap gpgv rpm
  }
  ubuntu_keys || say "Ubuntu's keys could not be fetched"
}

# The keys with which debootstrap checks Ubuntu's packages: Debian has no package of them. apt checks their file.
ubuntu_keys() {
  [ -f .local/ubuntu-keys/usr/share/keyrings/ubuntu-archive-keyring.gpg ] && return
  say "Ubuntu's keys (.local/ubuntu-keys)"
  local address=http://archive.ubuntu.com/ubuntu/pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb
  local sum=SHA256:0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f file
  file=$(mktemp -d)/keys.deb
  /usr/lib/apt/apt-helper download-file "$address" "$file" "$sum" && dpkg -x "$file" .local/ubuntu-keys
  rm -rf "${file%/*}"
  [ -f .local/ubuntu-keys/usr/share/keyrings/ubuntu-archive-keyring.gpg ]
}

# Helm's engine, which renders the chart: Debian has no helm, and building it takes Go.
helm() {
  done_for helm deploy/requirements.txt && .local/venv/bin/python -c 'import helm_python' 2> /dev/null &&
    return
  say "Helm's engine (.local/venv)"
  .local/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    --require-hashes -r deploy/requirements.txt
  mark helm deploy/requirements.txt
}

# Only its program, which deploy/check_pods.py starts: as a package it would be a service of the machine.
nginx() {
  type -P nginx > /dev/null && return
  [ -x .local/nginx/usr/sbin/nginx ] && return
  say "nginx (.local/nginx)"
  unpack nginx .local/nginx
}

# Only its program, which tests and the demo start: as a package it would be a service of the machine.
nats() {
  type -P nats-server > /dev/null && return
  [ -x .local/nats/usr/sbin/nats-server ] && return
  say "NATS (.local/nats)"
  unpack nats-server .local/nats
}

# Prometheus's parser of metrics and alerts, for their tests.
promtool() {
  type -P promtool > /dev/null && return
  [ -x .local/prometheus/promtool ] && return
  say "promtool (.local/prometheus)"
  unpack prometheus .local/prometheus/package
  mv .local/prometheus/package/usr/bin/promtool .local/prometheus
  rm -rf .local/prometheus/package
}

# One at a time: steps of a test run call this side by side.
exec 8> .local/setup.lock
flock 8
tools
compilers
rust
python
quick_start
[ "${1:-}" = rust ] && exit
pvws_clients
nats
promtool
coniql
script_clients
graphql_clients
npm_packages
case "${1:-}" in
  browser) browser && java_servers ;;
  chromium) browser ;;
  valgrind) valgrind ;;
  deploy) helm && nginx ;;
  wheel) wheel ;;
  roots) wheel && roots ;;
  site) site ;;
  compare) peers ;;
esac
