# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # the sourcing scripts set variables
# Sourced by selftests.sh, ltp.sh, own-tests.sh and collapse/lab/dead-disk.sh: runs the same tests in
# guests of several kernels, and prints a table of the results. The sourcing scripts set
#   here        this folder
#   title       what the tests are
#   rounds      how many times each image is booted
#   consoles    where consoles are kept
#   work        a folder, for the guest's initrd and disk
#   machine     QEMU's options for processors, time and memory
#   disk_size   size of the disk, which is made again for each boot
# and optionally disk_root, a folder with the content of the disk, append, options for the kernel,
# disk, what the disk is: virtio or paced, and arch, the guest's architecture (x86_64). They call
# make_initrd, then compare. A guest prints "test NAME: ok …" or "test NAME: not ok …" for each case,
# as in TAP, and "guest: done" at its end.

: "${arch:=x86_64}"
# shellcheck source=kernel/board.sh
. "$here/board.sh"
case $arch in
x86_64) compiler=gcc ;;
arm64) compiler=aarch64-linux-gnu-gcc ;;
riscv64) compiler=riscv64-linux-gnu-gcc ;;
esac

# The initramfs of the folder $work/root, with busybox; its init comes on standard input.
make_initrd() {
    local root=$work/root busybox=$here/../.cache/lab/programs/${arch/x86_64/amd64}/busybox
    mkdir -p "$root"/{bin,proc,sys,dev,tmp,disk}
    cp "${BUSYBOX:-$busybox}" "$root/bin/busybox"
    cat > "$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | cpio --quiet -o -H newc) > "$work/initrd"
}

# The kernel's own tests of these names in tools/testing/selftests/mm, as static programs in $work/root/bin.
build_selftests() { # TREE TEST…
    local tree=$1 test more
    shift
    mkdir -p "$work/root/bin"
    for test in "$@"; do
        more=()
        case $test in uffd-*) more=(uffd-common.c) ;; esac
        (cd "$tree/tools/testing/selftests/mm" && "$compiler" -O1 -w -static -D_GNU_SOURCE= -I"$tree" \
            -I"$tree/tools/include/uapi" -I"$tree/tools/include" -I.. -o "$work/root/bin/$test" \
            "$test.c" "${more[@]}" vm_util.c hugepage_settings.c -lpthread -lrt -lm)
    done
}

boot() { # IMAGE CONSOLE
    local devices
    rm -f "$work/disk"
    truncate -s "$disk_size" "$work/disk"
    mke2fs -q -t ext4 ${disk_root:+-d "$disk_root"} "$work/disk"
    case ${disk:-virtio} in
    virtio) devices=(-drive "file=$work/disk,format=raw,if=virtio,cache=unsafe") ;;
    paced) paced_disk "$work/disk" "$disk_size" ;;
    esac
    timeout "${KERNEL_PATIENCE:-900}" "${board[@]}" "${machine[@]}" \
        -nodefaults -display none -no-reboot -serial stdio -kernel "$1" -initrd "$work/initrd" \
        -append "console=$serial panic=-1 oops=panic no_timer_check quiet ${append:-}" \
        "${devices[@]}" < /dev/null | sed -u 's|\r||' > "$2" || true
}

ended() { # CONSOLE
    [ -e "$1" ] && grep -q '^guest: done' "$1"
}

# The output of a test follows a "#", and may contain such words too.
complained() { # CONSOLE
    grep -v '^#' "$1" | grep -qE '(BUG|WARNING|INFO|Oops):'
}

# Of lines "IMAGE ok|not ok NUMBER NAME", one for each case of each round.
tally() { # IMAGES
    awk -v images="$1" -v rounds="$rounds" '
        { passed = $2 == "ok"; image = $1; sub(/^[0-9]+ (not )?ok /, "")
          if (!($0 in seen)) { seen[$0]; cases[++n] = $0 }
          count[$0, image] += passed }
        END {
            for (i = 1; i <= n; i++) {
                always = never = 0
                for (image = 1; image <= images; image++) {
                    passed = count[cases[i], image] + 0
                    printf "%d ", passed
                    always += passed == rounds
                    never += passed == 0
                }
                print cases[i]
                same += always == images || never == images
                differ += always && never
            }
            printf "%d cases: %d the same, %d differ, %d pass by chance\n", n, same, differ, n - same - differ
            exit differ > 0
        }'
}

header() { # IMAGE…
    local package
    package=$("$here/build.sh" package | tail -n 1)
    echo "$title: rounds passed, of $rounds, with each of"
    echo "$(basename -a "$@" | xargs | sed 's/ /, /g')."
    echo "$package, $(qemu-system-x86_64 --version | head -n 1), $(date -u +%F)."
    echo
}

compare() { # IMAGE…
    local round image console
    mkdir -p "$consoles"
    header "$@"
    for ((round = 1; round <= rounds; round++)); do
        for ((image = 1; image <= $#; image++)); do
            console=$consoles/$(basename "${!image}")-$round
            # With RESUME, completed boots of an earlier run are not repeated.
            if [ -z "${RESUME:-}" ] || [ ! "$console" -nt "${!image}" ] || ! ended "$console"; then
                boot "${!image}" "$console"
            fi
            if ! ended "$console" || complained "$console"; then
                cat "$console" >&2
                echo "$0: ${!image} reported an error, or did not finish" >&2
                exit 1
            fi
            sed -nE "s/^test ([^ :]+): ((not )?ok) /$image \2 \1 /p" "$console"
        done
    done | tally $#
}
