/^#endif \/\* _TRACE_FILEMAP_H \*\/$/i\
#define EXEC_LIMITS							\\\
	EM(EXEC_LIMIT_NONE,	"none")					\\\
	EM(EXEC_LIMIT_LEAF,	"no leaf")				\\\
	EM(EXEC_LIMIT_SHAPE,	"shape")				\\\
	EM(EXEC_LIMIT_DEVICE,	"device")				\\\
	EM(EXEC_LIMIT_MEMORY,	"memory")				\\\
	EM(EXEC_LIMIT_CACHED,	"cached")				\\\
	EMe(EXEC_LIMIT_ALLOC,	"alloc")\
\
#undef EM\
#undef EMe\
#define EM(a, b)	TRACE_DEFINE_ENUM(a);\
#define EMe(a, b)	TRACE_DEFINE_ENUM(a);\
\
EXEC_LIMITS\
\
#undef EM\
#undef EMe\
#define EM(a, b)	{ a, b },\
#define EMe(a, b)	{ a, b }\
\
TRACE_EVENT(exec_readahead,\
	TP_PROTO(struct inode *inode, pgoff_t index, pgoff_t start,\
		 unsigned long size, unsigned int order, unsigned int limit,\
		 unsigned int page_ns, unsigned int pause),\
\
	TP_ARGS(inode, index, start, size, order, limit, page_ns, pause),\
\
	TP_STRUCT__entry(\
		__field(u64, i_ino)\
		__field(dev_t, s_dev)\
		__field(pgoff_t, index)\
		__field(pgoff_t, start)\
		__field(unsigned long, size)\
		__field(unsigned int, order)\
		__field(unsigned int, limit)\
		__field(unsigned int, page_ns)\
		__field(unsigned int, pause)\
	),\
\
	TP_fast_assign(\
		__entry->i_ino = inode->i_ino;\
		__entry->s_dev = inode->i_sb->s_dev;\
		__entry->index = index;\
		__entry->start = start;\
		__entry->size = size;\
		__entry->order = order;\
		__entry->limit = limit;\
		__entry->page_ns = page_ns;\
		__entry->pause = pause;\
	),\
\
	TP_printk(\
		"dev=%d:%d ino=%llx index=%lu start=%lu size=%lu order=%u limit=%s page_ns=%u pause=%u",\
		MAJOR(__entry->s_dev), MINOR(__entry->s_dev), __entry->i_ino,\
		__entry->index, __entry->start, __entry->size, __entry->order,\
		__print_symbolic(__entry->limit, EXEC_LIMITS),\
		__entry->page_ns, __entry->pause\
	)\
);\

