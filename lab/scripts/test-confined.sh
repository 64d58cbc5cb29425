#!/usr/bin/env bash
# Programs that AppArmor or SELinux confines, under `run`, under promotion and beside the autopilot, in guests with the kernel
# and the policies of Debian SUITE (trixie): lab/scripts/test-confined.sh HUGETEXT [apparmor|selinux], as root.
# The kernel of Debian 13 makes huge folios on XFS, and none on ext4.
set -euo pipefail

hugetext=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/hugetext-confined.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM
cd "$here"

root=$work/root
mmdebstrap --quiet --variant=minbase \
    --include=linux-image-cloud-amd64,initramfs-tools,apparmor,selinux-policy-default,selinux-utils,policycoreutils,procps \
    --aptopt='Acquire::Check-Valid-Until "false"' "${SUITE:-trixie}" "$root"
install -D "$hugetext" "$root/usr/bin/hugetext"
strip --strip-debug "$root/usr/bin/hugetext"
# Text that is congruent, text that comes from a copy, and a program at a fixed address, which needs a copy in its place.
source=crates/hugetext/tests/run/subject.c
cc -O1 -pie -fPIE -o "$root/opt/congruent" $source
cc -O1 -pie -fPIE -Wl,--section-start=.text=0x112000 -o "$root/opt/shifted" $source
cc -O1 -no-pie -Wl,--section-start=.text=0x512000 -o "$root/opt/fixed" $source
install -m 755 lab/scripts/confined-guest.sh "$root/look"
printf '#!/bin/sh\nexec "$@"\n' > "$root/service"
chmod 755 "$root/service"
cp "$root"/boot/vmlinuz-* "$work/kernel"
cp "$root"/boot/initrd.img-* "$work/initrd"

answer=0
for module in ${2:-apparmor selinux}; do
    rm -f "$work/disk"
    truncate -s 3G "$work/disk"
    mkfs.xfs -q "$work/disk"
    mkdir -p "$work/mount"
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare --mount sh -c 'mount -o loop "$1/disk" "$1/mount" && cp -a "$1/root/." "$1/mount"' sh "$work"
    timeout 2400 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2048 -nodefaults -display none \
        -no-reboot -serial stdio -kernel "$work/kernel" -initrd "$work/initrd" \
        -drive file="$work/disk",if=virtio,format=raw -append \
        "console=ttyS0 quiet root=/dev/vda rw security=$module panic=-1 init=/look -- $module" > "$work/said" || true
    tr -d '\r' < "$work/said" | grep -E '^(ok|failed|note|whole|    )' || true
    grep -q "^whole: $module" "$work/said" && ! grep -q '^failed' "$work/said" || answer=1
done
exit "$answer"
