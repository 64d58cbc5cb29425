/^unsigned long page_cache_ra_folios\(/,/;$/s/u64 \*since\);$/u64 *since, bool replace);/
