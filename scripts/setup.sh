#!/bin/sh
# Installs what a task needs and this machine lacks: scripts/setup.sh TASK…
# Debian packages, one reason each; as another user than root it only names them.
set -eu

packages() {
    case $1 in
    build)
        echo gcc        # links Rust programs, and its cc1 is the demonstration
        ;;
    lint)
        packages build
        echo shellcheck # reads the scripts of every task
        ;;
    test)
        packages lint
        packages lab
        echo qemu-user  # runs programs with the TLB plugin
        echo gdb valgrind # what they run is not to be promoted
        ;;
    lab)
        packages build
        echo qemu-system-x86 qemu-system-arm # the guests
        # Synthetic programs of the other architecture.
        case $(dpkg --print-architecture) in
        arm64) echo gcc-x86-64-linux-gnu ;;
        *) echo gcc-aarch64-linux-gnu ;;
        esac
        echo kmod xz-utils zstd # depmod; modules as Debian packs them
        echo e2fsprogs xfsprogs btrfs-progs f2fs-tools erofs-utils # disks
        echo cpio       # reads what the lab writes, in a test
        ;;
    linkers)
        packages test
        echo binutils lld mold             # every linker
        echo elfutils patchelf llvm gdb linux-perf # what must still work on a fixed file
        echo libcap2-bin attr              # what must stay with it
        echo musl-tools bolt-16            # makers of other layouts
        echo libc6-dev-arm64-cross         # programs of other architectures,
        echo gcc-riscv64-linux-gnu libc6-dev-riscv64-cross clang-19 # linked by Rust's lld
        echo xfsprogs btrfs-progs fsverity bindfs # filesystems and what they add
        echo cmake make meson ninja-build golang-go # docs/link-time.md
        ;;
    bench-fix)
        packages build
        echo time patchelf llvm # what it is compared with, and by
        echo xfsprogs btrfs-progs # filesystems that share blocks
        ;;
    fuzz)
        packages build
        ;;
    kernel)
        echo gcc make flex bison bc libelf-dev libssl-dev cpio xz-utils
        echo git        # makes the series
        echo coccinelle # applies the semantic patches
        echo perl       # checkpatch
        ;;
    test-kernel-ci)
        packages kernel
        echo qemu-system-x86 # the guest
        echo e2fsprogs jq    # its disk, and what it says
        ;;
    test-kernel)
        packages test-kernel-ci
        echo qemu-system-arm # the other guests
        echo binutils   # readelf, to choose programs
        echo mold lld   # started there, beside cc1 and git
        ;;
    kernel-compile)
        packages kernel
        echo jq
        # The architectures of kernel/rmap/lab/compile.sh.
        for architecture in arm-linux-gnueabihf riscv64-linux-gnu hppa-linux-gnu \
            powerpc64le-linux-gnu s390x-linux-gnu sh4-linux-gnu; do
            echo "gcc-$architecture"
        done
        ;;
    kernel-arm64)
        echo gcc-aarch64-linux-gnu
        ;;
    kernel-x86_64)
        echo gcc-x86-64-linux-gnu
        ;;
    browser)
        packages bench
        echo chromium           # opens the report
        echo fonts-dejavu-core  # its text, in screenshots
        # playwright-core drives it, axe-core checks it; Node.js often comes from elsewhere.
        command -v npm >/dev/null || echo nodejs npm
        ;;
    results-promote)
        packages build
        echo nodejs postgresql # what is promoted; Java and Go too if they are there
        ;;
    targets)
        packages build
        echo nodejs python3 git qemu-system-x86 postgresql # what is run; Java too if it is there
        ;;
    results)
        packages build
        echo python3    # brings files into small folios
        ;;
    bench)
        packages build
        echo binutils   # readelf, to compare a scan with
        echo qemu-user  # runs programs with the TLB plugin
        ;;
    *)
        echo "scripts/setup.sh: no task '$1'" >&2
        exit 2
        ;;
    esac
}

missing=
for task in "$@"; do
    for package in $(packages "$task"); do
        state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
        [ "$state" = installed ] || missing="$missing $package"
    done
done
case " $* " in
*" lab "* | *" test "*)
    # What runs inside guests is static.
    rustup -q target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl || {
        echo "cannot add Rust's musl targets; see the line above, or install rustup" >&2
        exit 2
    }
    ;;
esac
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
    echo "missing packages; run: sudo apt-get install$missing" >&2
    exit 2
fi
echo "installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null
# shellcheck disable=SC2086 # a list of names
apt-get install -q -y --no-install-recommends $missing >/dev/null
