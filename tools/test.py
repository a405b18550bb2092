"""Runs all checks and tests, and prints time and counts of each section.

Steps run in parallel on two cores. The first step that fails ends the run and shows its output.
`--only NAME`, which may be repeated, runs the steps of a section, `--fast` only the steps that take a few minutes.
"""

import argparse
import os
import sys

from runner import ROOT, Run, Step

# All packages, even where only one's tests run: a crate's features depend on which packages are chosen, and
# with other features it would be built again, with all that use it.
CARGO_TEST = "cargo test --locked --workspace"
# Programs of the workspace. --examples gives them the same features as the tests.
CARGO_BUILD = "cargo build --quiet --locked --workspace --examples"
# Builds for tests lint what they compile, and check its documentation. All steps have these variables, so that none builds it otherwise.
LINTED = {
    "RUSTC_WORKSPACE_WRAPPER": str(ROOT / "tools/lint.py"),
    "CLIPPY_ARGS": "-D__CLIPPY_HACKERY__warnings",
}
WITH_RELAY = '[ -n "${IN_TEST_RUN:-}" ] || cargo build --quiet --locked -p pvwire-relay; '
WITH_CASES = '[ -n "${IN_TEST_RUN:-}" ] || cargo build --quiet --locked -p pvwire-oracle --example random_cases; '
PROGRAMS = "${CARGO_TARGET_DIR:-target}/debug"
MAKE = "make --no-print-directory"
TOOLS = ".local/venv/bin/python"

# Names of steps that other steps need.
CHORES = "build of xtask"
BUILT = "build of the tests"
INSTALLED = "packages and browser"
PACKAGE = "WebAssembly and package"
COUNTED = "build of the counted program"

