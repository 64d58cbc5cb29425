/^unsigned long thp_get_unmapped_area_vmaflags\(/i\
unsigned long text_get_unmapped_area(struct file *file, unsigned long len,\
				     unsigned long pgoff, unsigned long flags,\
				     vma_flags_t vma_flags);
/^#define thp_get_unmapped_area	NULL$/a\
\
static inline unsigned long\
text_get_unmapped_area(struct file *file, unsigned long len,\
		       unsigned long pgoff, unsigned long flags,\
		       vma_flags_t vma_flags)\
{\
	return 0;\
}
