//! The running machine: mappings, page map, page cache, THP settings, filesystems.
