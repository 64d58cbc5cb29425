#!/bin/sh
# git shows the differences of a history.
# Prepares a repository in the directory $1. Prints a title, the program, and the words of the command.
set -eu
git=$(command -v git) || { echo "git" >&2; exit 3; }
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
"$git" init -q "$1/history" >&2
seq 20000 > "$1/history/lines"
for change in $(seq 200); do
    sed -i "$((change * 37))s/\$/ changed/; $((change * 11))d" "$1/history/lines"
    "$git" -C "$1/history" add lines
    "$git" -C "$1/history" commit -qm "change $change"
done
echo "git log -p --stat of 200 commits"
readlink -f "$git"
printf '%s\n' "$git" -C "$1/history" --no-pager log -p --stat
