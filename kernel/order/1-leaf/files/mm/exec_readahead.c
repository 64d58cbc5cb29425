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
#include <linux/spinlock.h>
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
 * were cached. What it takes long to find out is left 0 where no leaf fits. The
 * readahead may have been set to 0 meanwhile.
 */
static void exec_fault_facts(struct exec_fault *f,
			     struct address_space *mapping,
			     const struct file_ra_state *ra)
{
	const struct backing_dev_info *bdi = inode_to_bdi(mapping->host);

	f->file_pages = DIV_ROUND_UP_ULL(i_size_read(mapping->host), PAGE_SIZE);
	f->ra_pages = max(READ_ONCE(ra->ra_pages), 1U);
	f->page_ns = READ_ONCE(bdi->exec_page_ns);
	f->pause = READ_ONCE(bdi->exec_leaf_pause);
	f->congested = blk_cgroup_congested();
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
 * Orders changes of the speed of a device. It is taken once or twice for each read
 * from a device, for a few instructions, so that one serves all devices.
 */
static DEFINE_SPINLOCK(exec_speed_lock);

static struct exec_speed exec_speed_begin(const struct backing_dev_info *bdi)
	__acquires(&exec_speed_lock)
{
	spin_lock(&exec_speed_lock);
	return (struct exec_speed) {
		.page_ns = bdi->exec_page_ns,
		.pause = bdi->exec_leaf_pause,
		.late = bdi->exec_leaf_late,
	};
}

static void exec_speed_end(struct backing_dev_info *bdi,
			   const struct exec_speed *speed)
	__releases(&exec_speed_lock)
{
	WRITE_ONCE(bdi->exec_page_ns, speed->page_ns);
	WRITE_ONCE(bdi->exec_leaf_pause, speed->pause);
	bdi->exec_leaf_late = speed->late;
	spin_unlock(&exec_speed_lock);
}

/*
 * Wait for the page that faulted.
 *
 * Return: nanoseconds since @since, when reading it began; 0 if that failed.
 */
static u64 exec_wait(struct address_space *mapping, pgoff_t index, u64 since)
{
	struct folio *folio = filemap_get_folio(mapping, index);
	u64 ns = 0;

	if (IS_ERR(folio))
		return 0;
	if (!folio_wait_locked_killable(folio) && folio_test_uptodate(folio))
		ns = max(ktime_get_ns() - since, 1ULL);
	folio_put(folio);
	return ns;
}

/*
 * Whether the wait for a read of today says how fast the device is. It is a whole
 * one. A disk need not seek for what follows pages that were read, so such a read
 * counts only while nothing is known.
 */
static bool exec_read_tells(const struct exec_fault *f,
			    struct address_space *mapping,
			    const struct exec_read *read)
{
	if (read->size < f->ra_pages || f->file_pages < read->start ||
	    f->file_pages - read->start < f->ra_pages ||
	    range_has_page(mapping, read->start, read->size))
		return false;
	return !f->page_ns || !read->start ||
	       !range_has_page(mapping, read->start - 1, 1);
}

/* Whether @read is a leaf that is larger than what @f would read today. */
static bool exec_reads_more(const struct exec_fault *f, const struct exec_read *read)
{
	return read->order > f->base_order && read->size > f->ra_pages;
}

/*
 * Try a leaf after a pause. Each fault that might read one otherwise counts, wherever
 * it is: small folios that were read before may have taken its window.
 *
 * Return: whether @f and @read changed to read one.
 */
static bool exec_try_leaf(struct exec_fault *f, struct exec_read *read,
			  struct address_space *mapping)
{
	struct backing_dev_info *bdi = inode_to_bdi(mapping->host);
	struct exec_fault at_once = *f;
	struct exec_speed speed;
	struct exec_read leaf;
	bool can, tries;

	at_once.pause = 0;
	at_once.free_order = MAX_PAGECACHE_ORDER;
	leaf = exec_read(&at_once);
	if (!exec_reads_more(f, &leaf))
		return false;
	/* The page cache is searched only if it is time to try one. */
	can = f->pause == 1;
	if (can) {
		leaf = exec_decide(&at_once, mapping);
		can = exec_reads_more(f, &leaf);
	}
	speed = exec_speed_begin(bdi);
	tries = exec_speed_try(&speed, can);
	exec_speed_end(bdi, &speed);
	if (!tries)
		return false;
	*f = at_once;
	*read = leaf;
	return true;
}

/* A leaf that was tried was not read. */
static void exec_give_up(struct backing_dev_info *bdi)
{
	struct exec_speed speed = exec_speed_begin(bdi);

	exec_speed_give_up(&speed);
	exec_speed_end(bdi, &speed);
}

/* A fault waited @ns for @pages of @read, which is a leaf that was @tried or not. */
static void exec_note_wait(const struct exec_fault *f, struct backing_dev_info *bdi,
			   const struct exec_read *read, unsigned long pages,
			   bool tried, u64 ns)
{
	struct exec_speed speed;

	if (read->order > f->base_order && pages <= f->ra_pages)
		return;
	speed = exec_speed_begin(bdi);
	if (read->order > f->base_order)
		exec_speed_leaf(&speed, exec_leaf_is_late(f, pages, ns), tried);
	else
		exec_speed_read(&speed, min_t(u64, div_u64(ns, pages), U32_MAX));
	exec_speed_end(bdi, &speed);
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
 * @f: the fault; free_order and pause change
 * @file: the file; its readahead state is shared without a lock, and not used
 * @may_wait: no lock is held, so this may wait for the page that faulted
 */
void exec_readahead(struct exec_fault *f, struct file *file, bool may_wait)
{
	struct address_space *mapping = file->f_mapping;
	struct file_ra_state ra = { .ra_pages = f->ra_pages };
	struct backing_dev_info *bdi = inode_to_bdi(mapping->host);
	struct exec_read read = exec_decide(f, mapping);
	const unsigned int pause = f->pause;
	/*
	 * Where blk-cgroup lets a task wait, it does not tell how long others wait.
	 * Where the mapping may have no leaf, as in the THP mode "never", nobody asks.
	 */
	const bool learns = may_wait && !f->congested &&
			    (f->pmd_order || f->cont_order);
	unsigned long pages = 0;
	bool tried = false;
	u64 since, ns;
	DEFINE_READAHEAD(ractl, file, &ra, mapping, f->index);

	if (learns && pause)
		tried = exec_try_leaf(f, &read, mapping);
	while (read.order > f->base_order) {
		exec_aim(&ractl, &read);
		pages = page_cache_ra_folios(&ractl, read.order,
					     read.size >> read.order, &since);
		if (pages)
			break;
		/* Step down: the folio cannot be had, or the window was taken. */
		if (tried)
			exec_give_up(bdi);
		tried = false;
		f->free_order = read.order - 1;
		f->pause = pause;
		read = exec_decide(f, mapping);
	}
	if (!pages) {
		if (learns && exec_read_tells(f, mapping, &read))
			pages = read.size;
		since = learns ? ktime_get_ns() : 0;
		exec_aim(&ractl, &read);
		page_cache_ra_order(&ractl, &ra);
	}
	ns = pages && learns ? exec_wait(mapping, f->index, since) : 0;
	if (ns)
		exec_note_wait(f, bdi, &read, pages, tried, ns);
	else if (tried)
		exec_give_up(bdi);
}
