#!/usr/bin/env bash
# Cold starts under each mode of THP, in a guest of the lab: scripts/self-warming-modes.sh KIT LAB > RECORD
#
# KIT is what self-warming-kit.sh made, LAB the command of the lab. The mode is a setting of a whole machine, so
# that it is changed in a guest only. QEMU emulates the processor: counts mean something there, times do not.
# Under always, the programs start without the tunable too: then the kernel alone could ask.
# A program with a second, shorter command (command.version of the kit) is started by that.
# PROGRAMS and LAYOUTS choose among those of the kit; all programs are used without the first. Prints one line of
# JSON for each start. Takes root, for mmdebstrap.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kit=$(realpath "$1") lab=$2
root=$(mktemp -d "${TMPDIR:-/tmp}/modes.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
mmdebstrap --quiet --variant=essential --include=python3 bookworm "$root" >&2
inner=$root/start
mkdir -p "$inner"/{dev,tmp,proc,lib64,p} "$inner"/{sys/kernel/mm/transparent_hugepage,usr/lib/x86_64-linux-gnu}
ln -s usr/lib "$inner/lib"
cp "$kit"/lib/* "$kit"/glibc-2.44/* "$inner/usr/lib/x86_64-linux-gnu/"
cp "$kit/glibc-2.44/ld-linux-x86-64.so.2" "$inner/lib64/"
cp "$kit"/in.{c,rs} "$inner/"
mknod -m 666 "$inner/dev/null" c 1 3
for program in ${PROGRAMS:-$(ls "$kit/p")}; do
    mkdir "$inner/p/$program"
    cp "$kit/p/$program"/{texts,command*} "$inner/p/$program/"
    while read -r text; do
        for layout in shipped fixed warming; do install -D "$kit${text/LAYOUT/$layout}" "$inner${text/LAYOUT/$layout}"; done
    done < "$kit/p/$program/texts"
done
cp "$here/cold-start.py" "$root/"
cat > "$root/modes.sh" <<'GUEST'
thp=/sys/kernel/mm/transparent_hugepage
# A long readahead spoils the windows of every file.
for readahead in /sys/block/*/queue/read_ahead_kb; do echo 128 > "$readahead"; done
for mode in always madvise never; do
    echo $mode > $thp/enabled
    cat $thp/enabled > /start$thp/enabled
    cat $thp/hpage_pmd_size > /start$thp/hpage_pmd_size
    tunables=1
    [ $mode != always ] || tunables="0 1"
    for program in /start/p/*; do
        command=$program/command
        [ ! -e "$command.version" ] || command=$command.version
        program=${program##*/}
        for layout in $LAYOUTS; do
            sed "s/LAYOUT/$layout/" "$command" > /tmp/command
            set --
            while read -r word; do set -- "$@" "$word"; done < /tmp/command
            texts=$(sed "s/LAYOUT/$layout/" "/start/p/$program/texts" | paste -sd, -)
            for tunable in $tunables; do
                # Without /proc, nobody finds libraries by $ORIGIN.
                found=$(python3 /cold-start.py /start GLIBC_TUNABLES=glibc.elf.thp=$tunable \
                    "LD_LIBRARY_PATH=/p/$program/$layout/lib" -- "$texts" "$@") || continue
                echo "{\"guest\": \"$(uname -r)\", \"thp\": \"$mode\", \"tunable\": $tunable, \"program\": \"$program${command##*/command}\", \"layout\": \"$layout\", ${found#\{}"
            done
        done
    done
done
GUEST
"$lab" boot 6.18-amd64 --memory 3072 --timeout 1800 --root "$root" -- sh -c "LAYOUTS='${LAYOUTS:-shipped fixed warming}' . /modes.sh" |
    jq -r '.. | .printed? // empty' | grep '^{"guest"'
