// fork may make a crowd too: each child that lives maps the file.
@@
@@
+#include "i_mmap.h"
#include "internal.h"

@@
symbol child;
@@
 fork_file_batch_link(struct fork_file_batch *fb)
 {
 	struct address_space *mapping = ...;
 	struct mm_struct *mm = ...;
+	bool crowded = false;
 <...
(
 flush_dcache_mmap_unlock(mapping);
+crowded |= i_mmap_crowded(mapping, child);
|
 i_mmap_unlock_write(mapping, mm);
+if (crowded)
+	i_mmap_split(mapping);
)
 ...>
 }
