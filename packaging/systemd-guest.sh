#!/bin/sh
# What packaging/test-systemd.sh runs below systemd, once in each of two starts of it. Prints a line for each expectation.
# Functions are called by the names that "ok" and "within" are given.
# shellcheck disable=SC2317
boot=$(cat /boot-number)
unit=hugetext-auto.service
compiler=$(find /usr/libexec/gcc /usr/lib/gcc -name cc1 2> /dev/null | head -n 1)

ok() { # WORDS -- COMMAND…: whether the command succeeds
    words=
    while [ "$1" != -- ]; do
        words="$words $1"
        shift
    done
    shift
    if "$@" > /tmp/out 2>&1; then echo "ok: $boot boot:$words"; else
        echo "failed: $boot boot:$words"
        sed 's/^/    /' /tmp/out
    fi
}

within() { # SECONDS COMMAND…: until the command succeeds
    left=$1
    shift
    until "$@" > /dev/null 2>&1; do
        [ "$left" -gt 0 ] || { "$@"; return 1; }
        left=$((left - 1))
        sleep 1
    done
}

started() { # starts the compiler, and asks whether its text is held
    for _ in 1 2 3 4 5 6 7 8 9 10; do "$compiler" -quiet -o /dev/null /dev/null; done
    hugetext auto why "$compiler"
}

wanted() { # starts the compiler, and asks whether its text would be held
    started | grep "would be held"
}

logged() { journalctl -q -u $unit > /tmp/log; grep "$1" /tmp/log || { tail /tmp/log; return 1; }; }
locked() { awk '$1 == "Mlocked:" { print $2 }' /proc/meminfo; }
unlocked() { [ "$(locked)" -lt 2048 ]; }
gone() { for path in "$@"; do [ ! -e "$path" ] || { echo "$path is there"; return 1; }; done; }

copied() { # PID: says what is mapped instead
    grep "r-xp.*promoted" "/proc/$1/maps" && return
    grep r-xp "/proc/$1/maps"
    logged promoted
    return 1
}
mapped_again() { ! copied "$1" && grep "r-xp.*worker" "/proc/$1/maps"; }

promotion() { # of a compiler that has work for minutes. It reads all of its input first, so that must end.
    cp "$compiler" /opt/worker
    # It begins in the small folios of page faults.
    sync
    echo 3 > /proc/sys/vm/drop_caches
    seq 15000 | sed 's/.*/int f&(int x) { for (int i = 0; i < x; i++) x ^= i * &; return x; }/' > /tmp/work.c
    /opt/worker -quiet -O2 -o /dev/null /tmp/work.c &
    working=$!
    mkdir -p /etc/systemd/system/$unit.d
    cp /usr/share/doc/hugetext/examples/promote.conf /etc/systemd/system/$unit.d/
    # It never starts again, so processor time is the only reason to hold it, whatever system calls cost.
    sed -i 's/^# *share = /share = /' /etc/hugetext/auto.toml
    printf '[[rule]]\npath = "/opt/worker"\nverdict = "promote"\n' >> /etc/hugetext/auto.toml
    ok it starts with the drop-in -- sh -c "systemctl daemon-reload && systemctl restart $unit"
    ok a process that runs is promoted -- within 120 logged "promoted [0-9]"
    ok the copy has a path there -- copied $working
    ok it stops -- systemctl stop $unit
    ok the process has its file again -- mapped_again $working
    kill $working
    ok it starts again -- systemctl start $unit
}

first() {
    ok the package installs -- dpkg -i /hugetext.deb
    ok the unit waits to be enabled -- sh -c "! systemctl -q is-enabled $unit"
    ok the unit starts -- systemctl enable --now $unit
    ok it says what it would hold -- within 120 wanted
    echo "note: $(hugetext auto status | head -n 12)"
    ok its sandbox lets it measure system calls -- sh -c "hugetext auto status --json | grep system_call_per_mille"
    ok every user may read what it found of the machine -- sh -c "stat -c %a /run/hugetext /run/hugetext/host.json | xargs | grep '755 644'"
    ok it only observes -- sh -c "! hugetext auto why $compiler"
    sed -i 's/^#* *mode = .*/mode = "act"/' /etc/hugetext/auto.toml
    ok it takes its settings again -- systemctl reload $unit
    ok the compiler is held -- within 120 started
    echo nonsense >> /etc/hugetext/auto.toml
    systemctl reload $unit
    ok it tells a bad line -- within 30 logged auto.toml:
    ok it goes on with the old settings -- hugetext auto why "$compiler"
    sed -i '$d' /etc/hugetext/auto.toml
    ok its log has no error but that -- sh -c "! journalctl -q -u $unit | grep -i error"
    promotion
}

second() {
    ok the unit is active after a boot -- within 60 systemctl -q is-active $unit
    ok the compiler is held again before any start -- within 60 hugetext auto why "$compiler"
    echo "note: $(locked) KiB are locked"
    ok the unit stops -- systemctl disable --now $unit
    ok everything is unlocked -- unlocked
    ok the package is purged -- dpkg --purge hugetext
    ok nothing of it stays -- gone /var/lib/hugetext /var/cache/hugetext /etc/hugetext /run/hugetext-auto /run/hugetext
}

[ -n "$compiler" ] || echo "failed: no compiler"
"$boot"
echo "whole: $boot boot"
