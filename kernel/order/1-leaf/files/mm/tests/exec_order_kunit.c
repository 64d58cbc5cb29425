// SPDX-License-Identifier: GPL-2.0-only
/* Tests what mm/exec_order.h decides to read for a fault on text. */
#include <kunit/test.h>
#include <linux/module.h>

#include "../exec_order.h"

/* x86-64: 64M of text in a file of 64M, with 4G of memory available. */
static const struct exec_fault x86_64 = {
	.index = 1000,
	.end = 16384,
	.file_pages = 16384,
	.ra_pages = 32,
	.avail_pages = 1UL << 20,
	.page_ns = 5000,
	.free_order = 64,
	.pmd_order = 9,
};

/* The same for arm64 with pages of 4K, 16K and 64K. The device reads 2 GB/s. */
static const struct exec_fault arm64_4k = {
	.index = 1000,
	.end = 16384,
	.file_pages = 16384,
	.ra_pages = 32,
	.avail_pages = 1UL << 20,
	.page_ns = 5000,
	.free_order = 64,
	.pmd_order = 9,
	.cont_order = 4,
	.base_order = 4,
};

static const struct exec_fault arm64_16k = {
	.index = 1000,
	.end = 4096,
	.file_pages = 4096,
	.ra_pages = 8,
	.avail_pages = 1UL << 18,
	.page_ns = 20000,
	.free_order = 64,
	.cont_order = 7,
	.base_order = 2,
};

static const struct exec_fault arm64_64k = {
	.index = 500,
	.end = 1024,
	.file_pages = 1024,
	.ra_pages = 2,
	.avail_pages = 1UL << 16,
	.page_ns = 80000,
	.free_order = 64,
	.cont_order = 5,
};

/* An architecture with a block of 64K below a PMD of 2M. */
static const struct exec_fault two_leaves = {
	.index = 1000,
	.end = 16384,
	.file_pages = 16384,
	.ra_pages = 32,
	.page_ns = 5000,
	.avail_pages = 1UL << 20,
	.free_order = 64,
	.pmd_order = 9,
	.cont_order = 4,
};

static void expect_read(struct kunit *test, const struct exec_fault *f,
			unsigned long start, unsigned long size, unsigned int order)
{
	const struct exec_read read = exec_read(f);

	KUNIT_EXPECT_EQ(test, read.limit == EXEC_LIMIT_NONE,
			order == max(f->pmd_order, f->cont_order));
	KUNIT_EXPECT_EQ(test, read.start, start);
	KUNIT_EXPECT_EQ(test, read.size, size);
	KUNIT_EXPECT_EQ(test, read.order, order);
}

static void large_text_is_read_by_leaves(struct kunit *test)
{
	struct exec_fault f;

	expect_read(test, &x86_64, 512, 512, 9);
	expect_read(test, &arm64_4k, 512, 512, 9);
	expect_read(test, &arm64_16k, 896, 128, 7);
	expect_read(test, &arm64_64k, 480, 32, 5);

	/* As much readahead as the device is set to, in whole leaves. */
	f = x86_64;
	f.ra_pages = 1535;
	expect_read(test, &f, 512, 1024, 9);
	f.file_pages = 1500;
	expect_read(test, &f, 512, 512, 9);
}

static void small_text_is_read_as_before(struct kunit *test)
{
	struct exec_fault f = arm64_16k;

	/* A library of 800K never costs 2M. */
	f.index = 30;
	f.end = 50;
	f.file_pages = 50;
	expect_read(test, &f, 28, 8, 2);

	f = x86_64;
	f.index = 100;
	f.start = 1;
	f.end = 511;
	expect_read(test, &f, 100, 32, 0);
}

