/^CATEGORY="mmap" run_test \.\/map_populate$/i\
CATEGORY="mmap" run_test ./fork_fails
