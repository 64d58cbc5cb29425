#!/bin/sh
# Runs inside a guest, as root: lab/scripts/auto-guest.sh see FILESYSTEM, limit, hostile FILES, pressure ROUNDS or days
# NUMBER. Prints lines that begin with "record ": what the autopilot does there with a compiler that no list names.
# lab/scripts/auto-lab.sh boots the guests and keeps the lines.
# The disks of the guest stay: the autopilot holds nothing on what no boot mounts.
awk '$2 ~ "^/mnt/" { print $1, $2, $3, "defaults", 0, 0 }' /proc/mounts >> /etc/fstab
mkdir -p /tmp/auto /tmp/no-lists
# An emulator has no TLB of its own, so what the daemon would measure of system calls means nothing.
printf 'mode = "act"\nbudget = "256M"\nshare = 0.02\n' > /tmp/auto.toml

autopilot() { # starts the daemon, and waits until it watches
    hugetext --json auto --config /tmp/auto.toml --state /tmp/auto.state --run-dir /tmp/auto --lists /tmp/no-lists \
        > /tmp/events 2> /tmp/errors &
    daemon=$!
    wait_for 60 grep -q '"begun"' /tmp/events
}

stopped() {
    kill "$daemon"
    wait "$daemon"
}

wait_for() { # SECONDS COMMAND…: until the command succeeds
    left=$1
    shift
    until "$@" 2> /dev/null; do
        [ "$left" -gt 0 ] || return 1
        left=$((left - 1))
        sleep 1
    done
}

status() {
    hugetext auto status --run-dir /tmp/auto --json
}

status_names() { # WORD
    status | grep -q "$1"
}

tellings() { # EVENT PATH: how often it was reported
    grep -c "\"event\":\"$1\".*\"path\":\"$2\"" /tmp/events
}

releases() { # all of them, as members of a list
    grep '"released"' /tmp/events | paste -s -d ,
}

told() { # EVENT PATH
    [ "$(tellings "$1" "$2")" -gt 0 ]
}

clock() { cut -d . -f 1 /proc/uptime; }

run_until() { # EVENT PATH COMMAND…: starts the command until the daemon says the event of the path, for four minutes at
    # most. Prints the starts.
    event=$1 path=$2 starts=0 end=$(($(clock) + 240))
    shift 2
    until told "$event" "$path" || [ "$(clock)" -ge "$end" ]; do
        "$@"
        starts=$((starts + 1))
        # A kernel that cannot collapse brings in huge only what nobody runs at that moment.
        [ $((starts % 10)) != 0 ] || sleep 1
    done
    echo "$starts"
}

compile() { "$1" -quiet -o /dev/null /dev/null; }

leaf() { # COMMAND…: text of a process of it, and what of it is on huge leaves
    "$@" -quiet -o /dev/null - < input > /dev/null 2>&1 &
    pid=$!
    wait_for 60 sh -c "grep -q compiler /proc/$pid/comm && grep -q ' S ' /proc/$pid/stat"
    hugetext stat --json "$pid" | tr '\n' ' '
    kill "$pid"
    wait "$pid"
}

containers() { # starts two beside each other
    unshare -m /tmp/inside "$image" &
    unshare -m /tmp/inside "$image"
    wait $!
}

# Fills the place with copies of a compiler and its libraries, and leaves nothing of them in memory.
install_compilers() { # NAME…
    cd "$place" || return
    mkdir lib
    for name in "$@"; do cp /lab/programs/cc1 "$name"; done
    cp /lab/programs/lib*.so.* lib
    export LD_LIBRARY_PATH="$place/lib"
    sync
    echo 3 > /proc/sys/vm/drop_caches
}

# Two containers of one image, each with a mount namespace and a layer of its own over the same lower one.
in_containers() { # IMAGE TOOL
    image=$1 tool=$2
    cat > /tmp/inside << TEXT
#!/bin/sh
# /tmp/inside IMAGE: starts the compiler of the image four times.
mount -t tmpfs tmpfs /tmp/layer && mkdir /tmp/layer/upper /tmp/layer/work /tmp/layer/root || exit
mount -t overlay overlay -o "lowerdir=\$1,upperdir=/tmp/layer/upper,workdir=/tmp/layer/work" /tmp/layer/root || exit
cd /tmp/layer/root || exit
for _ in 1 2 3 4; do ./$tool -quiet -o /dev/null /dev/null; done
TEXT
    chmod +x /tmp/inside
    mkdir -p /tmp/layer
    starts=$(run_until held "$image/$tool" containers)
    echo "record {\"what\": \"containers\", \"fs\": \"$fs\", \"starts\": $((starts * 8)), \"held\": $(tellings held "$image/$tool"), \"by_layer\": $(grep '"held"' /tmp/events | grep -c layer/root)}"
}

