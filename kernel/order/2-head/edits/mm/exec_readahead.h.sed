/^void exec_readahead\(/,/;$/{
	/;$/a\
\
#ifdef CONFIG_MMU\
struct file *exec_head_init(struct exec_fault *f, struct mm_struct *mm,\
			    unsigned long addr);\
void exec_readahead_head(struct exec_fault *f, struct file *file);\
#else\
static inline struct file *exec_head_init(struct exec_fault *f,\
					  struct mm_struct *mm,\
					  unsigned long addr)\
{\
	return NULL;\
}\
\
static inline void exec_readahead_head(struct exec_fault *f, struct file *file)\
{\
}\
#endif
}
