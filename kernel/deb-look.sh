#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What deb-boot.sh runs in the guest: starts each program with a cold page cache, alone and behind `hugetext run`, and
# prints how much of its text is mapped by PMDs while it waits.
set -u

quiet() { # PID: waits until the process is no longer the command, sleeps, and used no processor time for a second
    local last='' now _
    for _ in {1..120}; do
        sleep 1
        # The state, and the time in user space and in the kernel.
        now=$(awk '{ sub(/.*\) /, ""); print $1, $12 + $13 }' "/proc/$1/stat") || return
        [ "$now" != "$last" ] || [[ $now != S* ]] || [ "$(cat "/proc/$1/comm")" = hugetext ] || return 0
        last=$now
    done
}

leaves() { # how often a fault on text read a leaf, and why not; empty without the series
    awk '/^exec_leaf_/ { printf "%s\"%s\": %d", between, substr($1, 11), $2; between = ", " }' /proc/vmstat
}

look() { # NAME WAY COMMAND…
    local name=$1 way=$2 pid before
    shift 2
    sync
    echo 3 > /proc/sys/vm/drop_caches
    before=$(leaves)
    if [ "$way" = run ]; then
        # The first time, copies are made and warmed.
        hugetext run -q -- "$@" < /tmp/input > /dev/null 2>&1 &
    else
        "$@" < /tmp/input > /dev/null 2>&1 &
    fi
    pid=$!
    quiet "$pid"
    hugetext stat --json "$pid" | jq -c --arg name "$name" --arg way "$way" \
        --argjson before "{$before}" --argjson after "{$(leaves)}" \
        '{name: $name, way: $way, leaves: ($after | with_entries(.value -= $before[.key]))}
         + (.processes[0].total | {mapped, pmd_mapped})' | sed 's/^/record /'
    kill "$pid"
    wait "$pid" 2> /dev/null
}

disk_ns() { # what the disk takes to read 128 KiB
    local start end
    start=$(date +%s%N)
    dd if=/dev/pmem0 of=/dev/null bs=128K count=1024 iflag=direct 2> /dev/null
    end=$(date +%s%N)
    echo $(((end - start) / 1024))
}

# As most disks have it.
echo 128 > /sys/block/pmem0/queue/read_ahead_kb
mkfifo /tmp/input
sleep infinity > /tmp/input &
cc1=$(find /usr/libexec/gcc -name cc1 | head -n 1)
for way in alone run; do
    look cc1 $way "$cc1" -quiet -o /dev/null
    look gdb $way gdb -q
    look git $way git hash-object --stdin
    look node $way node -e 'setInterval(() => {}, 1e6)'
    look python3 $way python3 -c 'input()'
    look postgres $way setpriv --reuid postgres --regid postgres --clear-groups \
        /usr/lib/postgresql/17/bin/postgres --single -D /var/lib/postgresql/17/main \
        -c config_file=/etc/postgresql/17/main/postgresql.conf postgres
done
sed "s/.*\[\(.*\)\].*/record {\"name\": \"machine\", \"way\": \"\1\", \"disk_ns\": $(disk_ns)}/" /sys/kernel/mm/transparent_hugepage/enabled
echo "look: done"
