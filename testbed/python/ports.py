"""Ports and EPICS networks for tests, claimed in blocks that no other process uses, as `testbed/README.md` describes.

`ports.py COUNT` prints COUNT ports and holds their blocks until its input ends.
"""

import random
import socket
import sys
import threading

# The first port of the first block.
FIRST = 10_240
# The port after the last block: the first one that Linux gives to outgoing connections.
END = 32_768
# Ports of a block; the first of them is its guard.
BLOCK = 64

_lock = threading.Lock()
# Guards stay open until the process ends. Child processes don't inherit sockets of Python.
_guards = []
_ports = iter(())


def free_port():
    """A port that is free for TCP and UDP, and that no other process and no other caller gets."""
    global _ports
    with _lock:
        while True:
            for port in _ports:
                if _is_free(port):
                    return port
            _ports = _claim_any()


def _claim_any():
    firsts = range(FIRST, END, BLOCK)
    start = random.randrange(len(firsts))
    for first in [*firsts[start:], *firsts[:start]]:
        guard = socket.socket()
        try:
            guard.bind(("127.0.0.1", first))
            guard.listen()
        except OSError:
            guard.close()
            continue
        _guards.append(guard)
        return iter(range(first + 1, first + BLOCK))
    raise RuntimeError(f"all blocks of ports between {FIRST} and {END} are claimed: too many tests run")


def _is_free(port):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


def private_network():
    """EPICS environment variables for all processes of a new network: loopback only, on private ports."""
    access, repeater, pva, broadcast = (str(free_port()) for _ in range(4))
    return {
        "EPICS_CA_ADDR_LIST": "127.0.0.1",
        "EPICS_CA_AUTO_ADDR_LIST": "NO",
        "EPICS_CA_SERVER_PORT": access,
        "EPICS_CA_REPEATER_PORT": repeater,
        "EPICS_CAS_INTF_ADDR_LIST": "127.0.0.1",
        "EPICS_CAS_BEACON_ADDR_LIST": "127.0.0.1",
        "EPICS_CAS_AUTO_BEACON_ADDR_LIST": "NO",
        "EPICS_CAS_BEACON_PORT": repeater,
        "EPICS_PVA_ADDR_LIST": "",
        "EPICS_PVA_AUTO_ADDR_LIST": "NO",
        # A UDP search reaches only one of several processes that share a port, so clients use TCP.
        "EPICS_PVA_NAME_SERVERS": f"127.0.0.1:{pva}",
        "EPICS_PVA_SERVER_PORT": pva,
        "EPICS_PVA_BROADCAST_PORT": broadcast,
        "EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1",
        "EPICS_PVAS_BEACON_ADDR_LIST": "127.0.0.1",
        "EPICS_PVAS_AUTO_BEACON_ADDR_LIST": "NO",
    }


def main():
    print("\n".join(str(free_port()) for _ in range(int(sys.argv[1]))), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
