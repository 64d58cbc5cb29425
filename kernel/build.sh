#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Turns the sets of kernel/ into a patched tree, a series for git am and a kernel.
#
#   kernel/build.sh source          fetch and unpack Debian's linux-source package, or the upstream source of a release
#                                   that has no such package any more
#   kernel/build.sh package         the name and version of that package
#   kernel/build.sh archive         the address of the mirror that it comes from
#   kernel/build.sh distribution    the configuration of Debian's kernel for virtual machines of x86-64
#   kernel/build.sh series          write a folder for git send-email for each set, and check it with checkpatch;
#                                   git am --empty=drop takes all of them in order
#   kernel/build.sh tree            bring the unpacked tree to exactly the chosen sets
#   kernel/build.sh image CONFIG…   build; CONFIG: x86_64, arm64-4k, arm64-16k, arm64-64k or
#                                   riscv64, then any further fragments of kernel/config (kunit,
#                                   debug); that of a set that is applied is among them by itself
#
# KERNEL_RELEASE  release of the source package                        (7.3)
# KERNEL_SETS     sets to apply, in order, and those of rfc/ as rfc/NAME; "none" for the tree as it is
#                 (every set of kernel/sets)
# KERNEL_CACHE    where sources, objects and results are kept          (.cache/kernel)
# KERNEL_SOURCES  where source packages are kept, to share them        (KERNEL_CACHE)
# KERNEL_JOBS     compiler processes                                   (all processors)
#
# Each prints the path of its result as its last line. A set is a folder of commits, and a cover letter
# if there are several; a commit is
#   message              subject and body
#   files/PATH           a file that is new in the kernel
#   edits/PATH.cocci     a semantic patch of PATH
#   edits/PATH.sed       a sed -E script for PATH, where spatch cannot read it (Kconfig, Makefile)
#   edits-RELEASE/       instead of edits/, for a release that needs others
set -euo pipefail
shopt -s dotglob globstar nullglob

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
release=${KERNEL_RELEASE:-7.3}
sets=${KERNEL_SETS:-$(tr '\n' ' ' < "$here/sets")}
[ "$sets" != none ] || sets=
cache=${KERNEL_CACHE:-$here/../.cache/kernel}
mkdir -p "$cache/$release"
cache=$(cd "$cache" && pwd)
sources=${KERNEL_SOURCES:-$cache}
work=$cache/$release
linux=$work/linux       # the unpacked tree, with the sets of the last `tree` applied
pristine=$work/pristine # the files of that tree that any set edits, as shipped
scratch=$work/scratch   # a repository of the edited files only: one commit for each of ours

die() { echo "kernel/build.sh: $*" >&2; exit 2; }

# The address of the mirror of Debian that this machine's apt uses.
archive() {
    local uri
    # shellcheck disable=SC2016 # apt fills these in
    uri=$(apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' |
        sed -n 's/^Debian|Debian|//p' | head -n 1)
    [ -n "$uri" ] || die "apt has no Debian archive; run apt-get update"
    echo "$uri"
}

# An apt command with lists of its own: COMMAND ARGUMENT…, in the folder of sources.
apt_of_sources() {
    (cd "$sources" && "$1" -oDir::Etc::sourcelist="$work/apt/sources.list" -oDir::Etc::sourceparts=- \
        -oDir::State::Lists="$work/apt/lists" -oDir::Cache="$work/apt/cache" -oAPT::Sandbox::User=root -qq "${@:2}")
}

# Makes apt_of_sources() know what a suite has of TYPE, which is deb or deb-src.
lists_of() { # TYPE SUITE
    local uri
    uri=$(archive)
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$sources"
    echo "$1 [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $2 main" > "$work/apt/sources.list"
    apt_of_sources apt-get update || die "apt-get update failed for $2 at $uri"
}

# The newest build of the package $1, from that mirror. Fails if it has none.
fetch() {
    local suite
    for suite in trixie-backports sid trixie bookworm; do
        lists_of deb "$suite"
        if apt_of_sources apt-get download "$1" 2> "$work/apt/log"; then return; fi
    done
    return 1
}

# The upstream archive of the newest $release. Backports keep it longer than the package of the source.
fetch_upstream() {
    local version
    lists_of deb-src trixie-backports
    version=$(apt_of_sources apt-cache showsrc linux | sed -n "s/^Version: \($release\..*\)/\1/p" | sort -V | tail -n 1)
    [ -n "$version" ] && apt_of_sources apt-get source --download-only --tar-only "linux=$version"
}

newest() { # PATTERN: the newest file of these names in the folder of sources, if any
    # shellcheck disable=SC2086 # a pattern
    printf '%s\n' "$sources/"$1 | sort -V | tail -n 1
}

distribution() {
    local package=linux-config-$release
    [ -n "$(newest "${package}_*.deb")" ] || fetch "$package" || die "the archive has no $package: $(cat "$work/apt/log")"
    dpkg-deb --fsys-tarfile "$(newest "${package}_*.deb")" |
        tar -xO "./usr/src/$package/config.amd64_none_cloud-amd64.xz" | xz -d > "$work/distribution.config"
}

