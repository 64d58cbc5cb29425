/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _MM_EXEC_ORDER_H
#define _MM_EXEC_ORDER_H

#ifdef __KERNEL__
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/types.h>
#endif

/*
 * What to read when a fault on executable memory misses the page cache.
 *
 * Text is read for the largest leaf (see linux/text_leaf.h) that can map the
 * page that faulted, if the mapping, the file, the device and memory allow it.
 * Otherwise it is read as before. Everything here is pure: the caller collects
 * the facts. User space compiles the same code, and compares it with another
 * implementation.
 */

/* A leaf may be at most this many times the readahead of the device. */
#define EXEC_LEAF_RA_FACTOR		16
/* A leaf may be at most this part of the available memory. */
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
 * @avail_pages: pages that are free or cheap to reclaim
 * @max_order: largest folio order of the page cache of the file
 * @free_order: largest order of an aligned window around @index of which no
 *              page is in the page cache
 * @pmd_order: order of the PMD, 0 if it should not map text
 * @cont_order: order of a block of contiguous PTEs, 0 if there is none
 * @base_order: order that the architecture asks for in any case
 * @refault: the page was evicted recently
 */
struct exec_fault {
	unsigned long index;
	unsigned long start;
	unsigned long end;
	unsigned long file_pages;
	unsigned long skew;
	unsigned long ra_pages;
	unsigned long avail_pages;
	unsigned int max_order;
	unsigned int free_order;
	unsigned int pmd_order;
	unsigned int cont_order;
	unsigned int base_order;
	bool refault;
};

/**
 * struct exec_read - the decision
 * @start: first page of the file to read
 * @size: number of pages, not 0
 * @order: order of the folios
 */
struct exec_read {
	unsigned long start;
	unsigned long size;
	unsigned int order;
};

/* Whether a leaf could map the window of @order around @index. */
static inline bool exec_leaf_fits(const struct exec_fault *f, unsigned long index,
				  unsigned int order)
{
	const unsigned long pages = 1UL << order;
	const unsigned long first = round_down(index, pages);
	const unsigned int shift = f->refault ? EXEC_LEAF_REFAULT_SHIFT :
						EXEC_LEAF_MEMORY_SHIFT;

	if (order <= f->base_order || order > f->max_order)
		return false;
	/* Address and offset must agree for the leaf to map the folio. */
	if (f->skew & (pages - 1))
		return false;
	/* The VMA and the file must hold the whole window. */
	if (first < f->start || first >= f->end || f->end - first < pages)
		return false;
	if (f->file_pages < first || f->file_pages - first < pages)
		return false;

	return pages / EXEC_LEAF_RA_FACTOR <= f->ra_pages &&
	       pages <= f->avail_pages >> shift;
}

/**
 * exec_read_order - order of the folios to read text in
 * @f: the fault
 *
 * A folio cannot take the place of pages that are in the page cache, so the
 * window must have none.
 *
 * Return: the order of the largest leaf that fits, else f->base_order.
 */
static inline unsigned int exec_read_order(const struct exec_fault *f)
{
	if (f->pmd_order <= f->free_order &&
	    exec_leaf_fits(f, f->index, f->pmd_order))
		return f->pmd_order;
	if (f->cont_order <= f->free_order &&
	    exec_leaf_fits(f, f->index, f->cont_order))
		return f->cont_order;
	return f->base_order;
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

	if (leaf > order && next < end && exec_leaf_fits(f, next, leaf))
		return next;
	return end;
}

/**
 * exec_read - what to read for a fault on text
 * @f: the fault
 *
 * Folios are aligned to their order in the file. Reading starts at the folio,
 * or at the start of the VMA if that is later. It covers the readahead set for
 * the device, rounded up to whole folios. It stops at a window for a larger
 * folio, and at the end of the VMA. Padding between segments is not read.
 */
static inline struct exec_read exec_read(const struct exec_fault *f)
{
	struct exec_read read = { .order = exec_read_order(f) };
	const unsigned long pages = 1UL << read.order;
	unsigned long end;

	read.start = max(round_down(f->index, pages), f->start);
	end = min(round_up(read.start + f->ra_pages, pages), f->end);
	end = exec_read_stop(f, read.order, f->pmd_order, end);
	end = exec_read_stop(f, read.order, f->cont_order, end);
	read.size = end - read.start;
	return read;
}

#endif /* _MM_EXEC_ORDER_H */
