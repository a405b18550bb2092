"""Makes the documents a site in .local/site/VERSION: pages by mdBook, the JavaScript API by TypeDoc.

Pages keep their places in the tree, so their links work on the site as they do in the repository. A linked file that
isn't a page is copied. At the end every link of the site is checked, with its fragment.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from version import workspace_version

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".local/site-tools"
BOOK = ROOT / ".local/site-book"
SITES = ROOT / ".local/site"

# Chapters and their pages, in this order; a folder stands for its pages.
CHAPTERS = {
    "Start": ["docs/how-to/install.md", "docs/tutorials", "examples/README.md"],
    "How to": ["docs/how-to"],
    "Reference": ["docs/reference", "schema/PROTOCOL.md", "fleet/PROTOCOL.md", "CHANGELOG.md", "SECURITY.md"],
    "Explanations": ["ARCHITECTURE.md", "docs/explanations", "docs/reports"],
    "Development": ["CONTRIBUTING.md", "STYLE.md", "testbed/README.md", "bench/README.md", "bench/results"],
}

LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^)\s]+)\)")
FENCED = re.compile(r"(^ *```.*?^ *```|`[^`\n]*`)", re.S | re.M)


def pages_of(places, known):
    """The pages of a chapter that no chapter before has."""
    for place in map(ROOT.joinpath, places):
        for file in sorted(place.glob("*.md")) if place.is_dir() else [place]:
            if file not in known:
                known.add(file)
                yield file


def title_of(page):
    found = re.search(r"^# (.+)$", page.read_text(), re.M)
    return found[1].replace("`", "") if found else page.stem


def placed(page):
    """The page's path on the site: a folder's README is its index."""
    path = page.relative_to(ROOT)
    return path.with_name("index.md") if path.name == "README.md" else path


def beside(target, page):
    return Path(os.path.relpath(ROOT / placed(target), page.parent)).as_posix()


class Pages:
    """The source of the book."""

    def __init__(self):
        known = {ROOT / "README.md"}
        self.chapters = {title: list(pages_of(places, known)) for title, places in CHAPTERS.items()}
        self.all = [ROOT / "README.md", *(page for pages in self.chapters.values() for page in pages)]
        self.written = set(self.all)

    def write(self):
        shutil.rmtree(BOOK, ignore_errors=True)
        for page in self.all:
            place = BOOK / "src" / placed(page)
            place.parent.mkdir(parents=True, exist_ok=True)
            parts = FENCED.split(page.read_text())
            texts = [part if number % 2 else self.linked(part, page) for number, part in enumerate(parts)]
            place.write_text("".join(texts))
        (BOOK / "src/SUMMARY.md").write_text(self.summary())
        shutil.copy(ROOT / "tools/site/book.toml", BOOK)

    def linked(self, text, page):
        """The text with links to what the site has; other links lose their address."""

        def change(match):
            label, target = match.groups()
            address = urlsplit(target)
            if address.scheme or not address.path:
                return match[0]
            file = (page.parent / unquote(address.path)).resolve()
            if file.is_dir():
                # The README of the folder, or that of the folder above it, which describes its programs.
                file = next((up / "README.md" for up in (file, file.parent) if (up / "README.md").is_file()), file)
            if file in self.written:
                fragment = f"#{address.fragment}" if address.fragment else ""
                return f"{label}({beside(file, page)}{fragment})"
            if file.suffix == ".md":
                return label.strip("![]")
            copied = BOOK / "src" / file.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copied)
            return match[0]

        return LINK.sub(change, text)

    def summary(self):
        lines = ["# Summary", "", "[pvwire](index.md)", ""]
        for title, pages in self.chapters.items():
            lines += [f"# {title}", ""]
            for page in pages:
                lines.append(f"- [{title_of(page)}]({placed(page)})")
            lines.append("")
        lines += ["---", "", "[The JavaScript API](api.md)", ""]
        (BOOK / "src/api.md").write_text(
            "# The JavaScript API\n\n[Every exported name of the npm package](api/index.html), made from the comments "
            "in its code: `pvwire` and its entries for React, widgets, elements, GraphQL, workers and tests.\n"
        )
        return "\n".join(lines)


class Links(HTMLParser):
    """The addresses and the fragments of a page."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.names = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            if name == "id" or (name == "name" and tag == "a"):
                self.names.add(value)


def check_links(site):
    """The links of the site that lead nowhere, and the number of all that were checked."""
    pages = {file: Links(file.read_text()) for file in site.rglob("*.html")}
    broken, checked = set(), 0
    for file, page in pages.items():
        for target in page.targets:
            address = urlsplit(target)
            if address.scheme or address.netloc:
                continue
            checked += 1
            path = unquote(address.path)
            found = (site / path.lstrip("/") if path.startswith("/") else file.parent / path).resolve() if path else file
            if found.is_dir():
                found /= "index.html"
            fragment = unquote(address.fragment)
            is_known = found.exists() and (found not in pages or not fragment or fragment in pages[found].names)
            if not is_known:
                broken.add(f"{file.relative_to(site)}: {target} isn't there")
    return sorted(broken), checked


def write_versions():
    """The first page of all versions; it leads to the newest."""
    versions = sorted((each.name for each in SITES.iterdir() if each.is_dir()), key=lambda name: [
        int(number) for number in re.findall(r"\d+", name)
    ], reverse=True)
    (SITES / "versions.json").write_text(json.dumps(versions) + "\n")
    items = "".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in versions)
    (SITES / "index.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>pvwire: versions</title>'
        f"<h1>Documents of pvwire</h1><ul>{items}</ul></html>\n"
    )


def main():
    site = SITES / workspace_version()
    Pages().write()
    shutil.rmtree(site, ignore_errors=True)
    subprocess.run([TOOLS / "bin/mdbook", "build", BOOK, "--dest-dir", site], check=True)
    subprocess.run(
        [TOOLS / "node_modules/.bin/typedoc", "--options", "../tools/site/typedoc.json", "--tsconfig", "tsconfig.json",
         "--logLevel", "Warn", "--out", site / "api"],
        cwd=ROOT / "wasm-client", check=True,
    )
    write_versions()
    broken, checked = check_links(site)
    for line in broken:
        print(line)
    print(f".local/site/index.html: {len(list(site.rglob('*.html')))} pages")
    print(f"{checked - len(broken)} passed, {len(broken)} failed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
