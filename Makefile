# What a user or developer runs. Every target does its own set-up. kernel/,
# lab/ (what measures) and fleet/ have Makefiles of their own.

HUGETEXT := target/release/hugetext

# The test runner, if this machine has no other.
export PATH := $(PATH):$(CURDIR)/target/tools/bin

# Debug information is taken out of the command after the build, into a file beside it.
export CARGO_PROFILE_RELEASE_STRIP := none

.PHONY: build demo help
build: ## the command, at target/release/hugetext, fixed, and its debug information beside it
	scripts/setup.sh build
	cargo build --locked --release -p hugetext
	scripts/split-debug.sh $(HUGETEXT)
	$(HUGETEXT) fix -q -o $(HUGETEXT).fixed $(HUGETEXT)
	mv $(HUGETEXT).fixed $(HUGETEXT)
	scripts/bounded.sh $(HUGETEXT) 12000000

demo: build ## what huge text is worth on this machine; changes no file
	scripts/demo.sh $(HUGETEXT)

help: ## what each target does
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-20s %s\n", $$1, $$2 }' Makefile
	@echo 'More of them: make -C kernel help, make -C lab help, make -C fleet help'

# The static command of an architecture: x86_64 or aarch64.
ARCH ?= $(shell uname -m)
MUSL := $(ARCH)-unknown-linux-musl
STATIC := target/$(MUSL)/release/hugetext
# Rust's own linker makes static programs of every architecture. For these targets alone: the guests'
# programs keep the layout that their linker gives them.
static test-builds: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER := rust-lld
static test-builds: export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER := rust-lld

.PHONY: static test-builds
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

