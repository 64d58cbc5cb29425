#!/usr/bin/env bash
# Installs the package under a real systemd in a guest, enables the unit, starts systemd again, and removes the package:
# packaging/test-systemd.sh FILE.deb [KERNEL], as root, for a root directory of Debian. A guest of the lab's has its own
# first process, so systemd runs in a PID namespace there, as in a container with all rights.
set -euo pipefail

deb=$(realpath "$1")
kernel=${2:-6.18-amd64}
if [ "$(id -u)" != 0 ]; then
    echo "skipped: needs root"
    exit 0
fi
cd "$(dirname "$0")/.."
lab=${LAB:-lab/run hugetext-lab}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

root=$work/root
# cpp has the compiler that is run. No list of the source names it.
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,procps,cpp trixie "$root"
cp "$deb" "$root/hugetext.deb"
install -m 755 packaging/systemd-guest.sh "$root/look"
cat > "$root/etc/systemd/system/look.service" << 'UNIT'
[Unit]
SuccessAction=exit
FailureAction=exit

[Service]
Type=oneshot
ExecStart=/look
StandardOutput=append:/said
StandardError=append:/said
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -sf ../look.service "$root/etc/systemd/system/multi-user.target.wants/look.service"
ln -sf multi-user.target "$root/etc/systemd/system/default.target"
cat > "$root/boot-twice" << 'GUEST'
#!/bin/sh
for boot in first second; do
    echo $boot > /boot-number
    # What the page cache held would hide what a boot does.
    sync
    echo 3 > /proc/sys/vm/drop_caches
    unshare --pid --fork --mount --mount-proc --cgroup env container=lab /lib/systemd/systemd > /console 2>&1
done
cat /said
for boot in first second; do
    grep -q "^whole: $boot" /said || { tail -n 20 /console; exit 1; }
done
! grep '^failed' /said
GUEST
chmod +x "$root/boot-twice"

answer=0
# shellcheck disable=SC2086 # LAB is a command with options
$lab boot "$kernel" --smp 2 --memory 2048 --fs ext4 --timeout 1800 --root "$root" -- /boot-twice > "$work/said" || answer=$?
jq -r '.command.printed // .' "$work/said"
exit "$answer"
