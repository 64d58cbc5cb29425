#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Builds and runs, from a patched tree, the model test of the reverse map's shards.
#
#   kernel/rfc/rmap/model/build.sh TREE [ROUNDS [STEPS]]
#
# The test runs once plain, with a thread that polls mapping_mapped() without a lock; once under
# ThreadSanitizer, without that thread, whose race is intended.
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
mkdir "$work/include/linux/sched"
for header in cacheflush fs hugetlb_inline mm mm_types random rmap sched sched/mm slab; do
    : > "$work/include/linux/$header.h"
done
cp "$tree"/include/linux/{i_mmap.h,interval_tree_generic.h} "$work/include/linux"
# Splits of the model are small: smaller batches let walks in halfway.
sed -i 's/^\(#define I_MMAP_MOVE_BATCH\t\).*/\14U/' "$work/mm/i_mmap.c"
# Static, and called by the kernel's initcalls there.
echo 'void i_mmap_model_init(void); void i_mmap_model_init(void) { i_mmap_init(); }' \
    >> "$work/mm/i_mmap.c"
cd "$work/mm"

build() { # OUTPUT SOURCE FLAGS…
    local output=$1 source=$2
    shift 2
    gcc -std=gnu11 -O1 -g -Wall -Wno-unused-function -Wno-sign-compare -pthread "$@" \
        -I"$work/include" -I"$tree/tools/include" -I"$tree/tools/lib" \
        -include model/shim.h -Dmodule_init=core_initcall \
        -o "$output" "model/$source" i_mmap.c interval_tree.c "$tree/tools/lib/rbtree.c"
}

build plain model.c -DPOLL=1
./plain "$@"
build tsan model.c -DPOLL=0 -fsanitize=thread -Wno-tsan
TSAN_OPTIONS=halt_on_error=1 ./tsan "$@"
