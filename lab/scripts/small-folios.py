#!/usr/bin/env python3
"""Brings files into the page cache as plain page faults do, in small folios: small-folios.py FILE..."""

import mmap
import os
import sys

MADV_POPULATE_READ = 22  # include/uapi/asm-generic/mman-common.h

for name in sys.argv[1:]:
    with open(name, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        rights = mmap.PROT_READ | mmap.PROT_EXEC
        with mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED, prot=rights) as mapping:
            mapping.madvise(MADV_POPULATE_READ)
