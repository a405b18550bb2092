"""Parts that a program or package is built of, from cargo, npm and the EPICS packages, and CycloneDX lists of them."""

import importlib.util
import json
import re
import subprocess
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

NATIVE = "x86_64-unknown-linux-gnu"
BROWSER = "wasm32-unknown-unknown"

# What the relay loads at run time, with the licences. libevent is inside pvxslibs.
EPICS = {"epicscorelibs": "EPICS", "pvxslibs": "BSD-3-Clause"}
LIBEVENT = "lib/libevent_core.so"

# WebAssembly modules of the npm package.
MODULES = ("pvwire-wasm", "pvwire-page", "pvwire-graphql", "pvwire-archive")

# What dist/pvwire.js of the npm package contains besides it (build_elements.js).
ELEMENTS = ("preact", "uplot")


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
    scheme = {"crate": "cargo", "npm": "npm", "python": "pypi", "other": "generic"}[kind]
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
    """EPICS base, pvxs, and libevent, which no list of packages names: its version is in its file."""
    package = Path(importlib.util.find_spec("pvxslibs").origin).parent
    version = re.search(rb"\0(\d+\.\d+\.\d+-[a-z-]+)\0", (package / LIBEVENT).read_bytes())[1].decode()
    epics = [component("python", name, metadata.version(name), licence) for name, licence in EPICS.items()]
    return [*epics, component("other", "libevent", version, "BSD-3-Clause")]


def standard_library():
    """Rust's, which every program of it contains."""
    version = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    return component("other", "rust-std", version, "MIT OR Apache-2.0")


def relay_parts():
    """What a released relay is built of, the app and the pages included."""
    described = crates("pvwire-relay", NATIVE, "--features=pvwire-relay/built-pages")
    parts = [*crate_components(described[1:]), standard_library(), *epics_components()]
    return parts + npm_components(page_packages())


def package_parts():
    """What the npm package is built of."""
    parts = [standard_library()]
    for module in MODULES:
        parts += crate_components(crates(module, BROWSER)[1:])
    return parts + npm_components(npm_packages("wasm-client", ELEMENTS))


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
