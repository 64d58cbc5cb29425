/^void page_cache_ra_order\(struct readahead_control \*, struct file_ra_state \*\);$/a\
bool page_cache_ra_folios(struct readahead_control *ractl, unsigned int order);
