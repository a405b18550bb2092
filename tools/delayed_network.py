"""Runs a command in a network namespace whose only way out leads, with a delay, to another one.

`delayed_network.py ROUND_TRIP_MS COMMAND…`: COMMAND has the address 10.203.0.1. A program that is to run
at the other end, at 10.203.0.2, is started with the words of DELAYED_FAR_END before it. Each end has a
separate loopback. Needs no rights where user namespaces are allowed, and /dev/net/tun.

Ends with COMMAND's status, or with 77 and a line that says why when the namespaces can't be made.
"""

import collections
import ctypes
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

NEAR, FAR = "10.203.0.1", "10.203.0.2"

# Of linux/sched.h, linux/if_tun.h and linux/sockios.h.
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFDSTADDR, SIOCSIFMTU, SIOCSIFTXQLEN = 0x8914, 0x8916, 0x8918, 0x8922, 0x8943
IFF_UP = 0x1

# Jumbo frames, so that a program in Python keeps up.
MTU = 9000
# Packets on the way in one direction; what comes when there are more is lost, as in a full switch.
MOST_ON_THE_WAY = 50_000

IMPOSSIBLE = 77


def configure(name, address, peer):
    """Sets the address of a device of this namespace, and switches it on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:

        def set_(request, value):
            fcntl.ioctl(control, request, struct.pack("16s", name.encode()) + value.ljust(24, b"\0"))

        def ip(address):
            return struct.pack("=HH4s", socket.AF_INET, 0, socket.inet_aton(address))

        set_(SIOCSIFADDR, ip(address))
        if peer:
            set_(SIOCSIFDSTADDR, ip(peer))
            set_(SIOCSIFMTU, struct.pack("=i", MTU))
            set_(SIOCSIFTXQLEN, struct.pack("=i", MOST_ON_THE_WAY))
        set_(SIOCSIFFLAGS, struct.pack("=h", IFF_UP))


def end_of_line(address, peer):
    """This namespace's end of the line, as a file of packets."""
    configure("lo", "127.0.0.1", None)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22s", b"tun0", IFF_TUN | IFF_NO_PI, b""))
    configure("tun0", address, peer)
    return device


def carry(come_in, go_out, delay_s):
    """Takes packets out of one end and puts each into the other when its time has come."""
    on_the_way = collections.deque()
    while True:
        now = time.monotonic()
        while on_the_way and on_the_way[0][0] <= now:
            try:
                os.write(go_out, on_the_way[0][1])
            except OSError:
                # Lost, as a network may.
                pass
            on_the_way.popleft()
        wait = on_the_way[0][0] - now if on_the_way else None
        if not select.select([come_in], [], [], wait)[0]:
            continue
        due = time.monotonic() + delay_s
        try:
            while True:
                packet = os.read(come_in, MTU)
                if len(on_the_way) < MOST_ON_THE_WAY:
                    on_the_way.append((due, packet))
                if on_the_way[0][0] <= due - delay_s:
                    break
        except BlockingIOError:
            pass


def far_end(pass_on, keep):
    """The other namespace: exists as long as the process that made it."""
    # Ended by the other end, which closes `keep`.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    device = end_of_line(FAR, NEAR)
    socket.send_fds(pass_on, [b"!"], [device])
    keep.recv(1)


def in_namespace(round_trip_ms, command):
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        try:
            far_end(theirs, theirs)
        finally:
            os._exit(0)
    theirs.close()
    near = end_of_line(NEAR, FAR)
    _, devices, _, _ = socket.recv_fds(ours, 1, 1)
    if not devices:
        raise OSError("no second namespace")
    delay_s = round_trip_ms / 2000
    for ways in ((near, devices[0]), (devices[0], near)):
        threading.Thread(target=carry, args=(*ways, delay_s), daemon=True).start()
    environment = os.environ | {"DELAYED_FAR_END": f"nsenter --target {child} --net --"}
    running = subprocess.Popen(command, env=environment)
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda number, _: running.send_signal(number))
    status = running.wait()
    ours.close()
    os.waitpid(child, 0)
    return status if status >= 0 else 128 - status


def main():
    if os.environ.get("DELAYED_NETWORK") != "inside":
        words = ["--net"] if may("--net") else ["--user", "--map-root-user", "--net"]
        if not may(*words):
            print("no network namespaces here: unshare(1) is refused to us", file=sys.stderr)
            return IMPOSSIBLE
        os.environ["DELAYED_NETWORK"] = "inside"
        os.execvp("unshare", ["unshare", *words, sys.executable, *sys.argv])
    del os.environ["DELAYED_NETWORK"]
    try:
        return in_namespace(float(sys.argv[1]), sys.argv[2:])
    except OSError as error:
        print(f"no network with a delay here: {error}", file=sys.stderr)
        return IMPOSSIBLE


def may(*words):
    tried = subprocess.run(["unshare", *words, "true"], capture_output=True, check=False)
    return tried.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
