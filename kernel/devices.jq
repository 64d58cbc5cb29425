# SPDX-License-Identifier: GPL-2.0-only
# docs/kernel-devices.md from the records of the guests of devices.sh.

include "figures";

# Groups in the order in which the first of each comes.
def in_order(key): reduce .[] as $one ([]; if map(key) | index([$one | key]) then . else . + [$one] end) | map(key);

# A touch and what the kernel counted meanwhile, which is printed behind it.
def touches: . as $all
    | [range(1; length) | select($all[.].kind == "leaves" and $all[. - 1].kind == "touch") | $all[.] + $all[. - 1] + {bytes: $all[.].bytes}];

# Starts, each with the policy that was announced before.
def starts: [foreach .[] as $one (null; if $one.kind == "under" then $one.name else . end;
    if $one.kind == "start" then {under: .} + $one else empty end)];

# The median of a figure of some starts, in the unit of its column.
def shown($key; $starts): $starts | map(.[$key]) | middle
    | if $key == "elapsed_us" then ms elif $key == "read" then mib else tostring end;

["today", "4 reads", "8 reads", "any time"] as $policies
| . as $records
| in_order(.disk) as $disks
| "# Text on slow devices and in little memory

Written by `make docs-kernel-devices`. The guest has a disk of known speed (`kernel/paced`), an emulated processor that
counts instructions instead of time, 1 GiB of memory, and 128 KiB of readahead. So a fault waits for the same time on
every machine. The speeds are typical ones of such devices; a seek is added to each request that does not follow
the one before. In the rows of NFS a server of NFS 4.2 in the same guest has the disk, and the programs are read from
it over the loopback device; the work of both is in the times. In the rows of overlayfs the programs are in a lower layer,
as those of containers are.

## Faults that wait

A text of 16 MiB is touched with a cold page cache, in every window of 64 KiB or in one of 4 or 16, not in order.
Linux reads today what the same kernel reads with THP \"never\". The others read a leaf if that takes no longer than 4 reads
of 128 KiB, than 8, which the series has, or any time. With 4 and 8, it may also take 16 ms more than one of them
at most, or 2 ms more in any case. The disk was used before: the kernel knows whether it is late with leaves, which it finds
out by reading one. The fault that tries a leaf waits as long as the longest touch of the last kind. That is one fault when
the disk is new, and one of 1,024 faults or more after that. The four figures of each column are of these, in this order.

| disk | latency + seek, MB/s, at once | touched | touches that wait | longest touch, ms | until all is touched, ms | read, MiB |
|---|---|---|---:|---:|---:|---:|",
($disks[] as $disk | (1, 4, 16) as $part
 | $records | map(select(.disk == $disk)) | touches | map(select(.part == $part and .where == "")) as $all
 | [$policies[] as $policy | $all[] | select(.name == $policy)] as $of
 | [$disk, ($of[0] | "\(.latency) µs\(if .seek > 0 then " + \(.seek / 1000) ms" else "" end), \(.speed), \(.depth)"), "1 of \($part)"]
   + [[$of[].major], [$of[].longest_us | ms], [$of[].total_us | ms], [$of[].bytes | mib] | map(tostring) | join(", ")]
 | row),
"
A leaf takes the place of up to 16 reads of 128 KiB. It pays if so many of these would be needed that they take longer
than reading the leaf. Where that is up to 8, leaves are read. The row of NFS is what the touches above took, one of 16.

| disk | a read of 128 KiB, ms | of a leaf of 2 MiB, ms | a leaf pays from, of 16 |
|---|---:|---:|---:|",
($disks[] as $disk
 | $records | map(select(.disk == $disk)) | .[0] as $one | (touches | map(select(.part == 16 and .where == ""))) as $touched
 | (if $one.by != "guest.nfs" then ($one.latency + $one.seek) | [. + 131072 / $one.speed, . + 2097152 / $one.speed]
    else [$touched[] | select(.name == "today", .name == "any time") | .total_us / .major] end) as [$small, $leaf]
 | [$disk, ($small | ms), ($leaf | ms), ($leaf / $small | ceil)] | row),
"
## Cold starts

From exec to exit: programs of Debian, which execute a part of their text, programs made for this with text of 24 or 3
MiB, of which they execute a page in each 64K, and a library of 800 KiB. Figures of programs with less than 8 MiB of text are
medians of 15 starts. The four figures of each column are of the policies of the first table: today, 4 reads, 8 reads (the
series), and any time.

| disk | program | ms | major faults | read, MiB |
|---|---|---:|---:|---:|",
($disks[] as $disk
 | $records | map(select(.disk == $disk)) | starts
 | in_order(.program)[] as $program | map(select(.program == $program)) as $all
 | [$disk, $program]
   + [("elapsed_us", "major", "read") as $key
      | [$policies[] as $policy | shown($key; $all | map(select(.under == $policy)))] | join(", ")]
 | row),
"
## Little memory

The same text, all of it touched, on \($disks[0]). *Not read* is the reason why a fault did not read a leaf, and how often. In
fragmented memory every other page is held, and cannot be moved, and no block of 2 MiB is free. The full cgroup has read
more of a disk than it may keep: to charge a leaf reclaims some of that, as to charge a page does.

| memory | leaves read | not read: memory | not read: no folio | faults that wait | longest touch, ms | until all is touched, ms | read, MiB |
|---|---:|---:|---:|---:|---:|---:|---:|",
($records | map(select(.disk == $disks[0])) | touches[]
 | select(.part == 1 and (.name == "today" or .name == "8 reads"))
 | [(.where | if . == "" then "1 GiB" else . end) + (if .name == "today" then ", today" else "" end),
    .read, .memory, .alloc, .major,
    (.longest_us | ms), (.total_us | ms), (.bytes | mib)] | row)
