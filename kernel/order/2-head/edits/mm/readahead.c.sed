s/^#include <linux\/file\.h>$/&\
#include <linux\/folio_batch.h>/
# In front of the description of the function that reads.
/^\/\*\*$/{
	N
	/\n \* page_cache_ra_folios - /i\
/* Drop clean pages that nobody uses. What reclaim left of others stays. */\
static void evict_pages(struct address_space *mapping, pgoff_t index,\
			unsigned long nr)\
{\
	const pgoff_t last = index + nr - 1;\
	struct folio_batch batch;\
\
	/* Folios that are on their way to the LRU lists are in use. */\
	lru_add_drain();\
	folio_batch_init(\&batch);\
	while (filemap_get_folios(mapping, \&index, last, \&batch)) {\
		for (int i = 0; i < folio_batch_count(\&batch); i++) {\
			struct folio *folio = batch.folios[i];\
\
			if (!folio_trylock(folio))\
				continue;\
			/* Who writes directly may have taken it out meanwhile. */\
			if (folio->mapping == mapping)\
				mapping_evict_folio(mapping, folio);\
			folio_unlock(folio);\
		}\
		folio_batch_release(\&batch);\
	}\
}\

}
s/^ \* @since: is set to when reading begins, in ns$/&, if it is not NULL\
 * @replace: drop clean pages that nobody maps to make room, once there is a folio/
/^unsigned long page_cache_ra_folios\(/,/^}$/{
	s/u64 \*since\)$/u64 *since, bool replace)/
	s/^	\*since = ktime_get_ns\(\);$/	if (since)\
	&/
	s/^		\/\* To charge a folio is dear,/		if (replace)\
			evict_pages(mapping, index, 1UL << order);\
&/
}
