/^unsigned long page_cache_ra_folios\(/,/;$/s/unsigned long nr\);$/unsigned long nr,\
				   bool replace);/
