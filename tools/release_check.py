"""Installs each file of a release into empty roots and sees it give a PV and show its demo: `make release-check`.

The roots are Debian 12 and 11 and Ubuntu 22.04, as debootstrap makes them, with Python and the C++ library, without a
compiler, and the image's root file system. The IOC, the client and Chromium are outside. The relays see the machine's
loopback, and nothing of this tree. A root that can't be made is reported as not run, and `--require` fails then.
"""

import argparse
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

import bom
from installed import PYTHON, ROOT, gives_pv, running_ioc, shows_demo
from shell_blocks import block_with
from symbols import check_symbols
from version import workspace_version

RELEASE = ROOT / ".local/release"
ROOTS = ROOT / ".local/roots"
# Debian 12 and 11, with glibc 2.36 and 2.31, and Ubuntu 22.04, with 2.35.
SUITES = ("bookworm", "bullseye", "jammy")
UBUNTU = {"jammy"}
# tools/setup.sh fetches them.
UBUNTU_KEYS = ROOT / ".local/ubuntu-keys/usr/share/keyrings/ubuntu-archive-keyring.gpg"
UBUNTU_ARCHIVE = "http://archive.ubuntu.com/ubuntu"
REACHED_S = 20
# Besides what Debian calls required. Compilers are not among these.
INCLUDED = "ca-certificates,libstdc++6,python3,python3-venv"
CONFIG = "etc/pvwire/pvwire.toml"

# They say how to unpack the archive, the last one how to install the package for Debian too.
INSTALL = "docs/how-to/install.md"
DOCUMENTS = ("README.md", INSTALL)

