#!/usr/bin/env bash
# Installs the peers into .local/peers, separate from the project's own environment; done again only when
# requirements.txt changes.
set -euo pipefail
cd "$(dirname "$0")/../../.."
mkdir -p .local/stamps
stamp=.local/stamps/peers
wanted=$(sha256sum < bench/relay/peers/requirements.txt)
[ -x .local/peers/bin/python ] && [ "$(cat "$stamp" 2> /dev/null)" = "$wanted" ] && exit
echo "== Python environment of the peers (.local/peers)" >&2
rm -rf .local/peers
python3 -m venv .local/peers
.local/peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
  -r bench/relay/peers/requirements.txt >&2
echo "$wanted" > "$stamp"
