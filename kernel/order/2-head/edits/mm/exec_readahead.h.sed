/^void exec_readahead\(/,/;$/{
	/;$/a\
\
#ifdef CONFIG_MMU\
void exec_readahead_head(unsigned long addr);\
#else\
static inline void exec_readahead_head(unsigned long addr)\
{\
}\
#endif
}
