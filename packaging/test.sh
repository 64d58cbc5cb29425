#!/bin/sh
# Installs, upgrades under and removes the package with the real dpkg, in a copy of this machine
# that no other process sees: packaging/test.sh FILE.deb, as root. Writes only to a temporary
# directory.
set -eu

deb=$(realpath "$1")
if [ "$(id -u)" != 0 ] || ! command -v dpkg-deb >/dev/null; then
    echo "skipped: needs root and dpkg"
    exit 0
fi
if [ -z "${INSIDE:-}" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    INSIDE=$work unshare --mount --propagation private "$0" "$deb"
    exit
fi

work=$INSIDE
mkdir "$work/upper" "$work/work" "$work/root" "$work/cache"
if ! mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"; then
    echo "skipped: no overlay mounts here"
    exit 0
fi
mount --rbind /proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
mount --rbind /sys "$work/root/sys"
mkdir -p "$work/root/var/cache/hugetext" "$work/root/packages"
# Copies are on a filesystem that can hold huge folios. For an overlay itself that is unknown.
mount --bind "$work/cache" "$work/root/var/cache/hugetext"
cp "$deb" "$work/root/packages/hugetext.deb"
# The package with its debug information is beside it.
cp "$(dirname "$deb")/$(basename "$deb" | sed 's/^hugetext_/hugetext-dbgsym_/')" "$work/root/packages/dbgsym.deb"
inside() { chroot "$work/root" "$@"; }
fail() { echo "failed: $*"; exit 1; }

# A small package with a program of 8 MiB of text, in two versions.
build() {
    tree=$work/root/packages/subject-$1
    mkdir -p "$tree/DEBIAN" "$tree/usr/bin"
    printf 'int main(void) { return %s; }\n__asm__(".text\\n.balign 4096\\n.skip 8 << 20, 0xc3\\n");\n' "$1" |
        cc -x c - -o "$tree/usr/bin/hugetext-subject"
    printf 'Package: hugetext-subject\nVersion: %s\nArchitecture: %s\nMaintainer: none <none@example.org>\nDescription: test\n' \
        "$1" "$(dpkg --print-architecture)" > "$tree/DEBIAN/control"
    dpkg-deb --build --root-owner-group "$tree" "$tree.deb" >/dev/null
}
build 1
build 2
entries() { find "$work/cache" -name '*.json' 2>/dev/null | wc -l; }

# Either of the two packages is whole after the other has been purged.
inside dpkg -i /packages/hugetext.deb /packages/dbgsym.deb >/dev/null
mkdir -p "$work/root/var/lib/hugetext"
touch "$work/root/var/lib/hugetext/kept" "$work/cache/limit"
inside dpkg --purge hugetext-dbgsym >/dev/null
for kept in etc/hugetext/auto.toml etc/apt/apt.conf.d/80hugetext var/lib/hugetext/kept var/cache/hugetext/limit usr/bin/hugetext; do
    [ -e "$work/root/$kept" ] || fail "the purge of hugetext-dbgsym removed /$kept"
done
inside dpkg -i /packages/dbgsym.deb >/dev/null
inside dpkg --purge hugetext >/dev/null
[ -e "$work/root/usr/lib/debug/usr/bin/hugetext.debug" ] || fail "the purge of hugetext removed debug information"
[ ! -e "$work/root/etc/hugetext" ] || fail "the purge of hugetext left /etc/hugetext"
inside dpkg --purge hugetext-dbgsym >/dev/null

inside dpkg -i /packages/hugetext.deb >/dev/null
inside hugetext --version
# The command does to itself what it does to others.
inside hugetext check --json /usr/bin/hugetext | grep -q '"reached": *[1-9]' || fail "the command's own text reaches no huge page"
[ -e "$work/root/usr/share/man/man1/hugetext-run.1.gz" ] || fail "no man page"
[ -e "$work/root/usr/share/bash-completion/completions/hugetext" ] || fail "no completion"
if inside sh -c 'command -v systemd-analyze' >/dev/null; then
    units=/usr/lib/systemd/system
    inside systemd-analyze verify "$units/hugetext-auto.service" "$units/run-hugetext.mount" || fail "a unit"
    # The highest accepted exposure is 2.4; systemd-analyze calls up to 4.9 OK. Of it, 0.3 is CAP_SYS_PTRACE,
    # without which nobody may read what the processes of others map, and 0.3 CAP_SYS_ADMIN, which the daemon
    # gives up before it opens a file.
    inside systemd-analyze security --offline=true --threshold=24 --no-pager "$units/hugetext-auto.service" \
        >"$work/exposure" || fail "$(cat "$work/exposure")"
    tail -n 1 "$work/exposure"
else
    echo "skipped: no systemd-analyze, so units are not verified"
fi
inside dpkg -i /packages/subject-1.deb >/dev/null
inside hugetext keep add --package hugetext-subject
inside hugetext keep apply
[ "$(entries)" = 1 ] || fail "keep apply made $(entries) copies, not 1"
inside hugetext keep apply --quiet
[ "$(entries)" = 1 ] || fail "keep apply is not idempotent"

# The upgrade: only the trigger can notice it.
inside dpkg -i /packages/subject-2.deb >/dev/null
[ "$(entries)" = 2 ] || fail "the upgrade was not noticed"
inside hugetext run hugetext-subject && fail "the old program ran" || [ $? = 2 ] || fail "run"

inside dpkg --remove hugetext >/dev/null
[ ! -e "$work/root/usr/bin/hugetext" ] || fail "something stayed"
inside dpkg --purge hugetext >/dev/null
[ ! -e "$work/root/etc/hugetext" ] || fail "purge left the lists"
inside dpkg --audit
echo "installed, upgraded under, removed"
