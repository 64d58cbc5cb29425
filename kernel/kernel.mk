# The kernel half; kernel/build.sh says what the variables KERNEL_* choose.

KERNEL_CONFIG ?= x86_64

.PHONY: kernel kernel-deb docs-kernel-tlb test-kernel test-kernel-ci test-kernel-compile test-kernel-own test-kernel-mm test-kernel-ltp test-kernel-stable test-kernel-rfc docs-kernel test-fold test-rmap test-replicas-locks docs-rmap

kernel: ## the patched tree, the series for git am, and a kernel of KERNEL_CONFIG
	kernel/build.sh series
	kernel/build.sh image $(KERNEL_CONFIG)

docs-kernel-tlb: build lab-bench ## what a kernel build saves of instruction-TLB misses, by model: docs/kernel-tlb.md
	scripts/setup.sh bench kernel
	kernel/tlb.sh $(HUGETEXT) > target/kernel-tlb.md
	mv target/kernel-tlb.md docs/kernel-tlb.md

kernel-deb: ## Debian packages of the kernel with every set, in Debian's configuration for virtual machines
	kernel/deb.sh

test-kernel: ## what starting programs costs without and with order and align, beside each of what could change that
	scripts/setup.sh test-kernel
	kernel/controls.sh run
	$(MAKE) docs-kernel

test-kernel-ci: ## build and boot the x86-64 kernel with every set and its KUnit tests
	scripts/setup.sh test-kernel-ci
	kernel/ci.sh

test-kernel-compile: ## what the sets change and what uses it, in 31 configurations of 15 architectures, for half an hour
	kernel/rfc/rmap/lab/measure.sh compiled
	$(MAKE) docs-rmap

test-kernel-own: lab-fetch ## the selftests that the sets add, in a guest; with CHECKS=debug under KASAN and lockdep
	scripts/setup.sh test-kernel
	kernel/own-tests.sh "$$(kernel/build.sh image x86_64 kunit $(CHECKS) | tail -n 1)"

test-kernel-mm: lab-fetch ## the kernel's own tests of huge pages, hugetlb, userfaultfd and exec
	scripts/setup.sh test-kernel
	kernel/selftests.sh 3 "$$(KERNEL_SETS=none kernel/build.sh image x86_64 kunit ltp selftests | tail -n 1)" \
		"$$(kernel/build.sh image x86_64 kunit ltp selftests | tail -n 1)"

test-kernel-ltp: lab-fetch ## the memory and exec tests of an LTP installed in LTP (/opt/ltp)
	scripts/setup.sh test-kernel
	kernel/ltp.sh 1 "$$(KERNEL_SETS=none kernel/build.sh image x86_64 kunit ltp selftests | tail -n 1)" \
		"$$(kernel/build.sh image x86_64 kunit ltp selftests | tail -n 1)"

test-kernel-stable: lab-fetch ## whether the fix for stable stops the deadlock in Linux 6.1, 6.12, 6.18, 7.2 and 7.3, and each has it without
	scripts/setup.sh test-kernel
	kernel/stable.sh

docs-kernel: ## docs/kernel.md from the record of test-kernel
	kernel/controls.sh report

test-kernel-rfc: ## as test-kernel-ci, with the sets of kernel/rfc behind the others
	scripts/setup.sh test-kernel-ci
	KERNEL_SETS="$$(tr '\n' ' ' < kernel/sets) rfc/rmap" kernel/ci.sh

test-fold: lab-fetch ## acquisitions of the locks by starts, without and with the sets fold and fork; UNIXBENCH names a UnixBench for storms
	scripts/setup.sh test-kernel
	kernel/rfc/rmap/lab/measure.sh fold
	$(MAKE) docs-rmap

test-rmap: lab-fetch ## exec storms, walks and the stress, without and with the set rmap; hours
	scripts/setup.sh test-kernel
	kernel/rfc/rmap/lab/measure.sh all
	$(MAKE) docs-rmap

test-replicas-locks: lab-fetch ## contended acquisitions with 1, 2, 4 and 8 copies of libc, ld.so and the shell, without and with the sets: docs/replicas.jsonl
	scripts/setup.sh test-kernel
	kernel/rfc/rmap/lab/measure.sh replicas \
		"unpatched=$$(KERNEL_SETS=none kernel/build.sh image x86_64 measure | tail -n 1)" \
		"alone=$$(KERNEL_SETS='fold fork rfc/rmap rfc/rmap-lab' kernel/build.sh image x86_64 measure | tail -n 1)" \
		"with=$$(KERNEL_SETS='order align read-first collapse fold fork rfc/rmap rfc/rmap-lab' kernel/build.sh image x86_64 measure | tail -n 1)"

docs-rmap: ## kernel/rfc/rmap/results.md from the record of test-fold and test-rmap
	mkdir -p target
	lab/run hugetext-rmap kernel/rfc/rmap/record.jsonl > target/rmap.md
	mv target/rmap.md kernel/rfc/rmap/results.md
