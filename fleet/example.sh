#!/usr/bin/env bash
# The fleet of lab/results/fleet.md: fleet/example.sh HUGETEXT INVENTORY OUT
#
#   HUGETEXT   the command
#   INVENTORY  the program hugetext-inventory
#   OUT        a new directory; rows get into OUT/rows
#
# Rows of images of Debian's packages, on ext4 and on btrfs, and of a host that runs some of the programs, at two
# times: first they are fixed, then an upgrade has replaced one of them. The host is a process namespace whose
# programs lie in /srv, so that nothing else that runs here is recorded. Needs root.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
die() { echo "fleet/example.sh: $*" >&2; exit 2; }
[ $# = 3 ] || die "usage: fleet/example.sh HUGETEXT INVENTORY OUT"
[ "$(id -u)" = 0 ] || die "namespaces need root"
mkdir -p "$3"
hugetext=$(realpath "$1") inventory=$(realpath "$2") out=$(realpath "$3")

write() { # MACHINE ARGUMENT…
    local machine=$1
    shift
    "$inventory" --spool "$out/spool-$machine" --host "$machine" --machine "$machine" -o "$out/rows" "$@"
}

if [ "${EXAMPLE_INSIDE:-}" != yes ]; then
    [ ! -e "$out/rows" ] || die "$out/rows exists; remove it"
    "$here/example.py" "$out/images"
    write registry --only-images --image "$out/images"
    write nodes-btrfs --only-images --image "$out/images" --filesystem btrfs

    # What the host has: programs of the images, and one of its own.
    mkdir "$out/programs" "$out/packaged"
    for blob in "$out"/images/blobs/sha256/*; do
        # Most blobs hold none of them.
        tar -C "$out/packaged" --wildcards --no-anchored --transform 's|.*/||' -xf "$blob" \
            '*/bin/postgres' '*/sbin/mariadbd' '*/cc1' 2>/dev/null || true
    done
    cat >"$out/own.c" <<'EOF'
#include <unistd.h>
__asm__(".text\n.balign 4096\n.skip 0x600000, 0xc3\n");
int main(void) { for (;;) pause(); }
EOF
    gcc -O2 -o "$out/packaged/own" "$out/own.c"
    strip -o "$out/packaged/hugetext" "$hugetext"
    strip -o "$out/packaged/hugetext-inventory" "$inventory"
    cp "$out"/packaged/* "$out/programs/"
    # Fixing needs what is on the disk.
    sync -f "$out/programs"
    EXAMPLE_INSIDE=yes unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$0" "$@"
    exit
fi

mount --bind "$out/programs" /srv
inventory=/srv/hugetext-inventory
for name in postgres mariadbd cc1; do
    [ -e "/srv/$name" ] || die "no package brought $name"
    # The answer is no, 1, where nothing need be fixed.
    /srv/hugetext fix --quiet --in-place "/srv/$name" || [ $? = 1 ]
done
mkdir "$out/run" "$out/lists"
echo 'mode = "observe"' >"$out/auto.toml"
/srv/own &
/srv/hugetext auto --by scan --config "$out/auto.toml" --state "$out/seen" --run-dir "$out/run" --lists "$out/lists" &
# It looks every two seconds, and writes what it knows every ten.
for _ in $(seq 600); do
    if grep -qs '"/srv/own"' "$out/run/all.json"; then break; fi
    # Starts of a program that ends at once.
    /srv/cc1 --version >/dev/null
    sleep 0.1
done
grep -qs '"/srv/own"' "$out/run/all.json" || die "the autopilot saw nothing"
write host --scan /srv --run-dir "$out/run"
# An upgrade.
cp "$out/packaged/postgres" /srv/postgres.new
mv /srv/postgres.new /srv/postgres
write host --scan /srv --run-dir "$out/run"
kill -KILL -1 2>/dev/null || true
