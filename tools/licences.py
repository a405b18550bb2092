"""Writes the licences of all parts that a released relay contains: crates, EPICS's libraries, packages of its pages.

`licences.py package` writes those of the npm package: crates in its WebAssembly modules, packages in its elements.
"""

import functools
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import bom

ROOT = Path(__file__).resolve().parent.parent

NAMES = ("LICEN", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")

# Licences that apply without a copyright line in their text, for packages that name them and bring no file.
STANDARD = {"Apache-2.0": "Apache-2.0.txt", "MIT": "MIT.txt"}


def texts_in(folder):
    """The texts of a package's licence files."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name.upper().startswith(NAMES))
    return [file.read_text(errors="replace").strip() for file in files if file.suffix not in (".html", ".rs")]


@functools.cache
def sysroot():
    found = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())


def standard(licence):
    return (sysroot() / "share/doc/rust/licenses" / STANDARD[licence]).read_text().strip()


def part(name, version, licence, folder):
    texts = texts_in(folder) or [standard(licence)]
    return f"{name} {version}", licence, texts


def crates(described):
    for crate in described:
        if crate["source"] is not None:
            yield part(crate["name"], crate["version"], crate["license"], Path(crate["manifest_path"]).parent)


def npm_packages(packages):
    for path, entry in packages.items():
        if "node_modules/" in path:
            yield part(path.rpartition("node_modules/")[2], entry["version"], entry["license"], ROOT / path)


def standard_library():
    return "Rust's standard library", "MIT OR Apache-2.0", [standard(licence) for licence in STANDARD]


def relay_parts():
    """Every part of the relay as its name, its licence and the texts of that."""
    own, *others = bom.crates("pvwire-relay", bom.NATIVE, "--features=pvwire-relay/built-pages")
    yield from crates(others)
    yield from npm_packages(bom.page_packages())
    yield standard_library()
    for name, licence in bom.EPICS.items():
        found = metadata.distribution(name)
        files = [file for file in found.files if "licenses/" in str(file)]
        yield f"{name} {found.version}", licence, [file.locate().read_text().strip() for file in files]
    yield "libevent", "BSD-3-Clause", [(ROOT / "deploy/package/libevent.txt").read_text().strip()]


def package_parts():
    """The same of the npm package. What it only depends on brings its licence itself."""
    described = {}
    for module in bom.MODULES:
        described |= {crate["id"]: crate for crate in bom.crates(module, bom.BROWSER)}
    yield from crates(sorted(described.values(), key=lambda crate: (crate["name"], crate["version"])))
    yield standard_library()
    packages = bom.npm_packages("wasm-client", bom.ELEMENTS)
    inside = {path: each for path, each in packages.items() if path.rpartition("node_modules/")[2] in bom.ELEMENTS}
    assert len(inside) == len(bom.ELEMENTS), f"{inside.keys()} are not {bom.ELEMENTS}"
    yield from npm_packages(inside)


def document(whole="pvwire-relay", parts=relay_parts):
    """All parts, then each text once with the parts to which it applies."""
    listed, by_text = [], {}
    for name, licence, texts in parts():
        assert texts, f"{name}: no text of its licence {licence}"
        listed.append(f"{name}: {licence}")
        for text in texts:
            by_text.setdefault(text, []).append(name)
    head = f"{whole} contains these parts. The texts of their licences follow."
    lines = [head, "", *listed]
    for text, names in by_text.items():
        lines += ["", "=" * 100, f"Licence of {', '.join(names)}:", "", text]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    is_package = sys.argv[1:] == ["package"]
    print(document("pvwire", package_parts) if is_package else document(), end="")
