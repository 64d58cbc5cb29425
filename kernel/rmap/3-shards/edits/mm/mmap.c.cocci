// fork may make a crowd too: each child that lives maps the file.
@@
@@
+#include "i_mmap.h"
#include "internal.h"

@@
expression mm;
symbol mapping, tmp;
@@
 dup_mmap(...)
 {
 <...
 	struct address_space *mapping = ...;
+	bool crowded;
 	...
 	mapping_rmap_tree_insert_after(...);
 	flush_dcache_mmap_unlock(mapping);
+	crowded = i_mmap_crowded(mapping, tmp);
 	i_mmap_unlock_write(mapping, mm);
+	if (crowded)
+		i_mmap_shard(mapping);
 ...>
 }
