s/linkage into the address_space->i_mmap interval tree\.$/linkage into an interval tree of the address_space: see mm\/i_mmap.c./
