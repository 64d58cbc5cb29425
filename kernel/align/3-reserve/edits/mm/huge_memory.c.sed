# Reservations of loaders gain what text gains.
s/^ \* @file: what is mapped$/ * @file: what is mapped, or NULL/
s/^ \* to them\.$/ * to them. Without a file, that is not known yet./
s/^	if \(pmd > TEXT_LEAF_MAX &&$/	if (file \&\& pmd > TEXT_LEAF_MAX \&\&/
/^unsigned long text_get_unmapped_area\(/,/^}$/{
	s/^	if \(!maps_text\(file, flags, &vma_flags\) \|\| \(flags & MAP_32BIT\) \|\|$/	if ((!maps_text(file, flags, \&vma_flags) \&\&\
	     !reserves_room(file, len, flags, \&vma_flags)) ||\
	    (flags \& MAP_32BIT) ||/
	s/^	mapping = text_file_mapping\(file\);$/	mapping = file ? text_file_mapping(file) : NULL;/
	s/^	orders\[1\] = text_random_order\(.*$/&\
	\/* In the room that it reserved, a loader aligns by p_align itself. *\/\
	if (!file \&\& (PAGE_SIZE << orders[1]) <= SZ_64K)\
		orders[1] = 0;/
	s/^	const bool exec = vma_flags_test\(&vma_flags, VMA_EXEC_BIT\);$/	const bool exec = !file || vma_flags_test(\&vma_flags, VMA_EXEC_BIT);/
}
/^\/\*\*$/{
	N
	/\n \* text_get_unmapped_area - /i\
/* Code reaches the data of its image within 4G in most, so few images are longer. */\
#define IMAGE_MAX_PAGES		(SZ_4G >> PAGE_SHIFT)\
\
/*\
 * Whether a mapping reserves room for an image that a loader will map over it:\
 * glibc does so if p_align is larger than the page, as linkers make it for an\
 * architecture that may have larger pages.\
 * Stacks and heaps that are reserved in this way say so by a flag, are longer than\
 * images, or have whole PMDs, to which they are aligned anyway.\
 */\
static bool reserves_room(const struct file *file, unsigned long len,\
			  unsigned long flags, const vma_flags_t *vma_flags)\
{\
	return !file \&\& PAGE_SIZE < TEXT_PAGE_MAX \&\&\
	       len >> PAGE_SHIFT <= IMAGE_MAX_PAGES \&\&\
	       !IS_ALIGNED(len, PMD_SIZE) \&\&\
	       (flags \& MAP_TYPE) == MAP_PRIVATE \&\&\
	       !(flags \& (MAP_STACK | MAP_NORESERVE | MAP_GROWSDOWN |\
			  MAP_HUGETLB)) \&\&\
	       !vma_flags_test_any(vma_flags, VMA_READ_BIT, VMA_WRITE_BIT,\
				   VMA_EXEC_BIT);\
}\

}
