#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Builds and runs the model test of the reverse map's shards from a patched tree.
#
#   kernel/rmap/model/build.sh TREE [ROUNDS [STEPS]]
#
# Once plain, with a thread that polls mapping_mapped() without a lock; once under
# ThreadSanitizer, without that thread, whose race is meant.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(cd "$1" && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The tree's sources below a folder where most headers that they name are empty.
mkdir -p "$work/mm/model" "$work/include/linux"
cp "$tree"/mm/{i_mmap.c,i_mmap.h,interval_tree.c} "$work/mm"
cp "$here"/{model.c,shim.h} "$work/mm/model"
for header in cacheflush fs hugetlb_inline mm mm_types rmap sched slab; do
    : > "$work/include/linux/$header.h"
done
cp "$tree"/include/linux/{i_mmap.h,interval_tree_generic.h} "$work/include/linux"
# Static, and called by the kernel's initcalls there.
echo 'void i_mmap_model_init(void); void i_mmap_model_init(void) { i_mmap_init(); }' \
    >> "$work/mm/i_mmap.c"
cd "$work/mm"

build() { # OUTPUT FLAGS…
    local output=$1
    shift
    gcc -std=gnu11 -O1 -g -Wall -Wno-unused-function -Wno-sign-compare -pthread "$@" \
        -I"$work/include" -I"$tree/tools/include" -I"$tree/tools/lib" \
        -include model/shim.h -Dmodule_init=core_initcall \
        -o "$output" model/model.c i_mmap.c interval_tree.c "$tree/tools/lib/rbtree.c"
}

build plain -DPOLL=1
./plain "$@"
build tsan -DPOLL=0 -fsanitize=thread -Wno-tsan
TSAN_OPTIONS=halt_on_error=1 ./tsan "$@"
