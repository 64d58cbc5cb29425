#!/bin/sh
# clang compiles C++: a small program that reads and writes JSON with the nlohmann library.
# Prepares its input in the directory $1, where json.cpp lies. Prints a title, the program, and the words of the command.
set -eu
compiler=$(command -v clang++) || { echo "clang" >&2; exit 3; }
[ -f /usr/include/nlohmann/json.hpp ] || { echo "nlohmann-json3-dev" >&2; exit 3; }
"$compiler" -std=c++17 -E "$1/json.cpp" -o "$1/json.ii"
# Most of the compiler is in a library.
library=$(ldd "$(readlink -f "$compiler")" | awk '/libLLVM/ { print $3 }')
echo "clang++ -O0 of a program with nlohmann-json, C++; the text of libLLVM alone is changed"
echo "${library:-$(readlink -f "$compiler")}"
printf '%s\n' "$compiler" -std=c++17 -O0 -c -o /dev/null "$1/json.ii"
