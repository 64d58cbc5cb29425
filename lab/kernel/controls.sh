#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# What the sets order and align give to cold starts, and what they cost, with each thing beside a start that could
# change that: other work, short memory, limits of a cgroup, other disks, filesystems and readahead, khugepaged.
#
#   lab/kernel/controls.sh run STARTS [ROW…]   boots a guest for each row, or for these, and puts its starts into STARTS
#   lab/kernel/controls.sh rows STARTS         prints the record of lab/results/kernel.md
#
# Each guest starts the programs as they are read today (THP "never", where the sets do nothing), and with the sets.
# KERNEL_CONFIG=arm64-4k and the like (kernel/config) boots another kernel than x86_64, whose rows have its name.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernel=$here/../../kernel
new=$(mktemp)
trap 'rm -f "$new" "$new".*' EXIT

# Name; sets; MiB of memory; filesystem; settings of the guest (kernel/guest) and its disk (kernel/paced).
# A disk that is named slow is read as eMMC and SD cards are, so there align works alone.
nvme="paced.latency_us=80 paced.mb_s=3000 paced.depth=32"
rows="
NVMe; order align; 1024; ext4; $nvme guest.together
order alone; order; 1024; ext4; $nvme
align alone; order align; 1024; ext4; $nvme paced.slow=1
align and khugepaged, 1 minute; order align; 1024; ext4; $nvme paced.slow=1 guest.thp=never,always guest.settle=60
align and khugepaged, 5 minutes; order align; 1024; ext4; $nvme paced.slow=1 guest.thp=never,always guest.settle=300
NVMe, PCIe 4; order align; 1024; ext4; paced.latency_us=70 paced.mb_s=7000 paced.depth=64
SATA SSD; order align; 1024; ext4; paced.latency_us=150 paced.mb_s=500 paced.depth=32
cloud volume; order align; 1024; ext4; paced.latency_us=1000 paced.mb_s=125 paced.depth=32
hard disk; order align; 1024; ext4; paced.latency_us=200 paced.seek_us=12000 paced.mb_s=150
eMMC, were it not named slow; order align; 1024; ext4; paced.latency_us=250 paced.mb_s=250
SD card, were it not named slow; order align; 1024; ext4; paced.latency_us=1000 paced.mb_s=40
SD card; order align; 1024; ext4; paced.latency_us=1000 paced.mb_s=40 paced.slow=1
readahead 4 MiB; order align; 1024; ext4; $nvme guest.readahead=4096
XFS; order align; 1024; xfs; $nvme
btrfs; order align; 1024; btrfs; $nvme
overlayfs; order align; 1024; ext4; $nvme guest.overlay
overlayfs, order alone; order; 1024; ext4; $nvme guest.overlay
two NUMA nodes; order align; 1024; ext4; $nvme numa=on
beside 4 busy tasks; order align; 1024; ext4; $nvme guest.busy=4 guest.together
cpu.max 20 %; order align; 1024; ext4; $nvme guest.cpu_max=20000
io.max 20 MB/s; order align; 1024; ext4; $nvme guest.io_max=20000000
192 MiB of memory; order align; 192; ext4; $nvme guest.together
cgroup of 32 MiB; order align; 1024; ext4; $nvme guest.memory_max=33554432
cgroup of 256 MiB, full; order align; 1024; ext4; $nvme guest.memory_max=268435456 guest.full
"

# The median of each number of the starts of a program.
# shellcheck disable=SC2016 # a program of jq
medians='[.[] | select(.kind == "start" or .kind == "again" or .kind == "together")]
    | group_by([.kind, .thp, .program])[] | . as $all
    | .[0] | with_entries(.key as $key | .value = ($all | map(.[$key]) | sort | .[length / 2 | floor])) | $row[0] + .'

boot() { # NAME SETS MEMORY FS SETTINGS
    local image qemu='' kernel_config=${KERNEL_CONFIG:-x86_64}
    # Most rows use the kernel that ci.sh builds, too.
    local config=kunit
    case $4$5 in xfs* | btrfs* | *cpu_max* | *io_max* | *numa*) config=controls ;; esac
    image=$(KERNEL_SETS="$2 paced" "$kernel/build.sh" image "$kernel_config" "$config" | tail -n 1)
    [ "$1" != "two NUMA nodes" ] || qemu="-object memory-backend-ram,id=m0,size=512M -numa node,memdev=m0,cpus=0
        -object memory-backend-ram,id=m1,size=512M -numa node,memdev=m1"
    [ "$kernel_config" = x86_64 ] || set -- "$1, $kernel_config" "${@:2}"
    [[ $5 = *guest.thp=* ]] || set -- "${@:1:4}" "$5 guest.thp=never,madvise"
    jq -n -c --arg row "$1" --arg package "$("$kernel/build.sh" package | tail -n 1)" --arg date "$(date -u +%F)" \
        '$ARGS.named' > "$new.row"
    KERNEL_QEMU=$qemu KERNEL_APPEND="kunit.enable=0 $5" "$kernel/boot.sh" "${kernel_config%%-*}" "$image" "$3" large "$4" > "$new.console"
    tr -d '\r' < "$new.console" | sed -n 's/^record //p' |
        jq -c -s --slurpfile row "$new.row" "$medians" > "$new"
    [ -s "$new" ] || { echo "lab/kernel/controls.sh: $1: no record" >&2; exit 1; }
    touch "$record"
    jq -c --arg row "$1" 'select(.row != $row)' "$record" > "$new.kept"
    cat "$new.kept" "$new" > "$record"
}

run() { # ROW…: all without
    local name sets memory fs settings row
    while IFS=';' read -r name sets memory fs settings; do
        for row in "${@:-$name}"; do
            [ "$row" != "$name" ] || boot "$name" "${sets# }" "${memory# }" "${fs# }" "${settings# }" < /dev/null
        done
    done < <(grep . <<< "$rows")
}

# Lines that each patch adds, without selftests and documentation.
lines() {
    local patch folder
    folder=$("$kernel/build.sh" series | tail -n 1)
    for patch in "$folder"/*-{order,align}/*.patch; do
        [[ $patch = */0000-* ]] || git apply --numstat "$patch" | awk -v OFS='\t' -v patch="$patch" '
            $3 !~ /^(tools|Documentation)\// { added += $1 } END { print patch, added + 0 }'
    done | jq -R -s 'split("\n") | map(select(. != "") | split("\t")
        | {patch: .[0] | sub(".*/[0-9]+-(?<set>[a-z]+)/[0-9]+-(?<name>.*).patch"; "\(.set): \(.name)"), lines: .[1] | tonumber})'
}

record=${2:-}
case ${1:-}${2:+ STARTS} in
"run STARTS") shift 2; run "$@" ;;
"rows STARTS")
    lines > "$new.lines"
    # Those of other kernels follow, in the order in which they were measured.
    { grep . <<< "$rows" | sed 's/;.*//'; jq -r .row "$record"; } | awk '!seen[$0]++' | jq -R -s 'split("\n")' > "$new.rows"
    jq -c -s -L "$here" --slurpfile lines "$new.lines" --slurpfile rows "$new.rows" -f "$here/controls.jq" "$record"
    ;;
*) sed -n '6,7p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
