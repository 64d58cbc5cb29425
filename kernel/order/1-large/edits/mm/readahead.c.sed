# A function behind page_cache_ra_order(). spatch would not keep the style of a new function.
/^static unsigned long ractl_max_pages\(/i\
/*\
 * Read up to the next multiple of @order by the largest folios that fit. For a caller\
 * that reads something else if one cannot be had: nothing is reclaimed or compacted\
 * for them, they come from this node, and are not charged to a group that is full.\
 */\
bool page_cache_ra_folios(struct readahead_control *ractl, unsigned int order)\
{\
	struct address_space *mapping = ractl->mapping;\
	const gfp_t gfp = (readahead_gfp_mask(mapping) \& ~__GFP_RECLAIM) | __GFP_THISNODE;\
	pgoff_t index = mapping_align_index(mapping, readahead_index(ractl));\
	const pgoff_t end = round_down(index, 1UL << order) + (1UL << order);\
	/* See comment in page_cache_ra_unbounded() */\
	const unsigned int nofs = memalloc_nofs_save();\
	bool whole;\
\
	ractl->_index = index;\
	filemap_invalidate_lock_shared(mapping);\
	/* The file may be shorter now. */\
	whole = end <= DIV_ROUND_UP_ULL(i_size_read(mapping->host), PAGE_SIZE);\
	while (index < end \&\& whole) {\
		const unsigned int fits = __ffs(index | (1UL << order));\
\
		whole = !ra_alloc_folio(ractl, index, ULONG_MAX, fits, gfp);\
		index += 1UL << fits;\
	}\
	read_pages(ractl);\
	filemap_invalidate_unlock_shared(mapping);\
	memalloc_nofs_restore(nofs);\
	return whole;\
}\

