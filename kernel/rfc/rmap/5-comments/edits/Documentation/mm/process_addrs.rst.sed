s/^(  :c:func:`!i_mmap_)\[try\](lock_write)` for file-backed memory\. We refer to these$/\1\2_all` for file-backed memory. With\
  ``CONFIG_I_MMAP_SHARDS`` a file that many processes execute is split (see\
  ``mm\/i_mmap.c``). There, these take :c:member:`!i_mmap_root_rwsem` and then the\
  lock of every shard, in ascending order. A task that splits a file moves VMAs\
  of other MMs between trees. It takes all of these for write, but not the mmap\
  locks of those MMs. Code that links, changes or unlinks VMAs of one MM takes\
  :c:func:`!i_mmap_lock_write` with that MM. In such a file this takes the lock of\
  one shard and nothing else, so it stabilises the VMAs of that MM, and not all\
  that a walk would meet. We refer to these/
/^ +in the$/,/^ +red\/black interval tree\.$/c\
                                       in a red/black interval tree of the\
                                       :c:struct:`!struct address_space`.
s/^(              )mapping->i_mmap_rwsem$/\1i_mmap lock (of one mm or all; see mm\/i_mmap.c)/
s/->i_mmap_rwsem( +\()/->i_mmap lock \1/
s/`!struct address_space->i_mmap_rwsem` alone/`!struct address_space` i_mmap lock alone/
s/\bi_mmap_rwsem\b/i_mmap lock/
s/ and :c:type:`!i_mmap`$/ and i_mmap/
/through the :c:struct:`!struct anon_vma->rb_root` or the :c:member:`!struct$/{
	N
	s/or the (:c:)member:`!struct\naddress_space->i_mmap`/or the \1struct:`!struct\
address_space`/
}