static void only_whole_windows_of_the_mapping_count(struct kunit *test)
{
	struct exec_fault f = x86_64;

	/* The head of a text that starts behind the ELF header. */
	f.start = 1;
	f.index = 1;
	expect_read(test, &f, 1, 32, 0);
	f.index = 511;
	expect_read(test, &f, 511, 1, 0);
	f.index = 512;
	expect_read(test, &f, 512, 512, 9);

	/* Its tail, and the tail of the file. */
	f.end = 16383;
	f.index = 16382;
	expect_read(test, &f, 16382, 1, 0);
	f = x86_64;
	f.file_pages = 16383;
	f.index = 16382;
	expect_read(test, &f, 16382, 2, 0);
	f.index = 15871;
	expect_read(test, &f, 15360, 512, 9);

	/* A file that was cut short under the mapping. */
	f.file_pages = 0;
	expect_read(test, &f, 15871, 32, 0);
}

static void incongruent_text_is_not_read_by_leaves_it_cannot_have(struct kunit *test)
{
	struct exec_fault f = x86_64;

	f.skew = 1;
	expect_read(test, &f, 1000, 32, 0);
	f.skew = -512UL;
	expect_read(test, &f, 512, 512, 9);

	/* Congruent for the smaller leaf only. */
	f = two_leaves;
	f.skew = 16;
	expect_read(test, &f, 992, 32, 4);
}

static void small_reads_stop_at_the_next_window(struct kunit *test)
{
	struct exec_fault f = x86_64;

	/* The first window is not whole; the second can be a leaf. */
	f.start = 1;
	f.index = 500;
	expect_read(test, &f, 500, 12, 0);
	/* The window has pages already; the next may have none. */
	f.index = 1020;
	f.free_order = 8;
	expect_read(test, &f, 1020, 4, 0);
	/* The next window is not whole either. */
	f.end = 1535;
	expect_read(test, &f, 1020, 32, 0);

	/* Reading by a smaller leaf stops at a larger one, too. */
	f = two_leaves;
	f.start = 1;
	f.index = 496;
	expect_read(test, &f, 496, 16, 4);
}

static void pages_in_the_window_leave_smaller_leaves(struct kunit *test)
{
	struct exec_fault f = two_leaves;

	f.free_order = 8;
	expect_read(test, &f, 992, 32, 4);
	f.free_order = 3;
	expect_read(test, &f, 1000, 8, 0);
}

static void pressure_takes_leaves_away(struct kunit *test)
{
	struct exec_fault f = x86_64;

	f.avail_pages = 512UL << EXEC_LEAF_MEMORY_SHIFT;
	expect_read(test, &f, 512, 512, 9);
	/* However much the device is set to read ahead. */
	f.ra_pages = 4096;
	expect_read(test, &f, 512, 512, 9);
	f.ra_pages = 32;
	f.avail_pages--;
	expect_read(test, &f, 1000, 32, 0);

	f = x86_64;
	f.refault = true;
	f.avail_pages = 512UL << EXEC_LEAF_REFAULT_SHIFT;
	expect_read(test, &f, 512, 512, 9);
	f.avail_pages--;
	expect_read(test, &f, 1000, 32, 0);

	/* Never below what the architecture asks for. */
	f = arm64_4k;
	f.avail_pages = 0;
	expect_read(test, &f, 992, 32, 4);
}

