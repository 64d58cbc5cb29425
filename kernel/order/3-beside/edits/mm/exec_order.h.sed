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
 * @index: page of the file that was marked for asynchronous readahead\
 * @end: one past the last page of the file that the VMA maps\
 * @ra_pages: pages of readahead that are set for the device\
 * @pages: pages of the largest leaf for text of the file, a power of two\
 *\
 * Return: false if small folios could take pages of the next window, and the\
 * VMA holds all of that.\
 */\
static inline bool exec_ahead_in_window(unsigned long index, unsigned long end,\
					unsigned long ra_pages,\
					unsigned long pages)\
{\
	const unsigned long next = round_down(index, pages) + pages;\
\
	/* Reading starts up to ra_pages behind the page, and has as many. */\
	return next >= end || end - next < pages ||\
	       next - index >= 2 * ra_pages;\
}\

