/^void page_cache_ra_order\(struct readahead_control \*, struct file_ra_state \*\);$/a\
unsigned long page_cache_ra_folios(struct readahead_control *ractl,\
				   unsigned int order, unsigned long nr,\
				   u64 *since);
