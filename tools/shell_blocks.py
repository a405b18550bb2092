"""Reads the shell commands that the documents show."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

SHELLS = ("sh", "bash", "console")


@dataclass
class Command:
    text: str
    # What the document shows after it.
    output: str


def blocks(text):
    """The shell blocks of a document, as lists of commands."""
    for fence in re.finditer(r"^( *)```(\S*)\n(.*?)^ *```$", text, re.M | re.S):
        indent, language, body = fence.groups()
        if language in SHELLS:
            lines = [line.removeprefix(indent) for line in body.replace("\\\n", " ").splitlines()]
            yield list(console(lines) if language == "console" else map(plain, filter(None, lines)))


def plain(line):
    return Command(re.sub(r"\s+#\s.*$", "", re.sub(r"\s{2,}", " ", line)).strip(), "")


def console(lines):
    """Commands after a prompt, each with the lines that it prints."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append(Command(line[2:], ""))
        else:
            found[-1].output += line + "\n"
    return found


def block_with(document, beginning):
    """The commands of a document's block that has a command that begins so."""
    found = [[each.text for each in block] for block in blocks((ROOT / document).read_text())]
    [block] = [block for block in found if any(text.startswith(beginning) for text in block)]
    return block
