# The test's own address_space.
s/^(	struct rb_root_cached	)i_mmap;$/\1i_mmap_root;/
