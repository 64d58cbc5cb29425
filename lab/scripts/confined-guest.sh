#!/bin/sh
# The first process of a guest of lab/scripts/test-confined.sh: looks at programs under AppArmor or SELinux, which $1 names,
# and prints a line for each expectation.
# Functions are called by the names that "ok" is given.
# shellcheck disable=SC2317
module=$1
if [ "$module" != as_init ]; then
    mount -t proc proc /proc 2> /dev/null
    mount -t sysfs sysfs /sys 2> /dev/null
    mount -t tmpfs tmpfs /run 2> /dev/null
    mount -t tmpfs tmpfs /tmp
    mkdir -p /run/hugetext /dev/shm
fi
exec < /dev/null > /dev/console 2>&1
# What leaves do to system calls in an emulator means nothing.
export XDG_RUNTIME_DIR=/run/none

ok() { # WORDS -- COMMAND…: whether the command succeeds
    expected=
    while [ "$1" != -- ]; do
        expected="$expected $1"
        shift
    done
    shift
    if "$@" > /tmp/out 2>&1; then echo "ok: $module:$expected"; else
        echo "failed: $module:$expected"
        sed 's/^/    /' /tmp/out
    fi
}

as= # words before a command of whoever starts services

# The program gives the status that it gives without hugetext, and `run` says these words or, without words, nothing.
runs() { # PROGRAM [WORDS [OPTION…]]
    program=$1 words=${2-}
    shift $(($# > 1 ? 2 : 1))
    $as hugetext run -v "$@" -- "/opt/$program" exit > /tmp/said 2>&1
    status=$?
    echo "note: $module: $program under run: $(grep -v '^huge=' /tmp/said | head -n 3 | tr '\n' ' ')" >> /tmp/notes
    cat /tmp/said
    [ $status = 42 ] || { echo "status $status"; return 1; }
    if [ -n "$words" ]; then grep -q "$words" /tmp/said; else ! grep -q 'not moved\|not prepared\|no mount' /tmp/said; fi
}

# A program that runs is promoted, or refused in words, and lives. Either way it goes on and back.
promoted() { # PROGRAM
    rm -f /tmp/in /tmp/held && mkfifo /tmp/in && touch /tmp/held
    [ "$module" = apparmor ] || chcon -t httpd_tmpfs_t /tmp/in /tmp/held
    $as "/opt/$1" hold < /tmp/in > /tmp/held 2>&1 &
    server=$!
    exec 3> /tmp/in
    left=60
    until grep -q held /tmp/held || [ $left = 0 ]; do
        sleep 1
        left=$((left - 1))
    done
    [ $left != 0 ] || { echo "it never began"; exec 3>&-; return 1; }
    hugetext promote --backend remap "$server" > /tmp/said 2>&1
    status=$?
    echo "note: $module: $1 promoted, status $status: $(head -n 3 /tmp/said | tr '\n' ' ')" >> /tmp/notes
    hugetext promote --revert "$server" >> /tmp/said 2>&1
    exec 3>&-
    wait "$server"
    ended=$?
    cat /tmp/said
    # 0: its input has ended, as it should.
    [ $ended = 0 ] && [ $status -le 2 ] && ! grep -qi panic /tmp/said
}

daemon_holds() {
    printf 'mode = "act"\nbudget = "64M"\nshare = 0.0\n' > /tmp/auto.toml
    hugetext --json auto --config /tmp/auto.toml --state /tmp/auto.state --run-dir /tmp/auto --lists /tmp/none > /tmp/events 2> /tmp/errors &
    daemon=$!
    end=$(($(date +%s) + 240))
    until grep -q '"held".*congruent' /tmp/events || [ "$(date +%s)" -gt $end ]; do $as /opt/congruent exit; done
    hugetext auto why --run-dir /tmp/auto /opt/congruent
    kill $daemon
    wait $daemon
    echo "note: $module: the daemon's errors: $(head -n 2 /tmp/errors | tr '\n' ' ')" >> /tmp/notes
    cat /tmp/errors
    grep -q '"held".*congruent' /tmp/events
}

apparmor() {
    mount -t securityfs securityfs /sys/kernel/security 2> /dev/null
    for program in congruent shifted fixed; do
        cat << TEXT
profile $program /opt/$program {
  /opt/$program mr,
  /etc/ld.so.cache r,
  /usr/lib/** mr,
  /proc/*/{smaps,status} r,
  /tmp/* rw,
  /console rw,
}
TEXT
    done > /tmp/profiles
    # One that lets a command do little: it may not trace, mount or make namespaces.
    cat >> /tmp/profiles << 'TEXT'
profile tight {
  file,
}
TEXT
    ok the profiles are enforced -- apparmor_parser -r -K -T /tmp/profiles
    ok text of its own file is moved -- runs congruent
    ok text of a copy is refused and said -- runs shifted 'cannot be opened: Permission denied' --backend cache
    ok a copy in its place goes by the path -- runs fixed
    for program in congruent shifted fixed; do ok a server lives, "$program" -- promoted $program; done
    ok the daemon holds what a confined program runs -- daemon_holds
    as="aa-exec -p tight --"
    ok a command that may not trace runs -- runs shifted . --backend cache
    ok a command that may not mount runs -- runs fixed .
}

plainly() {
    $as /opt/congruent exit
    [ $? = 42 ]
}

# The policy is loaded by the kernel's own domain. Executed again under the label of init, this file is init.
selinux() {
    mount -t selinuxfs selinuxfs /sys/fs/selinux 2> /dev/null
    ok the policy loads -- load_policy -i
    setfiles -q -F -e /proc -e /sys -e /tmp -e /run /etc/selinux/default/contexts/files/file_contexts / > /dev/null 2>&1
    setfiles -q -F /etc/selinux/default/contexts/files/file_contexts /dev > /dev/null 2>&1
    chcon -t httpd_exec_t /opt/congruent /opt/shifted /opt/fixed
    chcon -t init_exec_t /look
    # What init runs as a service.
    chcon -t initrc_exec_t /service
    exec /look as_init
}

as_init() {
    module=selinux
    setenforce 1
    ok it is enforced -- grep -q 1 /sys/fs/selinux/enforce
    as=/service
    echo "note: selinux: a service is $(/service id -Z)" >> /tmp/notes
    ok a program of it is confined -- plainly
    ok text of its own file -- runs congruent
    ok text of a copy -- runs shifted '' --backend cache
    ok a copy in its place -- runs fixed
    for program in congruent shifted fixed; do ok a server lives, "$program" -- promoted $program; done
    ok the daemon -- daemon_holds
    setenforce 0
}

$module
cat /tmp/notes
dmesg | grep -i 'denied' | sed 's/.*\(apparmor=\|avc: \)/note: \1/; s/pid=[0-9]* //; s/ino=[0-9]* //' | sort | uniq -c | head -n 40
echo "whole: $module"
sync
echo o > /proc/sysrq-trigger
sleep 60
