"""Gathers the files of a release in .local/release: what is installed, what it is made of, checksums.

`make release-files` builds the wheel, the archive, the packages and the npm package first. The bills of materials are
CycloneDX (tools/bom.py).
"""

import hashlib
import shutil
import sys
from pathlib import Path

import bom
from version import workspace_version

ROOT = Path(__file__).resolve().parent.parent
LOCAL = ROOT / ".local"
RELEASE = LOCAL / "release"

# One of each.
FILES = ("wheels/*.whl", "dist/*.tar.gz", "dist/*.deb", "dist/*.rpm", "pvwire-{version}.tgz")


def bills():
    """What each part of the release is built of."""
    yield "pvwire-relay", bom.relay_parts()
    yield "pvwire", bom.package_parts()


def main():
    shutil.rmtree(RELEASE, ignore_errors=True)
    RELEASE.mkdir(parents=True)
    version = workspace_version()
    for pattern in FILES:
        found = list(LOCAL.glob(pattern.format(version=version)))
        if len(found) != 1:
            sys.exit(f"release-files: {len(found)} files match .local/{pattern}, expected 1")
        # GitHub's releases allow no "~" in names, with which packages mark a pre-release.
        shutil.copy2(found[0], RELEASE / found[0].name.replace("~", "."))
    for name, parts in bills():
        (RELEASE / f"{name}.cdx.json").write_text(bom.document(name, version, parts))

    files = sorted(RELEASE.iterdir())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (RELEASE / "SHA256SUMS").write_text("".join(sums))
    for file, line in zip(files, sums, strict=True):
        print(f"{line.rstrip()}: {file.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
