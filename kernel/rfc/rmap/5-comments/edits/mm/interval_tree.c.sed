s/mm\/interval_tree\.c - interval tree for address_space->i_mmap and$/Interval trees for the mappings of a file, and/