static void a_leaf_may_take_the_time_of_eight_reads(struct kunit *test)
{
	struct exec_fault f = x86_64;
	const u64 today = 32 * 20000;

	f.page_ns = 20000;
	KUNIT_EXPECT_FALSE(test, exec_leaf_is_late(&f, 512, 8 * today));
	KUNIT_EXPECT_TRUE(test, exec_leaf_is_late(&f, 512, 8 * today + 1));

	/* With readahead of one page it takes the place of 512 reads. */
	f.ra_pages = 1;
	KUNIT_EXPECT_FALSE(test, exec_leaf_is_late(&f, 512, 256 * 20000));
	KUNIT_EXPECT_TRUE(test, exec_leaf_is_late(&f, 512, 256 * 20000 + 1));

	/* A device without latency reads it in the time of 16 reads. */
	f = x86_64;
	f.page_ns = 1000;
	KUNIT_EXPECT_FALSE(test, exec_leaf_is_late(&f, 512, 512 * 1000));
	KUNIT_EXPECT_FALSE(test, exec_leaf_is_late(&f, 512,
						   32 * 1000 + EXEC_LEAF_SHORT_NS));
	KUNIT_EXPECT_TRUE(test, exec_leaf_is_late(&f, 512,
						  32 * 1000 + EXEC_LEAF_SHORT_NS + 1));

	/* On a disk that seeks a read of today is slow itself. */
	f = x86_64;
	f.page_ns = 400000;
	KUNIT_EXPECT_FALSE(test, exec_leaf_is_late(&f, 512, 12800000 + EXEC_LEAF_WAIT_NS));
	KUNIT_EXPECT_TRUE(test, exec_leaf_is_late(&f, 512, 12800001 + EXEC_LEAF_WAIT_NS));
}

static void a_device_of_which_leaves_are_late_is_read_as_before(struct kunit *test)
{
	struct exec_fault f = x86_64;

	f.index = 1020;
	f.pause = 2;
	expect_read(test, &f, 1020, 32, 0);
	/* The next window stays free for the next leaf that is tried. */
	f.pause = 1;
	expect_read(test, &f, 1020, 4, 0);
	/* A leaf that is not larger than the readahead costs nothing. */
	f.pause = 2;
	f.ra_pages = 512;
	expect_read(test, &f, 512, 512, 9);
}

static void a_device_is_measured_before_a_leaf_is_tried(struct kunit *test)
{
	struct exec_fault f = x86_64;

	f.page_ns = 0;
	expect_read(test, &f, 1000, 32, 0);
	f.page_ns = EXEC_LEAF_WAIT_NS / 32;
	expect_read(test, &f, 512, 512, 9);
	/* A read of today takes too long itself. */
	f.page_ns++;
	expect_read(test, &f, 1000, 32, 0);
	f.page_ns = U32_MAX;
	expect_read(test, &f, 1000, 32, 0);

	f = two_leaves;
	f.page_ns = 0;
	expect_read(test, &f, 992, 32, 4);
}

static void expect_speed(struct kunit *test, const struct exec_speed *speed,
			 unsigned int page_ns, unsigned int pause, unsigned int late)
{
	KUNIT_EXPECT_EQ(test, speed->page_ns, page_ns);
	KUNIT_EXPECT_EQ(test, speed->pause, pause);
	KUNIT_EXPECT_EQ(test, speed->late, late);
}

static void one_wait_changes_the_average_little(struct kunit *test)
{
	struct exec_speed speed = {};

	exec_speed_read(&speed, 0);
	expect_speed(test, &speed, 1, 1, 1);
	/* It rises however small it is, and is never unknown again. */
	exec_speed_read(&speed, 9);
	expect_speed(test, &speed, 2, 1, 1);
	exec_speed_read(&speed, 0);
	exec_speed_read(&speed, 0);
	expect_speed(test, &speed, 2, 1, 1);

	speed.page_ns = 800;
	exec_speed_read(&speed, U32_MAX);
	expect_speed(test, &speed, 900, 1, 1);
	exec_speed_read(&speed, 100);
	expect_speed(test, &speed, 800, 1, 1);
	speed.page_ns = U32_MAX;
	exec_speed_read(&speed, U32_MAX);
	expect_speed(test, &speed, U32_MAX, 1, 1);
}

