# A function behind those that it uses. spatch would not keep the style of a new function.
/^struct memory_stat \{$/i\
/*\
 * Beyond this, a charge of some hundred pages may sleep: see calculate_high_delay().\
 */\
static bool is_over_high(struct page_counter *counter)\
{\
	const unsigned long used = page_counter_read(counter);\
	const unsigned long high = READ_ONCE(counter->high);\
\
	return used > high \&\& used - high > high / 256;\
}\
\
/**\
 * mem_cgroup_avail_pages - what pages of files can be had without swapping\
 *\
 * The pages that may still be charged to the memory cgroup to which folios of the\
 * page cache are charged now, plus its inactive pages of files; the least of the\
 * group and its ancestors. A group that has run for long uses all it may, and is\
 * not short of memory. One that is more than 1/256 above memory.high or\
 * memory.swap.high is.\
 *\
 * Return: a number of pages, ULONG_MAX without limits.\
 */\
unsigned long mem_cgroup_avail_pages(void)\
{\
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(NULL);\
	unsigned long avail = ULONG_MAX;\
	struct mem_cgroup *group;\
\
	for (group = memcg; group \&\& !mem_cgroup_is_root(group);\
	     group = parent_mem_cgroup(group)) {\
		const unsigned long used = page_counter_read(\&group->memory);\
		const unsigned long high = READ_ONCE(group->memory.high);\
		unsigned long margin = mem_cgroup_margin(group);\
\
		if (is_over_high(\&group->memory) || is_over_high(\&group->swap)) {\
			avail = 0;\
			break;\
		}\
		if (margin >= PAGE_COUNTER_MAX - used \&\& high == PAGE_COUNTER_MAX)\
			continue;\
		margin = min(margin, high - min(high, used));\
		avail = min(avail, margin + memcg_page_state(group, NR_INACTIVE_FILE));\
	}\
	mem_cgroup_put(memcg);\
	return avail;\
}\

