"""Writes what the wheel says of its parts, into relay/wheel: their licences and their list (CycloneDX).

relay/pyproject.toml names the files. `release_build.sh wheel` runs this before maturin, whose own list would have the
crates alone, with the folder of the build in their names.
"""

import shutil
from pathlib import Path

import bom
import licences
from version import workspace_version

ROOT = Path(__file__).resolve().parent.parent
WHEEL = ROOT / "relay/wheel"


def main():
    shutil.rmtree(WHEEL, ignore_errors=True)
    WHEEL.mkdir()
    shutil.copy(ROOT / "LICENSE", WHEEL)
    (WHEEL / "THIRD-PARTY-LICENCES.txt").write_text(licences.document())
    text = bom.document("pvwire-relay", workspace_version(), bom.relay_parts())
    (WHEEL / "pvwire-relay.cdx.json").write_text(text)


if __name__ == "__main__":
    main()
