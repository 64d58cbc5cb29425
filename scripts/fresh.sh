#!/usr/bin/env bash
# Runs a command of the project in a fresh Debian root. There, no package of this machine can hide
# that the project forgot to install it:
#
#   scripts/fresh.sh SUITE mount|chroot root|user COMMAND [ARG…]
#
# The root holds Debian's essential packages, make, git and CA certificates. Rust is this machine's,
# and so are its kernel, /proc, /sys and /dev. COMMAND runs in a clone of HEAD.
#   mount    the root is a mount, as in a container
#   chroot   it is an ordinary directory, as in image builds, sbuild, schroot and mock
#   user     as a plain user. If COMMAND stops because packages are missing, the line that it prints
# is            run as root, as the user would do, and COMMAND starts again.
#
# With FRESH_TARGET, an absolute path, the clone takes over that build directory and gives it back at the
# end, so that a second root of a suite compiles no crate again. It should not exist before the first.
# With FRESH_SOURCE, an absolute path, COMMAND runs in that checkout instead of a clone, and what it builds there stays.
# With FRESH_KEEP, an absolute path, the root is kept there if COMMAND succeeds, without its clone. A later call
# starts with a copy of that root if FRESH_FROM names it, and needs none of the packages again. With FRESH_OVER instead
# it starts with an overlay above that root, which takes no time. Programs of the root then lie in an overlay.
#
# Needs root and mmdebstrap. Downloads are kept in $XDG_CACHE_HOME/hugetext/fresh: minimal roots for a
# week, packages, crates and kernels for good. All mounts are in a namespace of this script's own.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
die() { echo "scripts/fresh.sh: $*" >&2; exit 2; }

[ $# -ge 4 ] || die "usage: scripts/fresh.sh SUITE mount|chroot root|user COMMAND [ARG…]"
suite=$1 as=$2 who=$3
shift 3
case $as in mount | chroot) ;; *) die "'$as' is neither mount nor chroot" ;; esac
case $who in root | user) ;; *) die "'$who' is neither root nor user" ;; esac
[ "$(id -u)" = 0 ] || die "needs root, for mounts and chroot"
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing; run scripts/setup.sh fresh"
cargo=${CARGO_HOME:-$HOME/.cargo}
rustup=${RUSTUP_HOME:-$HOME/.rustup}
[ -x "$cargo/bin/rustup" ] || die "no rustup in $cargo/bin; the root takes Rust from there"

if [ -z "${HUGETEXT_FRESH:-}" ]; then
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/hugetext/fresh
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/root.XXXXXX")
    # Mounts of the namespace are not visible here, so only the root is removed.
    trap 'rm -rf --one-file-system "$work"' EXIT
    trap 'exit 130' INT TERM
    status=0
    HUGETEXT_FRESH=$work unshare --mount --propagation private "$0" "$suite" "$as" "$who" "$@" || status=$?
    if [ -n "${FRESH_TARGET:-}" ] && [ -d "$work/root/src/target" ]; then
        mkdir -p "$(dirname "$FRESH_TARGET")"
        mv "$work/root/src/target" "$FRESH_TARGET"
    fi
    if [ -n "${FRESH_KEEP:-}" ] && [ "$status" = 0 ]; then
        rm -rf "$work/root/src" "$work/work"
        mkdir -p "$(dirname "$FRESH_KEEP")"
        mv "$work" "$FRESH_KEEP"
    fi
    exit "$status"
fi
work=$HUGETEXT_FRESH
cache=$(dirname "$work")
root=$work/root
unset HUGETEXT_FRESH

# The minimal root, made at most once a week.
tar=$cache/$suite.tar
if [ -z "${FRESH_FROM:-}${FRESH_OVER:-}" ] && [ -z "$(find "$cache" -maxdepth 1 -name "$suite.tar" -mtime -7)" ]; then
    # A mirror may be late, and sid's lists expire after a week.
    mmdebstrap --quiet --variant=minbase --include=make,git,ca-certificates \
        --aptopt='Acquire::Check-Valid-Until "false"' "$suite" "$work/new.tar" ||
        die "mmdebstrap cannot make a root of $suite"
    mv "$work/new.tar" "$tar"
fi
mkdir -p "$root"
if [ -n "${FRESH_FROM:-}" ]; then
    cp -a --reflink=auto "$FRESH_FROM/." "$work"
