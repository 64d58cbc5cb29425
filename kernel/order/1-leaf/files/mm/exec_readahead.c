// SPDX-License-Identifier: GPL-2.0-only
/* Reads text for a fault, as mm/exec_order.h decides. */
#include <linux/backing-dev.h>
#include <linux/blk-cgroup.h>
#include <linux/cpuset.h>
#include <linux/ktime.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/pagemap.h>
#include <linux/swap.h>
#include <linux/text_leaf.h>
#include <linux/vmstat.h>

#include "exec_readahead.h"
#include "internal.h"

/*
 * Pages that are free above the watermark up to which kswapd works, plus
 * inactive pages of files, on the node that an allocation tries first, if no
 * policy binds it to others. A machine that has run for long has few free pages,
 * and is not short of memory. The allowed nodes may change meanwhile: then this
 * is a guess about the wrong node, and the allocation fails or not.
 */
static unsigned long node_avail_pages(gfp_t gfp)
{
	struct zonelist *zonelist = node_zonelist(numa_mem_id(), gfp);
	pg_data_t *pgdat = NULL;
	unsigned long pages = 0;
	struct zoneref *z;
	struct zone *zone;

	for_each_zone_zonelist_nodemask(zone, z, zonelist, gfp_zone(gfp),
					&cpuset_current_mems_allowed) {
		unsigned long free = zone_page_state(zone, NR_FREE_PAGES);

		if (!pgdat)
			pgdat = zone->zone_pgdat;
		if (zone->zone_pgdat != pgdat)
			break;
		pages += free - min(free, high_wmark_pages(zone));
	}
	return pgdat ? pages + node_page_state(pgdat, NR_INACTIVE_FILE) : 0;
}

/*
 * A value where a page was is what reclaim left there. Files on DAX and shmem keep
 * other values: their faults do not come here, because no page is read for them.
 */
static bool evicted_recently(struct address_space *mapping, pgoff_t index)
{
	void *entry = xa_load(&mapping->i_pages, index);
	bool workingset;

	return xa_is_value(entry) &&
	       workingset_test_recent(entry, true, &workingset, false);
}

/*
 * All facts but those of the mapping and the orders of leaves, as if nothing
 * were cached. What it takes long to find out is left 0 where no leaf fits. Where
 * blk-cgroup lets tasks of this cgroup wait, the device is slow for them. The
 * readahead may have been set to 0 meanwhile.
 */
static void exec_fault_facts(struct exec_fault *f,
			     struct address_space *mapping,
			     const struct file_ra_state *ra)
{
	f->file_pages = DIV_ROUND_UP_ULL(i_size_read(mapping->host), PAGE_SIZE);
	f->ra_pages = max(READ_ONCE(ra->ra_pages), 1U);
	f->page_ns = blk_cgroup_congested() ? ULONG_MAX :
		     READ_ONCE(inode_to_bdi(mapping->host)->exec_page_ns);
	f->free_order = MAX_PAGECACHE_ORDER;
	f->base_order = exec_folio_order();
	if (!exec_holds_leaf(f))
		return;
	f->avail_pages = min(node_avail_pages(mapping_gfp_mask(mapping)),
			     mem_cgroup_avail_pages());
	f->refault = evicted_recently(mapping, f->index);
}

/* See struct exec_fault. */
static unsigned long exec_skew(const struct vm_area_struct *vma)
{
	return (vma->vm_start >> PAGE_SHIFT) - vma_start_pgoff(vma);
}

/**
 * exec_fault_init - collect the facts about a fault on text
 * @f: is filled
 * @vma: a VM_EXEC mapping of a file
 * @index: page of the file that faulted
 * @ra: readahead state of the file, with ra_pages not 0
 */
void exec_fault_init(struct exec_fault *f, const struct vm_area_struct *vma,
		     pgoff_t index, const struct file_ra_state *ra)
{
	struct address_space *mapping = vma->vm_file->f_mapping;

	*f = (struct exec_fault) {
		.index = index,
		.start = vma_start_pgoff(vma),
		.end = vma_end_pgoff(vma),
		.skew = exec_skew(vma),
		.random = (vma->vm_flags & VM_RAND_READ) ||
			  (vma->vm_file->f_mode & FMODE_RANDOM),
	};
	if (!(vma->vm_flags & VM_NOHUGEPAGE)) {
		f->pmd_order = text_pmd_order(vma->vm_mm, mapping);
		f->cont_order = text_cont_order(vma->vm_mm, mapping);
	}
	exec_fault_facts(f, mapping, ra);
}

