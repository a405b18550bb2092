"""Reads which symbols programs and libraries need of a system, and fails if RHEL 8 doesn't have them."""

import re
import subprocess
import sys

# What RHEL 8 has, the oldest system that facilities run.
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11), "GCC": (8, 0, 0)}

# The program, libca, libCom, libpvxs and two libraries of libevent.
FILES = 6


def needed(file):
    """The versions of symbols that a program or library needs, by their set: GLIBC, GLIBCXX and others."""
    text = subprocess.run(["objdump", "-p", file], check=True, capture_output=True, text=True).stdout
    _, _, references = text.partition("Version References:")
    found = {}
    for kind, version in re.findall(r"\b([A-Z]+)_([0-9.]+)$", references, re.MULTILINE):
        found.setdefault(kind, set()).add(tuple(int(number) for number in version.split(".")))
    return found


def check_symbols(folder):
    """Returns the number of files of which every symbol is old enough; fails at the first that has a newer one."""
    files = [
        file
        for file in folder.rglob("*")
        if file.is_file() and not file.is_symlink() and file.read_bytes()[:4] == b"\x7fELF"
    ]
    for file in files:
        for kind, versions in needed(file).items():
            newest = max(versions)
            if kind not in NEWEST or newest > NEWEST[kind]:
                version = ".".join(map(str, newest))
                sys.exit(f"symbols: {file.name} needs {kind}_{version}, which RHEL 8 doesn't have")
    if len(files) != FILES:
        sys.exit(f"symbols: {len(files)} programs and libraries are in {folder.name}, expected {FILES}")
    return len(files)
