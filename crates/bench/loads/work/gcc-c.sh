#!/bin/sh
# gcc compiles C: the font decoder of the stb libraries.
# Prepares its input in the directory $1. Prints a title, the program, and the words of the command.
set -eu
compiler=$(command -v cc) || { echo "gcc" >&2; exit 3; }
[ -f /usr/include/stb/stb_truetype.h ] || { echo "libstb-dev" >&2; exit 3; }
printf '#define STB_TRUETYPE_IMPLEMENTATION\n#include <stb/stb_truetype.h>\n' > "$1/stb.c"
"$compiler" -E "$1/stb.c" -o "$1/stb.i"
cc1=$("$compiler" -print-prog-name=cc1)
echo "gcc -O1 of stb_truetype, C"
echo "$cc1"
printf '%s\n' "$cc1" -quiet -fpreprocessed -O1 -o /dev/null "$1/stb.i"
