"""Checks that all files name the version of Cargo.toml; `version.py --set VERSION` changes it everywhere.

`version.py --tag TAG` fails unless a release may have this tag: a "v" and the version.

Cargo.toml of the workspace is the one place for the version. The relay, its wheel, the packages and the archive take it
from there when they are built; npm, the chart and the documents need it in their files.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Names of files spell a pre-release another way: see spelled().
VERSION = r"(\d+\.\d+\.\d+(?:[-.]rc\.\d+|rc\d+)?)"
RELEASED = r"\d+\.\d+\.\d+(?:-rc\.\d+)?"

# Files that a release consists of, as documents name them.
WHEEL = rf"pvwire_relay-{VERSION}-py3"
ARCHIVE = rf"pvwire-relay-{VERSION}-linux"
DEBIAN = rf"pvwire-relay_{VERSION}_amd64"
RED_HAT = rf"pvwire-relay-{VERSION}-1\.x86_64"
IMAGE = rf"pvwire-relay:{VERSION}"
PACKAGE = rf"\bpvwire-{VERSION}\.tgz"

# Texts around the version, by file.
NAMED = {
    "Cargo.toml": [rf'(?m)^version = "{VERSION}"$'],
    "README.md": [WHEEL, ARCHIVE, PACKAGE],
    "deploy/compose.yaml": [IMAGE],
    "deploy/helm/pvwire/Chart.yaml": [rf"(?m)^version: {VERSION}$", rf"(?m)^appVersion: {VERSION}$"],
    "deploy/kubernetes/deployment.yaml": [rf'kubernetes\.io/version: "{VERSION}"', IMAGE],
    "deploy/kubernetes/sidecar-ioc.yaml": [IMAGE],
    "deploy/kubernetes/sidecar-web.yaml": [IMAGE],
    "docs/how-to/install.md": [WHEEL, ARCHIVE, DEBIAN, RED_HAT],
    "docs/how-to/kubernetes.md": [IMAGE],
    "docs/how-to/node.md": [PACKAGE],
    "docs/reference/openapi.json": [rf'(?m)^    "version": "{VERSION}",$'],
    "docs/tutorials/first-screen.md": [WHEEL, PACKAGE],
    "examples/README.md": [PACKAGE],
}

# Documents and manifests; one that names a file of a release must be in NAMED.
DOCUMENTS = ("*.md", "deploy", "docs", "examples")


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


def spelled(place, version):
    """The version as a name of a file has it: pip and the files of packages spell pre-releases their way."""
    if place.startswith("pvwire_relay-"):
        return version.replace("-rc.", "rc")
    if place.endswith(("_amd64", "-1.x86_64")):
        return version.replace("-", ".")
    return version


def findings(expected):
    for file, patterns in places():
        text = (ROOT / file).read_text()
        for pattern in patterns:
            found = {(match[1], spelled(match[0], expected)) for match in re.finditer(pattern, text)}
            if not found:
                yield f"{file}: nothing matches {pattern}"
            for version, right in sorted(found):
                if version != right:
                    yield f"{file}: {version}, expected {right}: run tools/version.py --set {expected}"


def unlisted():
    """Documents that name a file of a release, and that `--set` doesn't change."""
    listed = subprocess.run(["git", "ls-files", "--", *DOCUMENTS], cwd=ROOT, check=True, capture_output=True, text=True)
    patterns = (WHEEL, ARCHIVE, DEBIAN, RED_HAT, IMAGE, PACKAGE)
    for file in sorted(set(listed.stdout.splitlines()) - {file for file, _ in places()}):
        text = (ROOT / file).read_text(errors="replace") if (ROOT / file).exists() else ""
        for pattern in patterns:
            if match := re.search(pattern, text):
                yield f"{file}: {match[0]}: add the file to NAMED of tools/version.py"


def unreleased_schema():
    """Whether the wire of this version is missing in the folders that later versions are compared with."""
    schema = ROOT / "schema"
    files = {"frame.fbs": "fbs", "request.fbs": "fbs", "golden.json": "tests"}
    return not any(
        all((folder / name).read_text() == (schema / place / name).read_text() for name, place in files.items())
        for folder in (schema / "fbs/released").iterdir()
        if folder.is_dir()
    )


def wrong_tag(tag):
    """Why a release can't have this tag."""
    version = workspace_version()
    if tag != f"v{version}":
        yield f"the tag is {tag}, expected v{version}"
    if "-rc." not in version and unreleased_schema():
        yield "schema/fbs/released doesn't have the schema and the golden frames of this version (CONTRIBUTING.md)"


def set_version(version):
    for file, patterns in places():
        text = (ROOT / file).read_text()
        for pattern in patterns:
            text = re.sub(pattern, lambda found: found[0].replace(found[1], spelled(found[0], version)), text)
        (ROOT / file).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", metavar="VERSION", help="change the version in all files")
    parser.add_argument("--tag", metavar="TAG", help="fail unless a release may have this tag")
    arguments = parser.parse_args()
    if version := arguments.set:
        if not re.fullmatch(RELEASED, version):
            sys.exit(f"version {version!r} is not like 1.2.3 or 1.2.3-rc.1")
        set_version(version)
    found = [*findings(workspace_version()), *unlisted()]
    if arguments.tag:
        found += wrong_tag(arguments.tag)
    print("\n".join([*found, f"version {workspace_version()}, {len(found)} findings"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