# In its table: file and MB. Compilers and libraries change these a little.
SIZE = re.compile(r"^\| `([^`]+)` \| ([0-9.]+) \|", re.MULTILINE)
MOST_OFF_MB = 0.5


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        words = " ".join(map(str, command))
        sys.exit(f"release-check: {words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def mirror():
    """Where this machine gets its Debian packages."""
    listed = run("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages")
    return next((line for line in listed.splitlines() if line.startswith("http")), "")


def obstacle(suite):
    """Why no root of this suite can be made here; empty if one can."""
    if suite not in UBUNTU or (ROOTS / suite).exists():
        return ""
    if not UBUNTU_KEYS.exists():
        return f"{UBUNTU_KEYS} is missing"
    try:
        urllib.request.urlopen(f"{UBUNTU_ARCHIVE}/dists/{suite}/Release", timeout=REACHED_S).close()
    except OSError as error:
        return f"{UBUNTU_ARCHIVE} can't be reached: {error}"
    return ""


def available(required):
    """The suites of which roots can be made. The others are reported, and fail the check if all are required."""
    found = []
    for suite in SUITES:
        why = obstacle(suite)
        if why and required:
            sys.exit(f"release-check: {suite}: {why}")
        if why:
            print(f"{suite}: NOT RUN: {why}")
        else:
            found.append(suite)
    return found


def outcome(passed, found):
    return f"{passed} passed, 0 failed" + "".join(f", {suite} NOT RUN" for suite in SUITES if suite not in found)


def base(suite):
    """An empty Debian or Ubuntu, made once."""
    made = ROOTS / suite
    source, address = ["--components=main"], mirror()
    if suite in UBUNTU:
        source, address = ["--components=main,universe", f"--keyring={UBUNTU_KEYS}"], UBUNTU_ARCHIVE
    if not made.exists():
        partly = ROOTS / f"{suite}.partly"
        shutil.rmtree(partly, ignore_errors=True)
        ROOTS.mkdir(parents=True, exist_ok=True)
        empty = ["debootstrap", "--variant=minbase", *source, f"--include={INCLUDED}", suite, partly]
        run(*empty, *filter(None, [address]))
        partly.rename(made)
    for compiler in ("cc", "gcc", "g++", "rustc"):
        assert shutil.which(compiler, path=str(made / "usr/bin")) is None, f"{compiler} is in the empty root"
    return made


class Root:
    """A root in which programs are started; removed at last."""

    def __init__(self, name, path):
        self.name, self.path = name, path
        # The loader needs it for $ORIGIN, and /dev/null is there already.
        run("mount", "--bind", "/proc", self.path / "proc")

    @classmethod
    def debian(cls, suite, name, folder):
        """A copy of an empty Debian."""
        path = folder / f"{suite}-{name}"
        run("cp", "-a", "--reflink=auto", base(suite), path)
        return cls(path.name, path)

    def run(self, *command):
        return run("chroot", self.path, *command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"})

    def close(self):
        run("umount", self.path / "proc")
        shutil.rmtree(self.path)


def unprivileged(root, program):
    # chroot itself needs root's rights; the program gets none.
    return ["chroot", "--userspec=65534:65534", root.path, program]


def unpack_archive(folder):
    """Unpacks the archive below a folder; returns the name of its own folder."""
    file = RELEASE / f"pvwire-relay-{workspace_version()}-linux-x86_64.tar.gz"
    with tarfile.open(file) as tar:
        tar.extractall(folder, filter="fully_trusted")
    return file.name.removesuffix(".tar.gz")


def unpack_as_documented(root, folder):
    """Unpacks the archive in a folder of the root by the documents' command; returns its own folder there."""
    file = RELEASE / f"pvwire-relay-{workspace_version()}-linux-x86_64.tar.gz"
    shutil.copy(file, root.path / folder)
    inside = file.name.removesuffix(".tar.gz")
    for document in DOCUMENTS:
        commands = block_with(document, "tar xzf pvwire-relay")
        if commands != [f"tar xzf {file.name}", f"{inside}/bin/pvwire-relay demo"]:
            sys.exit(f"release-check: {document} doesn't unpack {file.name}: {commands}")
    root.run("sh", "-euc", f"cd '/{folder}' && {commands[0]}")
    return f"/{folder}/{inside}"


def follow_readme(root, inside):
    """Runs what the archive's README (deploy/package/README.md) says of a service, but for systemd, which a root
    without processes hasn't."""
    text = (root.path / inside.lstrip("/") / "README.md").read_text()
    _, commands = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    steps = [line.removeprefix("sudo ") for line in commands.splitlines() if "systemctl" not in line]
    # Where systemd is, this folder is too.
    (root.path / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
    root.run("sh", "-euc", "\n".join([f"cd '{inside}'", *steps]))
    if "pvwire-relay" not in root.run("/opt/pvwire/bin/pvwire-relay", "--version"):
        sys.exit("release-check: what the archive's README installs doesn't start")
    return len(steps)


def check_archive(root, ioc, folder):
    place = "srv/a folder with blanks"
    (root.path / place).mkdir()
    inside = unpack_as_documented(root, place)
    unpacked = root.path / inside.lstrip("/")
    run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=unpacked)
    passed = check_symbols(unpacked)
    program = f"{inside}/bin/pvwire-relay"
    root.run(program, "check", "--config", f"{inside}/etc/pvwire.toml")
    version = root.run(program, "--version")
    if f"pvwire-relay {workspace_version()} (commit " not in version or "pvxs" not in version:
        sys.exit(f"release-check: --version is {version!r}")
    relay = unprivileged(root, program)
    passed += gives_pv(relay, ioc, folder) + 2 + follow_readme(root, inside)
    change_config(root)
    passed += follow_readme(root, inside) + check_config_is_kept(root)
    return passed + shows_demo(root.name, relay, folder, with_ioc=False)


def check_installed(root, ioc, folder):
    """What a package installed: user, unit, configuration and a relay that gives a PV."""
    user = root.run("getent", "passwd", "pvwire")
    if "nologin" not in user:
        sys.exit(f"release-check: the service's user is {user!r}")
    for file in ("usr/lib/systemd/system/pvwire-relay.service", CONFIG, "usr/share/man/man1/pvwire-relay.1.gz",
                 "usr/share/bash-completion/completions/pvwire-relay", "etc/logrotate.d/pvwire-relay"):
        found = root.path / file
        mode = stat.S_IMODE(found.stat().st_mode)
        if mode != 0o644 or found.stat().st_uid != 0:
            sys.exit(f"release-check: {file} has mode {mode:o} and owner {found.stat().st_uid}")
    root.run("pvwire-relay", "check", "--config", f"/{CONFIG}")
    check_symbols(root.path / "opt/pvwire")
    relay = unprivileged(root, "/usr/bin/pvwire-relay")
    return gives_pv(relay, ioc, folder) + 3 + shows_demo(root.name, relay, folder, with_ioc=False)


def change_config(root):
    config = root.path / CONFIG
    config.write_text(config.read_text() + "linger_ms = 12345\n")


def check_config_is_kept(root):
    if "linger_ms = 12345" not in (root.path / CONFIG).read_text():
        sys.exit("release-check: an upgrade lost the operator's configuration")
    return 1


def check_deb(root, ioc, folder):
    [file] = RELEASE.glob("*.deb")
    shutil.copy(file, root.path / file.name)
    [command, *_] = block_with(DOCUMENTS[1], "sudo dpkg -i ")
    root.run("sh", "-euc", f"cd / && {command.removeprefix('sudo ')}")
    passed = check_installed(root, ioc, folder)
    change_config(root)
    upgrade = folder / "upgrade.deb"
    later(file, upgrade)
    shutil.copy(upgrade, root.path / "later.deb")
    root.run("dpkg", "--force-confdef", "--force-confold", "--install", "/later.deb")
    passed += check_config_is_kept(root)
    root.run("dpkg", "--remove", "pvwire-relay")
    if (root.path / "opt/pvwire/bin").exists() or not (root.path / CONFIG).exists():
        sys.exit("release-check: the removed package left its program, or took the configuration along")
    root.run("dpkg", "--purge", "pvwire-relay")
    if (root.path / CONFIG).exists() or (root.path / "etc/logrotate.d/pvwire-relay").exists():
        sys.exit("release-check: the purged package left its configuration")
    root.run("getent", "passwd", "pvwire")
    return passed + 3


def later(file, target):
    """The same package with a later version and another default configuration."""
    with tempfile.TemporaryDirectory() as temporary:
        run("dpkg-deb", "--raw-extract", file, temporary)
        control = Path(temporary) / "DEBIAN/control"
        control.write_text(control.read_text().replace("Version: ", "Version: 99."))
        config = Path(temporary) / CONFIG
        config.write_text(config.read_text() + "# A later version.\n")
        run("dpkg-deb", "--root-owner-group", "--build", temporary, target)


def check_rpm(root, ioc, folder):
    [file] = RELEASE.glob("*.rpm")
    # Debian's files are in no database of rpm's, so what the package needs is checked by starting it.
    install = ["rpm", "--root", root.path, "--nodeps"]
    run(*install, "--install", file)
    passed = check_installed(root, ioc, folder)
    wants = run("rpm", "--query", "--package", "--requires", file)
    if "glibc >= 2.28" not in wants:
        sys.exit(f"release-check: the package requires {wants}")
    change_config(root)
    run(*install, "--upgrade", "--force", file)
    passed += check_config_is_kept(root)
    run(*install, "--erase", "pvwire-relay")
    if (root.path / "opt/pvwire/bin/pvwire-relay").exists():
        sys.exit("release-check: the removed package left its program")
    return passed + 2


def check_wheel(root, ioc, folder):
    """pip has the wheel, and for the extra the IOC's packages, in a folder: the root has no network of its own."""
    [file] = RELEASE.glob("*.whl")
    packages = root.path / "srv/packages"
    packages.mkdir()
    shutil.copy(file, packages)
    version = root.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    platforms = [f"--platform={name}_x86_64" for name in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")]
    fetch = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    run(PYTHON, *fetch, f"--python-version={version}", *platforms, "--dest", packages, f"{file}[demo]")
    root.run("python3", "-m", "venv", "/srv/env")
    install = ["/srv/env/bin/pip", "install", "--quiet", "--no-index", "--find-links=/srv/packages"]
    root.run(*install, "pvwire-relay")
    relay = unprivileged(root, "/srv/env/bin/pvwire-relay")
    passed = gives_pv(relay, ioc, folder) + shows_demo(root.name, relay, folder, with_ioc=False)
    root.run(*install, "pvwire-relay[demo]")
    passed += shows_demo(f"{root.name}-extra", relay, folder, with_ioc=True)
    root.run("/srv/env/bin/pip", "uninstall", "--quiet", "--yes", "pvwire-relay")
    if left := list((root.path / "srv/env").rglob("pvwire*")):
        sys.exit(f"release-check: pip's uninstall left {left}")
    return passed + 1


def check_image(program, folder):
    """The image's root file system, of the archive's program."""
    environment = {name: value for name, value in os.environ.items() if name != "IMAGE"}
    print(run(ROOT / "deploy/check-image.sh", program, env=environment), end="")
    run(ROOT / "deploy/rootfs.sh", program, folder / "image")
    root = Root("image", folder / "image")
    try:
        # Without Python the demo has no IOC.
        relay = ["chroot", "--userspec=65532:65532", root.path, "/opt/pvwire/bin/pvwire-relay"]
        return 1 + shows_demo("image", relay, folder, with_ioc=False)
    finally:
        root.close()


def check_boms():
    inside = {"pvwire-relay.cdx.json": {*bom.EPICS, "libevent"}, "pvwire.cdx.json": in_elements()}
    for name, expected in inside.items():
        bill = json.loads((RELEASE / name).read_text())
        missing = expected - {part["name"] for part in bill["components"]}
        if bill["bomFormat"] != "CycloneDX" or missing:
            sys.exit(f"release-check: {name} doesn't name {missing}")
    return len(inside)


def in_elements():
    """The packages that the npm package's elements contain, as their bundler has listed them."""
    [file] = RELEASE.glob("*.tgz")
    with tarfile.open(file) as tar:
        for name in ("LICENSE", "THIRD-PARTY-LICENCES.txt"):
            tar.getmember(f"package/{name}")
        listed = tar.extractfile("package/dist/pvwire-licenses.md").read().decode()
    return set(re.findall(r"^## (\S+) - ", listed, re.M))


def check_sizes(document, folder):
    """The sizes that a document says are those of the files."""
    stated = SIZE.findall(document)
    if not stated:
        sys.exit(f"release-check: {INSTALL} states no sizes")
    for name, megabytes in stated:
        actual = (folder / name).stat().st_size / 1e6
        if abs(actual - float(megabytes)) > MOST_OFF_MB:
            sys.exit(f"release-check: {INSTALL} says {megabytes} MB of {name}, which has {actual:.1f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--require", action="store_true", help="fail if a root can't be made")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("release-check: run it as root: it starts programs in separate roots")
    run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=RELEASE)
    check_sizes((ROOT / INSTALL).read_text(), RELEASE)
    passed = 2 + check_boms()
    found = available(arguments.require)
    checks = {"archive": check_archive, "deb": check_deb, "rpm": check_rpm, "wheel": check_wheel}
    with tempfile.TemporaryDirectory(prefix="pvwire-release-") as temporary:
        folder = Path(temporary)
        with running_ioc(folder) as ioc:
            for suite in found:
                for name, check in checks.items():
                    root = Root.debian(suite, name, folder)
                    try:
                        number = check(root, ioc, folder)
                    finally:
                        root.close()
                    print(f"{root.name}: {number} passed", flush=True)
                    passed += number
        number = check_image(folder / unpack_archive(folder) / "bin/pvwire-relay", folder)
        print(f"image: {number} passed")
    print(outcome(passed + number, found))


if __name__ == "__main__":
    main()
