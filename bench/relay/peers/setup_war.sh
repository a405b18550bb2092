#!/usr/bin/env bash
# Installs what serves the war of PVWS that PVWS_WAR names: Tomcat's libraries, by Maven, which checks their hashes.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/shell.sh
stamp=.local/stamps/serve-war
wanted=$(cat bench/relay/peers/war/* | sha256sum)
[ -d .local/serve-war/classes ] && [ "$(cat "$stamp" 2> /dev/null)" = "$wanted" ] && exit
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
