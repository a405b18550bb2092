"""Parts that a program or package is built of, from cargo, npm and the EPICS packages, and CycloneDX lists of them."""

import json
import subprocess
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

NATIVE = "x86_64-unknown-linux-gnu"
BROWSER = "wasm32-unknown-unknown"

# What the relay loads at run time. libevent is inside pvxslibs.
EPICS = ("epicscorelibs", "pvxslibs")


def crates(package, target, *flags):
    """The crates that a package of the workspace is built of, itself first, as `cargo metadata` describes them."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}", *flags]
    data = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    described = {each["id"]: each for each in data["packages"]}
    depends = {
        node["id"]: [
            each["pkg"] for each in node["deps"] if any(kind["kind"] is None for kind in each["dep_kinds"])
        ]
        for node in data["resolve"]["nodes"]
    }
    first = next(each["id"] for each in data["packages"] if each["name"] == package)
    found, waiting = {}, [first]
    while waiting:
        package_id = waiting.pop()
        if package_id not in found:
            found[package_id] = described[package_id]
            waiting += depends[package_id]
    own, *others = found.values()
    return [own, *sorted(others, key=lambda each: (each["name"], each["version"]))]


def page_packages():
    """The npm packages of the pages that a released relay contains."""
    return npm_packages("web-demo", ("graphiql", "graphql")) | npm_packages("app")


def npm_packages(folder, more=()):
    """The npm packages that a package of the workspace brings, by their folders in package-lock.json."""
    lock = json.loads((ROOT / "package-lock.json").read_text())["packages"]

    def place(name, within):
        """Where node finds a package: in the nearest node_modules."""
        while True:
            path = f"{within}/node_modules/{name}".lstrip("/")
            if path in lock:
                return path
            if not within:
                return None
            within = within.rpartition("/node_modules/")[0] if "/node_modules/" in within else ""

    found, waiting = {}, [(name, folder) for name in (*lock[folder].get("dependencies", {}), *more)]
    while waiting:
        path = place(*waiting.pop())
        if path is None or path in found:
            continue
        entry = lock[path]
        if entry.get("link"):
            path, entry = entry["resolved"], lock[entry["resolved"]]
        found[path] = entry
        wanted = {**entry.get("dependencies", {}), **entry.get("peerDependencies", {})}
        waiting += [(name, path) for name in wanted]
    return dict(sorted(found.items()))


def component(kind, name, version, licence=None):
    scheme = {"crate": "cargo", "npm": "npm", "python": "pypi"}[kind]
    purl = f"pkg:{scheme}/{name.replace('@', '%40')}@{version}"
    part = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if licence:
        part["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    return part


def crate_components(described):
    return [component("crate", each["name"], each["version"], each["license"]) for each in described]


def npm_components(packages):
    return [
        component("npm", path.rpartition("node_modules/")[2], entry["version"], entry.get("license"))
        for path, entry in packages.items()
        if "node_modules/" in path
    ]


def epics_components():
    return [component("python", name, metadata.version(name)) for name in EPICS]


def document(name, version, parts):
    """A CycloneDX document, the same for the same parts."""
    parts = list({part["bom-ref"]: part for part in parts}.values())
    assert len(parts) > 5, f"{name}: the list names next to nothing"
    main = {"type": "application", "bom-ref": name, "name": name, "version": version}
    main["licenses"] = [{"license": {"id": "Apache-2.0"}}]
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": main},
        "components": parts,
    }
    return json.dumps(bom, indent=1) + "\n"
