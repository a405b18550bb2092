"""Gathers the files of a release in .local/release: what is installed, what it is made of, checksums.

`make release-files` builds the relay, its wheel and the npm package first. The bills of materials are CycloneDX: of the
crates by cargo-sbom, of the npm packages by npm, of the EPICS libraries by the packages that bring them.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / ".local/release"
TOOLS = ROOT / ".local/cargo-sbom"
SBOM_VERSION = "0.10.0"

# What the relay loads at run time.
EPICS = ["epicscorelibs", "pvxslibs"]


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def crates_of(package):
    """The crates that a package is built of."""
    program = TOOLS / "bin/cargo-sbom"
    if not program.exists():
        subprocess.run(
            ["cargo", "install", "--quiet", "--locked", "--root", TOOLS, f"cargo-sbom@{SBOM_VERSION}"],
            check=True,
        )
    text = output(program, "sbom", "--cargo-package", package, "--output-format", "cyclone_dx_json_1_6")
    return json.loads(text)


def libraries():
    for name in EPICS:
        version = metadata.version(name)
        yield {
            "type": "library",
            "bom-ref": f"{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version}",
        }


def packages():
    """The npm packages that the published one is built of, which is all of the workspace."""
    bom = json.loads(
        output("npm", "sbom", "--sbom-format=cyclonedx", "--package-lock-only", "--workspace=pvwire")
    )
    of = next(part for part in bom["components"] if part["bom-ref"].startswith("pvwire@"))
    bom["metadata"]["component"] = of | {"name": "pvwire"}
    bom["components"].remove(of)
    return bom


def main():
    shutil.rmtree(RELEASE, ignore_errors=True)
    RELEASE.mkdir(parents=True)
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/pvwire-relay"
    shutil.copy2(built, RELEASE)
    for package in [*(ROOT / ".local").glob("pvwire-*.tgz"), *(ROOT / ".local/wheels").glob("*.whl")]:
        shutil.copy2(package, RELEASE)

    crates = ("pvwire-relay", "pvwire-wasm", "pvwire-page", "pvwire-graphql")
    boms = {package: crates_of(package) for package in crates}
    boms["pvwire-relay"]["components"] += libraries()
    boms["pvwire-npm"] = packages()
    for name, bom in boms.items():
        assert len(bom["components"]) > 5, f"{name}: the bill of materials names next to nothing"
        (RELEASE / f"{name}.cdx.json").write_text(json.dumps(bom, indent=1) + "\n")

    files = sorted(file for file in RELEASE.iterdir())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (RELEASE / "SHA256SUMS").write_text("".join(sums))
    print("".join(sums), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
