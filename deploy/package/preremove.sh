#!/bin/sh
# Before removal of the package, not before an upgrade: ends the service. dpkg passes "remove", rpm 0.
set -e
case "${1:-}" in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl disable --now pvwire-relay.service
    fi ;;
esac
