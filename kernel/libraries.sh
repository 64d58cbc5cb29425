#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Copies the dynamic loader, and the libraries that programs of this machine name, into the root of a guest. x86-64.
#
#   kernel/libraries.sh ROOT PROGRAM…
#
# Scripts and static programs have no libraries.
set -euo pipefail

root=$1
shift
mkdir -p "$root"/{lib64,lib/x86_64-linux-gnu}
cp /lib64/ld-linux-x86-64.so.2 "$root/lib64"
for program in "$@"; do
    ldd "$program" 2> /dev/null || true
done | sed -n 's/.*=> \([^ ]*\) .*/\1/p' | sort -u | xargs -r cp -t "$root/lib/x86_64-linux-gnu"
