/^static inline bool userfaultfd_wp\(struct vm_area_struct \*vma\)$/i\
static inline bool userfaultfd_armed(struct vm_area_struct *vma)\
{\
	return false;\
}\

