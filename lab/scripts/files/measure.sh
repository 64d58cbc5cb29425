#!/usr/bin/env bash
# Tries files in many ways, and writes the record, a file for each part: lab/scripts/files/measure.sh HUGETEXT RECORD [PART…]
#
#   agree     the files of lab/scripts/files/list, for up to an hour
#   mutants   COUNT (5000) files with damaged headers, from SEED (64)
#   tools     tools that read or rewrite files, before and after each strategy
#   sections  sections that are not loaded, by toolchain
#
# A part's file is replaced when the part is complete. Packages lie below $XDG_CACHE_HOME/hugetext/files for a moment.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hugetext=$(realpath "$1")
mkdir -p "$2"
record=$(realpath "$2")
shift 2
parts=(agree mutants tools sections)
[ $# -gt 0 ] || set -- "${parts[@]}"

agree() { "$here/agree.py" "$hugetext" "$here/list"; }
mutants() { "$here/mutants.py" "$hugetext" "${SEED:-64}" "${COUNT:-5000}"; }
tools() { "$here/tools.py" "$hugetext"; }
sections() { "$here/sections.py" "$hugetext" "$here/toolchains"; }

for part in "$@"; do
    [[ " ${parts[*]} " == *" $part "* ]] || { echo "measure.sh: no part is named '$part'" >&2; exit 2; }
    "$part" > "$record/$part.new"
    mv "$record/$part.new" "$record/$part.jsonl"
done
