s/"lock file -> mapping -> i_mmap_rwsem"/"lock file -> mapping -> i_mmap_root_rwsem"/
