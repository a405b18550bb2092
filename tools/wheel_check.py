"""Checks the relay's wheel: what it needs of a system, and that it runs where nothing else is installed.

`wheel_check.py WHEEL` reads the versions of all symbols that the program and its libraries need, finds the licences
and the list of all parts, installs the wheel into empty environments, reads a PV by both protocols over HTTP, and sees
the demo's values in Chromium, with simulated PVs and with the IOC of the extra `demo`.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import bom
from installed import PYTHON, ROOT, gives_pv, running_ioc, shows_demo
from symbols import check_symbols


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
        program = installed(with_extra, f"{wheel}[demo]")
        passed += shows_demo("pip-extra", [program], with_extra, with_ioc=True)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
