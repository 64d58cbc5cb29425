#!/bin/sh
# Prints the record of lab/results/results.md: lab/scripts/results.sh HUGETEXT
# Each measurement is preceded by QUIETLY, a command that waits until the machine is idle. OPTIONS are further options of
# each benchmark, such as --rounds 1.
set -eu
# shellcheck source=lab/scripts/record.sh
. "$(dirname "$0")/record.sh"

hugetext=${1:?usage: $0 HUGETEXT}

fact machine "$(uname -sr), $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
fact load "$(cut -d ' ' -f 1 /proc/loadavg)"
# If this machine's answer is no, that is the result.
for benchmark in exec cold random mprotect rmap; do
    # shellcheck disable=SC2086 # a list of options
    said=$(${QUIETLY:-} "$hugetext" bench $benchmark ${OPTIONS:-} 2>&1) || [ $? -eq 1 ]
    fact $benchmark "$said"
done
