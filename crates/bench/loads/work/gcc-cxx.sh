#!/bin/sh
# gcc compiles C++: a small program that reads and writes JSON with the nlohmann library.
# Prepares its input in the directory $1, where json.cpp lies. Prints a title, the program, and the words of the command.
set -eu
compiler=$(command -v c++) || { echo "g++" >&2; exit 3; }
[ -f /usr/include/nlohmann/json.hpp ] || { echo "nlohmann-json3-dev" >&2; exit 3; }
"$compiler" -std=c++17 -E "$1/json.cpp" -o "$1/json.ii"
cc1plus=$("$compiler" -print-prog-name=cc1plus)
echo "g++ -O0 of a program with nlohmann-json, C++"
echo "$cc1plus"
printf '%s\n' "$cc1plus" -quiet -fpreprocessed -std=c++17 -O0 -o /dev/null "$1/json.ii"
