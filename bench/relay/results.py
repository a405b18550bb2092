"""Reads and writes bench/results; nothing else does.

A page of results is a pair of files: `relay.json` has the figures of each scenario, `relay.md` a section for each, and
`browser.json` and `browser.md` have those that were measured in a browser. `compare.json` has the parts of
docs/explanations/compare.md, each with the commit that was measured. A result contains a fingerprint of the code
that it measures, whose paths `CODE` names. It is stale once that code differs.

    results.py keep PAGE    keeps the object {"result": …, "section": …} of the standard input on that page
    results.py stale        fails if a result is stale
"""

import hashlib
import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "bench/results"
PAGES = {"relay": "# Results of the relay's scenarios\n", "browser": "# Results of the browser's scenarios\n"}

# From the updates of IOCs to the sockets of clients.
WAY = ("relay/src/fanout", "relay/src/ingest", "relay/src/session", "relay/src/state", "relay/epics/src", "schema/src")
PAGE = ("client-core/src", "schema/src", "wasm-client/ts", "wasm-client/wasm", "wasm-client/executor")
# The first pattern that a scenario's name matches gives the paths of the code that it measures.
CODE = {
    "package": (*PAGE, "wasm-client/graphql"),
    "browser-camera": (*PAGE, *WAY),
    "browser-latency": (*PAGE, *WAY),
    "browser-chart": (*PAGE, *WAY, "relay/src/queries/history"),
    "browser-app": (*PAGE, "app/src"),
    "browser-*": PAGE,
    "door-pvws-*": (*WAY, "doors/pvws/src", "relay/src/doors"),
    "door-coniql-*": (*WAY, "doors/coniql/src", "relay/src/doors", "client-core/src"),
    "attack-reconnects-*": (*WAY, "doors/pvws/src", "relay/src/doors", "relay/src/limits"),
    "attack-*": (*WAY, "relay/src/http", "relay/src/limits"),
    "fleet-*": (*WAY, "fleet/src", "relay/src/fleet"),
    "history-kills": ("relay/src/state/history",),
    "history-*": (*WAY, "relay/src/queries/history"),
    "replay-*": (*WAY, "relay/src/record"),
    "archiver-*": ("relay/src/http", "relay/src/queries/archiver"),
    "*": WAY,
}
# These files change without the code that is measured.
UNMEASURED = re.compile(r"(^|/)tests?(/|\.rs$)|_tests?\.rs$|\.test\.tsx?$|\.md$")


@cache
def results(folder=RESULTS):
    """The results of all scenarios, by name."""
    files = [folder / f"{page}.json" for page in PAGES]
    return {name: result for file in files if file.exists() for name, result in json.loads(file.read_text()).items()}


def result(name, folder=RESULTS):
    """A scenario's result; `None` if it was not measured."""
    return results(folder).get(name)


def comparison(folder=RESULTS):
    """The parts of the comparison with other systems that were measured, by name."""
    file = folder / "compare.json"
    return json.loads(file.read_text()) if file.exists() else {}


def keep_comparison(parts, folder=RESULTS):
    """Keeps all parts of the comparison."""
    (folder / "compare.json").write_text(json.dumps(parts, indent=1, ensure_ascii=False) + "\n")


def medians(name, label=None, folder=RESULTS):
    """Medians of the first point of a scenario, or of the one with this label; `None` if it was not measured."""
    for point in (result(name, folder) or {"points": []})["points"]:
        if label in (None, point["label"]):
            return {key: of["median"] for key, of in point["figures"].items()}
    return None


def paths(name):
    return next(paths for pattern, paths in CODE.items() if fnmatch(name, pattern))


@cache
def fingerprint(paths):
    """Changes with every file of the code below these paths."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *paths], cwd=ROOT, capture_output=True, check=True).stdout
    names = [name for name in listed.decode().split("\0") if name and not UNMEASURED.search(name)]
    files = ((name, ROOT / name) for name in sorted(names))
    return digest((name, blob(file.read_bytes())) for name, file in files if file.is_file())


def digest(files):
    """Of names with the numbers that git gives their contents."""
    return hashlib.sha256("\n".join(f"{number} {name}" for name, number in files).encode()).hexdigest()[:16]


def blob(content):
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content)).hexdigest()


def is_stale(result):
    """Whether the code that was measured has changed since."""
    return result.get("code") != fingerprint(paths(result["scenario"]))


def origin(result):
    """Commit, date and number of rounds of a result, and whether it is stale."""
    stale = ", **stale: its code has changed since**" if is_stale(result) else ""
    return f"commit {result['commit']}, {result['date']}, n = {result['points'][0]['n']}{stale}"


def keep(page, result, section, folder=RESULTS):
    """Puts a result and its section in the place of earlier ones of the same scenario."""
    folder.mkdir(exist_ok=True)
    name, file, text = result["scenario"], folder / f"{page}.json", folder / f"{page}.md"
    found = json.loads(file.read_text()) if file.exists() else {}
    found[name] = result | {"code": fingerprint(paths(name))}
    file.write_text(json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=False) + "\n")
    text.write_text(with_section(PAGES[page], text.read_text() if text.exists() else "", name, section))
    results.cache_clear()


def with_section(head, page, name, section):
    """A page of results with this section in the place of an earlier one of its scenario."""
    sections = re.split(r"^(?=## )", page, flags=re.M)[1:]
    others = {re.match(r"## (\S+)", each)[1]: each.strip("\n") for each in sections}
    found = others | {name: section.strip("\n")}
    return "\n".join([head, *(found[each] + "\n" for each in sorted(found))])


def stale():
    """Names of all results that are stale."""
    return sorted(name for name, result in results().items() if is_stale(result))


def main():
    match sys.argv[1:]:
        case ["keep", page] if page in PAGES:
            kept = json.load(sys.stdin)
            keep(page, kept["result"], kept["section"])
            return 0
        case ["stale"]:
            lines = [f"{name}: the measured code has changed ({', '.join(paths(name))})" for name in stale()]
            print("\n".join([*lines, f"{len(lines)} of {len(results())} results are stale"]))
            if lines:
                print("measure again: make bench-full, make bench-fleet, make bench-history, make bench-browser, then make bench-pictures")
            return 1 if lines else 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
