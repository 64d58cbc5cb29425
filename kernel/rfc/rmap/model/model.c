// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's own mm/i_mmap.c and mm/interval_tree.c under threads: address
 * spaces are created, map a file, fork and go, while others walk it, and the
 * file is split in the middle of that. Every walk is compared with a plain set.
 *
 * Whether a mapping is linked is one plain int per VMA, written under the lock
 * of its mm and read by walks: ThreadSanitizer reports a lock that fails to
 * exclude as a race on it. It is also written under flush_dcache_mmap_lock(), under
 * which alone some architectures walk, in the middle of a split, too.
 *
 *	model [ROUNDS [STEPS]]		exit 0, or abort at the first violation
 */

#include "../i_mmap.h"

#define CPUS		8
#define THREADS		4
#define FAMILIES	8	/* per thread, each in one shard */
#define GENERATIONS	5	/* of a family, parent before child */
#define SEGMENTS	5
#define PAGES		4	/* per segment */
#define MMS		(THREADS * FAMILIES * GENERATIONS)

struct process {
	struct mm_struct mm;
	struct vm_area_struct vmas[SEGMENTS];
	int linked[SEGMENTS];
};

static struct inode inode;
static struct process processes[MMS];
static struct vm_area_struct resident;	/* mapped all the time */
static struct mm_struct resident_mm;
static unsigned int steps = 2000;
static pthread_barrier_t start;
static unsigned long splits, walks, refused, halfway;
static __thread unsigned int seed;

void i_mmap_model_init(void);

unsigned int num_possible_cpus(void)
{
	return CPUS;
}

static unsigned int draw(unsigned int below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

unsigned int raw_smp_processor_id(void)
{
	return draw(CPUS);
}

unsigned char get_random_u8(void)
{
	return draw(256);
}

#define require(cond) do {						\
	if (!(cond)) {							\
		fprintf(stderr, "model: line %d: %s\n", __LINE__, #cond);\
		abort();						\
	}								\
} while (0)

static void link_process(struct process *p, struct process *parent)
{
	struct address_space *mapping = &inode.i_data;
	bool busy = false;
	int i;

	for (i = 0; parent && i < SEGMENTS; i++) {
		p->vmas[i].vm_pgoff = parent->vmas[i].vm_pgoff;
		p->vmas[i].pages = parent->vmas[i].pages;
	}
	i_mmap_lock_write(mapping, &p->mm);
	for (i = 0; i < SEGMENTS; i++) {
		flush_dcache_mmap_lock(mapping);
		if (parent)
			mapping_rmap_tree_insert_after(&p->vmas[i],
						       &parent->vmas[i], mapping);
		else
			mapping_rmap_tree_insert(&p->vmas[i], mapping);
		p->linked[i] = 1;
		flush_dcache_mmap_unlock(mapping);
		busy |= !parent && i_mmap_is_busy(mapping, &p->vmas[i]);
	}
	i_mmap_unlock_write(mapping, &p->mm);
	if (busy) {
		__atomic_add_fetch(&splits, 1, __ATOMIC_RELAXED);
		i_mmap_split(mapping);
	}
}

static void unlink_process(struct process *p)
{
	struct address_space *mapping = &inode.i_data;
	int i;

	i_mmap_lock_write(mapping, &p->mm);
	for (i = 0; i < SEGMENTS; i++) {
		flush_dcache_mmap_lock(mapping);
		mapping_rmap_tree_remove(&p->vmas[i], mapping);
		p->linked[i] = 0;
		flush_dcache_mmap_unlock(mapping);
	}
	i_mmap_unlock_write(mapping, &p->mm);
}

/* Unlink, move in the file, link again, as a VMA split does. */
static void move_segment(struct process *p)
{
	struct address_space *mapping = &inode.i_data;
	struct vm_area_struct *vma = &p->vmas[SEGMENTS - 1];

	i_mmap_lock_write(mapping, &p->mm);
	flush_dcache_mmap_lock(mapping);
	mapping_rmap_tree_remove(vma, mapping);
	vma->vm_pgoff = (SEGMENTS - 1 + draw(3)) * PAGES;
	vma->pages = 1 + draw(PAGES);
	mapping_rmap_tree_insert(vma, mapping);
	flush_dcache_mmap_unlock(mapping);
	i_mmap_unlock_write(mapping, &p->mm);
}

static bool covers(const struct vm_area_struct *vma, pgoff_t pgoff)
{
	return vma_start_pgoff(vma) <= pgoff && pgoff <= vma_last_pgoff(vma);
}

/*
 * A walk meets every linked VMA of the page once, and parents before children:
 * @ordered. The order does not matter to those who only flush caches.
 */
static void check_walk(bool ordered)
{
	struct address_space *mapping = &inode.i_data;
	const pgoff_t pgoff = draw(SEGMENTS * PAGES);
	int order[MMS] = {}, met = 0, mm, i;
	struct vm_area_struct *vma;

	require(mapping_mapped(mapping));
	mapping_rmap_tree_foreach(vma, mapping, pgoff, pgoff) {
		if (vma == &resident)
			continue;
		mm = (struct process *)vma->vm_mm - processes;
		require(covers(vma, pgoff));
		require(processes[mm].linked[vma - processes[mm].vmas]);
		if (vma == &processes[mm].vmas[1]) {
			require(!order[mm]);
			order[mm] = met + 1;
		}
		met++;
	}
	for (mm = 0; mm < MMS; mm++) {
		for (i = 0; i < SEGMENTS; i++)
			met -= processes[mm].linked[i] &&
			       covers(&processes[mm].vmas[i], pgoff);
		if (ordered && mm % GENERATIONS && order[mm])
			require(order[mm - 1] < order[mm]);
	}
	require(met == 0);
	__atomic_add_fetch(&walks, 1, __ATOMIC_RELAXED);
}

static void walk(void)
{
	struct address_space *mapping = &inode.i_data;

	if (draw(2)) {
		i_mmap_lock_read(mapping);
	} else if (!i_mmap_trylock_read(mapping)) {
		__atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
		return;
	}
	check_walk(true);
	i_mmap_unlock_read(mapping);
}

static void flush_walk(void)
{
	struct address_space *mapping = &inode.i_data;

	flush_dcache_mmap_lock(mapping);
	/* Walks in the middle of a split are of interest. */
	if (smp_load_acquire(&mapping->i_mmap_shards) &&
	    !RB_EMPTY_ROOT(&mapping->i_mmap_root.rb_root))
		__atomic_add_fetch(&halfway, 1, __ATOMIC_RELAXED);
	check_walk(false);
	flush_dcache_mmap_unlock(mapping);
}

static void exec(struct process *family)
{
	int generation, segment;

	i_mmap_draw_shard(&family->mm);
	for (generation = 0; generation < GENERATIONS; generation++) {
		struct process *p = &family[generation];

		p->mm = family->mm;
		for (segment = 0; segment < SEGMENTS; segment++) {
			p->vmas[segment] = (struct vm_area_struct){
				.vm_mm = &p->mm,
				.vm_flags = segment == 1 ? VM_EXEC : 0,
				.vm_pgoff = segment * PAGES,
				.pages = PAGES,
			};
		}
	}
}

static void *run(void *arg)
{
	const long thread = (long)arg;
	/* How many generations of each family live. */
	int living[FAMILIES] = {};
	unsigned int step;

	pthread_barrier_wait(&start);
	for (step = 0; step < steps; step++) {
		const unsigned int f = draw(FAMILIES);
		struct process *family =
			&processes[(thread * FAMILIES + f) * GENERATIONS];

		switch (draw(8)) {
		case 0 ... 2:
			if (living[f] == GENERATIONS)
				break;
			if (!living[f])
				exec(family);
			link_process(&family[living[f]],
				     living[f] ? &family[living[f] - 1] : NULL);
			living[f]++;
			break;
		case 3 ... 4:
			if (living[f])
				unlink_process(&family[--living[f]]);
			break;
		case 5:
			/* Forking needs equal segments: only the last moves. */
			if (living[f] == GENERATIONS)
				move_segment(&family[living[f] - 1]);
			break;
		default:
			walk();
		}
	}
	return NULL;
}

/* Takes no lock. The file is always mapped, and must look mapped. */
static int done;

static void *poll_mapped(void *unused)
{
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		require(mapping_mapped(&inode.i_data));
	return NULL;
}

/* Waits for nothing but flush_dcache_mmap_lock(). */
static void *walk_flushing(void *unused)
{
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		flush_walk();
		usleep(100);
	}
	return NULL;
}