# The image of containers on a filesystem that nobody writes to. The lab puts cc1 there.
read_only() { # FILESYSTEM
    fs=$1
    mkdir -p /tmp/lib
    cp /lab/programs/lib*.so.* /tmp/lib
    export LD_LIBRARY_PATH=/tmp/lib
    autopilot
    in_containers "/mnt/$fs" cc1
    stopped
    echo "record {\"what\": \"end\", \"fs\": \"$fs\", \"locked_kib\": $(locked), \"errors\": $(grep -c . /tmp/errors)}"
    rm /tmp/auto.state
}

locked() { awk '/Mlocked/ { print $2 }' /proc/meminfo; }
# Before Linux 6.18, large folios of a locked mapping are Mlocked only when reclaim meets them.
held_kib() { awk '/VmLck/ { print $2 }' "/proc/$daemon/status"; }

one() { # FILESYSTEM
    fs=$1 place=/mnt/$1
    install_compilers compiler || return
    mkfifo input
    # Open for writing too, so that the compiler waits for more.
    exec 3<> input

    autopilot
    starts=$(run_until held "$place/compiler" compile ./compiler)
    # The documents for others are written every ten seconds.
    wait_for 30 status_names compiler
    echo "record {\"what\": \"hot\", \"fs\": \"$fs\", \"starts\": $starts, \"stat\": $(leaf ./compiler), \"status\": $(status | tr '\n' ' ')}"

    mkdir image && cp compiler image/tool && sync
    in_containers "$place/image" tool

    # An upgrade gives another file under the same name. The old one has no user.
    before=$(held_kib)
    cp compiler new && sync && mv new compiler
    seconds=0
    until [ "$(held_kib)" -lt "$before" ] || [ "$seconds" -ge 60 ]; do sleep 1; seconds=$((seconds + 1)); done
    echo "record {\"what\": \"upgrade\", \"fs\": \"$fs\", \"before_kib\": $before, \"after_kib\": $(held_kib), \"seconds\": $seconds, \"releases\": [$(releases)]}"

    stopped
    echo "record {\"what\": \"end\", \"fs\": \"$fs\", \"locked_kib\": $(locked), \"errors\": $(grep -c . /tmp/errors)}"
    # What is remembered is held again without any start.
    echo 3 > /proc/sys/vm/drop_caches
    autopilot
    again=false
    wait_for 60 told held "$place/image/tool" && again=true
    # The documents for others are written every ten seconds.
    wait_for 30 status_names tool
    echo "record {\"what\": \"remembered\", \"fs\": \"$fs\", \"again\": $again, \"status\": $(status | tr '\n' ' ')}"
    stopped
    rm /tmp/auto.state
}

# A control group may use little memory, and pays for the compiler, whose text its own processes made huge. Then it
# needs all it may use.
limit() {
    place=/mnt/ext4
    install_compilers compiler || return
    [ -e /sys/fs/cgroup/cgroup.controllers ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup || return
    echo +memory > /sys/fs/cgroup/cgroup.subtree_control
    group=/sys/fs/cgroup/limited
    mkdir "$group"
    echo 64M > "$group/memory.max"
    cat > /tmp/inside << TEXT
#!/bin/sh
# /tmp/inside COMMAND…: runs it in the control group.
echo 0 > $group/cgroup.procs
exec "\$@"
TEXT
    chmod +x /tmp/inside
    of_group() { awk -v name="$2" '$1 == name { print $2 }' "$group/$1"; }

    /tmp/inside hugetext warm compiler > /dev/null
    autopilot
    # A shell that lives on: the children of a process that is known are known too.
    echo 'until [ -e /tmp/enough ]; do ./compiler -quiet -o /dev/null /dev/null; done' > /tmp/loop
    /tmp/inside sh /tmp/loop &
    loop=$!
    is_decided() { told held "$place/compiler" || status_names 'memory limit'; }
    wait_for 180 is_decided
    touch /tmp/enough
    wait $loop
    paid=$(of_group memory.stat file) held=$(tellings held "$place/compiler") unevictable=$(of_group memory.stat unevictable)
    /tmp/inside dd if=/dev/zero of=/dev/null bs=52M count=3 2> /dev/null
    echo "record {\"what\": \"limit\", \"paid\": $paid, \"unevictable\": $unevictable, \"held\": $held, \"needed\": $?, \"oom\": $(of_group memory.events oom_kill), \"status\": $(status | tr '\n' ' ')}"
    stopped
}

# Somebody executes many different large programs, while everybody's compiler is hot.
hostile() { # FILES
    place=/mnt/ext4
    install_compilers compiler || return
    mkdir many
    autopilot
    run_until held "$place/compiler" compile ./compiler > /dev/null
    for number in $(seq "$1"); do
        cp compiler "many/$number"
        for _ in 1 2 3; do
            start-stop-daemon -S -c 4711:4711 -x "$place/many/$number" -- -quiet -o /dev/null /dev/null
        done
        rm "many/$number"
    done
    wait_for 30 status_names compiler
    echo "record {\"what\": \"hostile\", \"files\": $1, \"released\": $(tellings released "$place/compiler"), \"status\": $(status | tr '\n' ' ')}"
    stopped
}

# A working set of files and anonymous memory that together exceed what the guest has, for one round.
work() {
    dd if=/dev/zero of=/dev/null bs=420M count=1000 2> /dev/null &
    hog=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do cat "$place/data" > /dev/null; done
    "$place/compiler" -quiet -o /dev/null /dev/null
    kill $hog
    wait $hog
}

counted() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }

