#!/usr/bin/env bash
# hugetext-nri with a real containerd and runc, of Debian trixie: fleet/nri/test.sh HUGETEXT NRI CRI INVENTORY
#
#   HUGETEXT  the command
#   NRI       the program hugetext-nri
#   CRI       the client of the Container Runtime Interface (fleet/nri/examples/cri.rs)
#   INVENTORY the program hugetext-inventory
#
# BEFORE names a directory with earlier builds of hugetext and hugetext-nri, which are upgraded and rolled back to;
# without it, copies of the same builds take their part. CONTAINER names the layout that `make -C fleet container` wrote.
#
# containerd runs in a root that mmdebstrap makes, with directories and sockets of its own. All processes are in a
# namespace of this script's own and end with it; so do all mounts. Needs root.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
die() { echo "fleet/nri/test.sh: $*" >&2; exit 1; }
skip() { echo "skipped: $*"; exit 0; }

[ $# = 4 ] || die "usage: fleet/nri/test.sh HUGETEXT NRI CRI INVENTORY"
[ "$(id -u)" = 0 ] || skip "containers need root"
for tool in mmdebstrap gcc python3 unshare setpriv; do
    command -v "$tool" >/dev/null || skip "$tool is missing; run scripts/setup.sh nri"
done
unshare --mount --pid --fork true 2>/dev/null || skip "this machine lets nobody make namespaces"
hugetext=$(realpath "$1") nri=$(realpath "$2") cri=$(realpath "$3") inventory=$(realpath "$4")
before=${BEFORE:+$(realpath "$BEFORE")} layout=${CONTAINER:+$(realpath "$CONTAINER")}

# Groups that runc made. The kernel removes only empty ones, and what was killed needs a moment to leave.
remove_groups() {
    local left
    for _ in $(seq 50); do
        left=$(find /sys/fs/cgroup -maxdepth 2 -path "*$group")
        [ -n "$left" ] || return 0
        # shellcheck disable=SC2086 # names without spaces
        find $left -depth -type d -exec rmdir {} \; 2>/dev/null || true
        sleep 0.1
    done
}
end_all() {
    # Its death kills the first process of the namespace, and with that all others.
    [ -z "$namespace" ] || kill -KILL "$namespace" || true
    wait
    remove_groups
    # Mounts of the namespace are not visible here, so only the test's own files are removed.
    rm -rf --one-file-system "$work"
}
if [ -z "${HUGETEXT_NRI_TEST:-}" ]; then
    work=$(mktemp -d "${TMPDIR:-/tmp}/hugetext-nri.XXXXXX")
    group=/hugetext-nri-test-$(basename "$work")
    namespace=
    trap end_all EXIT
    trap 'exit 143' HUP INT TERM
    # In the background, so that a signal is not left until the end. It ends with this script in every case.
    HUGETEXT_NRI_TEST=$work CGROUP_PARENT=$group setpriv --pdeathsig KILL \
        unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
        "$0" "$hugetext" "$nri" "$cri" "$inventory" &
    namespace=$!
    status=0
    wait "$namespace" || status=$?
    namespace=
    exit "$status"
fi
# The end of this script kills whatever is in its namespace.
[ $$ = 1 ] || die "HUGETEXT_NRI_TEST is for this script alone; unset it"
work=$HUGETEXT_NRI_TEST
root=$work/root
group=$CGROUP_PARENT

finish() {
    local status=$?
    if [ "$status" != 0 ]; then
        echo "--- the plugin said:" && tail -n 30 "$work/plugin.log"
        echo "--- the autopilot said:" && tail -n 30 "$work/autopilot.log"
        echo "--- containerd said:" && tail -n 20 "$work/containerd.log"
    fi >&2 2>/dev/null
    # Everything but this shell is in its process namespace.
    kill -KILL -1 2>/dev/null || true
    wait
}
trap finish EXIT
# The kernel gives the first process of a namespace no signal that it does not handle.
trap 'exit 143' HUP INT TERM

# Waits until a command succeeds, for five minutes at most.
await() {
    for _ in $(seq 3000); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    die "no success in time: $*"
}

# The root of containerd, and the images: node has 29 MB of text in a library, postgres 7 MB in its program.
mirror() { mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' "$@"; }
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hugetext/nri
mkdir -p "$cache"
kept() { # NAME PACKAGES: a root as an archive, made at most once a week
    [ -n "$(find "$cache" -maxdepth 1 -name "$1.tar" -mtime -7)" ] && return
    mirror --include="$2" trixie "$work/new.tar" || die "mmdebstrap cannot make a root of trixie"
    mv "$work/new.tar" "$cache/$1.tar"
}
kept containerd containerd,runc
kept node nodejs
kept postgres postgresql
mkdir "$root" "$work/state" "$work/pause" "$work/store" "$work/autopilot"
tar -C "$root" -xf "$cache/containerd.tar" --exclude='./dev/*'
# Pods that use the network of the host get these files of it.
touch "$root/etc/hosts" "$root/etc/resolv.conf"

# A pause image, and node with a second layer, as images have: an entry point that executes its arguments.
cat >"$work/pause.c" <<'EOF'
#include <unistd.h>
int main(void) { for (;;) pause(); }
EOF
gcc -static -O -o "$work/pause/pause" "$work/pause.c"
mkdir "$work/entry"
cat >"$work/entry/entry.sh" <<'EOF'
#!/bin/sh
exec "$@"
EOF
cat >"$work/entry/postgres.sh" <<'EOF'
#!/bin/sh
"${1%/*}/initdb" -D /tmp/data >/dev/null
exec "$@"
EOF
chmod 755 "$work"/entry/*.sh
sorted=(--sort=name --mtime=@0 --owner=0 --group=0)
tar -C "$work/pause" "${sorted[@]}" -cf "$work/pause.tar" .
tar -C "$work/entry" "${sorted[@]}" -cf "$work/entry.tar" .
architecture=$(dpkg --print-architecture)
image() { # NAME LAYERS ENTRYPOINT…
    local name=$1 layers=$2
    shift 2
    "$here/../image.py" "$work/$name.oci" "localhost/$name:test" "$architecture=$layers" -- "$@"
    tar -C "$work/$name.oci" -cf "$root/$name.tar" .
}
image pause "$work/pause.tar" /pause
image node "$cache/node.tar,$work/entry.tar" /entry.sh
image postgres "$cache/postgres.tar,$work/entry.tar" /postgres.sh

# runc needs a root that is a mount. The state has the same path inside and outside.
mount --bind "$root" "$root"
for path in sys dev; do mount --rbind "/$path" "$root/$path"; done
mount -t proc proc "$root/proc"
mkdir -p "$root$work"
mount --bind "$work" "$root$work"
cat >"$work/containerd.toml" <<EOF
version = 2
root = "$work/state/root"
state = "$work/state/run"
oom_score = 0
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = "$work/containerd.sock"
[ttrpc]
address = "$work/containerd.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:test"
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.nri.v1.nri"]
disable = false
disable_connections = false
plugin_path = "$work/no-plugins"
plugin_config_path = "$work/no-plugins"
socket_path = "$work/nri.sock"
EOF
clean=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin)
inside() { chroot "$root" "${clean[@]}" "$@"; }
# The root of containerd's mount namespace is this one, as on a node. Behind a chroot, the kernel would show the files
# of containers to others with its path before theirs.
mkdir "$root/outside"
# shellcheck disable=SC2016 # it has arguments of its own
unshare --mount sh -c 'cd "$0" && pivot_root . outside && umount -l /outside && exec "$@"' "$root" \
    "${clean[@]}" containerd --config "$work/containerd.toml" >"$work/containerd.log" 2>&1 &
ctr() { inside ctr --address "$work/containerd.sock" --namespace k8s.io "$@"; }
await ctr version
for name in pause node postgres; do ctr images import "/$name.tar" >/dev/null; done

plugin=
sessions=0
start_plugin() { # NRI [ARGUMENT…]
    "$@" --socket "$work/nri.sock" --containerd "$work/containerd.sock" --store "$work/store" \
        --run-dir "$work/autopilot" --at-most copies 2>>"$work/plugin.log" &
    plugin=$!
    sessions=$((sessions + 1))
    await serves "$sessions"
}
kill_plugin() {
    kill -KILL "$plugin"
    wait "$plugin" || true
}
serves() { [ "$(grep -c 'serves containerd' "$work/plugin.log")" = "$1" ]; }

# The archive of the only layer of an image, for an architecture.
layer_of() { # LAYOUT ARCHITECTURE
    python3 - "$@" <<'EOF'
import json, pathlib, sys
layout = pathlib.Path(sys.argv[1])
blob = lambda of: layout / "blobs" / of["digest"].replace(":", "/")
[image] = json.loads((layout / "index.json").read_text())["manifests"]
images = json.loads(blob(image).read_text())["manifests"]
[wanted] = [each for each in images if each["platform"]["architecture"] == sys.argv[2]]
[layer] = json.loads(blob(wanted).read_text())["layers"]
print(blob(layer))
EOF
}

# Says what node sees of its own files, and stays.
script='const fs = require("fs"); console.log(process.execPath);
for (const line of fs.readFileSync("/proc/self/maps", "utf8").split("\n"))
    if (/ r-xp .*node/.test(line)) console.log(line.split(/ +/)[5]);
console.log("ready"); setInterval(() => {}, 1000);'
pod='' container='' pid='' log=''
image=node
command=(/entry.sh node -e "$script")
begin() { # NAME [ANNOTATION…]
    local name=$1
    shift
    mkdir "$work/$name"
    read -r pod container < <("$cri" "$work/containerd.sock" run "$name" "$work/$name" "localhost/$image:test" "$@" \
        -- "${command[@]}")
    [ -n "$container" ] || die "$name did not start"
    log=$work/$name/log
    await grep -q ' ready' "$log"
    pid=$(ctr tasks ls | awk -v id="$container" '$1 == id { print $2 }')
    [ -n "$pid" ] || die "$name does not run"
}
# A start waits for no more than the bound, so the first ones may show no copies yet.
begin_with_copies() { # NAME
    local try
    for try in 1 2 3 4 5; do
        begin "$1$try" hugetext/text=copies
        if [ "$(shown "$pid")" -gt 0 ]; then return; fi
        end "$pod"
        await grep -q "$container: .* ready for\|pod test/$1$try container main:.* ms$" "$work/plugin.log"
    done
    die "$1: no copy is shown"
}
end() { "$cri" "$work/containerd.sock" end "$1"; }
# Mounts of the store. What stands before $work depends on the mount that holds it.
store=$(basename "$work")/store/
shown() { grep -c "$store" "/proc/$1/mountinfo" || true; }
huge() {
    "$hugetext" --json stat "$1" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["processes"][0]["total"]["pmd_mapped"])'
}

echo "1. without a plugin"
begin plain
echo "   huge text: $(huge "$pid") bytes"
end "$pod"

echo "2. copies at the files' own paths"
start_plugin "$nri"
begin_with_copies copies
grep "container main:" "$work/plugin.log" || die "CreateContainer of the plugin was not called"
copies=$pid copies_pod=$pod
echo "   huge text: $(huge "$pid") bytes; $(shown "$pid") mounts"
sed 's/^/   /' "$log"
[ "$(huge "$pid")" -gt 0 ] || die "no text is huge"
! grep -q store "$log" || die "the container sees the store"

echo "   and of a server that runs as a user of its own"
program=$(tar -tf "$cache/postgres.tar" | sed -n 's|^\.\(/usr/lib/postgresql/[0-9]*/bin/postgres\)$|\1|p')
begin_postgres() {
    local image=postgres
    local command=(/postgres.sh "$program" -D /tmp/data -k /tmp -c listen_addresses=)
    RUN_AS=postgres begin_with_copies postgres
}
begin_postgres
echo "   huge text: $(huge "$pid") bytes; $(shown "$pid") mounts"
ask() { # SQL: asks the server, which also reads what it sees of itself
    nsenter --target "$pid" --mount --root --wd=/tmp --setuid "$(stat -c %u "/proc/$pid")" --setgid 0 \
        "${program%/*}/psql" -h /tmp -U postgres -d postgres -Atc "$1" || die "postgres does not answer: $1"
}
paths=$(ask "SELECT pg_read_file('/proc/self/maps')" | awk '$2 ~ /x/ && /postgres$/ { print $6 }' | sort -u)
[ "$paths" = "$program" ] || die "postgres runs from $paths"
[ "$(stat -c %u "/proc/$pid")" != 0 ] || die "postgres runs as root"
[ "$(huge "$pid")" -gt 0 ] || die "no text of postgres is huge"
end "$pod"

echo "3. a pod that opts out"
begin out hugetext/text=off
[ "$(shown "$pid")" = 0 ] || die "a pod that opted out got copies"
end "$pod"

echo "4. a plugin that hangs stops nobody"
kill -STOP "$plugin"
begin hung hugetext/text=copies
[ "$(shown "$pid")" = 0 ] || die "a stopped plugin cannot have answered"
end "$pod"
kill_plugin

echo "5. nor does one that was killed; what runs stays as it is"
begin killed hugetext/text=copies
[ "$(shown "$pid")" = 0 ] || die "a killed plugin cannot have answered"
[ "$(shown "$copies")" -gt 0 ] || die "a running container lost its copies"
end "$pod"

echo "6. one that starts again serves again"
start_plugin "$nri"
begin_with_copies again
end "$pod"

echo "7. pods of one image get different copies where the autopilot saw many starts"
libc=$(find "$work/state/root" -path '*/fs/*' -name libc.so.6 -print -quit)
advise() { # of an autopilot that saw 40,000 starts with libc in a second
    local decision='{"replicas":"per-group","copies":2,"bytes":8388608}'
    printf '{"written":%s,"files":[{"file":{"dev":%s,"ino":%s},"starts_per_second":40000,"remote_per_mille":0,"decision":%s}]}' \
        "$(date +%s)" "$(stat -c %d "$libc")" "$(stat -c %i "$libc")" "$decision" >"$work/autopilot/replicas.json"
}
seen=''
# Half of the draws are expected to differ.
for number in $(seq 24); do
    advise
    begin "replica$number" hugetext/text=copies
    # The copies that this pod was drawn are there for the next one that draws them.
    await grep -q "$container:.* ready for\|pod test/replica$number container main:.* ms$" "$work/plugin.log"
    seen+=$(awk -v store="$store" '$5 ~ /\/libc\.so\.6$/ && index($4, store) { print $4 }' "/proc/$pid/mountinfo")$'\n'
    end "$pod"
    if [ "$(sort -u <<<"$seen" | grep -c .)" = 2 ]; then break; fi
done
[ "$(sort -u <<<"$seen" | grep -c .)" = 2 ] || die "no two pods got different copies of libc: $seen"
echo "   two copies of libc after $number pods"
kill_plugin
rm -f "$work/autopilot/replicas.json"

echo "8. a process that runs is promoted if its pod asks, by an autopilot with the rights of the chart"
# The capabilities that the chart gives the autopilot. Nothing can be made in /run there, either.
mapfile -t rights < <(awk '/^        - name:/ { here = $3 == "auto" }
    here && /^ +- [A-Z_]+$/ { print tolower($2) }' "$here/../chart/templates/daemonset.yaml")
[ "${#rights[@]}" -gt 3 ] || die "no capabilities in the chart: ${rights[*]}"
printf 'mode = "act"\nbudget = "256M"\n[[rule]]\nverdict = "promote-if-asked"\n' >"$work/promote.toml"
as_in_a_pod() { # COMMAND…
    # shellcheck disable=SC2016 # it has arguments of its own
    exec unshare --mount sh -c 'mount -t tmpfs -o ro tmpfs /run && exec "$@"' sh \
        setpriv --no-new-privs --bounding-set "-all$(printf ',+%s' "${rights[@]}")" "$@"
}
copied() { grep -q 'r-xp .*/memfd:' "/proc/$1/maps"; }
asks() { [ -e "$work/requests/$1" ]; }
start_plugin "$nri" --requests "$work/requests"
# Works without an end, and says that it has begun.
busy='console.log("it is ready"); for (;;) JSON.parse(JSON.stringify(process.versions));'
command=(/entry.sh node -e "$busy")
begin silent hugetext/text=warm
silent=$pid silent_pod=$pod
begin asks hugetext/text=warm hugetext/promote=true
command=(/entry.sh node -e "$script")
asks "$container" || die "the plugin does not tell the autopilot that a pod asks"
mkdir "$work/lists"
as_in_a_pod "$hugetext" auto --config "$work/promote.toml" --state "$work/promoter" --run-dir "$work/autopilot" \
    --lists "$work/lists" --requests "$work/requests" >"$work/autopilot.log" 2>&1 &
autopilot=$!
# A change that would stop the process for too long, as on a busy machine, is undone and tried again after a minute.
await grep -q '^promoted' "$work/autopilot.log"
copied "$pid" || die "another process was promoted"
echo "   huge text: $(huge "$pid") bytes"
[ "$(huge "$pid")" -gt 0 ] || die "no text of the promoted process is huge"
! copied "$silent" || die "a process was promoted whose pod did not ask"
capabilities=$(awk '$1 == "CapEff:" { print $2 }' "/proc/$autopilot/status")
[ $((0x$capabilities & 1 << 21)) = 0 ] || die "the autopilot kept CAP_SYS_ADMIN"

echo "   the request ends with the plugin, and the next one finds it again; the process goes on"
kill_plugin
copied "$pid" || die "the end of the plugin ended a promotion"
start_plugin "$nri" --requests "$work/requests"
await asks "$container"
[ "$(find "$work/requests" -type f | wc -l)" = 1 ] || die "a request is there that no container made"

echo "   its file is mapped again when the autopilot ends"
kill -TERM "$autopilot"
wait "$autopilot" || die "the autopilot did not end in order"
! copied "$pid" || die "a process still runs from a copy"
end "$pod"
end "$silent_pod"
gone() { ! asks "$container"; }
await gone
[ -z "$(find "$work/requests" -type f)" ] || die "requests of containers are left that are gone"
kill_plugin

echo "9. an upgrade and the way back, on one store, while pods run and an autopilot holds text"
mkdir "$work/before"
cp "${before:-${hugetext%/*}}/hugetext" "$work/before/"
cp "${before:-${nri%/*}}/hugetext-nri" "$work/before/"
printf 'mode = "act"\nbudget = "64M"\n' >"$work/auto.toml"
autopilot=
start_autopilot() { # HUGETEXT
    "$1" auto --config "$work/auto.toml" --state "$work/seen" --run-dir "$work/autopilot" --lists "$work/lists" \
        >>"$work/autopilot.log" 2>&1 &
    autopilot=$!
    await test -e "$work/autopilot/all.json"
}
# As a DaemonSet does it: the pod ends, and the next one starts.
end_node() {
    kill -TERM "$plugin" "$autopilot"
    wait "$plugin" || true
    wait "$autopilot" || die "the autopilot did not end in order"
    [ ! -e "$work/autopilot/all.json" ] || die "the autopilot left its documents"
}
live() { # PID…: they run, and see their copies
    for pid in "$@"; do
        [ "$(shown "$pid")" -gt 0 ] || die "a running container lost its copies"
        [ "$(huge "$pid")" -gt 0 ] || die "a running container lost its huge text"
    done
}
pods=("$copies_pod") pids=("$copies")
for build in before now before; do
    case $build in
    before)
        start_plugin "$work/before/hugetext-nri"
        start_autopilot "$work/before/hugetext"
        ;;
    now)
        start_plugin "$nri"
        start_autopilot "$hugetext"
        ;;
    esac
    begin_with_copies "upgrade$sessions-"
    pods+=("$pod") pids+=("$pid")
    live "${pids[@]}"
    end_node
    live "${pids[@]}"