source_tree() {
    local package=linux-source-$release upstream="linux_$release.*.orig.tar.xz" file
    [ ! -e "$linux/.unpacked" ] || return 0
    if [ -z "$(newest "${package}_*.deb")$(newest "$upstream")" ]; then
        fetch "$package" || fetch_upstream || die "the archive has neither $package nor a source of $release"
    fi
    rm -rf "$linux" "$pristine" "$work/applied"
    mkdir -p "$linux"
    file=$(newest "${package}_*.deb")
    if [ -n "$file" ]; then
        dpkg-deb --fsys-tarfile "$file" | tar -xO "./usr/src/$package.tar.xz" | tar -xJ -C "$linux" --strip-components=1
        basename "$file" .deb > "$linux/.unpacked"
    else
        file=$(newest "$upstream")
        tar -xJf "$file" -C "$linux" --strip-components=1
        echo "${package}_$(basename "$file" .orig.tar.xz | sed 's/^linux_//')" > "$linux/.unpacked"
    fi
}

# Prints the folders of the commits of the chosen sets, in order.
commits() {
    local set commit
    for set in $sets; do
        [ -d "$here/$set" ] || die "no set $set in kernel/"
        for commit in "$here/$set"/*/message; do dirname "$commit"; done
    done
}

# Prints the kernel path and the script of each edit of the commit $1.
edits() {
    local script path edits=$1/edits-$release
    [ -d "$edits" ] || edits=$1/edits
    for script in "$edits"/**/*.cocci "$edits"/**/*.sed; do
        path=${script#"$edits"/}
        echo "${path%.*} $script"
    done
}

apply() { # COMMIT: to the work tree of $scratch
    local path script before
    if [ -d "$1/files" ]; then cp -r "$1/files/." "$scratch"; fi
    while read -r path script; do
        [ -e "$scratch/$path" ] || die "$script edits $path, which $release does not have"
        before=$(sha256sum < "$scratch/$path")
        case $script in
        *.cocci) spatch --very-quiet --in-place --sp-file "$script" "$scratch/$path" > /dev/null ;;
        *.sed) sed -E -i -f "$script" "$scratch/$path" ;;
        esac || die "$script failed on $path of $release"
        [ "$before" != "$(sha256sum < "$scratch/$path")" ] ||
            die "$script changed nothing in $path of $release"
    done < <(edits "$1")
}

in_scratch() {
    git -C "$scratch" -c user.name=hugetext -c user.email=hugetext@kernel.invalid \
        -c commit.gpgsign=false -c core.hooksPath=/dev/null "$@"
}

series() {
    source_tree
    local commit path script
    rm -rf "$scratch"
    mkdir -p "$scratch"
    git init -q -b series "$scratch"
    while read -r commit; do
        while read -r path script; do
            if [ -e "$linux/$path" ] && [ ! -e "$pristine/$path" ] &&
                ! grep -qsxF "$path" "$work/applied"; then
                install -D -m 644 "$linux/$path" "$pristine/$path"
            fi
            if [ -e "$pristine/$path" ]; then
                install -D -m 644 "$pristine/$path" "$scratch/$path"
            fi
        done < <(edits "$commit")
    done < <(commits)
    # Fixed dates, so that the same sets give the same series.
    export GIT_AUTHOR_DATE='2026-11-20T00:00:00Z' GIT_COMMITTER_DATE='2026-11-20T00:00:00Z'
    in_scratch add -A
    in_scratch commit -q --allow-empty -m "$(cat "$linux/.unpacked")"
    while read -r commit; do
        apply "$commit"
        in_scratch add -A
        # The person who sends a patch signs it off, and says who assisted.
        in_scratch commit -q -F "$commit/message"
    done < <(commits)
    rm -rf "$work/patches"
    letters
}

# One folder of patches for each set, numbered on its own. A set with a cover letter has it as 0000.
letters() {
    local set name from number=0 count
    from=HEAD~$(commits | wc -l)
    for set in $sets; do
        count=$(sets=$set commits | wc -l)
        number=$((number + 1))
        name=${set##*/}
        in_scratch branch -q -f "$name" "$(in_scratch rev-list --reverse "$from..HEAD" | sed -n "${count}p")"
        local options=(-q --no-signature -o "$work/patches/$number-$name")
        if [ -e "$here/$set/cover" ]; then
            in_scratch config "branch.$name.description" "$(cat "$here/$set/cover")"
            options+=(--cover-letter --cover-from-description=subject --stat=72)
        fi
        in_scratch format-patch "${options[@]}" "$from..$name"
        from=$name
    done
}

checkpatch() {
    local patch ignore
    for patch in "$work"/patches/*/*.patch; do
        [ "${patch##*/}" != 0000-cover-letter.patch ] || continue
        # The MAINTAINERS entries of their folders cover new files. A package has no history of commits.
        # Who sends it signs it off. A new flag is written as those beside it.
        ignore=FILE_PATH_CHANGES,UNKNOWN_COMMIT_ID,MISSING_SIGN_OFF,BIT_MACRO
        # Trace events are laid out in a form of their own.
        ! grep -q '^+++ b/include/trace/events/' "$patch" ||
            ignore+=,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT,COMPLEX_MACRO,MACRO_ARG_UNUSED,TRAILING_SEMICOLON
        # It does not know that this macro declares a variable.
        ! grep -q '^+	VMG_MMAP_STATE(' "$patch" || ignore+=,LINE_SPACING
        # It takes the operand of an attribute for a parameter, in the declarations that are there as well.
        ! grep -qE '^\+.*__(cond_)?acquires' "$patch" || ignore+=,FUNCTION_ARGUMENTS
        (cd "$linux" && scripts/checkpatch.pl --strict --terse --no-summary \
            --ignore "$ignore" "$patch") || die "checkpatch rejects $patch"
    done
}

