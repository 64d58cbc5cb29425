/^static inline bool userfaultfd_wp\(struct vm_area_struct \*vma\)$/i\
static inline bool userfaultfd_armed(struct vm_area_struct *vma)\
{\
	return false;\
}\

/^static inline void free_pgtables\(/i\
#define ZAP_FLAG_DROP_MARKER	1\
\
struct zap_details {\
	int zap_flags;\
};\
\
static inline void zap_vma_range_batched(struct mmu_gather *tlb,\
					 struct vm_area_struct *vma,\
					 unsigned long address, unsigned long size,\
					 struct zap_details *details)\
{\
}\

