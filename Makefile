# What a user or developer runs. Every target does its own set-up.

HUGETEXT := target/release/hugetext

.PHONY: build demo test lint

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

include kernel/kernel.mk
