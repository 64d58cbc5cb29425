/^void exec_readahead\(/,/;$/{
	/;$/a\
\
#ifdef CONFIG_MMU\
void exec_readahead_head(struct file *file, unsigned long addr,\
			 unsigned long len);\
#else\
static inline void exec_readahead_head(struct file *file, unsigned long addr,\
				       unsigned long len)\
{\
}\
#endif
}
