# What a user or developer runs. Every target does its own set-up.

HUGETEXT := target/release/hugetext

# The test runner, if this machine has no other.
export PATH := $(PATH):$(CURDIR)/target/tools/bin

# Debug information is taken out of the command after the build, into a file beside it.
export CARGO_PROFILE_RELEASE_STRIP := none

.PHONY: build help demo test lint bench bench-fix linkers results-promote promote-rounds targets test-all test-distribution fuzz results-tlb results-run lab lab-fetch lab-rounds lab-slice lab-docs test-browser results

build: ## the command, at target/release/hugetext, fixed, and its debug information beside it
	scripts/setup.sh build
	cargo build --locked --release -p hugetext
	scripts/split-debug.sh $(HUGETEXT)
	$(HUGETEXT) fix -q -o $(HUGETEXT).fixed $(HUGETEXT)
	mv $(HUGETEXT).fixed $(HUGETEXT)
	scripts/bounded.sh $(HUGETEXT) 12000000

# The static command of an architecture: x86_64 or aarch64.
ARCH ?= $(shell uname -m)
MUSL := $(ARCH)-unknown-linux-musl
STATIC := target/$(MUSL)/release/hugetext
# Rust's own linker makes static programs of every architecture. For these targets alone: the lab's
# programs keep the layout that their linker gives them.
static test-static container: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER := rust-lld
static test-static container: export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER := rust-lld

static: ## the command without libraries, for ARCH (x86_64, aarch64), below target/ARCH-unknown-linux-musl
	scripts/setup.sh static
	cargo build --release -p hugetext --target $(MUSL)
	scripts/split-debug.sh $(STATIC)
	$(FIXER) fix -q -o $(STATIC).fixed $(STATIC)
	mv $(STATIC).fixed $(STATIC)

# That of another architecture does not run here, so the native command fixes it.
ifeq ($(ARCH),$(shell uname -m))
FIXER = $(STATIC)
else
FIXER = $(HUGETEXT)
static: build
endif

# The other architecture: its command runs under emulation there.
OTHER := $(filter-out $(shell uname -m),x86_64 aarch64)

test-static: build ## the command's tests with the static one; that of the other architecture, emulated, gives the same
	scripts/setup.sh test static
	cargo test -p hugetext --target $(shell uname -m)-unknown-linux-musl
	$(MAKE) static ARCH=$(OTHER)
	scripts/test-static.sh $(HUGETEXT) qemu-$(OTHER) target/$(OTHER)-unknown-linux-musl/release/hugetext

test-install: ## `cargo install` alone gives a command that works, beside no other build
	env -u CARGO_PROFILE_RELEASE_STRIP cargo install --quiet --locked --path crates/hugetext \
		--root target/installed --target-dir target/install
	target/installed/bin/hugetext check target/installed/bin/hugetext

# A kernel of the lab.
GUEST ?= 6.12-arm64

test-guest: ## tests (TESTS=NAME…) of the command and of promotion in a guest (GUEST=7.3-amd64); takes root, and an hour
	scripts/setup.sh test fresh guest
	scripts/test-guest.sh $(GUEST) $(TESTS)

test-guest-held: ## ROUNDS (250) of two stops of each blocking call, in guests (GUESTS=7.3-amd64): docs/promote-held.md
	scripts/setup.sh test fresh guest lab
	scripts/promote-held.sh docs/promote-held.md $(GUESTS)

.PHONY: static test-static test-install test-guest test-guest-held

help: ## what each target does
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## what huge text is worth on this machine; changes no file
	scripts/demo.sh $(HUGETEXT)

