#!/bin/sh
# A Java virtual machine starts and compiles one class.
# Prepares its input in the directory $1. Prints a title, the program, and the words of the command.
set -eu
javac=$(command -v javac) || { echo "default-jdk-headless" >&2; exit 3; }
echo 'public class Hello { public static void main(String[] a) { System.out.println(a.length); } }' > "$1/Hello.java"
home=$(dirname "$(dirname "$(readlink -f "$javac")")")
echo "javac of one class; the text of libjvm.so alone is changed"
echo "$home/lib/server/libjvm.so"
printf '%s\n' "$javac" -d "$1" "$1/Hello.java"
