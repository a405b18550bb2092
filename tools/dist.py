"""Makes the relay's archive and its packages for Debian and Red Hat in .local/dist: `make dist`.

`dist.py PROGRAM` packs a program that `release_build.sh program` built, with its libraries, unit, documents and
licences. The same program and commit give the same bytes: names are sorted, owners and times are fixed.
"""

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import epicscorelibs
import pvxslibs

import bom
import licences
from symbols import check_symbols
from version import workspace_version

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / ".local/dist"
TOOLS = ROOT / ".local/wheel-tools/bin"
PLATFORM = "linux-x86_64"
COMPLETIONS = {"bash": "pvwire-relay.bash", "zsh": "_pvwire-relay", "fish": "pvwire-relay.fish"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def patch(file, path):
    """Sets where the loader finds the libraries of a program or library."""
    subprocess.run([TOOLS / "patchelf", "--set-rpath", path, file], check=True)


def libraries_of(program):
    """The files of EPICS's libraries, by the names under which the program and they ask for each other."""
    folders = [Path(package.__file__).parent / "lib" for package in (epicscorelibs, pvxslibs)]
    waiting, found = [program], {}
    while waiting:
        for name in re.findall(r"NEEDED\s+(\S+)", output("objdump", "-p", waiting.pop())):
            file = next((folder / name for folder in folders if (folder / name).exists()), None)
            if file is not None and name not in found:
                found[name] = file.resolve()
                waiting.append(file)
    return found


def stage(program, folder):
    """Gathers the content of the archive in a folder."""
    for name in ("bin", "lib", "etc", "systemd", "completions", "man", "doc"):
        (folder / name).mkdir(parents=True)
    packed = folder / "bin/pvwire-relay"
    subprocess.run(["strip", "--strip-unneeded", "-o", packed, program], check=True)
    patch(packed, "$ORIGIN/../lib")
    for name, file in libraries_of(program).items():
        library = folder / "lib" / name
        subprocess.run(["strip", "--strip-unneeded", "-o", library, file], check=True)
        patch(library, "$ORIGIN")
    check_symbols(folder)

    (folder / "etc/pvwire.toml").write_text(output(packed, "example-config"))
    for shell, name in COMPLETIONS.items():
        (folder / "completions" / name).write_text(output(packed, "completions", shell))
    (folder / "man/pvwire-relay.1").write_text(output(packed, "manual"))
    shutil.copy(ROOT / "deploy/systemd/pvwire-relay.service", folder / "systemd")
    shutil.copy(ROOT / "deploy/package/README.md", folder)
    for file in ("LICENSE", "CHANGELOG.md", "docs/reference/config.md", "docs/reference/rules.md"):
        shutil.copy(ROOT / file, folder / "doc")
    (folder / "doc/THIRD-PARTY-LICENCES.txt").write_text(licences.document())
    text = bom.document("pvwire-relay", workspace_version(), bom.relay_parts())
    (folder / "doc/pvwire-relay.cdx.json").write_text(text)

    files = sorted(file for file in folder.rglob("*") if file.is_file())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(folder)}\n" for file in files]
    (folder / "SHA256SUMS").write_text("".join(sums))
    for file in folder.rglob("*"):
        runs = file.is_dir() or file.parent.name == "bin"
        file.chmod(0o755 if runs else 0o644)


def archive(folder, epoch):
    """Packs the folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for file in [folder, *sorted(folder.rglob("*"))]:
            entry = tar.gettarinfo(file, file.relative_to(folder.parent))
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = epoch, 0, 0, "root", "root"
            entry.mode = 0o755 if file.is_dir() else entry.mode
            if file.is_file():
                with file.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    target = DIST / f"{folder.name}.tar.gz"
    target.write_bytes(gzip.compress(packed.getvalue(), compresslevel=9, mtime=0))
    return target


def packages(folder, epoch):
    """The packages for Debian and Red Hat, of the same files."""
    manual = folder / "man/pvwire-relay.1"
    (DIST / "pvwire-relay.1.gz").write_bytes(gzip.compress(manual.read_bytes(), mtime=0))
    environment = dict(
        os.environ,
        VERSION=workspace_version(),
        STAGE=str(folder),
        MANUAL=str(DIST / "pvwire-relay.1.gz"),
        SOURCE_DATE_EPOCH=str(epoch),
    )
    for file in folder.rglob("*"):
        os.utime(file, (epoch, epoch))
    os.utime(DIST / "pvwire-relay.1.gz", (epoch, epoch))
    for packager in ("deb", "rpm"):
        subprocess.run(
            [TOOLS / "nfpm", "package", "--config", "deploy/package/nfpm.yaml", "--packager", packager,
             "--target", DIST],
            cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL,
        )
    (DIST / "pvwire-relay.1.gz").unlink()


def commit_time():
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or output("git", "-C", ROOT, "log", "-1", "--format=%ct")
    return int(seconds)


def main():
    program = Path(sys.argv[1]).resolve()
    shutil.rmtree(DIST, ignore_errors=True)
    folder = DIST / f"pvwire-relay-{workspace_version()}-{PLATFORM}"
    stage(program, folder)
    epoch = commit_time()
    archive(folder, epoch)
    packages(folder, epoch)
    shutil.rmtree(folder)
    for file in sorted(DIST.iterdir()):
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
