s/^#include <linux\/math\.h>$/#include <linux\/array_size.h>\
&/
/^#endif \/\* _MM_EXEC_ORDER_H \*\/$/i\
/**\
 * struct exec_span - pages of a file\
 * @start: the first\
 * @end: one past the last\
 */\
struct exec_span {\
	unsigned long start;\
	unsigned long end;\
};\
\
/**\
 * exec_spare_text - keep a read out of the windows of text beside a mapping\
 * @around: what would be read around a page of the mapping, not empty\
 * @mapped: what is mapped, not executable\
 * @pages: pages of the largest leaf for text of the file, a power of two\
 *\
 * Data begins where text ends. A leaf cannot take the place of pages that were\
 * read around it.\
 *\
 * Return: the part of @around in windows that the mapping has a part of.\
 */\
static inline struct exec_span exec_spare_text(struct exec_span around,\
					       struct exec_span mapped,\
					       unsigned long pages)\
{\
	return (struct exec_span) {\
		.start = max(around.start, round_down(mapped.start, pages)),\
		.end = min(around.end - 1, (mapped.end - 1) | (pages - 1)) + 1,\
	};\
}\
\
/**\
 * exec_ahead_in_window - whether reading ahead of text spares the next window\
 * @f: a fault on a page that was marked for asynchronous readahead\
 *\
 * Return: false if small folios could take pages of the next window, and a leaf\
 * may be read there.\
 */\
static inline bool exec_ahead_in_window(const struct exec_fault *f)\
{\
	const unsigned int orders[] = { f->pmd_order, f->cont_order };\
\
	for (int i = 0; i < ARRAY_SIZE(orders); i++) {\
		const unsigned long pages = 1UL << orders[i];\
		const unsigned long next = round_down(f->index, pages) + pages;\
\
		/* Reading starts up to ra_pages behind the page, and has as many. */\
		if (next - f->index < 2 * f->ra_pages &&\
		    exec_leaf_limit(f, next, orders[i]) == EXEC_LIMIT_NONE)\
			return false;\
	}\
	return true;\
}\

