// Each way out of __rmap_walk_file() that took the lock, or wanted it, is counted.
@@
@@
 #include "internal.h"
+#include "rmap_walks.h"

@@
identifier folio, mapping, pgoff_start, nr_pages, rwc, locked;
symbol lookup, done, true;
@@
 static void __rmap_walk_file(struct folio *folio, struct address_space *mapping,
 			     pgoff_t pgoff_start, unsigned long nr_pages,
 			     struct rmap_walk_control *rwc, bool locked)
 {
+	u64 wanted = local_clock(), taken;
 	...
 	if (!locked) {
 		...
 		if (rwc->try_lock) {
 			rwc->contended = true;
+			rmap_walks_refused();
 			return;
 		}
 		...
 	}
 lookup:
+	taken = local_clock();
 	...
 done:
-	if (!locked)
+	if (!locked) {
 		i_mmap_unlock_read(mapping);
+		rmap_walks_add(wanted, taken, rwc->try_lock);
+	}
 }
