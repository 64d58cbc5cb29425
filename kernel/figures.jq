# SPDX-License-Identifier: GPL-2.0-only
# Figures and tables as the documents show them, for the other .jq files of this folder.

def tenths: . * 10 | round | "\(. / 10 | floor).\(. % 10)";
# Milliseconds of microseconds.
def ms: . / 1000 | tenths;
# MiB of bytes.
def mib: . / 1048576 | tenths;
def row: "| " + join(" | ") + " |";
# The first two lines of a table, of the names of its columns.
def head: row, (map("---") | row);
def middle: sort | .[length / 2 | floor];
