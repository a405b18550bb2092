"""Checks the relay's wheel: what it needs of a system, and that it runs where nothing else is installed.

`wheel_check.py WHEEL` reads the versions of all symbols that the program and its libraries need, installs the
wheel into an empty environment, starts the relay there beside an IOC, and reads a PV by both protocols over HTTP.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "testbed/python"))

from child import DEADLINE_S, Child, says  # noqa: E402
from network import private_network  # noqa: E402

PYTHON = ROOT / ".local/venv/bin/python"

# What RHEL 8 has, the oldest system that facilities run.
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11), "GCC": (8, 0, 0)}

VALUE = 21.5


def needed(file):
    """The versions of symbols that a program or library needs, by their set: GLIBC, GLIBCXX and others."""
    text = subprocess.run(["objdump", "-p", file], check=True, capture_output=True, text=True).stdout
    _, _, references = text.partition("Version References:")
    found = {}
    for kind, version in re.findall(r"\b([A-Z]+)_([0-9.]+)$", references, re.MULTILINE):
        found.setdefault(kind, set()).add(tuple(int(number) for number in version.split(".")))
    return found


def check_symbols(folder):
    """Returns the number of files of which every symbol is old enough; fails at the first that has a newer one."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
    for file in files:
        for kind, versions in needed(file).items():
            newest = max(versions)
            if kind not in NEWEST or newest > NEWEST[kind]:
                version = ".".join(map(str, newest))
                sys.exit(f"wheel-check: {file.name} needs {kind}_{version}, which RHEL 8 doesn't have")
    # The program, libca, libCom, libpvxs and two libraries of libevent.
    if len(files) != 6:
        sys.exit(f"wheel-check: {len(files)} programs and libraries are in the wheel, expected 6")
    return len(files)


def read(port, name):
    address = f"http://127.0.0.1:{port}/pv/{urllib.parse.quote(name, safe='')}"
    with urllib.request.urlopen(address, timeout=DEADLINE_S) as answer:
        return json.load(answer)


def check_runs(wheel, folder):
    """Installs the wheel into an empty environment and reads a PV with it. Returns the number of values read."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    install = ["-m", "pip", "--python", environment / "bin/python", "install", "--quiet", "--no-index"]
    subprocess.run([PYTHON, *install, "--disable-pip-version-check", wheel], check=True)

    name = f"WHEEL{os.getpid()}:temp"
    database = folder / "one.db"
    database.write_text(f'record(ao, "{name}") {{ field(VAL, "{VALUE}") field(EGU, "degC") field(PINI, "YES") }}\n')
    network = private_network()
    # Nothing of this tree, and no variable that would help the loader.
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(folder)} | network
    ioc = Child(
        "IOC", [PYTHON, "-u", ROOT / "tools/softioc.py", "--pva", "-d", database], dict(os.environ) | network
    )
    try:
        ioc.wait_until(says("iocRun: All initialization complete"))
        relay = Child(
            "relay", [environment / "bin/pvwire-relay", "--listen", "127.0.0.1:0"], bare, cwd=folder
        )
        try:
            relay.wait_until(says("listening on"))
            port = re.search(r"listening on http://127\.0\.0\.1:(\d+)", relay.said)[1]
            names = [f"ca://{name}", f"pva://{name}"]
            for full in names:
                shown = read(port, full)
                if shown["value"]["number"] != VALUE or shown["display"]["units"] != "degC":
                    sys.exit(f"wheel-check: {full} is {shown}")
            relay.process.send_signal(signal.SIGTERM)
            if relay.process.wait(DEADLINE_S) != 0:
                raise relay.failed("didn't end well after SIGTERM")
            return len(names)
        finally:
            relay.kill()
    finally:
        ioc.kill()


def main():
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with zipfile.ZipFile(wheel) as file:
            file.extractall(folder / "files")
        passed = check_symbols(folder / "files") + check_runs(wheel, folder)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