elif [ -n "${FRESH_OVER:-}" ]; then
    mkdir -p "$work/over/upper" "$work/over/work"
    mount -t overlay overlay -o "lowerdir=$FRESH_OVER/root,upperdir=$work/over/upper,workdir=$work/over/work" "$root"
else
    tar -C "$root" -xf "$tar" --exclude=./dev/*
fi

# Rust of this machine, under the same path, because a toolchain may be a link to another. Additions of
# rustup stay in this root.
mkdir -p "$root$rustup" "$root/opt/cargo/bin" "$work/upper" "$work/work"
chmod a+x "$root/root" "$root$(dirname "$rustup")"
cp "$cargo/bin/rustup" "$root/opt/cargo/bin/rustup"
for tool in cargo rustc rustdoc rustfmt cargo-fmt cargo-clippy clippy-driver; do
    ln -sf rustup "$root/opt/cargo/bin/$tool"
done
mount -t overlay overlay -o "lowerdir=$rustup,upperdir=$work/upper,workdir=$work/work" "$root$rustup"

kept() { # NAME PATH: the directory NAME of the cache at PATH of the root
    mkdir -p "$cache/$1" "$root$2"
    mount --bind "$cache/$1" "$root$2"
}
kept "apt-$suite" /var/cache/apt/archives
mkdir -p "$cache/apt-$suite/partial"
kept registry /opt/cargo/registry
kept kernel /var/cache/kernel
for path in proc sys dev; do
    mkdir -p "$root/$path"
    mount --rbind "/$path" "$root/$path"
done
# The files by which this machine reaches the archives: its resolver, its hosts and its certificates. One
# of them may be a company's own.
cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    cp --dereference /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
fi

if [ -n "${FRESH_SOURCE:-}" ]; then
    mkdir -p "$root/src"
    mount --bind "$FRESH_SOURCE" "$root/src"
else
    git clone -q "$here" "$root/src"
fi
# It is moved and not mounted: a chroot is to know of no mount.
if [ -d "${FRESH_TARGET:-}" ]; then
    mv "$FRESH_TARGET" "$root/src/target"
    # A root of a plain user may have left it, and a store of copies below it trusts its owner alone.
    chown -R --no-dereference root:root "$root/src/target"
fi
# Below the checkout, because the lab keeps what it fetches there.
kept archive /src/.cache/lab/archive
[ -n "${FRESH_SOURCE:-}" ] || [ -z "$(git -C "$here" status --porcelain)" ] || echo "scripts/fresh.sh: tests HEAD, without uncommitted changes" >&2

environment=(PATH=/opt/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    CARGO_HOME=/opt/cargo RUSTUP_HOME="$rustup" KERNEL_SOURCES=/var/cache/kernel LANG=C.UTF-8)
for name in CI TERM RUSTUP_TOOLCHAIN CARGO_PROFILE_DEV_DEBUG CARGO_TERM_COLOR \
    http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || environment+=("$name=${!name}")
done

case $as in
mount)
    # pivot_root(2) needs a mount. The old root is unmounted, so that this is no chroot.
    mount --rbind "$root" "$root"
    mkdir -p "$root/old"
    cd "$root"
    pivot_root . old
    umount --lazy /old
    inside=
    within() { env -i "${environment[@]}" HOME=/root sh -c 'cd /src && exec "$@"' sh "$@"; }
    ;;
chroot)
    inside=$root
    within() { env -i "${environment[@]}" HOME=/root chroot "$root" sh -c 'cd /src && exec "$@"' sh "$@"; }
    ;;
esac

if [ "$who" = root ]; then
    within "$@"
    exit
fi

# Root adds the targets, as a user would have done.
within rustup -q target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl riscv64gc-unknown-linux-gnu \
    armv7-unknown-linux-gnueabihf s390x-unknown-linux-gnu
within useradd --create-home someone
within chown -R someone /src /opt/cargo
said=${inside}/tmp/said
user() { within setpriv --reuid someone --regid someone --init-groups env HOME=/home/someone "$@"; }
# Each task may need more packages. Ten rounds are more than any command needs.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    if user "$@" 2>&1 | tee "$said"; then exit; fi
    line=$(sed -n 's/^missing packages; run: sudo //p' "$said" | tail -n 1)
    [ -n "$line" ] || exit 1
    echo "scripts/fresh.sh: as root: $line" >&2
    within sh -c "apt-get -q update >/dev/null; DEBIAN_FRONTEND=noninteractive ${line/install/install -q -y} >/dev/null"
done
die "packages are still missing"
