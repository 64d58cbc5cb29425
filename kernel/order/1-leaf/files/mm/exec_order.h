/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _MM_EXEC_ORDER_H
#define _MM_EXEC_ORDER_H

#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/types.h>

/*
 * What to read when a fault on executable memory misses the page cache.
 *
 * Text is read for the largest leaf (see linux/text_leaf.h) that can map the
 * page that faulted, if the mapping, the device, memory and the page cache allow
 * it. Otherwise it is read as before. Everything here is pure: the caller
 * collects the facts.
 */

/*
 * A fault may wait for a leaf for the time of this many reads of today. These are
 * of the readahead that is set for the device. A leaf of 2M takes the place of up to
 * 16 reads of 128K. With less readahead it takes the place of more, and the time of
 * half of them.
 */
#define EXEC_LEAF_READS			8UL
/* It may always wait this much longer than for one of them: 2M at 1 GB/s. */
#define EXEC_LEAF_SHORT_NS		2000000UL
/* It may never wait this much longer: about one seek of a disk. */
#define EXEC_LEAF_WAIT_NS		16000000UL
/* What leaves take may be at most this part of the available memory. */
#define EXEC_LEAF_MEMORY_SHIFT		6
/* The same if the page that faulted was evicted a short time ago. */
#define EXEC_LEAF_REFAULT_SHIFT		9

/**
 * struct exec_fault - all that the decision depends on
 * @index: page of the file that faulted; @start <= @index < @end
 * @start: first page of the file that the VMA maps
 * @end: one past the last page of the file that the VMA maps
 * @file_pages: pages of the file; the last may be a part of one
 * @skew: page number of an address in the VMA minus the page of the file that
 *        is mapped there, modulo 2^BITS_PER_LONG
 * @ra_pages: pages of readahead that are set for the device; not 0
 * @page_ns: nanoseconds that a fault waits for each page of a read of today; 0 if
 *           that is not known
 * @avail_pages: pages that are free or cheap to reclaim, where the folio would
 *               be allocated and for the group that it would be charged to
 * @free_order: largest order of an aligned window around @index of which no
 *              page is in the page cache
 * @pmd_order: order of the PMD, 0 if it should not map this text
 * @cont_order: order of a block of contiguous PTEs, 0 if none should
 * @base_order: order that the architecture asks for in any case
 * @pause: how many faults from now a leaf of the device is tried; 0 if each fault may
 *         read one; see struct exec_speed
 * @refault: the page was evicted recently
 * @random: the process said that it accesses the memory at random
 * @congested: blk-cgroup lets tasks of this cgroup wait for the device
 */
struct exec_fault {
	unsigned long index;
	unsigned long start;
	unsigned long end;
	unsigned long file_pages;
	unsigned long skew;
	unsigned long ra_pages;
	unsigned int page_ns;
	unsigned long avail_pages;
	unsigned int free_order;
	unsigned int pmd_order;
	unsigned int cont_order;
	unsigned int base_order;
	unsigned int pause;
	bool refault;
	bool random;
	bool congested;
};

/**
 * enum exec_limit - why a leaf is not read
 * @EXEC_LIMIT_NONE: it is
 * @EXEC_LIMIT_LEAF: no leaf is larger than what is read anyway
 * @EXEC_LIMIT_SHAPE: address and offset differ, or the window is not whole
 * @EXEC_LIMIT_DEVICE: the device is too slow or congested, its speed is not known,
 *                     or memory is accessed at random; the page cache is not looked
 *                     at then
 * @EXEC_LIMIT_MEMORY: it is too large a part of the available memory
 * @EXEC_LIMIT_CACHED: pages of its window are in the page cache
 */
enum exec_limit {
	EXEC_LIMIT_NONE,
	EXEC_LIMIT_LEAF,
	EXEC_LIMIT_SHAPE,
	EXEC_LIMIT_DEVICE,
	EXEC_LIMIT_MEMORY,
	EXEC_LIMIT_CACHED,
};

/**
 * struct exec_read - the decision
 * @start: first page of the file to read
 * @size: number of pages, not 0; whole folios if @order is that of a leaf
 * @order: order of the folios
 * @limit: why they are not the largest leaf
 */
struct exec_read {
	unsigned long start;
	unsigned long size;
	unsigned int order;
	enum exec_limit limit;
};

/* Whether the VMA and the file hold a whole window that a leaf of @order can map. */
static inline bool exec_holds_window(const struct exec_fault *f,
				     unsigned int order)
{
	const unsigned long pages = 1UL << order;
	const unsigned long first = round_up(f->start, pages);
	const unsigned long end = min(f->end, f->file_pages);

	return order > f->base_order && !(f->skew & (pages - 1)) &&
	       first >= f->start && first < end && end - first >= pages;
}

