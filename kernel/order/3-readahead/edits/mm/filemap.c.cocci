// The range and order for VM_EXEC come from the policy instead of being computed in place.
@range@
identifier fn, vmf, ra, vma, start, end, ra_end;
@@
 fn(struct vm_fault *vmf)
 {
 <...
 	struct vm_area_struct *vma = vmf->vma;
(
-	const unsigned long start = vma_start_pgoff(vma);
-	const unsigned long end = vma_end_pgoff(vma);
|
// Linux 7.2
-	unsigned long start = vma->vm_pgoff;
-	unsigned long end = start + vma_pages(vma);
)
-	unsigned long ra_end;

-	ra->order = exec_folio_order();
-	ra->start = round_down(vmf->pgoff, 1UL << ra->order);
-	ra->start = max(ra->start, start);
-	ra_end = round_up(ra->start + ra->ra_pages, 1UL << ra->order);
-	ra_end = min(ra_end, end);
-	ra->size = ra_end - ra->start;
+	exec_readahead(vma, vmf->pgoff, ra);
 	ra->async_size = 0;
 ...>
 }

// Applied only if the first rule matched. If nothing matched, kernel/build.sh reports it.
@depends on range@
@@
#include "internal.h"
+#include "exec_readahead.h"
