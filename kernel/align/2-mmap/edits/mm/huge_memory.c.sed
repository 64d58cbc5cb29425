s/^#include <linux\/cleanup\.h>$/&\
#include <linux\/sched\/coredump.h>\
#include <linux\/text_leaf.h>/
/^EXPORT_SYMBOL_GPL\(thp_get_unmapped_area\);$/a\
\
/*\
 * Whether a mapping is made for text. glibc maps a library as a whole with the\
 * protection of its first segment, which may be read-only, and then its text\
 * over that. It sets MAP_DENYWRITE, which has no other effect. Nothing is text\
 * where execution is off for the mount.\
 */\
static bool maps_text(const struct file *file, unsigned long flags,\
		      const vma_flags_t *vma_flags)\
{\
	return file \&\& !path_noexec(\&file->f_path) \&\&\
	       (vma_flags_test(vma_flags, VMA_EXEC_BIT) ||\
		(flags \& MAP_DENYWRITE));\
}\
\
/*\
 * The order of the PMD for text of @file. Where a PMD is larger than what faults\
 * read, khugepaged, MADV_COLLAPSE and DAX still map by PMDs what filesystems align\
 * to them.\
 */\
static unsigned int file_pmd_order(struct file *file,\
				   struct address_space *mapping)\
{\
	const unsigned long pmd = PMD_SIZE;\
\
	if (pmd > TEXT_LEAF_MAX \&\&\
	    file->f_op->get_unmapped_area == thp_get_unmapped_area \&\&\
	    (dax_mapping(mapping) || mapping_pmd_folio_support(mapping)))\
		return PMD_ORDER;\
	return text_random_order(text_pmd_order(current->mm, mapping));\
}\
\
/*\
 * Whether a mapping of @nr pages of a file may hold a leaf of @pages that begins\
 * with its first page, or behind it.\
 */\
static bool may_hold_leaf(unsigned long pgoff, unsigned long nr,\
			  unsigned long pages, bool with_first)\
{\
	const unsigned long start = round_up(pgoff + !with_first, pages);\
\
	return start - pgoff + pages <= nr;\
}\
\
/**\
 * text_get_unmapped_area - find an address where leaves can map text\
 * @file: what is mapped\
 * @len: bytes to map\
 * @pgoff: the first page of the file\
 * @flags: of mmap(), without MAP_FIXED\
 * @vma_flags: of the VMA that will be made\
 *\
 * No filesystem needs to ask for this: what leaves its page cache can hold is\
 * known. While a process is not dumpable by its owner, as one that got the rights\
 * of another, its addresses lose no further random bits, and MAP_32BIT has too few\
 * to lose some.\
 *\
 * Return: an address congruent to the offset modulo the largest leaf of which\
 * the mapping may hold a whole one; 0 if the mapping gains nothing.\
 */\
unsigned long text_get_unmapped_area(struct file *file, unsigned long len,\
				     unsigned long pgoff, unsigned long flags,\
				     vma_flags_t vma_flags)\
{\
	const bool exec = vma_flags_test(\&vma_flags, VMA_EXEC_BIT);\
	const loff_t off = (loff_t)pgoff << PAGE_SHIFT;\
	struct address_space *mapping;\
	unsigned int orders[2];\
	unsigned long addr = 0;\
	bool with_first;\
\
	if (!maps_text(file, flags, \&vma_flags) || (flags \& MAP_32BIT) ||\
	    task_exec_state_get_dumpable(current) != TASK_DUMPABLE_OWNER)\
		return 0;\
	mapping = text_file_mapping(file);\
	orders[0] = file_pmd_order(file, mapping);\
	orders[1] = text_random_order(text_cont_order(current->mm, mapping));\
	/*\
	 * A library whose first segment is not executable begins with its headers.\
	 * Where a filesystem asks for the PMD by itself, any mapping has that.\
	 */\
	with_first = exec ||\
		     file->f_op->get_unmapped_area == thp_get_unmapped_area;\
	for (int i = 0; i < ARRAY_SIZE(orders) \&\& !addr; i++) {\
		if (orders[i] \&\& may_hold_leaf(pgoff, len >> PAGE_SHIFT,\
					       1UL << orders[i], with_first))\
			addr = __thp_get_unmapped_area(file, 0, len, off, flags,\
						       PAGE_SIZE << orders[i],\
						       vma_flags);\
		with_first = exec;\
	}\
	return addr;\
}
