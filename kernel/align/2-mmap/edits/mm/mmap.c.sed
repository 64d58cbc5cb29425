# spatch would not keep the style of the comments.
/^__get_unmapped_area\(struct file \*file,/,/^}$/{
	s/^				  = NULL;$/&\
	unsigned long text = 0;/
	/^	if \(get_area\) \{$/{
		i\
	/* Other files with a choice of their own know why. */\
	if (!addr \&\& !(flags \& MAP_FIXED) \&\&\
	    (!get_area || get_area == thp_get_unmapped_area))\
		text = text_get_unmapped_area(file, len, pgoff, flags, vma_flags);\
\
	if (text) {\
		addr = text;\
	} else if (get_area) {
		d
	}
}
