"""Checks that all files name the version of Cargo.toml; `version.py --set VERSION` changes it everywhere.

Cargo.toml of the workspace is the one place for the version. The relay, its wheel, the packages and the archive take it
from there when they are built; npm, the chart and the documents need it in their files.
"""

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

VERSION = r"(\d+\.\d+\.\d+(?:-rc\.\d+)?)"

# Texts around the version, by file.
NAMED = {
    "Cargo.toml": [rf'(?m)^version = "{VERSION}"$'],
    "README.md": [rf"pvwire_relay-{VERSION}-", rf"pvwire-relay-{VERSION}-linux", rf"\.local/pvwire-{VERSION}\.tgz"],
    "deploy/compose.yaml": [rf"pvwire-relay:{VERSION}"],
    "deploy/helm/pvwire/Chart.yaml": [rf"(?m)^version: {VERSION}$", rf"(?m)^appVersion: {VERSION}$"],
    "deploy/kubernetes/deployment.yaml": [rf'kubernetes\.io/version: "{VERSION}"', rf"pvwire-relay:{VERSION}"],
    "deploy/kubernetes/sidecar-ioc.yaml": [rf"pvwire-relay:{VERSION}"],
    "deploy/kubernetes/sidecar-web.yaml": [rf"pvwire-relay:{VERSION}"],
    "docs/how-to/install.md": [rf"pvwire[-_]relay[-_]{VERSION}[-_]"],
}


def workspace_version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def npm_packages():
    """The folders of the npm packages of this workspace, the root first."""
    lock = json.loads((ROOT / "package-lock.json").read_text())
    return [folder for folder in lock["packages"] if "node_modules/" not in folder]


def npm_patterns(text):
    """The package's version, and that of packages of this workspace in its dependencies."""
    patterns = [rf'(?m)^  "version": "{VERSION}"']
    if re.search(r'"pvwire": "\d', text):
        patterns.append(rf'"pvwire": "{VERSION}"')
    return patterns


def places():
    """Files with the patterns that find the version in them."""
    yield from NAMED.items()
    for folder in npm_packages():
        file = f"{folder}/package.json".lstrip("/")
        if '"version"' in (text := (ROOT / file).read_text()):
            yield file, npm_patterns(text)
    own = [re.escape(json.dumps(folder)) for folder in npm_packages()]
    yield "package-lock.json", [
        rf'(?m)\A\{{\n  "name": "[^"]*",\n  "version": "{VERSION}"',
        rf'(?m)^    (?:{"|".join(own)}): \{{\n(?:      "name": "[^"]*",\n)?      "version": "{VERSION}"',
        rf'"pvwire": "{VERSION}"',
    ]
    yield "Cargo.lock", [rf'(?m)^name = "[^"]*"\nversion = "{VERSION}"\n(?!source)']


def findings(expected):
    for file, patterns in places():
        text = (ROOT / file).read_text()
        for pattern in patterns:
            found = re.findall(pattern, text)
            if not found:
                yield f"{file}: nothing matches {pattern}"
            for version in set(found) - {expected}:
                yield f"{file}: {version}, expected {expected}: run tools/version.py --set {expected}"


def set_version(version):
    for file, patterns in places():
        text = (ROOT / file).read_text()
        for pattern in patterns:
            text = re.sub(pattern, lambda found: found[0].replace(found[1], version), text)
        (ROOT / file).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", metavar="VERSION", help="change the version in all files")
    version = parser.parse_args().set
    if version:
        if not re.fullmatch(VERSION, version):
            sys.exit(f"version {version!r} is not like 1.2.3 or 1.2.3-rc.1")
        set_version(version)
    found = list(findings(workspace_version()))
    print("\n".join([*found, f"version {workspace_version()}, {len(found)} files name another"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
