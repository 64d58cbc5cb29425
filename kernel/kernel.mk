# The kernel half; kernel/build.sh says what the variables KERNEL_* choose.

KERNEL_CONFIG ?= x86_64
KERNEL_CONFIGS ?= x86_64 arm64-4k arm64-16k arm64-64k

.PHONY: kernel test-kernel test-kernel-ci docs-kernel

kernel: ## the patched tree, the series for git am, and a kernel of KERNEL_CONFIG
	kernel/build.sh series
	kernel/build.sh image $(KERNEL_CONFIG)

test-kernel: lab-fetch ## what starting programs costs without and with the sets, in each of KERNEL_CONFIGS
	scripts/setup.sh test-kernel
	kernel/measure.sh run $(KERNEL_CONFIGS)
	$(MAKE) docs-kernel

test-kernel-ci: ## build and boot the x86-64 kernel with every set and its KUnit tests
	scripts/setup.sh test-kernel
	kernel/build.sh series
	kernel/boot.sh x86_64 "$$(kernel/build.sh image x86_64 kunit | tail -n 1)" 1024 exec_order elf_text_leaf

docs-kernel: ## docs/kernel.md from the record of test-kernel
	kernel/measure.sh report
