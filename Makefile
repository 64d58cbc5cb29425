# What a user or developer runs. Every target does its own set-up.

HUGETEXT := target/release/hugetext

.PHONY: build demo test lint bench

build: ## the command, at target/release/hugetext
	scripts/setup.sh build
	cargo build --release -p hugetext

demo: build ## what huge text is worth on this machine; changes no file
	scripts/demo.sh $(HUGETEXT)

lint: ## formatting and clippy, without tolerance
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

test: lint ## everything that must hold before a change lands
	scripts/setup.sh test
	cargo test --workspace

bench: build ## how fast the command itself is: docs/speed.md
	scripts/setup.sh bench
	cargo bench -q -p hugetext --bench speed > target/speed.md
	mv target/speed.md docs/speed.md

include kernel/kernel.mk
