# SPDX-License-Identifier: GPL-2.0-only
"""What other policies would read to start the programs of a guest, as a part of docs/kernel-devices.md.

Called by devices.sh with the records of a guest that had guest.order: the pages that each program touches, in order.
Standard input has the devices. A model replays the touches: a page that is not cached is read as the policy says.
"""

import collections
import json
import sys

PAGE = 4096
LEAF = 512  # pages
READAHEAD = 32  # pages
# A leaf is read at this miss in its window: the first, as the series does, or a later one, in place of the pages that
# are cached there. None is never.
POLICIES = [None, 1, 2, 3, 5]


class Start:
    """The reads of one start under one policy."""

    def __init__(self, policy):
        self.policy = policy
        self.cached = set()
        self.misses = collections.Counter()
        self.reads = []  # pages of each
        self.seeks = 0
        self.head = None  # where the last read ended

    def read(self, inode, first, end):
        """Pages that are cached are not read again."""
        pages = {(inode, page) for page in range(first, end)} - self.cached
        self.reads.append(len(pages))
        self.seeks += min(pages) != self.head
        self.head = inode, max(pages)[1] + 1
        self.cached |= pages

    def is_free(self, inode, window):
        return not any((inode, page) in self.cached for page in range(window, window + LEAF))

    def touch(self, touch):
        if (touch["inode"], touch["page"]) in self.cached:
            return
        if touch["exec"]:
            self.miss_text(touch)
        else:
            self.miss_data(touch)

    def miss_data(self, touch):
        """Reads around the page; not in windows of text beside the mapping, if leaves are read at all."""
        first = max(touch["page"] - READAHEAD // 2, 0)
        end = first + READAHEAD
        if self.policy:
            first = max(first, touch["start"] // LEAF * LEAF)
            end = min(end, -(-touch["end"] // LEAF) * LEAF)
        self.read(touch["inode"], first, min(end, touch["file_end"]))

    def miss_text(self, touch):
        page, end = touch["page"], touch["end"]
        window = page // LEAF * LEAF
        fits = (touch["address"] - page) % LEAF == 0 and self.policy
        key = touch["inode"], window
        self.misses[key] += 1
        whole = touch["start"] <= window and window + LEAF <= end
        # A program that begins with text had its header read before.
        taken = self.policy == 1 and window and not self.is_free(*key)
        if fits and whole and not taken and self.misses[key] >= self.policy:
            self.cached -= {(touch["inode"], cached) for cached in range(window, window + LEAF)}
            self.read(touch["inode"], window, window + LEAF)
            return
        stop = min(page + READAHEAD, end)
        if fits and window + 2 * LEAF <= end:
            stop = min(stop, window + LEAF)
        self.read(touch["inode"], page, stop)


def starts(records):
    """Program: a Start for each policy."""
    found = {}
    touches = [touch for touch in map(json.loads, records) if touch["kind"] == "order"]
    file_end = collections.Counter()
    for touch in touches:
        file_end[touch["inode"]] = max(file_end[touch["inode"]], touch["end"])
    for touch in touches:
        touch["file_end"] = file_end[touch["inode"]]
        for start in found.setdefault(touch["program"], [Start(policy) for policy in POLICIES]):
            start.touch(touch)
    return found


def row(name, device, program):
    latency, seek, speed = device
    ms = [
        (sum(latency + pages * PAGE / speed for pages in start.reads) + start.seeks * seek) / 1000 for start in program
    ]
    mib = [sum(start.reads) * PAGE / 2**20 for start in program]
    return [name, ", ".join(f"{one:.1f}" for one in ms), ", ".join(f"{one:.1f}" for one in mib)]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        programs = starts(file)
    print("""
## Other policies

The same programs, by a model. A guest recorded which pages of files they touch, in order. Each read takes the latency of the disk
and the time of its data, and a seek if it does not follow the one before. What the processor does meanwhile is not in it, nor
what is read ahead of data. *Waits* are those of a start that reads no leaf, as today; that reads a leaf at
the first miss in its window, as the series does where the device is fast enough; and at the second, third and fifth
miss, in place of the small folios that are cached there. No such kernel exists: the pages of the others are
mapped. NFS is left out: how its requests overlap depends on client and server.

| disk | program | waits, ms | read, MiB |
|---|---|---:|---:|""")
    for line in sys.stdin:
        disk, latency, seek, speed, *_ = line.split()
        for name, program in programs.items():
            # A text without a whole window is read alike by all.
            if len({tuple(start.reads) for start in program}) == 1:
                continue
            cells = row(name, (int(latency), int(seek), int(speed)), program)
            print("| " + " | ".join([disk, *cells]) + " |")


main()
