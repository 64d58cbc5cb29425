#!/bin/sh
# Inside of a root: what each program of /tmp/programs says of itself. A line each: package, program, and
# exit status and digest of its --version and its --help.
set -u
ask() { # PROGRAM OPTION
    rm -rf /tmp/home
    mkdir -m 777 /tmp/home
    cd /tmp/home || exit 1
    timeout -k 1 4 setpriv --reuid=1000 --regid=1000 --clear-groups --no-new-privs \
        env HOME=/tmp/home "$1" "$2" </dev/null >/tmp/said 2>&1
    printf ' %s %s' $? "$(head -c 1000000 /tmp/said | sha256sum | head -c 16)"
}
while read -r package program; do
    printf '%s %s' "$package" "$program"
    ask "$program" --version
    ask "$program" --help
    echo
done </tmp/programs