# Every file with a shell's name in its first line, or in a directive of shellcheck if it is sourced or an
# argument of a shell; what they source is followed.
SHELL_SCRIPTS = $(shell grep -rlE '^\#(!/.*\b| shellcheck shell=)(ba)?sh( |$$)' .ci crates/bench/loads \
	crates/promote/tests/chaos/loads fleet/*.sh fleet/chart fleet/nri kernel lab/kernel lab/loads lab/measure lab/run lab/scripts packaging scripts)

.PHONY: lint test test-product
lint: ## formatting, clippy and shellcheck of the product and the laboratory, without tolerance
	scripts/setup.sh lint
	shellcheck -x $(SHELL_SCRIPTS)
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cd lab && cargo fmt --all --check && cargo clippy --locked --workspace --all-targets -- -D warnings

test: lint ## everything that must hold before a change lands
	$(MAKE) test-product
	$(MAKE) check-architectures
	$(MAKE) -C lab test slice

# Tests wait more than they compute, so there are two at once for each processor. TESTS, a filterset of cargo-nextest,
# chooses others.
test-product: ## the tests of what users get, or these alone: make test-product TESTS='test(=name)'
	scripts/setup.sh test
	cargo nextest run --locked --workspace --test-threads $$(($$(nproc) * 2)) -E '$(or $(TESTS),all())'

# The command must build for every Linux that Rust has, also where promotion is not known. A big-endian one stands for
# all; one of 32 bits and RISC-V, which the laboratory boots, are among all.
ARCHITECTURES ?= s390x-unknown-linux-gnu
ALL_ARCHITECTURES := s390x-unknown-linux-gnu riscv64gc-unknown-linux-gnu armv7-unknown-linux-gnueabihf \
	loongarch64-unknown-linux-gnu powerpc64le-unknown-linux-gnu

.PHONY: check-architectures test-foreign
check-architectures: ## the command builds for an architecture of which it knows little (ARCHITECTURES=all: for five)
	scripts/setup.sh $(if $(filter all,$(ARCHITECTURES)),all-architectures,big-endian)
	cargo check --locked -p hugetext \
		$(patsubst %,--target %,$(if $(filter all,$(ARCHITECTURES)),$(ALL_ARCHITECTURES),$(ARCHITECTURES)))

test-foreign: export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER := s390x-linux-gnu-gcc
test-foreign: export CARGO_TARGET_ARMV7_UNKNOWN_LINUX_GNUEABIHF_LINKER := arm-linux-gnueabihf-gcc
test-foreign: build ## programs of 32 bits and of big-endian order through fix; the command of s390x and ARM, emulated
	scripts/setup.sh foreign
	cargo test -p hugetext --test fix cross -- --nocapture
	cargo build --release -p hugetext \
		--target s390x-unknown-linux-gnu --target armv7-unknown-linux-gnueabihf
	scripts/test-foreign.sh $(HUGETEXT) qemu-s390x s390x-linux-gnu target/s390x-unknown-linux-gnu/release/hugetext
	scripts/test-foreign.sh $(HUGETEXT) qemu-arm arm-linux-gnueabihf target/armv7-unknown-linux-gnueabihf/release/hugetext

# The other architecture: its command runs under emulation there.
OTHER := $(filter-out $(shell uname -m),x86_64 aarch64)
MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: test-hostile test-msrv test-fresh test-all test-browser fuzz
test-builds: build ## what cargo install gives works; the static command too, and that of the other architecture, emulated
	env -u CARGO_PROFILE_RELEASE_STRIP cargo install --quiet --locked --path crates/hugetext \
		--root target/installed --target-dir target/install
	target/installed/bin/hugetext check target/installed/bin/hugetext
	scripts/setup.sh test static
	cargo test -p hugetext --target $(shell uname -m)-unknown-linux-musl
	$(MAKE) static ARCH=$(OTHER)
	scripts/test-static.sh $(HUGETEXT) qemu-$(OTHER) target/$(OTHER)-unknown-linux-musl/release/hugetext

test-hostile: ## what a plain user, an accident or a kill can do to others through hugetext, with counts
	HUGETEXT_HOSTILE=all cargo test -p hugetext --test hostile -- --nocapture
	HUGETEXT_HOSTILE=all cargo test -p hugetext --test auto -- --nocapture --test-threads 1 crowd flood names bad_files
	cargo build -p hugetext-promote --examples
	HUGETEXT_KILLS=600 HUGETEXT_STOPS=40 cargo test -p hugetext-promote --test promote killed -- --nocapture
	HUGETEXT_MUTANTS=12000 cargo test -p hugetext-engine --test agreement mutants -- --nocapture
	cargo test -p hugetext-store -p hugetext-metrics
	cargo test -p hugetext-host --lib -- place lease holders budget listed cgroup

test-msrv: ## the oldest Rust that Cargo.toml promises builds all and passes the unit tests
	scripts/setup.sh msrv
	cargo +$(MSRV) test --workspace --all-targets --no-run --target-dir target/msrv
	cargo +$(MSRV) test --workspace --lib --bins --target-dir target/msrv
	cd lab && cargo +$(MSRV) test --workspace --all-targets --no-run --target-dir ../target/msrv

# The second root of a suite finds the crates that the first compiled, and nothing else.
in-fresh = FRESH_TARGET=$(CURDIR)/target/fresh/$(1) scripts/fresh.sh $(1) $(2) $(3) sh -c 'make demo && make test'

test-fresh: ## demo and test in fresh roots of three Debian suites, as root and as a user; run it as root
	scripts/setup.sh fresh
	rm -rf target/fresh
	$(call in-fresh,bookworm,mount,root)
	$(call in-fresh,bookworm,chroot,user)
	$(call in-fresh,trixie,mount,user)
	$(call in-fresh,trixie,chroot,root)
	$(call in-fresh,sid,mount,root)
	$(call in-fresh,sid,chroot,user)
	rm -rf target/fresh

test-all: ## also the tests that take long: every program of the machine through fix
	scripts/setup.sh linkers
	cargo test --release -p hugetext --test fix -- --include-ignored --nocapture

test-browser: build ## a report in headless Chromium, with screenshots
	scripts/setup.sh browser
	scripts/test-browser.sh $(HUGETEXT)

fuzz: ## reading, planning, rewriting and verifying any bytes, for half an hour
	scripts/setup.sh fuzz
	cargo run -q -p hugetext-elf --example seeds -- crates/elf/fuzz/corpus/fix
	cd crates/elf/fuzz && cargo +nightly fuzz run fix -- -max_total_time=1800 -max_len=50000

# The native package holds the command for glibc, that of another ARCH the static one.
DEB_x86_64 := amd64
DEB_aarch64 := arm64
ifeq ($(ARCH),$(shell uname -m))
package: build
else
package: build static
CARGO_DEB_TARGET := --target $(MUSL)
endif

.PHONY: schemas package package-test release
schemas: build ## docs/schema, from the types of the command's documents
	rm -f docs/schema/*.json
	$(HUGETEXT) generate --schemas docs/schema

package: ## target/debian/*.deb for ARCH, and one with its debug information
	scripts/setup.sh package
	rm -rf target/package target/debian/*_$(DEB_$(ARCH)).deb
	$(HUGETEXT) generate target/package
	gzip -9n target/package/*.1
	cd crates/hugetext && cargo deb --no-build --no-strip $(CARGO_DEB_TARGET) --variant command
	cd crates/hugetext && cargo deb --no-build --no-strip $(CARGO_DEB_TARGET) --variant dbgsym

package-test: package ## install it, upgrade a package under it, remove it, with the real dpkg; as root
	packaging/test.sh target/debian/hugetext_*_$(DEB_$(ARCH)).deb

# VERSION is that of Cargo.toml. CONTRIBUTING.md says what comes before.
release: ## the tag of a release, if `.ci/run release` has passed on this very commit
	@missing=$$(.ci/run --owed | tr '\n' ' '); [ -z "$$missing" ] || \
		{ echo "no release: these tiers have not passed on this commit: $$missing; run .ci/run release" >&2; exit 1; }
	@[ -z "$$(git status --porcelain)" ] || { echo "no release: there are uncommitted changes" >&2; exit 1; }
	git tag -a "v$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)" -m "$$(awk '/^## /{n++} n==2' CHANGELOG.md)"
