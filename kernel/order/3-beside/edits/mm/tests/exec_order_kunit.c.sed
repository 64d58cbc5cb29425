/^static struct kunit_case /i\
static void expect_spared(struct kunit *test, struct exec_span around,\
			  struct exec_span mapped, unsigned long start,\
			  unsigned long end)\
{\
	const struct exec_span spared = exec_spare_text(around, mapped, 512);\
\
	KUNIT_EXPECT_EQ(test, spared.start, start);\
	KUNIT_EXPECT_EQ(test, spared.end, end);\
}\
\
static void reads_around_data_spare_the_windows_of_text(struct kunit *test)\
{\
	const struct exec_span around = { 1020, 1052 };\
\
	/* Data begins with a window: nothing in front of it is read. */\
	expect_spared(test, around, (struct exec_span){ 1024, 1100 }, 1024, 1052);\
	/* It shares its first window with text, which gets no leaf there. */\
	expect_spared(test, around, (struct exec_span){ 1022, 1100 }, 1020, 1052);\
	/* It ends with a window, or in one. */\
	expect_spared(test, around, (struct exec_span){ 1000, 1024 }, 1020, 1024);\
	expect_spared(test, around, (struct exec_span){ 1000, 1025 }, 1020, 1052);\
	/* Windows at both ends of what a file can have. */\
	expect_spared(test, (struct exec_span){ 0, 32 }, (struct exec_span){ 0, 1 },\
		      0, 32);\
	expect_spared(test, (struct exec_span){ ULONG_MAX - 32, ULONG_MAX },\
		      (struct exec_span){ ULONG_MAX - 100, ULONG_MAX },\
		      ULONG_MAX - 32, ULONG_MAX);\
}\
\
static bool ahead_in_window(struct exec_fault f, unsigned long index,\
			    unsigned long end)\
{\
	f.index = index;\
	f.end = end;\
	return exec_ahead_in_window(&f);\
}\
\
static void text_is_not_read_ahead_into_the_next_window(struct kunit *test)\
{\
	struct exec_fault f = x86_64;\
\
	/* 64 pages before the next window at 1024 are just enough. */\
	KUNIT_EXPECT_TRUE(test, ahead_in_window(f, 960, 4096));\
	KUNIT_EXPECT_FALSE(test, ahead_in_window(f, 961, 4096));\
	KUNIT_EXPECT_FALSE(test, ahead_in_window(f, 1023, 1536));\
	/* The text holds no whole window behind. */\
	KUNIT_EXPECT_TRUE(test, ahead_in_window(f, 1023, 1535));\
	/* The text ends in the window. */\
	KUNIT_EXPECT_TRUE(test, ahead_in_window(f, 961, 1024));\
	KUNIT_EXPECT_TRUE(test, ahead_in_window(f, 1023, 1024));\
	/* No leaf would be read behind. */\
	f.skew = 1;\
	KUNIT_EXPECT_TRUE(test, ahead_in_window(f, 1023, 4096));\
	f = x86_64;\
	f.pause = 2;\
	KUNIT_EXPECT_TRUE(test, ahead_in_window(f, 1023, 4096));\
	f = x86_64;\
	f.random = true;\
	KUNIT_EXPECT_TRUE(test, ahead_in_window(f, 1023, 4096));\
	f = x86_64;\
	f.avail_pages = 64 * 512 - 1;\
	KUNIT_EXPECT_TRUE(test, ahead_in_window(f, 1023, 4096));\
	f.avail_pages = 64 * 512;\
	KUNIT_EXPECT_FALSE(test, ahead_in_window(f, 1023, 4096));\
	/* Readahead of more than a window never stays in one. */\
	f.ra_pages = 512;\
	KUNIT_EXPECT_FALSE(test, ahead_in_window(f, 512, 4096));\
	/* Blocks of PTEs are leaves, too. */\
	KUNIT_EXPECT_FALSE(test, ahead_in_window(arm64_16k, 255, 4096));\
	KUNIT_EXPECT_TRUE(test, ahead_in_window(arm64_16k, 240, 4096));\
	/* On arm64 with pages of 4K a block is read anyway. */\
	KUNIT_EXPECT_TRUE(test, ahead_in_window(arm64_4k, 959, 4096));\
}\

/^	KUNIT_CASE\(the_first_limit_of_the_largest_leaf_is_named\),$/a\
	KUNIT_CASE(reads_around_data_spare_the_windows_of_text),\
	KUNIT_CASE(text_is_not_read_ahead_into_the_next_window),
