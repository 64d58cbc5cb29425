#!/bin/sh
# Runs inside a guest of several nodes, as root: lab/scripts/replicas-guest.sh FILESYSTEM… Prints lines that begin
# with "record ": what hugetext and the kernel say of a compiler on each filesystem, before and after.
# lab/scripts/replicas-lab.sh boots the guests and keeps the lines.
echo 'nobody:x:65534:65534::/:/bin/sh' > /etc/passwd

# The last processor of the guest is on its last node.
last=$(($(nproc) - 1))
far=node$(($(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' | wc -l) - 1))

plain() { # FILE: on one line, without what JSON would need escapes for
    sed 's/["\\]//g' "$1" | tr '\n' ' '
}

emit() { # WHAT WHEN COMMAND…: its JSON, and its exit status
    what=$1 when=$2
    shift 2
    said=$("$@" 2> /tmp/errors)
    status=$?
    [ -n "$said" ] || said=null
    echo "record {\"what\": \"$what\", \"fs\": \"$fs\", \"when\": \"$when\", \"exit\": $status, \"errors\": \"$(plain /tmp/errors)\", \"said\": $(echo "$said" | tr '\n' ' ')}"
}

memory() { # WHEN: what the kernel counts on the last node, in KiB
    file=$(awk '/FilePages:/ { print $4 }' "/sys/devices/system/node/$far/meminfo")
    tables=$(awk '/PageTables:/ { print $4; exit }' "/sys/devices/system/node/$far/meminfo")
    echo "record {\"what\": \"memory\", \"fs\": \"$fs\", \"when\": \"$1\", \"file_kib\": $file, \"tables_kib\": $tables}"
}

compiler() { # COMMAND…: starts it on the last processor; it waits for input
    taskset -c "$last" "$@" -quiet -o /dev/null - < input > /dev/null 2> /tmp/compiler &
    pid=$!
    tries=0
    while [ "$(cat /proc/$pid/comm)" != compiler ] && [ $tries -lt 600 ]; do sleep 1; tries=$((tries + 1)); done
    sleep 5
    grep -c "$place/compiler" /proc/$pid/maps > /tmp/maps
}

ended() {
    kill $pid
    wait $pid
}

# The autopilot runs on node 0 and holds text there. It sees that the last node fetches it from there.
autopilot() {
    printf 'mode = "act"\nbudget = "64M"\n' > /tmp/auto.toml
# The disks of the guest stay: the autopilot holds nothing on what no boot mounts.
awk '$2 ~ "^/mnt/" { print $1, $2, $3, "defaults", 0, 0 }' /proc/mounts >> /etc/fstab
    mkdir -p /tmp/auto /tmp/no-lists
    taskset -c 0 hugetext auto --config /tmp/auto.toml --state "/tmp/auto.state" --run-dir /tmp/auto \
        --lists /tmp/no-lists > /tmp/autopilot 2>&1 &
    daemon=$!
    compiler ./compiler
    # Empty declarations: the compiler works without an end.
    while :; do echo ';'; done > input 2> /dev/null &
    feeder=$!
    tries=0
    while ! grep -q per-node /tmp/auto/replicas.json 2> /dev/null && [ $tries -lt 120 ]; do
        sleep 1
        tries=$((tries + 1))
    done
    emit auto "" cat /tmp/auto/replicas.json
    emit auto status hugetext auto status --run-dir /tmp/auto --json
    emit plan advised taskset -c "$last" hugetext run --replicas auto --run-dir /tmp/auto --dry-run --json \
        --store "$place/store" -- ./compiler
    ended
    kill $feeder $daemon
    wait $feeder $daemon
}

one() { # FILESYSTEM
    fs=$1 place=/mnt/$1
    export LD_LIBRARY_PATH="$place/lib"
    cd "$place" || return
    mkdir lib
    # A tmpfs keeps its pages where they were written.
    taskset -c 0 cp /lab/programs/cc1 compiler
    for library in /lab/programs/lib*.so.*; do taskset -c 0 cp "$library" lib; done
    mkfifo input
    # Open for writing too, so that the compiler waits.
    exec 3<> input
    sync

    # The text is read on node 0, and run on the last one.
    echo 3 > /proc/sys/vm/drop_caches
    taskset -c 0 cat compiler lib/* > /dev/null
    compiler ./compiler
    emit stat before hugetext stat --nodes --json $pid
    # The compiler maps its text, so nobody but root may move it.
    emit warm refused su nobody -c "$(command -v hugetext) warm --node ${far#node} --json $place/compiler"
    ended
    emit warm moved hugetext warm --json --node "${far#node}" compiler
    emit warm back hugetext warm --json --node 0 compiler
    emit warm spread hugetext warm --json --node spread compiler
    emit warm back hugetext warm --json --node 0 compiler

    # The same command with a replica on its node.
    emit plan "" taskset -c "$last" hugetext run --numa --dry-run --json --store "$place/store" -- ./compiler
    memory before
    compiler hugetext run --numa --store "$place/store" -- ./compiler
    memory after
    emit stat after hugetext stat --nodes --json $pid
    echo "record {\"what\": \"path\", \"fs\": \"$fs\", \"mappings\": $(cat /tmp/maps), \"errors\": \"$(plain /tmp/compiler)\"}"
    ended
    emit store made hugetext store --store "$place/store" --json ls
    # A command that spans all nodes gets a warning that names its node.
    emit plan spans hugetext run --numa --dry-run --json --store "$place/store" -- ./compiler

    # In memory: a tmpfs bound to the node.
    compiler hugetext run --numa --backend store --store "$place/store" -- ./compiler
    emit stat in-memory hugetext stat --nodes --json $pid
    ended

    # One that holds huge folios in every kernel is enough.
    [ "$fs" != xfs ] || autopilot

    # An upgrade gives another file. Then all replicas are removed.
    cp compiler new
    echo >> new
    mv new compiler
    compiler hugetext run --numa --store "$place/store" -- ./compiler
    ended
    emit store upgraded hugetext store --store "$place/store" --json ls
    emit store-rm all hugetext store --store "$place/store" --json rm --all
    emit store removed hugetext store --store "$place/store" --json ls
    emit bench "" hugetext bench numa --json --rounds 3 --size 32 --flush 16 --directory "$place"
}

for filesystem in "$@"; do
    (one "$filesystem")
done
