#!/bin/sh
# Inside of a root: runs each job of /tmp/jobs in an empty directory, by `$1 run` if that is given. A line
# each: name, exit status and digest of what it printed and wrote, and how many files were prepared.
set -u
while IFS='	' read -r name programs script; do
    case $name in '' | '#'*) continue ;; esac
    rm -rf /tmp/job
    mkdir /tmp/job
    cd /tmp/job || exit 1
    prepared=-
    set -- "${1:-}"
    if [ -n "$1" ]; then
        also=
        for program in $programs; do also="$also --also $program"; done
        # shellcheck disable=SC2086 # a list of words
        prepared=$("$1" run --dry-run --json $also -- sh 2>/dev/null |
            grep -oE '"action": *"(fix|copy|warm)"' | wc -l)
        # shellcheck disable=SC2086
        HOME=/tmp/job timeout -k 1 300 "$1" run $also -- sh -c "$script" </dev/null >/tmp/said 2>/tmp/errors
    else
        HOME=/tmp/job timeout -k 1 300 sh -c "$script" </dev/null >/tmp/said 2>/tmp/errors
    fi
    status=$?
    warned=$(grep -c '^hugetext: ' /tmp/errors)
    grep -v '^hugetext: ' /tmp/errors >>/tmp/said
    wrote=$(find . -type f -name 'out*' -exec sha256sum {} + | sort -k 2; cat /tmp/said)
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" $status "$(printf %s "$wrote" | sha256sum | head -c 16)" \
        "$prepared" "$warned"
    [ $status = 0 ] || { echo "$name: exit status $status"; tail -3 /tmp/said; } >&2
done </tmp/jobs
