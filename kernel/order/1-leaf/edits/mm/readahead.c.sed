s/^#include <linux\/blk-cgroup\.h>$/&\
#include <linux\/cpuset.h>\
#include <linux\/ktime.h>\
#include <linux\/mempolicy.h>/
# A function behind page_cache_ra_order(). spatch would not keep the style of a new function.
/^static unsigned long ractl_max_pages\(/i\
/*\
 * A folio of the PMD's order comes from the node that the policy of the task\
 * prefers, or not at all, as for anonymous memory: the TLB misses that it saves\
 * are worth less than what a more distant node costs. The local node may have no\
 * memory, or a cpuset may not allow it.\
 */\
static struct folio *ractl_alloc_leaf(struct readahead_control *ractl,\
				      gfp_t gfp, unsigned int order,\
				      pgoff_t index)\
{\
	const int nid = numa_node_id();\
\
	if (cpuset_do_page_mem_spread() || !node_isset(nid, cpuset_current_mems_allowed))\
		return ractl_alloc_folio(ractl, gfp, order);\
	return folio_alloc_mpol(gfp, order, get_task_policy(current),\
				index >> order, nid);\
}\
\
/**\
 * page_cache_ra_folios - read whole folios of one order, or none\
 * @ractl: the file and the first page, which is a multiple of the order\
 * @order: order of the folios\
 * @nr: number of folios\
 * @since: is set to when reading begins, in ns\
 *\
 * For a caller that has another plan if a large folio cannot be had: unlike\
 * page_cache_ra_order(), it does not read the range by smaller folios then. The\
 * first folio that does not lie inside the file, or cannot be allocated, charged\
 * or inserted, ends the range.\
 * Neither reserves are used for the folios, nor is memory reclaimed or compacted,\
 * but it may be reclaimed to charge them.\
 *\
 * Return: the number of pages that are being read, or 0.\
 */\
unsigned long page_cache_ra_folios(struct readahead_control *ractl,\
				   unsigned int order, unsigned long nr,\
				   u64 *since)\
{\
	struct address_space *mapping = ractl->mapping;\
	const gfp_t gfp = readahead_gfp_mask(mapping);\
	pgoff_t index = readahead_index(ractl);\
	unsigned long done;\
	unsigned int nofs;\
	u64 end;\
\
	/* See comment in page_cache_ra_unbounded() */\
	nofs = memalloc_nofs_save();\
	filemap_invalidate_lock_shared(mapping);\
	/*\
	 * The file may have been truncated while this waited for the lock, or may\
	 * hold no such folios any more: ext4 with data=journal has small ones.\
	 */\
	end = DIV_ROUND_UP_ULL(i_size_read(mapping->host), PAGE_SIZE);\
	for (done = 0; done < nr; done++, index += 1UL << order) {\
		const loff_t pos = (loff_t)index << PAGE_SHIFT;\
		struct folio *folio;\
\
		if (index + (1ULL << order) > end ||\
		    order < mapping_min_folio_order(mapping) ||\
		    order > mapping_max_folio_order(mapping))\
			break;\
		folio = ractl_alloc_leaf(ractl, (gfp | __GFP_NOMEMALLOC) \&\
					 ~__GFP_RECLAIM, order, index);\
		if (!folio)\
			break;\
		/* To charge a folio is dear, and another fault may have read it. */\
		if (filemap_range_has_page(mapping, pos,\
					   pos + (PAGE_SIZE << order) - 1) ||\
		    filemap_add_folio(mapping, folio, index, gfp)) {\
			folio_put(folio);\
			break;\
		}\
		ractl->_nr_pages += 1UL << order;\
		ractl->_workingset |= folio_test_workingset(folio);\
	}\
	*since = ktime_get_ns();\
	read_pages(ractl);\
	filemap_invalidate_unlock_shared(mapping);\
	memalloc_nofs_restore(nofs);\
	return done << order;\
}\