static void one_fault_tries_a_leaf(struct kunit *test)
{
	struct exec_speed speed = {};

	/* Nothing is known, or leaves are in time: there is nothing to try. */
	KUNIT_EXPECT_FALSE(test, exec_speed_try(&speed, true));
	exec_speed_read(&speed, 5000);
	/* The window of the fault has pages. The next one tries. */
	KUNIT_EXPECT_FALSE(test, exec_speed_try(&speed, false));
	KUNIT_EXPECT_TRUE(test, exec_speed_try(&speed, true));
	KUNIT_EXPECT_FALSE(test, exec_speed_try(&speed, true));
	expect_speed(test, &speed, 5000, 1023, 1);
	/* No folio can be had. */
	exec_speed_give_up(&speed);
	KUNIT_EXPECT_TRUE(test, exec_speed_try(&speed, true));
	exec_speed_leaf(&speed, false, true);
	expect_speed(test, &speed, 5000, 0, 0);
	/* Another one was in time meanwhile. */
	exec_speed_give_up(&speed);
	expect_speed(test, &speed, 5000, 0, 0);
}

static void late_leaves_pause_for_longer_and_longer(struct kunit *test)
{
	struct exec_speed speed = {};
	unsigned int pause = 1024;

	/* The first leaf of a device. */
	exec_speed_read(&speed, 5000);
	KUNIT_EXPECT_TRUE(test, exec_speed_try(&speed, true));
	exec_speed_leaf(&speed, true, true);
	expect_speed(test, &speed, 5000, 1024, 2);
	for (int late = 3; late <= 8; late++) {
		for (unsigned int i = 1; i < pause; i++)
			KUNIT_EXPECT_FALSE(test, exec_speed_try(&speed, true));
		KUNIT_EXPECT_TRUE(test, exec_speed_try(&speed, true));
		exec_speed_leaf(&speed, true, true);
		pause = min(2 * pause, 16384U);
		expect_speed(test, &speed, 5000, pause, min(late, 6));
	}
	/* One that began before is in time after all. */
	exec_speed_leaf(&speed, false, false);
	expect_speed(test, &speed, 5000, 0, 0);
}

static void a_device_that_was_in_time_must_be_late_twice(struct kunit *test)
{
	struct exec_speed speed = { .page_ns = 5000 };

	exec_speed_leaf(&speed, true, false);
	expect_speed(test, &speed, 5000, 0, 1);
	exec_speed_leaf(&speed, false, false);
	expect_speed(test, &speed, 5000, 0, 0);
	exec_speed_leaf(&speed, true, false);
	exec_speed_leaf(&speed, true, false);
	expect_speed(test, &speed, 5000, 1024, 2);
	/* Others were read at the same time, and waited for each other. */
	exec_speed_leaf(&speed, true, false);
	expect_speed(test, &speed, 5000, 1024, 2);
}

static void congestion_reads_no_more_than_before(struct kunit *test)
{
	struct exec_fault f = x86_64;

	f.congested = true;
	expect_read(test, &f, 1000, 32, 0);
	f.ra_pages = 640;
	expect_read(test, &f, 512, 512, 9);
}

static void random_access_reads_no_more_than_before(struct kunit *test)
{
	struct exec_fault f = x86_64;

	f.random = true;
	expect_read(test, &f, 1000, 32, 0);
	f.ra_pages = 640;
	expect_read(test, &f, 512, 512, 9);
}

/* Windows are aligned in the file, and whole in the file and in the VMA. */
static void most_mappings_hold_no_leaf(struct kunit *test)
{
	struct exec_fault f = x86_64;

	KUNIT_EXPECT_TRUE(test, exec_holds_leaf(&f));
	f.start = 2;
	f.end = 1023;
	KUNIT_EXPECT_FALSE(test, exec_holds_leaf(&f));
	f.end = 1024;
	KUNIT_EXPECT_TRUE(test, exec_holds_leaf(&f));
	f.file_pages = 1023;
	KUNIT_EXPECT_FALSE(test, exec_holds_leaf(&f));
	f.file_pages = 1024;
	f.skew = 1;
	KUNIT_EXPECT_FALSE(test, exec_holds_leaf(&f));
	f.cont_order = 4;
	f.skew = 16;
	KUNIT_EXPECT_TRUE(test, exec_holds_leaf(&f));
	/* What is read in any case is no leaf to wait for. */
	f.base_order = 4;
	KUNIT_EXPECT_FALSE(test, exec_holds_leaf(&f));
}