static void round_of(unsigned int number)
{
	pthread_t threads[THREADS], poller, flusher;
	struct address_space *mapping = &inode.i_data;
	struct vm_area_struct *vma;
	long i;

	memset(&inode, 0, sizeof(inode));
	memset(processes, 0, sizeof(processes));
	mapping->host = &inode;
	init_rwsem(&mapping->i_mmap_root_rwsem);
	pthread_mutex_init(&mapping->flush, NULL);
	mapping->i_mmap_root = RB_ROOT_CACHED;
	seed = number;
	resident = (struct vm_area_struct){ .vm_mm = &resident_mm, .pages = 100 };
	i_mmap_lock_write(mapping, &resident_mm);
	mapping_rmap_tree_insert(&resident, mapping);
	i_mmap_unlock_write(mapping, &resident_mm);
	for (i = 0; i < MMS; i += GENERATIONS)
		exec(&processes[i]);

	pthread_barrier_init(&start, NULL, THREADS);
	done = 0;
	if (POLL)
		pthread_create(&poller, NULL, poll_mapped, NULL);
	pthread_create(&flusher, NULL, walk_flushing, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	pthread_join(flusher, NULL);
	if (POLL)
		pthread_join(poller, NULL);

	walk();
	for (i = 0; i < MMS; i++) {
		if (processes[i].linked[0])
			unlink_process(&processes[i]);
	}
	mapping_rmap_tree_foreach(vma, mapping, 0, ~0UL)
		require(vma == &resident);
	i_mmap_lock_write(mapping, &resident_mm);
	mapping_rmap_tree_remove(&resident, mapping);
	i_mmap_unlock_write(mapping, &resident_mm);
	require(mapping->i_mmap_shards || (!mapping_mapped(mapping) && steps < 100));
	i_mmap_free_shards(mapping);
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? atoi(argv[1]) : 50, i;

	if (argc > 2)
		steps = atoi(argv[2]);
	i_mmap_model_init();
	for (i = 0; i < rounds; i++)
		round_of(i);
	/* Short runs may not split. */
	require(halfway || rounds < 50);
	printf("model: %u rounds, %u threads: %lu calls to split, %lu walks, %lu halfway, %lu refused\n",
	       rounds, THREADS, splits, walks, halfway, refused);
	return 0;
}
