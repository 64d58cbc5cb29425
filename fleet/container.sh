#!/usr/bin/env bash
# The container image of hugetext for both architectures, as an OCI layout: fleet/container.sh OUT
#
# It holds the static programs and nothing else. `make -C fleet container` builds them first. The same programs give the
# same image. No registry and no daemon is used; `skopeo copy oci:OUT …` or `ctr images import` takes it on.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
die() { echo "fleet/container.sh: $*" >&2; exit 2; }
[ $# = 1 ] || die "usage: fleet/container.sh OUT"
[ ! -e "$1" ] || die "$1 exists; remove it"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/Cargo.toml" | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

layer() { # RUST-NAME: prints the archive with the programs of an architecture
    local tree=$work/$1 program
    mkdir -p "$tree/usr/bin"
    for program in "$here/../target/$1-unknown-linux-musl/release/hugetext" \
        "$here/target/$1-unknown-linux-musl/release/hugetext-nri"; do
        [ -x "$program" ] || die "$program is missing; run make -C fleet container"
        install -m 755 "$program" "$tree/usr/bin/"
    done
    tar -C "$tree" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go-w -cf "$work/$1.tar" usr
    echo "$work/$1.tar"
}

x86_64=$(layer x86_64)
aarch64=$(layer aarch64)
"$here/image.py" "$1" "localhost/hugetext:$version" "amd64=$x86_64" "arm64=$aarch64" -- /usr/bin/hugetext
