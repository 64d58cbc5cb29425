#!/bin/sh
# Builds the cargo workspace in a directory from scratch: build.sh DIRECTORY
cd "$1" || exit
rm -rf target
cargo build --quiet --offline