/**
 * exec_holds_leaf - whether a fault on the VMA could read a leaf at all
 * @f: the fault
 *
 * Most VMAs are too small. Then nothing depends on the speed of the device, on
 * available memory, or on @f->refault.
 */
static inline bool exec_holds_leaf(const struct exec_fault *f)
{
	return exec_holds_window(f, f->pmd_order) ||
	       exec_holds_window(f, f->cont_order);
}

/* How long a fault waits for a read of today. */
static inline u64 exec_today_ns(const struct exec_fault *f)
{
	return (u64)f->page_ns * f->ra_pages;
}

/* Whether the fault should not wait for more than it does today. */
static inline bool exec_leaf_slow(const struct exec_fault *f, unsigned long pages)
{
	if (pages <= f->ra_pages)
		return false;
	return f->random || f->congested || f->pause > 1 || !f->page_ns ||
	       exec_today_ns(f) > EXEC_LEAF_WAIT_NS;
}

/**
 * exec_leaf_is_late - whether a fault waited too long for a leaf
 * @f: the fault
 * @pages: of the leaf
 * @wait_ns: how long it waited
 */
static inline bool exec_leaf_is_late(const struct exec_fault *f,
				     unsigned long pages, u64 wait_ns)
{
	const unsigned long reads = max(pages / f->ra_pages / 2, EXEC_LEAF_READS);
	const u64 today = exec_today_ns(f);

	if (wait_ns <= today + EXEC_LEAF_SHORT_NS)
		return false;
	return wait_ns > today * reads || wait_ns > today + EXEC_LEAF_WAIT_NS;
}

/**
 * struct exec_speed - what faults on text showed of a device
 * @page_ns: what they wait for a page of a read of today, on average; 0 if no
 *           fault did yet
 * @pause: how many faults from now a leaf is tried; 0 if each may read one
 * @late: how many leaves were late one after the other; 1 before the first. It
 *        is not 0 during a pause.
 */
struct exec_speed {
	unsigned int page_ns;
	unsigned int pause;
	unsigned int late;
};

#define EXEC_LATE_MAX	6U

/*
 * One late leaf may be due to other work of the device or of the machine. After
 * two, the device is taken for slow. It may have been busy, so it is tried again. A
 * leaf takes the time of up to 16 reads of today, so a try in 1024 faults costs them
 * one or two percent at most.
 */
static inline unsigned int exec_leaf_pause(unsigned int late)
{
	return late < 2 ? 0 : 256U << min(late, EXEC_LATE_MAX);
}

/**
 * exec_speed_read - a fault waited for a read of today
 * @speed: changes. One leaf has to tell how long leaves take, if this is the first.
 * @page_ns: how long for each page. It counts for an eighth, and a long wait as if
 *           it were twice as long as usual.
 */
static inline void exec_speed_read(struct exec_speed *speed, unsigned int page_ns)
{
	const unsigned int old = speed->page_ns;

	if (!old)
		*speed = (struct exec_speed){ .pause = 1, .late = 1 };
	else if (page_ns > old)
		page_ns = old + (min(page_ns - old, old) + 7) / 8;
	else
		page_ns = old - (old - page_ns) / 8;
	speed->page_ns = max(page_ns, 1U);
}

/**
 * exec_speed_try - a fault might read a leaf but for a pause
 * @speed: changes
 * @can: no page of its window is in the page cache
 *
 * Return: whether it tries one. Others pause until it was read.
 */
static inline bool exec_speed_try(struct exec_speed *speed, bool can)
{
	if (speed->pause > 1) {
		speed->pause--;
		return false;
	}
	if (!speed->pause || !can)
		return false;
	speed->pause = exec_leaf_pause(max(speed->late, 2U));
	return true;
}

/* The leaf that was tried was not read. The next fault tries one. */
static inline void exec_speed_give_up(struct exec_speed *speed)
{
	if (speed->pause)
		speed->pause = 1;
}

/**
 * exec_speed_leaf - a fault waited for a leaf
 * @speed: changes
 * @late: the leaf was late
 * @tried: exec_speed_try() said so. Leaves that were read at the same time waited
 *         for each other, so during a pause no other can be late.
 */
static inline void exec_speed_leaf(struct exec_speed *speed, bool late, bool tried)
{
	if (late && speed->pause && !tried)
		return;
	speed->late = late ? min(speed->late + 1, EXEC_LATE_MAX) : 0;
	speed->pause = exec_leaf_pause(speed->late);
}

/* The largest part of the available memory that one read of leaves may take. */
static inline unsigned long exec_memory_pages(const struct exec_fault *f)
{
	return f->avail_pages >> (f->refault ? EXEC_LEAF_REFAULT_SHIFT :
					       EXEC_LEAF_MEMORY_SHIFT);
}

