"""Prints what a release says of itself: the changelog's page of the version, and how to check the files.

`release_notes.py REPOSITORY` makes the page's links absolute, because a release has no folder. A pre-release has the page
"Unreleased"; any other version needs a page with its number.
"""

import re
import sys
from pathlib import Path

from version import workspace_version

ROOT = Path(__file__).resolve().parent.parent

CHECK = """
## Check these files

`SHA256SUMS` has the checksums of all files. It is signed by the workflow that built them, and each file has a statement of where it was built:

```sh
cosign verify-blob --bundle SHA256SUMS.sigstore.json SHA256SUMS \\
  --certificate-identity 'https://github.com/{repository}/.github/workflows/release.yml@refs/tags/{tag}' \\
  --certificate-oidc-issuer https://token.actions.githubusercontent.com
sha256sum --check --ignore-missing SHA256SUMS
gh attestation verify FILE --repo {repository}
```
"""


def page(changelog, version):
    """The text below the heading of a version; fails if the changelog has no such page."""
    headings = re.findall(r"^## \[?([^\]\s]+)", changelog, re.M)
    bodies = re.split(r"^## .*$", changelog, flags=re.M)[1:]
    pages = dict(zip(headings, bodies, strict=True))
    found = pages.get(version) or ("-rc." in version and pages.get("Unreleased"))
    if not found or not found.strip():
        sys.exit(f'CHANGELOG.md has no page for {version}: rename "## Unreleased" to "## {version}"')
    return found.strip() + "\n"


def absolute(text, repository, tag):
    """The text with links to the files of the tag."""
    address = f"https://github.com/{repository}/blob/{tag}/"
    return re.sub(r"\]\((?![a-z]+:|#)([^)\s]+)\)", rf"]({address}\1)", text)


def main():
    repository, version = sys.argv[1], workspace_version()
    tag = f"v{version}"
    text = absolute(page((ROOT / "CHANGELOG.md").read_text(), version), repository, tag)
    print(text + CHECK.format(repository=repository, tag=tag), end="")


if __name__ == "__main__":
    main()
