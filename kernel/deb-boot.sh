#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Installs the packages of deb.sh and that of hugetext in a Debian with systemd, boots it, and prints what programs get
# from the patched kernel and from Debian's, and what the command adds (docs/kernel-deb.md).
#
#   kernel/deb-boot.sh FOLDER HUGETEXT.deb     as root; FOLDER is what deb.sh printed
#
# Each kernel boots with its own initramfs, as a machine does. The series reads leaves where faults wait little, so time
# is counted in instructions, whatever else the machine does. The disk is an NVDIMM: a virtio disk answers in real time.
# Consoles are kept in FOLDER.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(realpath "$1") hugetext=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "kernel/deb-boot.sh: $*" >&2; exit 1; }

root=$work/root
image=$(find "$folder" -maxdepth 1 -name 'linux-image-*.deb' ! -name '*-dbg*')
[ -n "$image" ] || die "no linux-image in $folder; run kernel/deb.sh"
archive=$("$here/build.sh" archive | tail -n 1)
# Programs of every kind: a compiler, interpreters, a database, a debugger. Debian's kernel is of the same source.
mmdebstrap --quiet --variant=minbase --components=main \
    --include=systemd,systemd-sysv,initramfs-tools,cpp,python3,gdb,nodejs,postgresql,git,jq \
    trixie "$root" "deb $archive trixie main" "deb $archive trixie-backports main"
cp "$image" "$root/kernel.deb"
cp "$hugetext" "$root/hugetext.deb"
printf '%s\n' nfit nd_pmem >> "$root/etc/initramfs-tools/modules"
chroot "$root" apt-get -qq update
stock=$(chroot "$root" apt-cache search --names-only '^linux-image-7\.3.*-cloud-amd64$' | sort -V | tail -n 1 | cut -d ' ' -f 1)
[ -n "$stock" ] || die "Debian has no linux-image-7.3 for virtual machines"
chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -qq -t trixie-backports install "$stock" /kernel.deb /hugetext.deb > "$work/install" 2>&1 ||
    die "$(tail -n 5 "$work/install")"
rm "$root"/*.deb
install -m 755 "$here/deb-look.sh" "$root/look"
cat > "$root/etc/systemd/system/look.service" << 'UNIT'
[Unit]
SuccessAction=poweroff
FailureAction=poweroff
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/bin/sh -c "exec /look > /dev/ttyS1 2>&1"
UNIT
mkdir -p "$root/etc/systemd/system/graphical.target.wants"
ln -s ../look.service "$root/etc/systemd/system/graphical.target.wants"
ln -s /dev/null "$root/etc/systemd/system/postgresql.service" # its files are used without it
echo '/dev/pmem0 / ext4 defaults 0 1' > "$root/etc/fstab"
: > "$root/etc/hostname"
truncate -s 8G "$work/disk"
mkdir "$work/boot"
cp "$root"/boot/{vmlinuz,initrd.img}-* "$work/boot"
mke2fs -q -t ext4 -d "$root" "$work/disk"

for kernel in "$work"/boot/vmlinuz-*; do
    release=${kernel##*/vmlinuz-}
    cp --sparse=always "$work/disk" "$work/disk.now"
    timeout "${KERNEL_PATIENCE:-1800}" qemu-system-x86_64 -machine q35,nvdimm=on -cpu max,-erms,-fsrm -accel tcg,thread=single -icount shift=0 -smp 1 \
        -m 4096,slots=1,maxmem=16G -object "memory-backend-file,id=disk,share=on,mem-path=$work/disk.now,size=8G" -device nvdimm,memdev=disk \
        -nodefaults -display none -no-reboot -serial stdio -serial "file:$work/said" -kernel "$kernel" -initrd "$work/boot/initrd.img-$release" \
        -append "root=/dev/pmem0 rw console=ttyS0 quiet no_timer_check systemd.show_status=false" \
        < /dev/null | sed -u 's/\r$//' > "$folder/console-$release" || true
    sed -i 's/\r$//' "$work/said"
    grep -q '^look: done' "$work/said" ||
        die "the guest of $release did not end: $(tail -n 3 "$work/said") ($folder/console-$release)"
    ! grep -E '^\[.*(BUG|WARNING|Oops):' "$folder/console-$release" >&2 || die "the kernel $release printed the above"
    sed -n 's/^record //p' "$work/said" | jq -c --arg kernel "$release" '{kernel: $kernel} + .'
done > "$work/record"
jq -r -s -L "$here" --arg seconds "$(cat "$folder/seconds" 2> /dev/null)" -f "$here/deb.jq" "$work/record"
