#!/bin/sh
# After installation of the package: creates the service's user, and lets systemd read the new unit.
set -e
getent group pvwire > /dev/null || groupadd --system pvwire
getent passwd pvwire > /dev/null ||
  useradd --system --gid pvwire --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin pvwire
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # An upgrade of a running relay. A new relay is started by its operator.
  systemctl try-restart pvwire-relay.service
fi