pressure() { # ROUNDS
    place=/mnt/ext4
    install_compilers compiler || return
    for round in $(seq "$1"); do
        for side in without with; do
            # A file that was evicted before would count as read again when it is read for the first time.
            rm -f data
            dd if=/dev/zero of=data bs=1M count=400 2> /dev/null
            sync
            echo 3 > /proc/sys/vm/drop_caches
            if [ $side = with ]; then
                autopilot
                run_until held "$place/compiler" compile ./compiler > /dev/null
            fi
            refaults=$(counted workingset_refault_file) read=$(counted pgpgin)
            begun=$(cut -d ' ' -f 1 /proc/uptime)
            work
            ended=$(cut -d ' ' -f 1 /proc/uptime)
            echo "record {\"what\": \"pressure\", \"side\": \"$side\", \"round\": $round, \"seconds\": $(echo "$ended $begun" | awk '{ print $1 - $2 }'), \"refaults\": $(($(counted workingset_refault_file) - refaults)), \"read_kib\": $(($(counted pgpgin) - read)), \"oom\": $(counted oom_kill)}"
            if [ $side = with ]; then
                wait_for 30 status > /dev/null
                echo "record {\"what\": \"stalls\", \"round\": $round, \"status\": $(status | tr '\n' ' ')}"
                stopped
            fi
        done
    done
}

# Days of a minute, which is the half-life too. Every day has jobs, a build, an upgrade of a server that runs on, and an
# hour without memory.
days() { # NUMBER
    place=/mnt/ext4
    install_compilers job build server || return
    mkfifo input
    exec 3<> input
    printf 'half-life = "60s"\n' >> /tmp/auto.toml
    sync
    autopilot
    for day in $(seq "$1"); do
        evening=$(($(clock) + 60))
        before=$(grep -c . /tmp/events)
        ./server -quiet -o /dev/null - < input > /dev/null 2>&1 &
        server=$!
        for hour in 1 2 3 4; do
            ./job -quiet -o /dev/null /dev/null
            for file in $(seq 40); do ./build -quiet -o "/tmp/$file" /dev/null; done
            [ $hour != 2 ] || { cp server new && mv new server; }
            [ $hour != 3 ] || dd if=/dev/zero of=/dev/null bs=420M count=1 2> /dev/null
        done
        kill $server
        wait $server
        until [ "$(clock)" -ge "$evening" ]; do sleep 1; done
        echo "record {\"what\": \"day\", \"day\": $day, \"files\": $(find "/proc/$daemon/fd" | grep -c .), \"locked_kib\": $(awk '/Mlocked/ { print $2 }' /proc/meminfo), \"oom\": $(counted oom_kill), \"events\": [$(tail -n "+$((before + 1))" /tmp/events | paste -s -d ,)], \"status\": $(status | tr '\n' ' ')}"
    done
    stopped
    echo "record {\"what\": \"days\", \"state_bytes\": $(wc -c < /tmp/auto.state), \"locked_kib\": $(awk '/Mlocked/ { print $2 }' /proc/meminfo), \"errors\": $(grep -c . /tmp/errors)}"
}

case $1 in
see)
    case $2 in
    erofs) read_only "$2" ;;
    *) one "$2" ;;
    esac
    ;;
limit) limit ;;
hostile) hostile "$2" ;;
pressure) pressure "$2" ;;
days) days "$2" ;;
esac
