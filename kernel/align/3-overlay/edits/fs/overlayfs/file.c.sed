s/^#include <linux\/fs\.h>$/&\
#include <linux\/huge_mm.h>/
/^const struct file_operations ovl_file_operations = \{$/,/^};$/{
	s/^	\.mmap		= ovl_mmap,$/&\
	.get_unmapped_area = thp_get_unmapped_area,/
}
