"""Writes the licences of all parts that a released relay contains: crates, EPICS's libraries, packages of its pages."""

import subprocess
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


def standard(sysroot, licence):
    return (sysroot / "share/doc/rust/licenses" / STANDARD[licence]).read_text().strip()


def parts():
    """Every part as its name, its licence and the texts of that."""
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True)
    sysroot = Path(sysroot.stdout.strip())

    def part(name, version, licence, folder):
        texts = texts_in(folder) or [standard(sysroot, licence)]
        return f"{name} {version}", licence, texts

    own, *crates = bom.crates("pvwire-relay", bom.NATIVE, "--features=pvwire-relay/built-pages")
    for crate in crates:
        if crate["source"] is not None:
            yield part(crate["name"], crate["version"], crate["license"], Path(crate["manifest_path"]).parent)
    for path, entry in bom.page_packages().items():
        if "node_modules/" in path:
            yield part(path.rpartition("node_modules/")[2], entry["version"], entry["license"], ROOT / path)
    rust = [standard(sysroot, licence) for licence in STANDARD]
    yield "Rust's standard library", "MIT OR Apache-2.0", rust
    for name, licence in zip(bom.EPICS, ("EPICS Open License", "BSD-3-Clause"), strict=True):
        found = metadata.distribution(name)
        files = [file for file in found.files if "licenses/" in str(file)]
        yield f"{name} {found.version}", licence, [file.locate().read_text().strip() for file in files]
    yield "libevent", "BSD-3-Clause", [(ROOT / "deploy/package/libevent.txt").read_text().strip()]


def document():
    """All parts, then each text once with the parts to which it applies."""
    listed, by_text = [], {}
    for name, licence, texts in parts():
        assert texts, f"{name}: no text of its licence {licence}"
        listed.append(f"{name}: {licence}")
        for text in texts:
            by_text.setdefault(text, []).append(name)
    head = "pvwire-relay contains these parts. The texts of their licences follow."
    lines = [head, "", *listed]
    for text, names in by_text.items():
        lines += ["", "=" * 100, f"Licence of {', '.join(names)}:", "", text]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
