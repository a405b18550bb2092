"""Checks the relay's wheel: what it needs of a system, and that it runs where nothing else is installed.

`wheel_check.py WHEEL` reads the versions of all symbols that the program and its libraries need, finds the licences
and the list of all parts, installs the wheel into empty environments, reads a PV by both protocols over HTTP, and sees
the demo's values in Chromium, with simulated PVs and with the IOC of the extra `demo`, which is installed as the
documents say.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import bom
from installed import PYTHON, ROOT, gives_pv, running_ioc, shows_demo
from shell_blocks import block_with
from symbols import check_symbols

# They say how to install the wheel, the last one by its name in a registry.
DOCUMENTS = ("README.md", "docs/how-to/install.md", "docs/tutorials/first-screen.md", "relay/README.md")


def documented(document, wheel):
    """The environment's folder and the commands that make it, as a document has them, of this wheel."""
    make, install, start, *_ = block_with(document, "python3 -m venv ")
    made = re.fullmatch(r"python3 -m venv (\w+)", make)
    folder = made[1] if made else ""
    name = "pvwire-relay" if document == DOCUMENTS[-1] else wheel
    expected = f"{folder}/bin/pip install '{name}[demo]'"
    if install != expected or not start.startswith(f"{folder}/bin/pvwire-relay demo"):
        sys.exit(f"wheel: {document} has {make!r}, {install!r} and {start!r}, expected {expected!r}")
    return folder, [make, install]


def installed_as_documented(folder, wheel):
    """The program, in an environment that the README's commands make beside the wheel."""
    for document in DOCUMENTS:
        environment, commands = documented(document, wheel.name)
        if document == DOCUMENTS[0]:
            first, script = environment, "\n".join(commands)
    shutil.copy(wheel, folder)
    quiet = {"PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(["bash", "-euc", script], cwd=folder, env=os.environ | quiet, check=True)
    return folder / first / "bin/pvwire-relay"


def installed(folder, wheel, *flags):
    """The program, in an environment that has the wheel and nothing else of this tree."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    install = ["-m", "pip", "--python", environment / "bin/python", "install", "--quiet", *flags]
    subprocess.run([PYTHON, *install, "--disable-pip-version-check", wheel], check=True)
    return environment / "bin/pvwire-relay"


def check_parts(folder):
    """The licences and the list of all parts are inside, of the native libraries too. Returns the number of checks."""
    [info] = folder.glob("*.dist-info")
    named = (info / "METADATA").read_text()
    texts = {file.name: file.read_text() for file in (info / "licenses").rglob("*") if file.is_file()}
    for name in ("LICENSE", "THIRD-PARTY-LICENCES.txt"):
        if not texts.get(name) or f"License-File: wheel/{name}" not in named:
            sys.exit(f"wheel: {name} isn't inside, or METADATA doesn't name it")
    [bill] = (info / "sboms").iterdir()
    parts = {part["name"] for part in json.loads(bill.read_text())["components"]}
    for name in (*bom.EPICS, "libevent", "tokio", "react"):
        if name not in parts or name not in texts["THIRD-PARTY-LICENCES.txt"]:
            sys.exit(f"wheel: {name} is in no list of parts or of licences")
    if str(ROOT) in bill.read_text():
        sys.exit("wheel: its list of parts names the folder of its build")
    return 3


def main():
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        files, alone, with_extra = (Path(temporary) / name for name in ("files", "alone", "extra"))
        for folder in (files, alone, with_extra):
            folder.mkdir()
        with zipfile.ZipFile(wheel) as file:
            file.extractall(files)
        passed = check_symbols(files) + check_parts(files)
        program = installed(alone, wheel, "--no-index")
        with running_ioc(alone) as ioc:
            passed += gives_pv([program], ioc, alone)
        passed += shows_demo("pip", [program], alone, with_ioc=False)
        program = installed_as_documented(with_extra, wheel)
        passed += shows_demo("pip-extra", [program], with_extra, with_ioc=True)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