static void expect_limit(struct kunit *test, const struct exec_fault *f,
			 enum exec_limit limit)
{
	KUNIT_EXPECT_EQ(test, exec_read(f).limit, limit);
}

static void the_first_limit_of_the_largest_leaf_is_named(struct kunit *test)
{
	struct exec_fault f = two_leaves;

	expect_limit(test, &f, EXEC_LIMIT_NONE);
	f.free_order = 8;
	expect_limit(test, &f, EXEC_LIMIT_CACHED);
	f.avail_pages = 0;
	expect_limit(test, &f, EXEC_LIMIT_MEMORY);
	f.random = true;
	expect_limit(test, &f, EXEC_LIMIT_DEVICE);
	f.skew = 1;
	expect_limit(test, &f, EXEC_LIMIT_SHAPE);
	f.pmd_order = 0;
	f.cont_order = 0;
	expect_limit(test, &f, EXEC_LIMIT_LEAF);
	/* Where PMDs are out of the question, that of the contpte block. */
	f = arm64_64k;
	f.avail_pages = 0;
	expect_limit(test, &f, EXEC_LIMIT_MEMORY);
}

/* With pages of 4K, a file of 16T on 32 bits ends where page numbers do. */
static void the_largest_file_has_an_end(struct kunit *test)
{
	struct exec_fault f = x86_64;

	f.start = ULONG_MAX - 1000;
	f.end = ULONG_MAX;
	f.file_pages = ULONG_MAX;
	f.index = ULONG_MAX - 10;
	expect_read(test, &f, ULONG_MAX - 10, 10, 0);
	KUNIT_EXPECT_FALSE(test, exec_holds_leaf(&f));
	f.start = ULONG_MAX - 100;
	KUNIT_EXPECT_FALSE(test, exec_holds_leaf(&f));
}

static struct kunit_case exec_order_cases[] = {
	KUNIT_CASE(large_text_is_read_by_leaves),
	KUNIT_CASE(small_text_is_read_as_before),
	KUNIT_CASE(only_whole_windows_of_the_mapping_count),
	KUNIT_CASE(incongruent_text_is_not_read_by_leaves_it_cannot_have),
	KUNIT_CASE(small_reads_stop_at_the_next_window),
	KUNIT_CASE(pages_in_the_window_leave_smaller_leaves),
	KUNIT_CASE(pressure_takes_leaves_away),
	KUNIT_CASE(a_leaf_may_take_the_time_of_eight_reads),
	KUNIT_CASE(a_device_of_which_leaves_are_late_is_read_as_before),
	KUNIT_CASE(a_device_is_measured_before_a_leaf_is_tried),
	KUNIT_CASE(one_wait_changes_the_average_little),
	KUNIT_CASE(one_fault_tries_a_leaf),
	KUNIT_CASE(late_leaves_pause_for_longer_and_longer),
	KUNIT_CASE(a_device_that_was_in_time_must_be_late_twice),
	KUNIT_CASE(congestion_reads_no_more_than_before),
	KUNIT_CASE(random_access_reads_no_more_than_before),
	KUNIT_CASE(most_mappings_hold_no_leaf),
	KUNIT_CASE(the_largest_file_has_an_end),
	KUNIT_CASE(the_first_limit_of_the_largest_leaf_is_named),
	{}
};

static struct kunit_suite exec_order_suite = {
	.name = "exec_order",
	.test_cases = exec_order_cases,
};

kunit_test_suite(exec_order_suite);

MODULE_DESCRIPTION("KUnit tests of the folio order of text");
MODULE_LICENSE("GPL");
