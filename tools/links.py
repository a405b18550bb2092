"""Checks that every relative link in our Markdown leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)


def main():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    checked, broken = 0, 0
    for name in listed.stdout.split():
        text = CODE.sub("", (ROOT / name).read_text())
        for target in LINK.findall(text):
            path = target.partition("#")[0]
            if not path or "://" in target or target.startswith("mailto:"):
                continue
            checked += 1
            if not ((ROOT / name).parent / path).exists():
                broken += 1
                print(f"{name}: {target} isn't there")
    print(f"{checked - broken} links lead somewhere, {broken} nowhere")
    return 1 if broken or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
