# What a reservation will hold is not known yet.
s/^	    order <= text_max_order\(mapping\) &&$/	    (!mapping || order <= text_max_order(mapping)) \&\&/
s/^	if \(IS_DAX\(mapping->host\)\)$/	if (mapping \&\& IS_DAX(mapping->host))/
s/^ \* @mapping: the page cache of the text$/ * @mapping: the page cache of the text, NULL if it is not known/
