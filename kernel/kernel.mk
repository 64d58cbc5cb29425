# The kernel half; kernel/build.sh says what the variables KERNEL_* choose.

KERNEL_CONFIG ?= x86_64

.PHONY: kernel

kernel: ## the patched tree, the series for git am, and a kernel of KERNEL_CONFIG
	kernel/build.sh series
	kernel/build.sh image $(KERNEL_CONFIG)
