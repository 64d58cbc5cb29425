#!/bin/sh
# A part of a kernel build with gcc.
compiler=gcc needs=gcc file=cc1
measured=$(gcc -print-prog-name=cc1 2> /dev/null || true)
# shellcheck source=crates/bench/loads/work/kernel
. "$1/kernel"
