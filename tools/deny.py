"""Checks that every package in Cargo.lock has a licence, a source and a name that deny.toml allows.

The part of cargo-deny that needs no network, for machines that don't have it: licences, banned
crates, wildcards, sources, and the npm packages that the published package would bring along.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def allows(expression, allowed):
    """Whether an SPDX expression can be fulfilled with the allowed licences."""
    # Before SPDX, a slash said "or".
    tokens = re.findall(r"\(|\)|[^\s()/]+|/", expression)
    words, at = [], 0
    while at < len(tokens):
        token = tokens[at]
        if tokens[at + 1 : at + 2] == ["WITH"]:
            token, at = " ".join(tokens[at : at + 3]), at + 2
        words.append({"/": "OR"}.get(token, token))
        at += 1

    def either():
        holds = both()
        while words[:1] == ["OR"]:
            words.pop(0)
            holds = both() or holds
        return holds

    def both():
        holds = one()
        while words[:1] == ["AND"]:
            words.pop(0)
            holds = one() and holds
        return holds

    def one():
        word = words.pop(0)
        if word != "(":
            return word in allowed
        holds = either()
        words.pop(0)
        return holds

    return either()


def cargo_findings(rules):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    allowed = set(rules["licenses"]["allow"])
    excepted = {entry["crate"]: set(entry["allow"]) for entry in rules["licenses"].get("exceptions", [])}
    banned = {entry["crate"] for entry in rules["bans"]["deny"]}
    versions, registries = Counter(), set()
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        versions[package["name"]] += 1
        licence = package["license"]
        if licence is None or not allows(licence, allowed | excepted.get(package["name"], set())):
            yield f"{name}: licence {licence} isn't among those of deny.toml"
        if package["name"] in banned:
            yield f"{name}: is banned by deny.toml"
        source = package["source"]
        registries.update([source] if source else [])
        if source is not None and not source.startswith("registry+"):
            yield f"{name}: comes from {source}"
        if source is None:
            for needed in package["dependencies"]:
                if needed["req"] == "*" and needed.get("path") is None:
                    yield f"{name}: takes any version of {needed['name']}"
    if len(registries) > 1:
        yield f"crates come from {len(registries)} registries: {', '.join(sorted(registries))}"
    print(f"{len(metadata['packages'])} crates; in two versions:",
          ", ".join(sorted(name for name, count in versions.items() if count > 1)) or "none")


def npm_findings(rules):
    lock = json.loads((ROOT / "package-lock.json").read_text())
    allowed = set(rules["licenses"]["allow"])
    for path, package in lock["packages"].items():
        if "node_modules/" in path and not (package.get("dev") or package.get("link")):
            licence = package.get("license")
            if licence is None or not allows(licence, allowed):
                yield f"{path}: licence {licence} isn't among those of deny.toml"


def main():
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    # That the reader of expressions can say no.
    assert not allows("GPL-3.0-only AND MIT", {"MIT"}) and allows("(GPL-2.0 OR MIT) AND ISC", {"MIT", "ISC"})
    found = [*cargo_findings(rules), *npm_findings(rules)]
    for what in found:
        print(what)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
