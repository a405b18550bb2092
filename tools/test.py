"""Runs every check and test, and says for each section how long it took and what it counted.

Steps run side by side as far as two cores allow. The first step that fails ends the run and shows its
output. `--only NAME` runs the steps of one section, `--fast` those that answer within minutes.
"""

import argparse
import os
import sys

from runner import Run, Step

CARGO_TEST = "cargo test --locked"
MAKE = "make --no-print-directory"
TOOLS = ".local/venv/bin/python"

# Names of steps that others need.
BUILT = "build of the tests"
INSTALLED = "npm packages and browser"
PACKAGE = "WebAssembly and package"

# Cores: how many of the two a step keeps busy. A step starts when the step that it needs has passed and its
# cores are free. Earlier steps go first; those that need all cores are not overtaken.
STEPS = [
    Step("check", "rustfmt", "cargo fmt --all --check", cores=0.5, fast=True),
    Step("setup", "npm packages and browser", "tools/setup.sh browser", cores=0.5),
    Step("setup", "npm packages", "tools/setup.sh", cores=0.5, only_fast=True),
    # What all Rust steps run is built once, so that none of them waits for another's build.
    Step("rust", "build of the tests", f"{CARGO_TEST} --quiet --workspace --no-run", cores=1.5, fast=True),
    Step("wasm", "WebAssembly and package", f"{MAKE} wasm", cores=1.5, needs=INSTALLED, fast=True),
    Step("check", "generated code is current", f"{MAKE} regen-check", cores=0.5, needs=BUILT, fast=True),
    Step(
        "check",
        "tests of the test run",
        f"{TOOLS} -m unittest discover -s tools -p '*_test.py'",
        cores=0.5,
        fast=True,
    ),
    Step("check", "words", f"{TOOLS} tools/words.py", cores=0.5, fast=True),
    Step("check", "links of the documentation", f"{TOOLS} tools/links.py", cores=0.5, fast=True),
    Step(
        "check", "figures of the documentation", f"{TOOLS} bench/relay/plots.py --check", cores=0.5, fast=True
    ),
    Step("check", "licences and sources", f"{MAKE} deny", cores=0.5, needs=INSTALLED, fast=True),
    Step("check", "advisories", f"{MAKE} advisories", cores=0.5, needs=INSTALLED),
    # They mostly wait for IOCs and relays: more of them at a time than there are cores.
    Step(
        "rust",
        "the relay's tests",
        f"RUST_TEST_THREADS=6 {CARGO_TEST} -p pvwire-relay",
        cores=1.2,
        needs=BUILT,
    ),
    Step(
        "check",
        "clippy",
        "cargo clippy --quiet --locked --workspace --all-targets -- -D warnings",
        cores=0.8,
        needs=BUILT,
        fast=True,
    ),
    Step(
        "e2e",
        "end-to-end tests",
        "cargo build --quiet --locked -p pvwire-relay; npm run --silent test -w pvwire-e2e",
        cores=0.8,
        needs=PACKAGE,
    ),
    Step("instructions", "instruction counts", f"{MAKE} instructions", cores=1, needs=BUILT),
    Step("soak", "faults at random", f"{MAKE} soak SECONDS=120", cores=0.2, needs="the relay's tests"),
    Step(
        "rust", "Rust tests", f"{CARGO_TEST} --workspace --exclude pvwire-relay", cores=1, needs=BUILT
    ),
    Step(
        "rust",
        "units of Rust",
        f"{CARGO_TEST} --workspace --lib",
        cores=1,
        needs=BUILT,
        only_fast=True,
    ),
    Step(
        "check",
        "rustdoc",
        "RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --workspace --no-deps"
        " --document-private-items",
        cores=1,
        needs="clippy",
    ),
    Step("check", "eslint and prettier", "npm run --silent lint", cores=1, needs=PACKAGE, fast=True),
    Step("check", "TypeScript", "npm run --silent typecheck", cores=1, needs=PACKAGE, fast=True),
    Step("rust", "a stranger's reader", f"{MAKE} stranger", cores=0.5, needs=BUILT),
    # The corpus, and 5 s for each reader, in the build of the tests.
    Step(
        "rust",
        "fuzzed input",
        "cargo run --quiet --locked -p pvwire-fuzz -- --seconds 5",
        cores=1,
        needs=BUILT,
    ),
    Step(
        "ts",
        "package tests in Node",
        "cargo build --quiet --locked -p pvwire-relay; npm run --silent test:unit",
        cores=1,
        needs=PACKAGE,
        fast=True,
    ),
    Step("ts", "package tests in the browser", "npm run --silent test:browser", cores=1, needs=PACKAGE),
    # Compiled in a separate folder, because the shim would be compiled again for other builds.
    Step(
        "rust",
        "EPICS clients without replaced functions",
        "export PVWIRE_PVXS_PUBLIC_API=1;"
        " plain='cargo test --locked -p pvwire-epics --no-default-features --target-dir target/plain';"
        " $plain --lib; $plain --test epics -- ca_without_recv puts_of_every values_of_every"
        " arrays_of_every structures_arrive scalars_of_every",
        cores=1,
        needs=BUILT,
    ),
    Step("packaging", "the package in other people's apps", f"{MAKE} packaging-test", cores=1, needs=PACKAGE),
    Step("deploy", "the image's root file system", f"{MAKE} image-check", cores=0.2, needs=BUILT),
    Step("deploy", "manifests", f"{MAKE} manifests", cores=0.2, needs=INSTALLED),
    # Most of it the wait for farewells.
    Step("deploy", "pods that end", f"{MAKE} pods", cores=0.2, needs=BUILT),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--only", help="run the steps of this section", choices=sorted({step.section for step in STEPS})
    )
    choice.add_argument("--fast", help="run what answers within five minutes", action="store_true")
    parser.add_argument("--keep-going", help="don't end at the first failure", action="store_true")
    arguments = parser.parse_args()
    if arguments.fast:
        steps = [step for step in STEPS if step.fast or step.only_fast]
    else:
        steps = [
            step for step in STEPS if not step.only_fast and arguments.only in (None, step.section)
        ]
    environment = dict(os.environ, CARGO_TERM_COLOR="never", FORCE_COLOR="0", CI="true")
    return Run(steps, environment, arguments.keep_going).to_the_end()


if __name__ == "__main__":
    sys.exit(main())
