// A new, empty address space draws its shard. dup_mm() copies the shard of the parent.
@@
@@
+#include "../mm/i_mmap.h"
#include "../mm/internal.h"

@@
@@
 mm_alloc(void)
 {
 ...
 memset(mm, 0, sizeof(*mm));
+i_mmap_draw_shard(mm);
 ...
 }