done
for pod in "${pods[@]}"; do end "$pod"; done

echo "10. nothing is left mounted or locked"
left=$(grep -l "$store" /proc/[0-9]*/mountinfo || true)
[ -z "$left" ] || die "the store is still mounted: $left"
[ -n "$(find "$work/store" -type f -print -quit)" ] || die "the store is empty"
# /proc/locks names a file by MAJOR:MINOR:INODE.
while read -r inode; do
    ! grep -q ":$inode " /proc/locks || die "a file of the store is still locked: inode $inode"
done < <(find "$work/store" -type f -printf '%i\n')

echo "11. the inventory of containerd's own store"
"$inventory" --only-images --image "$work/state/root" --spool "$work/spool" --machine test -o "$work/rows"
for rows in "$work"/rows/*/*/*.parquet; do
    "$inventory" --show "$rows"
done

echo "12. the container image runs"
if [ -n "$layout" ]; then
    tar -C "$layout" -cf "$root/hugetext.tar" .
    ctr images import --local --platform "linux/$architecture" /hugetext.tar >/dev/null
    name=$(ctr images ls -q | grep '^localhost/hugetext:')
    for program in hugetext hugetext-nri; do
        ctr run --rm --cgroup "$group/image" "$name" "image-$program" "/usr/bin/$program" --version
    done
    # Those of the other architecture, emulated, in a root that holds nothing else.
    case $architecture in
    amd64) other=arm64 emulator=qemu-aarch64 ;;
    *) other=amd64 emulator=qemu-x86_64 ;;
    esac
    if command -v "$emulator" >/dev/null; then
        mkdir "$work/other"
        tar -C "$work/other" -xf "$(layer_of "$layout" "$other")"
        for program in hugetext hugetext-nri; do
            "$emulator" "$work/other/usr/bin/$program" --version
        done
    else
        echo "   skipped for $other: $emulator is missing; install qemu-user"
    fi
else
    echo "   skipped: CONTAINER names no layout; make -C fleet container writes one"
fi
echo "all passed"