# Every file with a shell's name in its first line, or in a directive of shellcheck if it is sourced or an
# argument of a shell; what they source is followed.
SHELL_SCRIPTS = $(shell grep -rlE '^\#(!/.*\b| shellcheck shell=)(ba)?sh( |$$)' .ci crates/bench/loads \
	crates/promote/tests/chaos/loads fleet/*.sh fleet/chart fleet/nri kernel packaging scripts)

lint: ## formatting, clippy and shellcheck, without tolerance
	scripts/setup.sh lint
	shellcheck -x $(SHELL_SCRIPTS)
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

# Tests wait more than they compute, so there are two at once for each processor. TESTS, a filterset of cargo-nextest,
# chooses others: make test-product TESTS='test(=name)'.
NEXTEST = cargo nextest run --locked --workspace --test-threads $$(($$(nproc) * 2)) \
	-E '$(or $(TESTS),$(1))'
LABORATORY := package(/^hugetext-lab/) + package(hugetext-rmap) + package(/^hugetext-tlb/)

test: ## everything that must hold before a change lands
	scripts/setup.sh test
	$(MAKE) lint
	$(call NEXTEST,all())
	$(MAKE) check-big-endian
	$(MAKE) lab-slice

test-product: ## the tests of what users get (TESTS: these alone)
	scripts/setup.sh test
	$(call NEXTEST,not ($(LABORATORY)))

test-lab: ## the tests of the guests, the TLB models and the model of locks
	scripts/setup.sh test
	$(call NEXTEST,$(LABORATORY))

.PHONY: test-product test-lab test-chaos

# The command must build for every Linux that Rust has, also where promotion is not known. A big-endian one stands for
# all; one of 32 bits and RISC-V, which the lab boots, are among all.
ALL_ARCHITECTURES := s390x-unknown-linux-gnu riscv64gc-unknown-linux-gnu armv7-unknown-linux-gnueabihf \
	loongarch64-unknown-linux-gnu powerpc64le-unknown-linux-gnu

# Without the plugin, nothing is linked, so no C compiler of these architectures is needed.
check-big-endian check-all-architectures: export HUGETEXT_WITHOUT_PLUGIN := 1
check-big-endian: ## the command builds for an architecture of which it knows little
	scripts/setup.sh big-endian
	cargo check --locked -p hugetext -p hugetext-tlb-plugin --target s390x-unknown-linux-gnu

check-all-architectures: ## as check-big-endian, for more of them
	scripts/setup.sh all-architectures
	cargo check --locked -p hugetext -p hugetext-tlb-plugin $(ALL_ARCHITECTURES:%=--target %)

test-foreign: export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER := s390x-linux-gnu-gcc
test-foreign: export CARGO_TARGET_ARMV7_UNKNOWN_LINUX_GNUEABIHF_LINKER := arm-linux-gnueabihf-gcc
test-foreign: build ## programs of 32 bits and of big-endian order through fix; the command of s390x and ARM, emulated
	scripts/setup.sh foreign
	cargo test -p hugetext --test fix cross -- --nocapture
	HUGETEXT_WITHOUT_PLUGIN=1 cargo build --release -p hugetext \
		--target s390x-unknown-linux-gnu --target armv7-unknown-linux-gnueabihf
	scripts/test-foreign.sh $(HUGETEXT) qemu-s390x s390x-linux-gnu target/s390x-unknown-linux-gnu/release/hugetext
	scripts/test-foreign.sh $(HUGETEXT) qemu-arm arm-linux-gnueabihf target/armv7-unknown-linux-gnueabihf/release/hugetext

.PHONY: check-big-endian check-all-architectures test-foreign

test-hostile: ## what a plain user, an accident or a kill can do to others through hugetext, with counts
	cargo test -p hugetext --test hostile -- --nocapture
	cargo test -p hugetext --test auto -- names bad_files
	cargo test -p hugetext-store -p hugetext-metrics
	cargo test -p hugetext-host --lib -- place lease holders budget listed cgroup

.PHONY: test-hostile

MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

test-msrv: ## the oldest Rust that Cargo.toml promises builds all and passes the unit tests
	scripts/setup.sh msrv
	cargo +$(MSRV) test --workspace --all-targets --no-run --target-dir target/msrv
	cargo +$(MSRV) test --workspace --lib --bins --target-dir target/msrv

.PHONY: test-msrv

# The second root of a suite finds the crates that the first compiled, and nothing else.
in-fresh = FRESH_TARGET=$(CURDIR)/target/fresh/$(1) scripts/fresh.sh $(1) $(2) $(3) sh -c 'make demo && make test'

test-fresh: ## demo and test in fresh roots of three Debian suites, as root and as a user; takes root
	scripts/setup.sh fresh
	rm -rf target/fresh
	$(call in-fresh,bookworm,mount,root)
	$(call in-fresh,bookworm,chroot,user)
	$(call in-fresh,trixie,mount,user)
	$(call in-fresh,trixie,chroot,root)
	$(call in-fresh,sid,mount,root)
	$(call in-fresh,sid,chroot,user)
	rm -rf target/fresh

.PHONY: test-fresh

LAB := cargo run --quiet --locked -p hugetext-lab --

lab-fetch: ## kernels and guest programs for the lab, into .cache/lab
	scripts/setup.sh lab lab-riscv64
	$(LAB) fetch

# A release has 6.12-arm64, too.
KERNELS ?= 7.3-amd64

lab-slice: ## whether the rules hold on KERNELS and two filesystems
	scripts/setup.sh lab
	$(LAB) matrix --slice $(KERNELS)
	$(LAB) docs --check

lab: lab-fetch ## every kernel, filesystem and THP mode, into the record
	$(LAB) matrix --out docs/matrix.jsonl

lab-rounds: lab-fetch ## programs promoted and put back a thousand times on eight kernels; takes an hour or two
	$(LAB) matrix --rounds 1000 --out docs/matrix.jsonl

schemas: build ## docs/schema, from the types of the command's documents
	rm -f docs/schema/*.json
	$(HUGETEXT) schema --all docs/schema

.PHONY: schemas

lab-docs: ## docs/support.md and the rules of leaf, from the record
	$(LAB) docs

figures: build ## docs/figures/rustc.svg, the figure of the README, from its records
	$(HUGETEXT) report -o docs/figures/rustc.svg --record docs/figures/before.json --record docs/figures/after.json

figures-record: build ## these records anew, and the session that the README shows
	scripts/figures.sh $(HUGETEXT) docs/figures
	$(MAKE) figures

.PHONY: figures figures-record

test-browser: build ## a report in headless Chromium, with screenshots
	scripts/setup.sh browser
	scripts/test-browser.sh $(HUGETEXT)

results: build ## every benchmark on this machine, in about ten minutes: docs/results.md
	scripts/setup.sh results
	scripts/results.sh $(HUGETEXT) > target/results.md
	mv target/results.md docs/results.md

# The Python packages of fleet/, in a place of their own.
FLEET := target/fleet
$(FLEET)/packages: fleet/requirements.txt
	scripts/setup.sh fleet
	python3 -m venv $(FLEET)
	$(FLEET)/bin/pip install --quiet -r fleet/requirements.txt
	touch $@

test-fleet: $(FLEET)/packages ## metrics in a real Prometheus, its rules, the dashboard, and the inventory
	cd fleet && cargo fmt --check && cargo clippy --all-targets -- -D warnings && cargo test
	HUGETEXT_WORKSPACE=fleet cargo test -q -p hugetext --test dependencies
	$(FLEET)/bin/pytest -q -rs fleet/tests

fleet-dashboard: $(FLEET)/packages ## fleet/dashboard.json, by a library with Grafana's types
	$(FLEET)/bin/python fleet/dashboard.py > target/dashboard.json
	mv target/dashboard.json fleet/dashboard.json

# 100000000 takes minutes to write, and 530 MB.
ROWS_FLEET ?= 1000000 10000000 30000000

results-fleet: $(FLEET)/packages ## images of Debian packages, all questions, and what they cost, as root: docs/fleet.md
	cargo build -q -p hugetext
	cd fleet && cargo build -q -p hugetext-inventory
	rm -rf target/results-fleet
	fleet/example.sh target/debug/hugetext fleet/target/debug/hugetext-inventory target/results-fleet/example
	for rows in $(ROWS_FLEET); do \
		$(FLEET)/bin/python fleet/synthesize.py target/results-fleet/example/rows target/results-fleet/$$rows $$rows; \
	done
	$(FLEET)/bin/python fleet/results.py target/results-fleet/example/rows \
		$(addprefix target/results-fleet/,$(ROWS_FLEET)) > target/fleet.md
	mv target/fleet.md docs/fleet.md

test-nri: ## hugetext-nri with a real containerd and runc, of Debian trixie; takes root
	scripts/setup.sh nri
	cargo build -p hugetext
	cd fleet && cargo build -p hugetext-inventory && cargo build -p hugetext-nri --bins --examples
	CONTAINER=$(wildcard target/container) fleet/nri/test.sh target/debug/hugetext \
		fleet/target/debug/hugetext-nri fleet/target/debug/examples/cri fleet/target/debug/hugetext-inventory

container: ## the image of both architectures, from static programs, as an OCI layout in target/container
	$(MAKE) static ARCH=x86_64
	$(MAKE) static ARCH=aarch64
	cd fleet && CARGO_PROFILE_RELEASE_STRIP=symbols cargo build --release -p hugetext-nri \
		--target x86_64-unknown-linux-musl --target aarch64-unknown-linux-musl
	rm -rf target/container
	fleet/container.sh target/container

test-chart: ## the Helm chart, by helm and the schemas of Kubernetes; builds helm, which takes minutes
	scripts/setup.sh chart
	fleet/chart/check.sh target/fleet/chart

.PHONY: test-fleet test-nri test-chart container results-fleet fleet-dashboard

# An earlier build of the command, which takes turns with this one.
BEFORE ?=

bench: build ## how fast the command itself is, also beside BEFORE=PROGRAM, an earlier build: docs/speed.md
	scripts/setup.sh bench
	cargo bench -q -p hugetext --bench speed -- $(if $(BEFORE),--before $(abspath $(BEFORE))) > target/speed.md
	mv target/speed.md docs/speed.md

bench-fix: build ## what a fix costs beside tools that copy or rewrite: docs/fix.md
	scripts/setup.sh bench-fix
	scripts/bench-fix.sh $(HUGETEXT) > target/fix.md
	mv target/fix.md docs/fix.md

linkers: ## what every linker lays out: docs/linkers.md
	scripts/setup.sh linkers
	HUGETEXT_DOCS=$(CURDIR)/docs/linkers.md cargo test -q -p hugetext --test fix -- linkers

test-all: ## also the tests that take long: every program of the machine through fix
	scripts/setup.sh linkers
	cargo test --release -p hugetext --test fix -- --include-ignored --nocapture

distribution = scripts/setup.sh distribution && scripts/test-distribution.sh $(HUGETEXT) > target/distribution.md && mv target/distribution.md docs/distribution.md
test-distribution: build ## every program of 500 Debian packages before and after fix, 74 jobs under run: docs/distribution.md; or do check, dry run and fix agree on the files of a list (FILES=LIST)
	$(if $(FILES),scripts/distribution/agree.py $(HUGETEXT) $(FILES),$(distribution))

fuzz: ## reading, planning, rewriting and verifying any bytes, for half an hour
	scripts/setup.sh fuzz
	cargo run -q -p hugetext-elf --example seeds -- crates/elf/fuzz/corpus/fix
	cd crates/elf/fuzz && cargo +nightly fuzz run fix -- -max_total_time=1800 -max_len=50000

results-tlb: build ## instruction-TLB misses of real programs: docs/tlb-results.md
	scripts/setup.sh bench
	scripts/results-tlb.sh $(HUGETEXT) > target/tlb-results.md
	mv target/tlb-results.md docs/tlb-results.md

results-promote: build ## running programs promoted and put back: docs/promote-results.md
	scripts/setup.sh results-promote
	scripts/promote.sh $(HUGETEXT) > target/promote-results.md
	mv target/promote-results.md docs/promote-results.md

results-promote-reach: build ## what promotion reaches in the servers of a distribution: docs/promote-reach.md
	scripts/setup.sh results-promote-reach
	scripts/promote-reach/survey.py $(HUGETEXT) > target/promote-reach.md
	mv target/promote-reach.md docs/promote-reach.md

.PHONY: results-promote-reach

promote-rounds: ## a busy program promoted and put back a thousand times, checking all it does
	cargo build -p hugetext-promote --examples
	HUGETEXT_ROUNDS=1000 HUGETEXT_THREADS=12 cargo test -p hugetext-promote --test promote -- a_busy --nocapture

promote-jit: build ## text that JVMs and node generate, collapsed a thousand times under load; writes docs/promote-jit.md
	scripts/promote-jit.sh $(HUGETEXT) 1000 > target/promote-jit.md
	mv target/promote-jit.md docs/promote-jit.md

# How long, and from which seed; without one, from a new one.
SECONDS ?= 3600
SEED ?=

test-chaos: export HUGETEXT_CHAOS_SECONDS := $(SECONDS)
test-chaos: ## the same with this build, without a report
	$(MAKE) test-product TESTS='test(=chaos_harms_no_process)'

promote-chaos: export HUGETEXT_COMMAND := $(abspath $(HUGETEXT))
promote-chaos: export HUGETEXT_CHAOS_SECONDS := $(SECONDS)
promote-chaos: export HUGETEXT_CHAOS_SEED := $(SEED)
promote-chaos: export HUGETEXT_DOCS := $(CURDIR)/docs/promote-chaos.md
promote-chaos: build ## programs promoted at random amid signals and kills, for an hour or SECONDS: docs/promote-chaos.md
	scripts/setup.sh promote-chaos
	cargo build --release -p hugetext-promote --examples
	cargo test --release -p hugetext-promote --test chaos chaos_ -- --nocapture

# How long each server is promoted and mapped back.
SERVER_SECONDS ?= 30

promote-servers: build ## real servers promoted and put back under load, as root: docs/promote-servers.md
	scripts/setup.sh promote-servers
	scripts/promote-servers.py $(HUGETEXT) $(SERVER_SECONDS) > target/promote-servers.md
	mv target/promote-servers.md docs/promote-servers.md

.PHONY: promote-jit promote-chaos promote-servers

targets: ## real programs under `hugetext run`: docs/run-targets.md
	scripts/setup.sh targets
	HUGETEXT_DOCS=$(CURDIR)/docs/run-targets.md cargo test --release -p hugetext --test run -- --ignored --nocapture real_programs

results-run: build static ## starts behind run, memory of many processes and of keep: docs/run-results.md
	scripts/setup.sh results
	scripts/results-run.sh $(HUGETEXT) $(STATIC) > target/run-results.md
	mv target/run-results.md docs/run-results.md

results-folios: build ## programs without a window, in small and in larger folios: docs/folios.md
	scripts/setup.sh results
	scripts/results-folios.py $(HUGETEXT) > target/folios.md
	mv target/folios.md docs/folios.md

results-limit: build ## what the page faults of starts are on, and what huge text removes: docs/limit.md
	scripts/setup.sh results
	scripts/results-limit.py $(HUGETEXT) > target/limit.md
	mv target/limit.md docs/limit.md

results-steady: build ## what misses of the instruction TLB cost programs that run for long: docs/steady.md
	scripts/setup.sh work bench
	scripts/results-steady.py $(HUGETEXT) > target/steady.md
	mv target/steady.md docs/steady.md

results-syscalls: build ## what a system call costs huge text, and postgres, in a few minutes: docs/syscalls.md
	scripts/setup.sh work
	scripts/results-syscalls.py docs/syscalls.jsonl $(HUGETEXT)
	$(MAKE) docs-syscalls

docs-syscalls: ## docs/syscalls.md from its record
	mkdir -p target
	scripts/results-syscalls.py docs/syscalls.jsonl > target/syscalls.md
	mv target/syscalls.md docs/syscalls.md

.PHONY: results-folios results-limit results-rivals results-steady results-syscalls docs-syscalls

# PARTS chooses among the parts of the record; without it all are measured.
results-self-warming: build ## cold starts of files that warm themselves (PARTS=): docs/self-warming.md
	scripts/setup.sh self-warming
	$(LAB) fetch 6.18-amd64
	cargo run --quiet -p hugetext-leaf --example asker_rules > target/rules.jsonl
	mv target/rules.jsonl docs/self-warming/rules.jsonl
	scripts/results-self-warming.sh $(HUGETEXT) target/debug/hugetext-lab docs/self-warming $(PARTS)
	scripts/self-warming-doc.py docs/self-warming > target/self-warming.md
	mv target/self-warming.md docs/self-warming.md

.PHONY: results-self-warming

ROUNDS ?= 30

results-rivals: build ## memory and symbols of each way to huge text (IODLR=PATH), as root: docs/rivals.md
	scripts/setup.sh rivals
	scripts/results-rivals.py $(HUGETEXT) $(IODLR) > target/rivals.md
	mv target/rivals.md docs/rivals.md

results-work: build ## what huge text is worth on real work, beside rivals (IODLR=PATH), in an hour: docs/worth.md
	scripts/setup.sh work
	scripts/results-work.sh $(HUGETEXT) $(ROUNDS) docs/worth
	scripts/results-bolt.sh $(HUGETEXT) $(ROUNDS) docs/worth
	scripts/worth-doc.py docs/worth/*.json > docs/worth.md

.PHONY: results-work

test-auto: build ## the autopilot in guests (GUESTS: in these), with containers, upgrades, shortages of memory and days of starts: docs/auto-lab.md
	scripts/setup.sh lab guest
	$(LAB) fetch
	LAB="$(LAB)" scripts/auto-lab.sh docs/auto-lab.md $(GUESTS)

.PHONY: test-auto

results-auto: build ## what the autopilot costs and gains, in about an hour, as root: docs/auto-results.md
	scripts/setup.sh results-auto
	cargo build --release -p hugetext-auto --example sources
	scripts/results-auto.sh $(HUGETEXT) target/release/examples/sources > target/auto-results.md
	mv target/auto-results.md docs/auto-results.md

.PHONY: results-auto

# The native package holds the command for glibc, that of another ARCH the static one.
DEB_x86_64 := amd64
DEB_aarch64 := arm64
ifeq ($(ARCH),$(shell uname -m))
package: build
else
package: build static
CARGO_DEB_TARGET := --target $(MUSL)
endif
package: ## target/debian/*.deb for ARCH, and one with its debug information
	scripts/setup.sh package
	rm -rf target/package target/debian/*_$(DEB_$(ARCH)).deb
	$(HUGETEXT) generate target/package
	gzip -9n target/package/*.1
	cd crates/hugetext && cargo deb --no-build --no-strip $(CARGO_DEB_TARGET) --variant command
	cd crates/hugetext && cargo deb --no-build --no-strip $(CARGO_DEB_TARGET) --variant dbgsym

package-test: package ## install it, upgrade a package under it, remove it, with the real dpkg; as root
	packaging/test.sh target/debian/hugetext_*_$(DEB_$(ARCH)).deb

test-systemd: package ## the package on a real systemd in a guest: install, enable, start again, purge; takes root
	scripts/setup.sh test-systemd
	$(LAB) fetch 6.18-amd64
	packaging/test-systemd.sh target/debian/hugetext_*_$(DEB_$(ARCH)).deb

# VERSION is that of Cargo.toml. docs/release.md says what comes before.
release: ## the tag of a release, if `.ci/run release` has passed on this very commit
	@missing=$$(.ci/run --owed | tr '\n' ' '); [ -z "$$missing" ] || \
		{ echo "no release: these tiers have not passed on this commit: $$missing; run .ci/run release" >&2; exit 1; }
	@[ -z "$$(git status --porcelain)" ] || { echo "no release: there are uncommitted changes" >&2; exit 1; }
	git tag -a "v$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)" -m "$$(awk '/^## /{n++} n==2' CHANGELOG.md)"

.PHONY: package package-test test-systemd release

include kernel/kernel.mk