static bool range_has_page(struct address_space *mapping, pgoff_t start,
			   unsigned long size)
{
	return filemap_range_has_page(mapping, (loff_t)start << PAGE_SHIFT,
				      ((loff_t)(start + size) << PAGE_SHIFT) - 1);
}

/* The page cache is searched only if a leaf fits otherwise. */
static struct exec_read exec_decide(struct exec_fault *f,
				    struct address_space *mapping)
{
	struct exec_read read = exec_read(f);

	while (read.order > f->base_order) {
		const unsigned long pages = 1UL << read.order;

		if (!range_has_page(mapping, round_down(f->index, pages), pages))
			break;
		f->free_order = read.order - 1;
		read = exec_read(f);
	}
	return read;
}

/*
 * Remember how long the fault waited for each page. A shorter wait is believed
 * at once: it is what the device can do. A longer one counts half: it may be due
 * to other work of the device or of the machine. A read that was at its end
 * before anybody could wait counts only while nobody ever waited. Then it is that
 * of a device in memory; otherwise it may be that of a hole in the file. Tasks that
 * do this at the same time may overwrite each other.
 */
static void exec_note_wait(struct backing_dev_info *bdi, bool waited,
			   unsigned long page_ns)
{
	const unsigned long old = READ_ONCE(bdi->exec_page_ns);
	const bool waits = READ_ONCE(bdi->exec_waits);

	if (waits && !waited)
		return;
	if (waits == waited && old && page_ns > old)
		page_ns = old + (page_ns - old) / 2;
	WRITE_ONCE(bdi->exec_waits, waited);
	WRITE_ONCE(bdi->exec_page_ns, max(page_ns, 1UL));
}

/* Wait for the page that faulted; all of the range was submitted at @since. */
static void exec_wait(struct address_space *mapping, pgoff_t index,
		      unsigned long pages, u64 since)
{
	struct folio *folio = filemap_get_folio(mapping, index);
	bool waits;

	if (IS_ERR(folio))
		return;
	waits = folio_test_locked(folio);
	if (!folio_wait_locked_killable(folio) && folio_test_uptodate(folio)) {
		const u64 page_ns = div_u64(ktime_get_ns() - since, pages);

		exec_note_wait(inode_to_bdi(mapping->host), waits,
			       min_t(u64, page_ns, ULONG_MAX));
	}
	folio_put(folio);
}

/* Make @ractl and its readahead state those of @read. Nothing of it is ahead. */
static void exec_aim(struct readahead_control *ractl, const struct exec_read *read)
{
	struct file_ra_state *ra = ractl->ra;

	ractl->_index = read->start;
	ra->start = read->start;
	ra->size = read->size;
	ra->async_size = 0;
	ra->order = read->order;
}

/**
 * exec_readahead - read what a fault on text needs
 * @f: the fault; free_order changes
 * @file: the file; its readahead state is shared without a lock, and not used
 * @may_wait: no lock is held, so this may wait for the page that faulted
 */
void exec_readahead(struct exec_fault *f, struct file *file, bool may_wait)
{
	struct address_space *mapping = file->f_mapping;
	struct file_ra_state ra = { .ra_pages = f->ra_pages };
	/*
	 * Where no leaf fits, the first fault tells the speed, and no other. Where
	 * blk-cgroup lets tasks of this cgroup wait, it does not tell that of others.
	 */
	const bool learns = may_wait && (exec_holds_leaf(f) || !f->page_ns) &&
			    !blk_cgroup_congested();
	struct exec_read read = exec_decide(f, mapping);
	unsigned long pages = 0;
	u64 since;
	DEFINE_READAHEAD(ractl, file, &ra, mapping, f->index);

	while (read.order > f->base_order) {
		exec_aim(&ractl, &read);
		pages = page_cache_ra_folios(&ractl, read.order,
					     read.size >> read.order, &since);
		if (pages)
			break;
		/* Step down: the folio cannot be had, or the window was taken. */
		f->free_order = read.order - 1;
		read = exec_decide(f, mapping);
		read.limit = EXEC_LIMIT_ALLOC;
	}
	if (!pages) {
		/* Only a whole window says how fast the device is. */
		if (learns && read.size >= f->ra_pages &&
		    !range_has_page(mapping, read.start, read.size))
			pages = read.size;
		since = learns ? ktime_get_ns() : 0;
		exec_aim(&ractl, &read);
		page_cache_ra_order(&ractl, &ra);
	}
	if (pages && learns)
		exec_wait(mapping, f->index, pages, since);
}
