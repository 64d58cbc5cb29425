# SPDX-License-Identifier: GPL-2.0-only
# Figures as the documents show them, for report.jq and devices.jq.

def tenths: . * 10 | round | "\(. / 10 | floor).\(. % 10)";
# Milliseconds of microseconds.
def ms: . / 1000 | tenths;
# MiB of bytes.
def mib: . / 1048576 | tenths;
def row: "| " + join(" | ") + " |";
def middle: sort | .[length / 2 | floor];
