#!/usr/bin/env python3
"""Compiles a crate of this workspace, lints it and checks its documentation at once.

tools/test.py makes it cargo's RUSTC_WORKSPACE_WRAPPER. clippy-driver is rustc with more lints, and rustdoc reads the
crates that were built for the compiler: `cargo clippy` and `cargo doc` would check all of them again.

Optimised crates are compiled by rustc alone, because clippy-driver switches optimisations off.
"""

import os
import subprocess
import sys
from pathlib import Path

# Flags of rustc that rustdoc needs, too: those whose value follows, and beginnings of others.
WITH_VALUE = ("--crate-name", "--crate-type", "--cfg", "--check-cfg", "--extern", "-L")
ALONE = ("--edition=", "--error-format=", "--json=", "--allow=", "--warn=", "--deny=")


def value(words, flag):
    """What follows a flag."""
    return words[words.index(flag) + 1] if flag in words else ""


def is_documented(words):
    """Whether these flags of rustc are those of a library, program or example."""
    name = value(words, "--crate-name")
    return name and name != "build_script_build" and "--test" not in words and "--out-dir" in words


def documentation(words):
    """The command that documents the crate which these flags of rustc compile, in target/doc."""
    command = ["rustdoc", "--document-private-items", "-D", "warnings"]
    for before, word in zip(["", *words], words, strict=False):
        if before in WITH_VALUE or word in WITH_VALUE or word.startswith(ALONE) or word.endswith(".rs"):
            command.append(word)
    # A program and a library may have one name.
    folder = "doc-programs" if value(words, "--crate-type") == "bin" else "doc"
    return [*command, "-o", Path(value(words, "--out-dir")).parents[1] / folder]


def run(command):
    # cargo's job server is among its open files.
    return subprocess.run(command, check=False, close_fds=False).returncode


def main():
    compiler, *words = sys.argv[1:]
    if any(word.startswith("opt-level=") for word in words):
        os.execvp(compiler, [compiler, *words])
    if not is_documented(words):
        os.execvp("clippy-driver", ["clippy-driver", compiler, *words])
    # Not by a shell, which drops the variables CARGO_BIN_EXE_… of programs with a hyphen.
    status = run(["clippy-driver", compiler, *words])
    return status or run(documentation(words))


if __name__ == "__main__":
    sys.exit(main())
