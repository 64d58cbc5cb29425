# SPDX-License-Identifier: GPL-2.0-only
# Figures as the pages of results show them, for the other .jq files of this folder.

def tenths: . * 10 | round | "\(. / 10 | floor).\(. % 10)";
# Milliseconds of microseconds.
def ms: . / 1000 | tenths;
# MiB of bytes.
def mib: . / 1048576 | tenths;
def row($table): {table: $table, row: map(tostring)};
