"""Checks that the npm packages which the published package brings along have licences that deny.toml allows.

cargo-deny does the same for crates.
"""

import json
import re
import sys
import tomllib
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
    # The reader of expressions can refuse.
    assert not allows("GPL-3.0-only AND MIT", {"MIT"}) and allows("(GPL-2.0 OR MIT) AND ISC", {"MIT", "ISC"})
    found = [*npm_findings(rules)]
    for what in found:
        print(what)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
