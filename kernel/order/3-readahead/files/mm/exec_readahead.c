// SPDX-License-Identifier: GPL-2.0-only
/* Collects the facts for mm/exec_order.h: what to read for a fault on text. */
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/swap.h>
#include <linux/text_leaf.h>
#include <linux/vmstat.h>

#include "exec_order.h"
#include "exec_readahead.h"
#include "internal.h"

/*
 * Pages that are free above the reserves, plus inactive pages of files. A
 * machine that has run for long has few free pages, and is not short of memory.
 */
static unsigned long avail_pages(void)
{
	const unsigned long free = global_zone_page_state(NR_FREE_PAGES);

	return free - min(free, totalreserve_pages) +
	       global_node_page_state(NR_INACTIVE_FILE);
}

/* Only reclaim leaves a value where a page of a regular file was. */
static bool evicted_recently(struct address_space *mapping, pgoff_t index)
{
	void *entry = xa_load(&mapping->i_pages, index);
	bool workingset;

	return xa_is_value(entry) &&
	       workingset_test_recent(entry, true, &workingset, false);
}

static bool window_has_page(struct address_space *mapping, pgoff_t index,
			    unsigned int order)
{
	const loff_t size = (loff_t)PAGE_SIZE << order;
	const loff_t start = round_down((loff_t)index << PAGE_SHIFT, size);

	return filemap_range_has_page(mapping, start, start + size - 1);
}

/**
 * exec_readahead - choose what to read for a fault on text
 * @vma: a VM_EXEC mapping of a file
 * @index: page of the file that a fault missed in the page cache
 * @ra: readahead state of the file, with ra_pages not 0; its start, size and
 *      order are set
 */
void exec_readahead(struct vm_area_struct *vma, pgoff_t index,
		    struct file_ra_state *ra)
{
	struct address_space *mapping = vma->vm_file->f_mapping;
	const bool pmd = !(vma->vm_flags & VM_NOHUGEPAGE);
	struct exec_fault f = {
		.index = index,
		.start = vma->vm_pgoff,
		.end = vma->vm_pgoff + vma_pages(vma),
		.file_pages = DIV_ROUND_UP_ULL(i_size_read(mapping->host), PAGE_SIZE),
		.skew = (vma->vm_start >> PAGE_SHIFT) - vma->vm_pgoff,
		.ra_pages = ra->ra_pages,
		.avail_pages = avail_pages(),
		.max_order = mapping_max_folio_order(mapping),
		.free_order = MAX_PAGECACHE_ORDER,
		.pmd_order = pmd ? text_pmd_order(vma->vm_mm) : 0,
		.cont_order = text_cont_order(),
		.base_order = exec_folio_order(),
		.refault = evicted_recently(mapping, index),
	};
	struct exec_read read = exec_read(&f);

	/* The page cache is searched only if a leaf fits otherwise. */
	while (read.order > f.base_order &&
	       window_has_page(mapping, index, read.order)) {
		f.free_order = read.order - 1;
		read = exec_read(&f);
	}
	ra->start = read.start;
	ra->size = read.size;
	ra->order = read.order;
}