tree() {
    series
    local path from
    (cd "$scratch" && git ls-files) > "$work/files"
    while read -r path; do
        if [ -e "$scratch/$path" ]; then
            from=$scratch/$path
        elif [ -e "$pristine/$path" ]; then
            from=$pristine/$path
        else
            rm -f "$linux/$path"
            continue
        fi
        # Identical files keep their times, so that only changed files are compiled again.
        cmp -s "$from" "$linux/$path" || install -D -m 644 "$from" "$linux/$path"
    done < <(sort -u "$work/files" <(cat "$work/applied" 2> /dev/null))
    mv "$work/files" "$work/applied"
}

own_fragments() { # of the chosen sets: what options they have, on
    local set
    for set in $sets; do
        if [ -e "$here/config/${set##*/}.config" ]; then echo "${set##*/}"; fi
    done
}

image() { # CONFIG FRAGMENT…
    local arch cross='' host file
    case $1 in
    x86_64) arch=x86_64 host=x86_64 file=arch/x86/boot/bzImage ;;
    arm64-*) arch=arm64 host=aarch64 file=arch/arm64/boot/Image ;;
    riscv64) arch=riscv host=riscv64 file=arch/riscv/boot/Image ;;
    *) die "unknown configuration $1; the known ones are x86_64, arm64-4k, arm64-16k, arm64-64k, riscv64" ;;
    esac
    if [ "$host" != "$(uname -m)" ]; then
        "$here/../scripts/setup.sh" "kernel-${1%%-*}"
        cross=$host-linux-gnu-
    fi
    tree
    local name fragment objects
    name=$(IFS=-; echo "$*")
    objects=$work/build/$name
    mkdir -p "$objects" "$work/image"
    for fragment in common $(own_fragments) "$@"; do
        cat "$here/config/$fragment.config" 2> /dev/null || die "no kernel/config/$fragment.config"
    done > "$objects/wanted"
    # Options that a release names differently.
    cat "$here/config/$release.config" >> "$objects/wanted" 2> /dev/null || true
    # Objects outlive the tree, beside its sources.
    export CCACHE_DIR="${CCACHE_DIR:-$sources/ccache}" CCACHE_MAXSIZE="${CCACHE_MAXSIZE:-4G}"
    local make=(make -s -C "$linux" O="$objects" ARCH="$arch" CROSS_COMPILE="$cross" CC="ccache ${cross}gcc"
        KBUILD_BUILD_TIMESTAMP=2026-11-20 KBUILD_BUILD_USER=hugetext KBUILD_BUILD_HOST=hugetext)
    "${make[@]}" KCONFIG_ALLCONFIG="$objects/wanted" allnoconfig > "$objects/config.log" 2>&1 ||
        die "configuration failed: $objects/config.log"
    # A set that is not applied has no options. Every other wanted option must hold; of two lines
    # about one option, the later one counts.
    local lost
    lost=$(sed -E 's/^# (CONFIG_[A-Z0-9_]+) is not set$/\1=n/' "$objects/wanted" |
        awk -F= '/^CONFIG_/ { last[$1] = $0 } END { for (option in last) print last[option] }' |
        grep -v '=n$' | grep -vxFf "$objects/.config" | grep -vE '_KUNIT' || true)
    [ -z "$lost" ] || die "$release does not accept: $(echo "$lost" | tr '\n' ' ')"
    "${make[@]}" -j"${KERNEL_JOBS:-$(nproc)}" "$(basename "$file")" > "$objects/build.log" 2>&1 ||
        die "the build failed: $(grep -m 3 -E 'error|Error' "$objects/build.log") ($objects/build.log)"
    local result
    result=$work/image/$name-$(echo "${sets:-none}" | xargs | tr ' /' '--')
    cp "$objects/$file" "$result"
    echo "$result"
}

"$here/../scripts/setup.sh" kernel
case ${1:-} in
source) source_tree; echo "$linux" ;;
package) source_tree; basename "$(cat "$linux/.unpacked")" _all ;;
archive) archive ;;
distribution) distribution; echo "$work/distribution.config" ;;
series) series; checkpatch; echo "$work/patches" ;;
tree) tree; echo "$linux" ;;
image) shift; [ $# -gt 0 ] || die "image of which configuration?"; image "$@" ;;
*) sed -n '3,16p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