# `cores` is how many of the two cores a step keeps busy. A step starts when the steps that it needs have passed
# and its cores are free. Earlier steps start first; a step that needs more than one core is not overtaken.
STEPS = [
    Step("check", "rustfmt", "cargo fmt --all --check", cores=0.5, fast=True),
    Step("setup", INSTALLED, "tools/setup.sh browser", cores=0.5),
    Step("setup", "npm packages", "tools/setup.sh", cores=0.5, only_fast=True),
    # The programs of all Rust steps are built once, so that no step waits for the build of another. xtask is first:
    # the package is built beside the relay's large crates, which leave a core idle.
    Step("rust", CHORES, f"{CARGO_BUILD} --bin xtask", cores=1, fast=True),
    Step(
        "rust",
        BUILT,
        f"{CARGO_TEST} --quiet --no-run; {CARGO_BUILD} --bins",
        cores=1,
        needs=(CHORES,),
        fast=True,
    ),
    Step("wasm", PACKAGE, f"{MAKE} wasm", cores=1, needs=(CHORES, INSTALLED, "npm packages"), fast=True),
    Step(
        "rust",
        "units of Rust",
        f"{CARGO_TEST} --lib --bins",
        cores=0.5,
        needs=(BUILT, INSTALLED, "npm packages"),
        fast=True,
    ),
    # Half of it is a fixed waiting time.
    Step("soak", "faults at random", f"{MAKE} soak SECONDS=120", cores=0.5, needs=(BUILT, INSTALLED)),
    Step(
        "e2e",
        "end-to-end tests",
        f"{WITH_RELAY}npm run --silent test -w pvwire-e2e",
        cores=0.5,
        needs=(BUILT, PACKAGE),
    ),
    # The longest steps that need no cargo run beside those that build. Without make, which would build the
    # package again and wait for cargo's lock.
    Step(
        "packaging",
        "the package in other people's apps",
        f"{WITH_RELAY}npm run --silent test:packaging -w pvwire",
        cores=0.5,
        needs=(BUILT, PACKAGE),
    ),
    Step(
        "check",
        "tests of the test run",
        f"{TOOLS} -m unittest discover -s tools -p '*_test.py'",
        cores=0.5,
        fast=True,
    ),
    Step(
        "check",
        "tests of the benchmarks",
        f"for folder in fleet_model relay; do {TOOLS} -m unittest discover -s bench/$folder -p '*_test.py'; done",
        cores=0.5,
        fast=True,
    ),
    Step("check", "words", f"{TOOLS} tools/words.py", cores=0.5, fast=True),
    Step("check", "links of the documentation", f"{TOOLS} tools/links.py", cores=0.5, fast=True),
    Step(
        "check", "figures of the documentation", f"{TOOLS} bench/relay/plots.py --check", cores=0.5, fast=True
    ),
    Step("check", "licences and sources", f"{MAKE} deny", cores=0.5, needs=(INSTALLED,), fast=True),
    Step("check", "advisories", f"{MAKE} advisories", cores=0.5, needs=(INSTALLED,)),
    Step("deploy", "manifests", f"{MAKE} manifests", cores=0.2, needs=(INSTALLED,)),
    Step("check", "generated code is current", f"{MAKE} regen-check", cores=0.5, needs=(BUILT,), fast=True),
    # Here nothing is built; a test run lints what it builds.
    Step(
        "check",
        "clippy",
        "cargo clippy --quiet --locked --workspace --all-targets -- -D warnings",
        cores=1,
        only_alone=True,
    ),
    # Likewise: lint.py reads the documentation of what is built.
    Step(
        "check",
        "rustdoc",
        "RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --workspace --no-deps"
        " --document-private-items --lib --bins --examples",
        cores=1,
        only_alone=True,
    ),
    # It builds a lot. No other step uses cargo until it ends: it would wait for cargo's lock.
    Step(
        "instructions",
        COUNTED,
        f"{TOOLS} bench/instructions/count.py --build",
        cores=0.5,
        needs=(BUILT, "units of Rust"),
    ),
    # The tests mostly wait for IOCs and relays, so more of them run at a time than there are cores.
    Step(
        "rust",
        "the relay's tests",
        f"RUST_TEST_THREADS=6 {CARGO_TEST} --test relay",
        cores=1,
        needs=(BUILT, INSTALLED, COUNTED),
    ),
    # It finds the program built, so that the tests need not wait for it.
    Step("instructions", "instruction counts", f"{MAKE} instructions", cores=1, needs=(COUNTED,)),
    Step("check", "eslint and prettier", "npm run --silent lint", cores=1, needs=(PACKAGE,), fast=True),
    Step("check", "GraphiQL is current", "npm run --silent graphiql -- --check", cores=1, needs=(PACKAGE,)),
    # The corpus, and 1 s for each reader, in the build of the tests.
    Step("rust", "fuzzed input", f"{PROGRAMS}/pvwire-fuzz --seconds 1 --seed 1", cores=1, needs=(BUILT,)),
    Step("check", "TypeScript", "npm run --silent typecheck", cores=1, needs=(PACKAGE,), fast=True),
    Step(
        "ts",
        "package tests in Node",
        f"{WITH_RELAY}{WITH_CASES}npm run --silent test:unit",
        cores=1,
        needs=(BUILT, PACKAGE),
        fast=True,
    ),
    Step(
        "rust",
        "tests of the other crates",
        f"RUST_TEST_THREADS=4 {CARGO_TEST} --exclude pvwire-relay --test '*'; {CARGO_TEST} --doc",
        cores=0.5,
        needs=(BUILT, INSTALLED, COUNTED),
    ),
    # The cases come from the example that was built with the counted program: a build for tests takes four times as
    # long.
    Step(
        "ts",
        "random cases",
        f"{WITH_CASES}cd wasm-client; PVWIRE_ORACLE_CASES=100000 npx vitest run --project node tests/random_cases",
        cores=1,
        needs=(PACKAGE, COUNTED),
    ),
    Step("ts", "package tests in the browser", "npm run --silent test:browser", cores=1, needs=(PACKAGE,)),
    # Compiled in a separate folder, because the shim would be compiled again for other builds.
    Step(
        "rust",
        "EPICS clients without replaced functions",
        "export PVWIRE_PVXS_PUBLIC_API=1;"
        " plain='cargo test --locked -p pvwire-epics --no-default-features --target-dir target/plain';"
        " $plain --lib; $plain --test epics -- ca_without_recv puts_of_every values_of_every"
        " arrays_of_every structures_arrive scalars_of_every",
        cores=1,
        needs=(BUILT,),
    ),
    Step(
        "deploy",
        "commands of the documents",
        f"{WITH_RELAY}{TOOLS} tools/commands.py {PROGRAMS}/pvwire-relay",
        cores=0.2,
        needs=(BUILT, INSTALLED),
    ),
    Step("rust", "a stranger's reader", f"{MAKE} stranger", cores=0.5, needs=(BUILT,)),
    Step("deploy", "the image's root file system", f"{MAKE} image-check", cores=0.2, needs=(BUILT,)),
    Step(
        "deploy",
        "the sandbox of the service",
        f"{WITH_RELAY}{TOOLS} deploy/check_unit.py {PROGRAMS}/pvwire-relay",
        cores=0.2,
        needs=(BUILT, INSTALLED),
    ),
    # Most of it is waiting until the pods have closed their connections.
    Step("deploy", "pods that end", f"{MAKE} pods", cores=0.2, needs=(BUILT,)),
]


def chosen(arguments):
    """The steps that the command line asks for."""
    if arguments.fast:
        return [step for step in STEPS if step.fast or step.only_fast]
    if not arguments.only:
        return [step for step in STEPS if not step.only_fast and not step.only_alone]
    steps = [step for step in STEPS if step.section in arguments.only and not step.only_fast]
    # Builds for tests lint Rust already.
    builds = BUILT in {step.name for step in steps}
    return [step for step in steps if not (builds and step.only_alone)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--only",
        help="run the steps of this section; may be given several times",
        action="append",
        choices=sorted({step.section for step in STEPS}),
    )
    choice.add_argument("--fast", help="run what answers within five minutes", action="store_true")
    parser.add_argument("--keep-going", help="don't end at the first failure", action="store_true")
    arguments = parser.parse_args()
    steps = chosen(arguments)
    environment = dict(os.environ, CARGO_TERM_COLOR="never", FORCE_COLOR="0", CI="true")
    if BUILT in {step.name for step in steps}:
        # The Makefile and the steps don't build these programs again.
        environment |= {"IN_TEST_RUN": "1", **LINTED}
    return Run(steps, environment, arguments.keep_going).to_the_end()


if __name__ == "__main__":
    sys.exit(main())
