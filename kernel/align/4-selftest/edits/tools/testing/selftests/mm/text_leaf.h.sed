/^#endif \/\* _SELFTESTS_TEXT_LEAF_H \*\/$/i\
/* Whether too few random bits would stay if an address were aligned to a leaf. */\
static inline bool addresses_are_short(void)\
{\
	FILE *setting = fopen("/proc/sys/vm/mmap_rnd_bits", "r");\
	int bits, needed = 9;	/* of the kernel */\
	bool are_short = false;\
\
	for (unsigned long size = getpagesize(); size < text_leaf(); size *= 2)\
		needed++;\
	if (setting \&\& fscanf(setting, "%d", \&bits) == 1)\
		are_short = bits < needed;\
	if (setting)\
		fclose(setting);\
	return are_short;\
}\

