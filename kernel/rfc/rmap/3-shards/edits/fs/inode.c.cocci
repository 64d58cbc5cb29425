// Nothing maps the inode any more, and nobody can find its page cache.
@@
identifier inode;
@@
 __destroy_inode(struct inode *inode)
 {
 ...
 locks_free_lock_context(inode);
+i_mmap_free_shards(&inode->i_data);
 ...
 }
