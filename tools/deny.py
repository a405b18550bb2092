"""Checks that the npm packages which the published package brings along have licences that deny.toml allows.

cargo-deny does the same for crates.
"""

import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    allowed = tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"]
    lock = json.loads((ROOT / "package-lock.json").read_text())
    found = [
        f"{path}: licence {package.get('license')} isn't among those of deny.toml"
        for path, package in lock["packages"].items()
        if "node_modules/" in path and not (package.get("dev") or package.get("link"))
        # A choice of licences isn't read: none is shipped.
        if package.get("license") not in allowed
    ]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
