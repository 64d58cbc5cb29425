#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes Debian packages of the kernel with every set, for x86-64: kernel/deb.sh.
#
# The configuration is that of Debian's kernel for virtual machines (cloud-amd64). Debug information is left out, and so
# is what needs a compiler of Rust that the kernel knows. Modules are signed by a key that is made for this build.
# The kernel's own bindeb-pkg makes the packages. KERNEL_* choose what they choose in build.sh. Prints the folder of
# the packages as its last line. Its file `seconds` has the processor time that the last build of everything took.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
die() { echo "kernel/deb.sh: $*" >&2; exit 2; }

"$here/../scripts/setup.sh" kernel-deb
wanted=$("$here/build.sh" distribution | tail -n 1)
linux=$("$here/build.sh" tree | tail -n 1)
version=$("$here/build.sh" package | tail -n 1)
folder=$(dirname "$linux")/deb
objects=$folder/objects
whole=true
[ ! -e "$objects" ] || whole=false
mkdir -p "$objects"
rm -f "$folder"/*.deb

cp "$wanted" "$objects/.config"
"$linux/scripts/config" --file "$objects/.config" -e DEBUG_INFO_NONE -d DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT \
    -d DEBUG_INFO_BTF
make=(make -s -C "$linux" O="$objects" LOCALVERSION=-hugetext KDEB_PKGVERSION="${version#*_}+hugetext"
    KBUILD_BUILD_USER=hugetext KBUILD_BUILD_HOST=hugetext)
"${make[@]}" olddefconfig > "$objects/config.log" 2>&1 || die "configuration failed: $objects/config.log"
grep -qx CONFIG_I_MMAP_SHARDS=y "$objects/.config" || die "the kernel lacks I_MMAP_SHARDS"
TIMEFORMAT='%U %S'
{ time "${make[@]}" -j"${KERNEL_JOBS:-$(nproc)}" bindeb-pkg > "$objects/build.log" 2>&1; } 2> "$folder/times" ||
    die "the build failed: $(grep -m 3 -E 'error|Error' "$objects/build.log") ($objects/build.log)"
! $whole || awk '{ print int($1 + $2) }' "$folder/times" > "$folder/seconds"
echo "$folder"
