// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts and times the walks over the mappings of files.
 *
 * Each CPU counts for itself: counters that all share would make walks wait for
 * each other. Reading rmap_walks in debugfs adds them up, and writing to it sets
 * them to zero. A walk that ends at that moment may be lost or stay.
 */

#include <linux/debugfs.h>
#include <linux/kprobes.h>
#include <linux/log2.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include "rmap_walks.h"

/* Of powers of two. The last one has all that took longer: 2^39 ns are 9 minutes. */
#define RMAP_WALKS_BUCKETS	40

struct rmap_walk_times {
	u64 count;
	u64 ns;
	u64 longest_ns;
	u64 below[RMAP_WALKS_BUCKETS];	/* [i]: less than 2^i ns, not less than half */
};

struct rmap_walk_counts {
	u64 refused;			/* trylocks that did not get the lock */
	struct rmap_walk_times try_lock; /* walks that may not wait for it */
	struct rmap_walk_times walk;	/* all walks, until they unlocked */
	struct rmap_walk_times wait;	/* for the lock, of those that may */
	struct rmap_walk_times split;	/* of files */
};

static DEFINE_PER_CPU(struct rmap_walk_counts, rmap_walk_counts);

/* local_clock() of two CPUs may differ a little: a walk may have moved. */
static void rmap_walk_times_add(struct rmap_walk_times *times, u64 from, u64 to)
{
	const u64 ns = max_t(s64, to - from, 0);
	const unsigned int bucket = ns ? ilog2(ns) + 1 : 0;

	times->count++;
	times->ns += ns;
	times->longest_ns = max(times->longest_ns, ns);
	times->below[min(bucket, RMAP_WALKS_BUCKETS - 1)]++;
}

/**
 * rmap_walks_add() - Count a walk that has given the lock back.
 * @wanted: When it began, without the lock.
 * @taken: When it had the lock.
 * @try_lock: It would have given up where others hold the lock or wait for it.
 */
void rmap_walks_add(u64 wanted, u64 taken, bool try_lock)
{
	struct rmap_walk_counts *counts = get_cpu_ptr(&rmap_walk_counts);
	const u64 now = local_clock();

	rmap_walk_times_add(&counts->walk, wanted, now);
	if (try_lock)
		rmap_walk_times_add(&counts->try_lock, wanted, now);
	else
		rmap_walk_times_add(&counts->wait, wanted, taken);
	put_cpu_ptr(&rmap_walk_counts);
}

/**
 * rmap_walks_refused() - Count a walk that gave up.
 */
void rmap_walks_refused(void)
{
	this_cpu_inc(rmap_walk_counts.refused);
}

static void rmap_walk_times_sum(struct rmap_walk_times *sum,
				const struct rmap_walk_times *times)
{
	unsigned int i;

	sum->count += times->count;
	sum->ns += times->ns;
	sum->longest_ns = max(sum->longest_ns, times->longest_ns);
	for (i = 0; i < RMAP_WALKS_BUCKETS; i++)
		sum->below[i] += times->below[i];
}

static void rmap_walk_times_show(struct seq_file *m, const char *name,
				 const struct rmap_walk_times *times)
{
	unsigned int i;

	seq_printf(m, "%s count %llu ns %llu longest_ns %llu below ", name,
		   times->count, times->ns, times->longest_ns);
	for (i = 0; i < RMAP_WALKS_BUCKETS; i++)
		seq_printf(m, "%s%llu", i ? "," : "", times->below[i]);
	seq_putc(m, '\n');
}

static int rmap_walks_show(struct seq_file *m, void *unused)
{
	struct rmap_walk_counts sum = {};
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct rmap_walk_counts *counts;

		counts = per_cpu_ptr(&rmap_walk_counts, cpu);
		sum.refused += counts->refused;
		rmap_walk_times_sum(&sum.try_lock, &counts->try_lock);
		rmap_walk_times_sum(&sum.walk, &counts->walk);
		rmap_walk_times_sum(&sum.wait, &counts->wait);
		rmap_walk_times_sum(&sum.split, &counts->split);
	}
	seq_printf(m, "refused count %llu\n", sum.refused);
	rmap_walk_times_show(m, "try_lock", &sum.try_lock);
	rmap_walk_times_show(m, "walk", &sum.walk);
	rmap_walk_times_show(m, "wait", &sum.wait);
	rmap_walk_times_show(m, "split", &sum.split);
	return 0;
}

static ssize_t rmap_walks_write(struct file *file, const char __user *buf,
				size_t size, loff_t *pos)
{
	int cpu;

	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(&rmap_walk_counts, cpu), 0,
		       sizeof(struct rmap_walk_counts));
	return size;
}
DEFINE_SHOW_STORE_ATTRIBUTE(rmap_walks);

#ifdef CONFIG_KRETPROBES
static int rmap_split_entry(struct kretprobe_instance *instance,
			    struct pt_regs *regs)
{
	*(u64 *)instance->data = local_clock();
	return 0;
}
NOKPROBE_SYMBOL(rmap_split_entry);

static int rmap_split_return(struct kretprobe_instance *instance,
			     struct pt_regs *regs)
{
	rmap_walk_times_add(this_cpu_ptr(&rmap_walk_counts.split),
			    *(u64 *)instance->data, local_clock());
	return 0;
}
NOKPROBE_SYMBOL(rmap_split_return);

/* By a probe, because only the set rmap has the function. */
static struct kretprobe rmap_split_probe = {
	.kp.symbol_name	= "i_mmap_split",
	.entry_handler	= rmap_split_entry,
	.handler	= rmap_split_return,
	.data_size	= sizeof(u64),
};

static void __init rmap_split_watch(void)
{
	if (register_kretprobe(&rmap_split_probe))
		pr_info("i_mmap_split() is not timed\n");
}
#else
static void __init rmap_split_watch(void)
{
}
#endif

static int __init rmap_walks_init(void)
{
	debugfs_create_file("rmap_walks", 0600, NULL, NULL, &rmap_walks_fops);
	rmap_split_watch();
	return 0;
}
late_initcall(rmap_walks_init);
