// SPDX-License-Identifier: GPL-2.0-only
/* Tests which images fs/elf_text_leaf.h aligns to which leaves. */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/sizes.h>

#include "../elf_text_leaf.h"

#define SEGMENT(flags, vaddr, offset, filesz)				\
	{ .p_type = PT_LOAD, .p_flags = (flags), .p_vaddr = (vaddr),	\
	  .p_offset = (offset), .p_filesz = (filesz) }

struct eligible {
	const char *why;
	struct elf_phdr phdr;
	unsigned long leaf;
};

/*
 * Not writable, address and offset multiples of the PMD, at least a PMD of the
 * file, as was proposed before, and executable. Then near misses of each.
 */
static const struct eligible proposed[] = {
	{ "exactly one PMD", SEGMENT(PF_R | PF_X, 0, 0, SZ_2M), SZ_2M },
	{ "elsewhere", SEGMENT(PF_R | PF_X, SZ_4M, SZ_2M, SZ_8M), SZ_2M },
	{ "much of it", SEGMENT(PF_R | PF_X, 0, 0, SZ_512M), SZ_2M },
	{ "read-only data", SEGMENT(PF_R, SZ_4M, SZ_2M, SZ_8M), 0 },
	{ "writable", SEGMENT(PF_R | PF_W, 0, 0, SZ_8M), 0 },
	{ "text that is writable", SEGMENT(PF_R | PF_W | PF_X, 0, 0, SZ_8M), 0 },
	{ "a page less than a PMD", SEGMENT(PF_R | PF_X, 0, 0, SZ_2M - SZ_4K), 0 },
	{ "offset off by a page", SEGMENT(PF_R | PF_X, SZ_2M, SZ_2M + SZ_4K, SZ_8M), 0 },
	{ "address off by a page", SEGMENT(PF_R | PF_X, SZ_2M + SZ_4K, SZ_2M, SZ_8M), 0 },
	{ "no PT_LOAD", { .p_type = PT_NOTE, .p_flags = PF_R, .p_filesz = SZ_8M }, 0 },
};

/* Address and offset are congruent; the image gains if a window fits. */
static const struct eligible congruent[] = {
	{ "text behind the header", SEGMENT(PF_R | PF_X, SZ_4K, SZ_4K, SZ_4M), SZ_2M },
	{ "no whole window", SEGMENT(PF_R | PF_X, SZ_4K, SZ_4K, SZ_4M - SZ_8K), 0 },
	{ "a tail in a page of its own", SEGMENT(PF_R | PF_X, 0, 0, SZ_2M - 1), SZ_2M },
	{ "nothing in the file", SEGMENT(PF_R | PF_X, 0, 0, 0), 0 },
	{ "ends beyond any address", SEGMENT(PF_R | PF_X, 0, 0, ~0UL), 0 },
	{ "begins beyond any address", SEGMENT(PF_R | PF_X, ~0UL, ~0UL, SZ_8M), 0 },
};

static void expect_leaf(struct kunit *test, const struct eligible *e)
{
	KUNIT_EXPECT_EQ_MSG(test, elf_text_leaf(&e->phdr, 1, SZ_4K, SZ_2M, 0),
			    e->leaf, "%s", e->why);
}

static void the_proposed_set_is_aligned(struct kunit *test)
{
	for (int i = 0; i < ARRAY_SIZE(proposed); i++)
		expect_leaf(test, &proposed[i]);
}

static void congruent_text_is_aligned_if_a_window_fits(struct kunit *test)
{
	for (int i = 0; i < ARRAY_SIZE(congruent); i++)
		expect_leaf(test, &congruent[i]);
}

static void the_largest_leaf_that_gains_is_taken(struct kunit *test)
{
	const struct elf_phdr image[] = {
		SEGMENT(PF_R, 0, 0, SZ_64K),
		SEGMENT(PF_R | PF_X, SZ_64K, SZ_64K, SZ_4M),
		SEGMENT(PF_R | PF_W, SZ_64M, SZ_8M, SZ_64M),
	};

	/* 16K pages: 32M is not filled, 2M is. */
	KUNIT_EXPECT_EQ(test, elf_text_leaf(image, 3, SZ_16K, SZ_32M, SZ_2M), SZ_2M);
	/* 64K pages: a PMD of 512M is never asked for. */
	KUNIT_EXPECT_EQ(test, elf_text_leaf(image, 3, SZ_64K, 0, SZ_2M), SZ_2M);
	/* 4K pages, with THP and without. */
	KUNIT_EXPECT_EQ(test, elf_text_leaf(image, 3, SZ_4K, SZ_2M, SZ_64K), SZ_2M);
	KUNIT_EXPECT_EQ(test, elf_text_leaf(image, 3, SZ_4K, 0, SZ_64K), SZ_64K);
	KUNIT_EXPECT_EQ(test, elf_text_leaf(image, 3, SZ_4K, 0, 0), 0);
	/* The data in front of the text gains nothing, nor does an empty list. */
	KUNIT_EXPECT_EQ(test, elf_text_leaf(image, 1, SZ_4K, SZ_2M, SZ_64K), 0);
	KUNIT_EXPECT_EQ(test, elf_text_leaf(image, 0, SZ_4K, SZ_2M, SZ_64K), 0);
}

static void places_are_aligned_and_never_higher(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, elf_place(SZ_8M + SZ_4K, SZ_2M, 0), SZ_8M);
	KUNIT_EXPECT_EQ(test, elf_place(SZ_8M, SZ_2M, 0), SZ_8M);
	KUNIT_EXPECT_EQ(test, elf_place(SZ_8M + SZ_8K, SZ_2M, SZ_4K), SZ_8M + SZ_4K);
	KUNIT_EXPECT_EQ(test, elf_place(SZ_8M, SZ_2M, SZ_4K), SZ_8M - SZ_2M + SZ_4K);
}

static struct kunit_case elf_text_leaf_cases[] = {
	KUNIT_CASE(the_proposed_set_is_aligned),
	KUNIT_CASE(congruent_text_is_aligned_if_a_window_fits),
	KUNIT_CASE(the_largest_leaf_that_gains_is_taken),
	KUNIT_CASE(places_are_aligned_and_never_higher),
	{}
};

static struct kunit_suite elf_text_leaf_suite = {
	.name = "elf_text_leaf",
	.test_cases = elf_text_leaf_cases,
};

kunit_test_suite(elf_text_leaf_suite);

MODULE_DESCRIPTION("KUnit tests of the load alignment of text");
MODULE_LICENSE("GPL");
