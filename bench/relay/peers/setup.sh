#!/usr/bin/env bash
# Installs the peers into .local/peers, separate from the project's own environment; done again only when
# requirements.txt changes. `setup.sh war` installs what serves the war of PVWS that PVWS_WAR names instead: Tomcat's
# libraries, by Maven, which checks their hashes.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/shell.sh

python_peers() {
  mkdir -p .local/stamps
  local stamp=.local/stamps/peers wanted
  wanted=$(sha256sum < bench/relay/peers/requirements.txt)
  [ -x .local/peers/bin/python ] && [ "$(cat "$stamp" 2> /dev/null)" = "$wanted" ] && return
  say "Python environment of the peers (.local/peers)" >&2
  rm -rf .local/peers
  python3 -m venv .local/peers
  .local/peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    -r bench/relay/peers/requirements.txt >&2
  echo "$wanted" > "$stamp"
}

war_server() {
  local stamp=.local/stamps/serve-war wanted
  wanted=$(cat bench/relay/peers/war/* | sha256sum)
  [ -d .local/serve-war/classes ] && [ "$(cat "$stamp" 2> /dev/null)" = "$wanted" ] && return
  command -v mvn > /dev/null && command -v javac > /dev/null || {
    say "Java and Maven"
    packages default-jdk-headless maven
  }
  say "Tomcat (.local/serve-war)"
  rm -rf .local/serve-war
  mvn --quiet --batch-mode --file bench/relay/peers/war/pom.xml dependency:copy-dependencies \
    -DoutputDirectory="$PWD/.local/serve-war/lib"
  javac -cp '.local/serve-war/lib/*' -d .local/serve-war/classes bench/relay/peers/war/ServeWar.java
  echo "$wanted" > "$stamp"
}

case ${1:-} in
  war) war_server ;;
  *) python_peers ;;
esac
