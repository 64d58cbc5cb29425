#!/bin/sh
# mold links a static program with all of libstdc++.
# Prepares its input in the directory $1. Prints a title, the program, and the words of the command.
set -eu
linker=$(command -v mold) || { echo "mold" >&2; exit 3; }
compiler=$(command -v c++) || { echo "g++" >&2; exit 3; }
echo 'int main() { return 0; }' > "$1/main.cpp"
"$compiler" -c "$1/main.cpp" -o "$1/main.o"
file() { "$compiler" -print-file-name="$1"; }
echo "mold links a static program with all of libstdc++"
readlink -f "$linker"
printf '%s\n' "$linker" -static --no-fork -o "$1/linked" "$(file crt1.o)" "$(file crti.o)" "$(file crtbeginT.o)" \
    "$1/main.o" --whole-archive "$(file libstdc++.a)" --no-whole-archive --start-group "$(file libgcc.a)" \
    "$(file libgcc_eh.a)" "$(file libc.a)" "$(file libm.a)" --end-group "$(file crtend.o)" "$(file crtn.o)"
