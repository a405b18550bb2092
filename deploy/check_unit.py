"""Checks that the relay works in the sandbox of its systemd unit: `check_unit.py RELAY`.

Tests have no systemd, so this program makes what the unit asks for: its folders, in which alone the relay may write,
its address families, another user and no writable code. The IOC, the relay and this program are in a separate network.
"""

import ctypes
import errno
import fcntl
import json
import os
import platform
import re
import socket
import struct
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "testbed/python"))

from child import DEADLINE_S, Child, says  # noqa: E402
from ports import private_network  # noqa: E402

UNIT = ROOT / "deploy/systemd/pvwire-relay.service"
PYTHON = ROOT / ".local/venv/bin/python"
NAME = "UNIT:temp"
# What EPICS's libraries log when they can't list the machine's networks.
NO_NETWORKS = "getifaddrs"
# The relay's user, whose number no account of this machine has.
USER = 65534

# Set where this program is root and the relay isn't.
SWITCHES = "UNIT_SWITCHES_USER"

# linux/prctl.h, linux/seccomp.h, linux/filter.h.
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_SET_MDWE = 22, 38, 65
SECCOMP_MODE_FILTER, ALLOW, REFUSE = 2, 0x7FFF0000, 0x00050000
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
SYSTEM_CALL, FIRST_ARGUMENT = 0, 16
SOCKET = {"x86_64": 41, "aarch64": 198}[platform.machine()]

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def setting(name):
    """The words of a setting of the unit."""
    found = re.search(rf"^{name}=(.*)$", UNIT.read_text(), re.M)
    return found[1].split() if found else []


def families():
    return [getattr(socket, name) for name in setting("RestrictAddressFamilies")]


def prctl(*arguments):
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(*map(ctypes.c_ulong, arguments)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def allow_families(allowed):
    """Refuses sockets of other address families, as systemd does, to this process and its children."""
    rules = [(LOAD, 0, 0, SYSTEM_CALL), (IF_EQUAL, 0, len(allowed) + 2, SOCKET), (LOAD, 0, 0, FIRST_ARGUMENT)]
    rules += [(IF_EQUAL, len(allowed) - index, 0, family) for index, family in enumerate(allowed)]
    rules += [(RETURN, 0, 0, REFUSE | errno.EAFNOSUPPORT), (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program))


def confined(allowed, command):
    """Becomes a program that has no more than the unit gives it."""
    if os.environ.get(SWITCHES):
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if setting("MemoryDenyWriteExecute") == ["yes"]:
        try:
            prctl(PR_SET_MDWE, 1, 0, 0, 0)
        except OSError as error:
            # Before Linux 6.3.
            if error.errno != errno.EINVAL:
                raise
    allow_families(allowed)
    os.execv(command[0], command)


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        _, flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def folders():
    """The unit's folders, the only ones that may be written. They are empty and end with this program."""
    made = []
    for place, name in (("/var/lib", "StateDirectory"), ("/var/log", "LogsDirectory")):
        mount("-t", "tmpfs", "pvwire", place)
        folder = Path(place) / setting(name)[0]
        folder.mkdir(mode=0o750)
        if os.environ.get(SWITCHES):
            os.chown(folder, USER, USER)
        made.append(folder)
    return made


def request(port, path, body=None):
    method = "GET" if body is None else "PUT"
    data = None if body is None else json.dumps(body).encode()
    message = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data, method=method)
    with urllib.request.urlopen(message, timeout=DEADLINE_S) as answer:
        return json.loads(answer.read())


def check(relay, folder):
    """Returns the number of checks."""
    state, logs = folders()
    # A folder that the relay may read alone, as all others on the machine of a service.
    mount("--bind", folder, folder)
    mount("-o", "remount,bind,ro", folder)
    network = private_network()
    ioc_command = [PYTHON, "-u", ROOT / "tools/softioc.py", "--pva", "-d", folder / "one.db"]
    ioc = Child("IOC", ioc_command, dict(os.environ) | network)
    # As on a machine whose operator has set nothing; the IOC is found by an address that is added.
    searching = network | {"EPICS_CA_AUTO_ADDR_LIST": "YES", "EPICS_PVA_AUTO_ADDR_LIST": "YES"}
    audit, history = logs / "puts.jsonl", state / "history"
    flags = ["--listen=127.0.0.1:0", "--enable-put", "--allow-put=*", f"--audit-file={audit}", "--history=*=1h",
             f"--history-dir={history}", f"--screens={folder / 'screens'}", "--drain-delay-ms=0"]

    def started(allowed, value):
        names = " ".join(str(int(family)) for family in allowed)
        command = [sys.executable, __file__, "--confined", names, relay, *flags]
        child = Child("relay", command, dict(os.environ) | searching)
        child.wait_until(says("listening on"))
        port = re.search(r"listening on http://127\.0\.0\.1:(\d+)", child.output)[1]
        for source in ("ca", "pva"):
            shown = request(port, f"/pv/{source}%3A%2F%2F{NAME}")
            assert shown["value"]["number"] == value, shown
        return child, port

    try:
        ioc.wait_until(says("iocRun: All initialization complete"))
        child, port = started(families(), 21.5)
        try:
            request(port, f"/pv/{NAME}", {"value": 22.5})
            # Both are written by threads that the put doesn't wait for.
            child.wait_until(lambda _: NAME in audit.read_text())
            child.wait_until(lambda _: any(history.iterdir()))
            assert "one.bob" in json.dumps(request(port, "/screens/")), "the displays aren't listed"
            if NO_NETWORKS in child.output:
                raise child.failed("can't list the machine's networks, so it broadcasts no searches")
            child.process.terminate()
            if child.process.wait(DEADLINE_S) != 0:
                raise child.failed("didn't end well after SIGTERM")
        finally:
            child.kill()
        # That line is the one that such a relay prints.
        child, _ = started([family for family in families() if family != socket.AF_NETLINK], 22.5)
        try:
            child.wait_until(says(NO_NETWORKS))
        finally:
            child.kill()
    finally:
        ioc.kill()
    return 7


def in_a_separate_system(relay):
    """Runs this program again where its mounts and its network are its own; returns its status."""
    is_root = os.getuid() == 0
    environment = dict(os.environ) | ({SWITCHES: "1"} if is_root else {})
    command = ["unshare", *([] if is_root else ["--map-root-user"]), "--mount", "--net"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        (folder / "screens").mkdir()
        (folder / "screens/one.bob").write_text('<display version="2.0.0"><name>One</name></display>\n')
        (folder / "one.db").write_text(f'record(ao, "{NAME}") {{ field(VAL, "21.5") field(PINI, "YES") }}\n')
        words = [*command, sys.executable, __file__, "--inside", Path(relay).resolve(), folder]
        return subprocess.run(words, env=environment, check=False).returncode


def main():
    if sys.argv[1] == "--confined":
        confined([int(number) for number in sys.argv[2].split()], sys.argv[3:])
    elif sys.argv[1] == "--inside":
        loopback_up()
        print(f"{check(Path(sys.argv[2]), Path(sys.argv[3]))} passed, 0 failed")
    else:
        sys.exit(in_a_separate_system(sys.argv[1]))


if __name__ == "__main__":
    main()
