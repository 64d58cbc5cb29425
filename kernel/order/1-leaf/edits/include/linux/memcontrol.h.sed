s/^struct mem_cgroup \*get_mem_cgroup_from_current\(void\);$/&\
unsigned long mem_cgroup_avail_pages(void);/
/^static inline struct mem_cgroup \*get_mem_cgroup_from_current\(void\)$/i\
static inline unsigned long mem_cgroup_avail_pages(void)\
{\
	return ULONG_MAX;\
}\

