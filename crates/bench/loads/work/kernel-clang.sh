#!/bin/sh
# A part of a kernel build with clang, most of which is in a library.
compiler=clang needs="clang lld llvm" file=libLLVM
measured=$(ldd "$(command -v clang)" 2> /dev/null | awk '/libLLVM/ { print $3 }' || true)
# shellcheck source=crates/bench/loads/work/kernel
. "$1/kernel"
