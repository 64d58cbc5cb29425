# What a reservation will hold is not known yet.
s/^	    order <= text_max_order\(mapping\) &&$/	    (!mapping || order <= text_max_order(mapping)) \&\&/
s/^	if \(dax_mapping\(mapping\)\)$/	if (mapping \&\& dax_mapping(mapping))/
s/^ \* @mapping: the page cache of the text$/ * @mapping: the page cache of the text, NULL if it is not known/
