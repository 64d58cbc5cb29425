# What a reservation will hold is not known yet.
s/^	    order <= mapping_max_folio_order\(mapping\) &&$/	    (!mapping || order <= mapping_max_folio_order(mapping)) \&\&/
s/^ \* @mapping: the page cache of the text$/ * @mapping: the page cache of the text, NULL if it is not known/
