# SPDX-License-Identifier: GPL-2.0-only
# docs/kernel-deb.md from what deb-boot.sh recorded.

include "figures";

def share(kernel; way; $name):
    map(select((.kernel | kernel) and .way == way and .name == $name))[0]
    | if . == null then "-" else "\(.pmd_mapped | mib) of \(.mapped | mib)" end;

def patched: endswith("-hugetext");

. as $all
| "# The patched kernel as packages of Debian",
  "",
  "Written by `make docs-kernel-deb`. `make kernel-deb` made packages of the kernel with every set, in Debian's configuration",
  "for virtual machines (cloud-amd64). \(if $seconds == "" then "" else "It took \($seconds | tonumber / 60 | ceil) minutes of processor time. " end)The packages and that of hugetext were",
  "installed in a Debian 13 with systemd, which booted with this kernel (\(map(.kernel) | unique | map(select(patched))[0])) and with Debian's own of",
  "the same source (\(map(.kernel) | unique | map(select(patched | not))[0])). THP is \"\(map(select(.name == "machine"))[0].way)\", as Debian sets it.",
  "The disk is an NVDIMM, which takes \(map(select(.name == "machine").disk_ns / 1000 | round) | sort | map(tostring) | unique | join(" to ")) µs to read 128 KiB in these emulated guests, whose",
  "time is counted in instructions.",
  "",
  "Programs start from a cold page cache on ext4, with a readahead of 128 KiB, alone and behind `hugetext run`. The table",
  "shows how much of the text that a program and its libraries map is mapped by PMDs, in MiB, once the program waits for",
  "input. Windows that it has not touched until then are not mapped.",
  "",
  (["program", "Debian's kernel, alone", "Debian's, with `run`", "patched, alone", "patched, with `run`"] | head),
  (map(select(.name != "machine").name) | unique[] as $name
   | [$name,
      ($all | share(patched | not; "alone"; $name)), ($all | share(patched | not; "run"; $name)),
      ($all | share(patched; "alone"; $name)), ($all | share(patched; "run"; $name))]
   | row),
  "",
  "What faults on text did on the patched kernel, while each program started alone. A fault that reads no leaf has one of these",
  "reasons: the *shape* of the mapping (no whole window lies around the fault), *cached* pages in the window, the *device*,",
  "for which the fault would wait too long, or which nobody has waited for yet, *memory*, or no free folio (*alloc*).",
  "[kernel.md](kernel.md) has starts from disks of known speed.",
  "",
  (["program", "leaves read", "not read: shape", "cached", "device", "memory", "alloc"] | head),
  (map(select(.name != "machine" and .way == "alone" and (.kernel | patched))) | sort_by(.name)[]
   | [.name, (.leaves | .read, .shape, .cached, .device, .memory, .alloc)]
   | row)
