"""Checks the relay's wheel: what it needs of a system, and that it runs where nothing else is installed.

`wheel_check.py WHEEL` reads the versions of all symbols that the program and its libraries need, installs the
wheel into empty environments, reads a PV by both protocols over HTTP, and sees the demo's values in Chromium, with
simulated PVs and with the IOC of the extra `demo`.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from installed import PYTHON, gives_pv, running_ioc, shows_demo
from symbols import check_symbols


def installed(folder, wheel, *flags):
    """The program, in an environment that has the wheel and nothing else of this tree."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    install = ["-m", "pip", "--python", environment / "bin/python", "install", "--quiet", *flags]
    subprocess.run([PYTHON, *install, "--disable-pip-version-check", wheel], check=True)
    return environment / "bin/pvwire-relay"


def main():
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        files, alone, with_extra = (Path(temporary) / name for name in ("files", "alone", "extra"))
        for folder in (files, alone, with_extra):
            folder.mkdir()
        with zipfile.ZipFile(wheel) as file:
            file.extractall(files)
        passed = check_symbols(files)
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
