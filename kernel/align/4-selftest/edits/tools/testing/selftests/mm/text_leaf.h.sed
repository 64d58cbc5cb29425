/^#endif \/\* _SELFTESTS_TEXT_LEAF_H \*\/$/i\
/* Whether too few random bits would stay if an address were aligned to a leaf. */\
static inline bool addresses_are_short(void)\
{\
	static const char path[] = "/proc/sys/vm/mmap_rnd_bits";\
	FILE *setting = fopen(path, "r");\
	int bits, needed = 9;	/* of the kernel */\
	bool are_short = false;\
\
	/* Only root may read it. Where it is missing, addresses are never short. */\
	if (!setting)\
		return !access(path, F_OK);\
	for (unsigned long size = getpagesize(); size < text_leaf(); size *= 2)\
		needed++;\
	if (fscanf(setting, "%d", \&bits) == 1)\
		are_short = bits < needed;\
	fclose(setting);\
	return are_short;\
}\

