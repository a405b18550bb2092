"""Finds words and forms that the project's texts avoid, and says what to write instead.

Head comments state what a file is; they don't ask. Private words give way to the field's.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What is looked for, and what to write instead.
AVOIDED = {
    r"\bwish(es|ed)?\b": "filter",
    r"\bsomebody\b": "a client, a user, an operator …",
    # The name of a PV or user that doesn't exist may be "nobody".
    r"(?<![\"'(:,])\b(?-i:[Nn]obody)\b(?![\"'),])": "no client, no user …",
    r"\bwhoever\b": "the one who acts, by name",
    r"\bso many\b": "a number, or `count`",
    r"\b(?-i:is none)\b": "is not one",
    r"\banew\b": "again",
    r"\bmistakes?\b": "error",
    r"\babreast\b": "in step",
    r"\bunheard\b": "unacknowledged",
    r"\bseats?\b": "permit",
    r"\bstands? beside\b": "is independent of",
    r"\bwhat is left\b": "the rest",
    r"\berrands?\b": "batch, request, operation",
    r"\bneighbours?\b": "peers, members, consecutive …",
}
# The same in comments of Rust and in all other texts.
COMMENTS = {
    r"\blook(?:s|ed|ing)? at\b(?! (?:`|each))": "check, read, visit, compare",
    r"\b(?:a|an|\w+s) of (?:its|their) own\b": "a separate …, its own …",
    r"(?<!<)(?<!</)\baside\b": "without …, separate",
    r"\bgoes on under\b": "continues under",
}
COMMENT = re.compile(r"^\s*//[/!]? ?(.*)$", re.M)
# Participles as names of variables, functions and types in TypeScript and Python.
NAMES = re.compile(
    r"\b(?:let|const|def|readonly|type|interface|for|as)\s+#?((?i:told|asked|said|heard|held|goOn|go_on|less|apart))\b"
    r"|^\s*#?(told|asked|said|heard|held|less|apart)\s*=(?!=)",
    re.M,
)
# The same in Rust, where these names are at 0 so far. Comments and texts may have the words.
RUST_NAMES = re.compile(r"\b(told|asked|said)\b")
RUST_NAMED = (
    *("archiver/", "bench/", "doors/http/", "examples/", "fleet/", "xtask/"),
    *(f"relay/src/{plane}" for plane in ("app", "compute", "demo", "fleet", "main", "queries")),
    *("client-core/src/format", "client-core/src/formula", "client-core/src/ingest", "client-core/src/local"),
    *("schema/src/", "wasm-client/archive/", "wasm-client/page/", "wasm-client/wasm/"),
)
RUST_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|//.*')
# The first line of a file's comment.
HEAD = re.compile(r'^(?://!|/\*\*|"""|#|//) *((?:What|Which|How|Where|Who|When|Why|Is|Are|Does|Do|May)\b.*\?)', re.M)
FILES = re.compile(r"\.(rs|tsx?|js|py|sh|md|fbs|css|html|ya?ml|toml|json|cpp|hpp|h|c)$|Makefile$|Dockerfile$")
LEFT_OUT = re.compile(
    r"^(package-lock\.json|LICENSE|CHANGELOG\.md|tools/words\.py|bench/results/|schema/src/generated/)"
)


def findings(name, text):
    for pattern, instead in AVOIDED.items():
        for found in re.finditer(f"(?i:{pattern})", text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{name}:{line}: {found[0]!r}: write {instead}"
    yield from findings_of_names(name, text)
    yield from findings_of_comments(name, text)
    for found in HEAD.finditer(text[:2000]):
        line = text.count("\n", 0, found.start()) + 1
        # Below the head a question is a comment like any other.
        if line <= 6:
            yield f"{name}:{line}: {found[1]!r}: state what the file is"


def findings_of_names(name, text):
    if name.endswith((".ts", ".tsx", ".js", ".py")):
        for found in NAMES.finditer(text):
            line = text.count("\n", 0, found.start(found.lastindex)) + 1
            yield f"{name}:{line}: {found[found.lastindex]!r}: write a noun: answer, requested, listeners, entry …"
    if name.endswith(".rs") and name.startswith(RUST_NAMED):
        for number, line in enumerate(text.splitlines(), 1):
            for found in RUST_NAMES.finditer(RUST_TEXT.sub("", line)):
                yield f"{name}:{number}: {found[0]!r}: write a noun: answer, requests, listeners, entry …"


def findings_of_comments(name, text):
    for number, line in enumerate(text.splitlines(), 1):
        if name.endswith(".rs"):
            comment = COMMENT.match(line)
            line = comment[1] if comment else ""
        for pattern, instead in COMMENTS.items():
            for found in re.finditer(pattern, line, re.I):
                yield f"{name}:{number}: {found[0]!r}: write {instead}"


def main():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [each for each in listed.stdout.splitlines() if FILES.search(each) and not LEFT_OUT.match(each)]
    found = [
        each
        for name in names
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink()
        for each in findings(name, (ROOT / name).read_text())
    ]
    print("\n".join(found + [f"{len(names)} files, {len(found)} places to write otherwise"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
