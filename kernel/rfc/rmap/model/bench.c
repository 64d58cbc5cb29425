// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long one trip to the lock of a file takes on this machine: the kernel's
 * own mm/i_mmap.c and mm/interval_tree.c, with the rwsems of pthreads, on the
 * processors 0 and 1. Prints one line of JSON, in nanoseconds: medians of ROUNDS.
 * In a guest of a hypervisor, the two may be threads of one core at one time and
 * far apart at another.
 *
 *	tree		one change of a tree that holds the segments of a crowd
 *	lock		taking and releasing the lock, without contention
 *	lock_transfer	added time of the lock if another processor had it last
 *	tree_transfer	added time of a change if another made the last one
 *	page_transfer	time to map a page of the page cache and unmap it again, if another processor did so last
 *	leaf_transfer	the same for a folio that is mapped as a whole
 *
 * The last two are of counters that are laid out and changed as those of struct folio are in 7.3.
 */

#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include "../i_mmap.h"

#define CROWD		64	/* address spaces that map the file, half of each processor */
#define SEGMENTS	5
#define ROUNDS		2000	/* short ones: few are interrupted */
#define TRIPS		200

static struct inode inode;
static struct mm_struct mms[CROWD];
static struct vm_area_struct vmas[CROWD][SEGMENTS];
static int turn;	/* whose trip is next */

/* What two threads do in turn. */
enum visit { NOTHING, LOCK, CHANGE, MAP_PAGE, MAP_LEAF };
static enum visit visits;

/* The struct pages of a folio: the first has what pages have, the second what large folios have in addition. */
static struct {
	struct {
		_Atomic int refcount, mapcount;
	} ____cacheline_aligned_in_smp page;
	struct {
		_Atomic int large_mapcount, entire_mapcount;
		_Atomic unsigned long mm_ids;	/* bit 0: the lock of what follows */
		int mm_id_mapcount[2];
	} ____cacheline_aligned_in_smp large;
} folio;

void i_mmap_model_init(void);

unsigned int num_possible_cpus(void)
{
	return 1;	/* one tree, one lock */
}

unsigned int raw_smp_processor_id(void)
{
	return 0;
}

unsigned char get_random_u8(void)
{
	return 1;	/* nobody looks for a crowd */
}

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1e9 + at.tv_nsec;
}

/*
 * One trip: the address spaces of a processor, one after the other, unlink their
 * segments one by one, and link them again.
 */
static void change(int processor)
{
	static struct {
		int trips;
	} ____cacheline_aligned_in_smp of[2];
	const int trip = of[processor].trips++;
	const int mm = trip / (2 * SEGMENTS) * 2 % CROWD + processor;
	struct vm_area_struct *vma = &vmas[mm][trip % SEGMENTS];

	if (trip / SEGMENTS % 2)
		mapping_rmap_tree_insert(vma, &inode.i_data);
	else
		mapping_rmap_tree_remove(vma, &inode.i_data);
}

static void count_page(int by)
{
	atomic_fetch_add(&folio.page.refcount, by);
	atomic_fetch_add(&folio.page.mapcount, by);
}

/* As folio_add_file_rmap_pmd() and folio_remove_rmap_pmd(), while many processes map the folio. */
static void count_leaf(int by)
{
	atomic_fetch_add(&folio.page.refcount, by);
	atomic_fetch_add(&folio.large.entire_mapcount, by);
	while (atomic_fetch_or_explicit(&folio.large.mm_ids, 1, memory_order_acquire) & 1)
		;
	atomic_store_explicit(&folio.large.large_mapcount,
			      atomic_load_explicit(&folio.large.large_mapcount, memory_order_relaxed) + by,
			      memory_order_relaxed);
	folio.large.mm_id_mapcount[0] += by;
	atomic_fetch_and_explicit(&folio.large.mm_ids, ~1UL, memory_order_release);
}

static void visit(enum visit what, int processor)
{
	switch (what) {
	case NOTHING:
		return;
	case MAP_PAGE:
		count_page(1);
		count_page(-1);
		return;
	case MAP_LEAF:
		count_leaf(1);
		count_leaf(-1);
		return;
	case LOCK:
	case CHANGE:
		break;
	}
	i_mmap_lock_write(&inode.i_data, &mms[processor]);
	if (what == CHANGE)
		change(processor);
	i_mmap_unlock_write(&inode.i_data, &mms[processor]);
}

static double of_tree(void)
{
	const double since = now();
	int i;

	for (i = 0; i < TRIPS; i++)
		change(0);
	return (now() - since) / TRIPS;
}

static double of_lock(void)
{
	const double since = now();
	int i;

	for (i = 0; i < TRIPS; i++)
		visit(LOCK, 0);
	return (now() - since) / TRIPS;
}

static void run_on(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void take_turn(int me)
{
	while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != me)
		;
	visit(visits, me);
	__atomic_store_n(&turn, 1 - me, __ATOMIC_RELEASE);
}

static void *be_the_other(void *unused)
{
	run_on(1);
	for (;;)
		take_turn(1);
	return NULL;
}

/* The time from one turn to the next. */
static double of_turns(enum visit what)
{
	double since;
	int i;

	visits = what;
	since = now();
	for (i = 0; i < TRIPS; i++)
		take_turn(0);
	return (now() - since) / (2 * TRIPS);
}

static int compare(const void *a, const void *b)
{
	const double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS / 2];
}

int main(void)
{
	static double tree[ROUNDS], lock[ROUNDS], lock_transfer[ROUNDS], tree_transfer[ROUNDS];
	static double page_transfer[ROUNDS], leaf_transfer[ROUNDS];
	struct address_space *mapping = &inode.i_data;
	int mm, segment, i;
	pthread_t other;

	mapping->host = &inode;
	init_rwsem(&mapping->i_mmap_root_rwsem);
	mapping->i_mmap_root = RB_ROOT_CACHED;
	i_mmap_model_init();
	for (mm = 0; mm < CROWD; mm++) {
		for (segment = 0; segment < SEGMENTS; segment++) {
			vmas[mm][segment] = (struct vm_area_struct){
				.vm_mm = &mms[mm],
				.vm_pgoff = segment * 4,
				.pages = 4,
			};
			mapping_rmap_tree_insert(&vmas[mm][segment], mapping);
		}
	}
	run_on(0);
	pthread_create(&other, NULL, be_the_other, NULL);
	for (i = 0; i < ROUNDS; i++) {
		const double turns = of_turns(NOTHING), locked = of_turns(LOCK);

		tree[i] = of_tree();
		lock[i] = of_lock();
		lock_transfer[i] = locked - turns - lock[i];
		tree_transfer[i] = of_turns(CHANGE) - locked - tree[i];
		page_transfer[i] = of_turns(MAP_PAGE) - turns;
		leaf_transfer[i] = of_turns(MAP_LEAF) - turns;
	}
	printf("{\"what\": \"service\", \"tree_ns\": %.0f, \"lock_ns\": %.0f, \"lock_transfer_ns\": %.0f, \"tree_transfer_ns\": %.0f, \"page_transfer_ns\": %.0f, \"leaf_transfer_ns\": %.0f}\n",
	       median(tree), median(lock), median(lock_transfer), median(tree_transfer),
	       median(page_transfer), median(leaf_transfer));
	return 0;
}
