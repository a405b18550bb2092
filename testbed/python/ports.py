"""Ports for tests, claimed in blocks that no other process uses, as `testbed/README.md` describes.

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


def main():
    print("\n".join(str(free_port()) for _ in range(int(sys.argv[1]))), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