/* Why no leaf can map the window of @order around @index, if nothing is cached. */
static inline enum exec_limit exec_leaf_limit(const struct exec_fault *f,
					      unsigned long index,
					      unsigned int order)
{
	const unsigned long pages = 1UL << order;
	const unsigned long first = round_down(index, pages);

	if (order <= f->base_order)
		return EXEC_LIMIT_LEAF;
	/* Address and offset must agree for the leaf to map the folio. */
	if (f->skew & (pages - 1))
		return EXEC_LIMIT_SHAPE;
	/* The VMA and the file must hold the whole window. */
	if (first < f->start || first >= f->end || f->end - first < pages)
		return EXEC_LIMIT_SHAPE;
	if (f->file_pages < first || f->file_pages - first < pages)
		return EXEC_LIMIT_SHAPE;
	if (exec_leaf_slow(f, pages))
		return EXEC_LIMIT_DEVICE;
	if (pages > exec_memory_pages(f))
		return EXEC_LIMIT_MEMORY;
	return EXEC_LIMIT_NONE;
}

/*
 * The same, for the page that faulted. A folio cannot take the place of pages. If
 * the next leaf is to be tried, windows are spared for it, but not each fault tries.
 */
static inline enum exec_limit exec_fault_limit(const struct exec_fault *f,
					       unsigned int order)
{
	const enum exec_limit limit = exec_leaf_limit(f, f->index, order);

	if (limit != EXEC_LIMIT_NONE)
		return limit;
	if (f->pause && 1UL << order > f->ra_pages)
		return EXEC_LIMIT_DEVICE;
	return order > f->free_order ? EXEC_LIMIT_CACHED : EXEC_LIMIT_NONE;
}

/* The largest leaf that is allowed, else f->base_order. Sets order and limit. */
static inline void exec_choose_order(const struct exec_fault *f,
				     struct exec_read *read)
{
	enum exec_limit cont;

	read->order = f->pmd_order;
	read->limit = exec_fault_limit(f, f->pmd_order);
	if (read->limit == EXEC_LIMIT_NONE)
		return;
	cont = exec_fault_limit(f, f->cont_order);
	read->order = cont == EXEC_LIMIT_NONE ? f->cont_order : f->base_order;
	if (read->limit == EXEC_LIMIT_LEAF)
		read->limit = cont;
}

/*
 * One past the last page that a read of @order from @start wants. Leaves are as
 * many as fit in the readahead of the device and in memory, and at least one.
 * Other folios are those of today. The end may be no number, but the last page is.
 */
static inline unsigned long exec_read_end(const struct exec_fault *f,
					  unsigned long start, unsigned int order)
{
	const unsigned long pages = 1UL << order;
	unsigned long size = f->ra_pages;
	unsigned long last = f->end - 1;

	if (order > f->base_order)
		size = max(round_down(min(size, exec_memory_pages(f)), pages), pages);
	if (last - start >= size)
		last = min(last, (start + size - 1) | (pages - 1));
	return last + 1;
}

/*
 * Where a read of @order that would go on to @end should stop. Small folios
 * must not take pages of the next window if that can be a leaf.
 */
static inline unsigned long exec_read_stop(const struct exec_fault *f,
					   unsigned int order,
					   unsigned int leaf, unsigned long end)
{
	const unsigned long next = round_down(f->index, 1UL << leaf) + (1UL << leaf);

	if (leaf > order && next < end &&
	    exec_leaf_limit(f, next, leaf) == EXEC_LIMIT_NONE)
		return next;
	return end;
}

/**
 * exec_read - what to read for a fault on text
 * @f: the fault
 *
 * Folios are aligned to their order in the file. Reading starts at the folio,
 * or at the start of the VMA if that is later. It covers the readahead set for
 * the device, but at least a folio. It stops at a window for a larger folio, and
 * at the end of the VMA. Padding between segments is not read. Leaves are read
 * whole or not at all.
 */
static inline struct exec_read exec_read(const struct exec_fault *f)
{
	struct exec_read read;
	unsigned long pages, end;

	exec_choose_order(f, &read);
	pages = 1UL << read.order;
	read.start = max(round_down(f->index, pages), f->start);
	end = exec_read_end(f, read.start, read.order);
	end = exec_read_stop(f, read.order, f->pmd_order, end);
	end = exec_read_stop(f, read.order, f->cont_order, end);
	if (read.order > f->base_order)
		end = round_down(min(end, f->file_pages), pages);
	read.size = end - read.start;
	return read;
}

#endif /* _MM_EXEC_ORDER_H */
