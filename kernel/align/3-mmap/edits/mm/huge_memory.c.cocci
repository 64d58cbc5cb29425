// Where the PMD does not fit, try the next smaller leaf.
@@
@@
#include <linux/cleanup.h>
+#include <linux/text_leaf.h>

@@
identifier filp, addr, len, pgoff, flags, vma_flags;
symbol ret, off;
@@
 unsigned long thp_get_unmapped_area_vmaflags(struct file *filp, unsigned long addr,
		unsigned long len, unsigned long pgoff, unsigned long flags,
		vma_flags_t vma_flags)
 {
 ...
 	if (ret)
 		return ret;
+
+	if (filp && text_cont_order()) {
+		ret = __thp_get_unmapped_area(filp, addr, len, off, flags,
+					      PAGE_SIZE << text_cont_order(),
+					      vma_flags);
+		if (ret)
+			return ret;
+	}

 	return mm_get_unmapped_area_vmaflags(...);
 }
