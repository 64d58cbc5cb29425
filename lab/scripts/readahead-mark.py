#!/usr/bin/env python3
"""Prints what a fault in the second window of a file does to the third: readahead-mark.py FILE

FILE is made anew, on a filesystem whose page cache has large folios. It is mapped with MADV_HUGEPAGE. A page of
its second window is touched, which reads that window and the next one, then a page of that one, then the window
behind. Each line of JSON has the number of the second of these pages in its window, and the bytes that PMD leaves
map in the end: three windows, or two.
"""
import json
import mmap
import os
import re
import sys

WINDOW = 2 << 20
PAGE = mmap.PAGESIZE
PAGES = WINDOW // PAGE


def mapped_huge(path):
    """Bytes of the file that PMD leaves of this process map."""
    with open("/proc/self/smaps") as smaps:
        text = smaps.read()
    own = re.search(re.escape(path) + r"\n(?:[A-Z].*\n)*?FilePmdMapped: +(\d+) kB", text)
    return int(own.group(1)) << 10


def huge_after(path, page):
    """Bytes mapped by PMD leaves after `page` of the second window of a pair was the first that was touched in it."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    mapping = mmap.mmap(file, 5 * WINDOW, mmap.MAP_PRIVATE, mmap.PROT_READ)
    os.close(file)
    mapping.madvise(mmap.MADV_HUGEPAGE)
    for at in [WINDOW + 7 * PAGE, 2 * WINDOW + page * PAGE, 3 * WINDOW]:
        assert mapping[at] == 1
    bytes_huge = mapped_huge(path)
    mapping.close()
    return bytes_huge


path = os.path.realpath(sys.argv[1])
with open(path, "wb") as new:
    new.write(b"\1" * (6 * WINDOW))
    new.flush()
    os.fsync(new.fileno())
for page in [0, PAGES // 2, PAGES - 33, PAGES - 32, PAGES - 1]:
    print(json.dumps({"touched": page, "huge": huge_after(path, page)}))
