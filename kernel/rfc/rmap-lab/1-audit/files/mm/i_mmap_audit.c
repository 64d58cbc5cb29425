// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks that the reverse map has every file mapping in its place.
 *
 * Reading i_mmap_audit in debugfs compares two views of the machine: the VMAs
 * of every process, and the trees of every inode. The totals agree only while
 * nothing maps or unmaps files; the other counts are right at any time.
 */

#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/xarray.h>
#include "i_mmap.h"
#include "internal.h"

struct i_mmap_audit {
	unsigned long in_processes;	/* file VMAs of all processes */
	unsigned long in_trees;		/* VMAs of all trees */
	unsigned long sharded;		/* files that are split */
	unsigned long sharded_vmas;	/* VMAs of those */
	unsigned long misplaced;	/* not in the tree that it belongs to */
	unsigned long foreign;		/* in the tree of a file it does not map */
	unsigned long unsorted;		/* behind one that starts later */
};

static bool vma_in_its_tree(struct address_space *mapping,
			    struct vm_area_struct *vma)
{
	struct rb_node *node = &vma->shared.rb;

	while (rb_parent(node))
		node = rb_parent(node);
	return node == i_mmap_vma_tree(mapping, vma)->rb_root.rb_node;
}

static void audit_mm(struct i_mmap_audit *audit, struct mm_struct *mm)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;

	mmap_read_lock(mm);
	for_each_vma(vmi, vma) {
		struct address_space *mapping;

		if (!vma->vm_file)
			continue;
		mapping = vma->vm_file->f_mapping;
		audit->in_processes++;
		i_mmap_lock_read(mapping);
		if (!vma_in_its_tree(mapping, vma))
			audit->misplaced++;
		i_mmap_unlock_read(mapping);
	}
	mmap_read_unlock(mm);
}

static int audit_processes(struct i_mmap_audit *audit)
{
	struct xarray mms;
	struct task_struct *task;
	struct mm_struct *mm;
	unsigned long index;
	int err = 0;

	xa_init(&mms);
	rcu_read_lock();
	for_each_process(task) {
		struct task_struct *t = find_lock_task_mm(task);

		if (!t)
			continue;
		mm = t->mm;
		/* Several tasks may share an mm: audit it once. */
		if (!xa_load(&mms, (unsigned long)mm) && mmget_not_zero(mm)) {
			err = xa_err(xa_store(&mms, (unsigned long)mm, mm,
					      GFP_ATOMIC));
			if (err)
				mmput_async(mm);
		}
		task_unlock(t);
		if (err)
			break;
	}
	rcu_read_unlock();

	xa_for_each(&mms, index, mm) {
		if (!err)
			audit_mm(audit, mm);
		mmput(mm);
	}
	xa_destroy(&mms);
	return err;
}

static void audit_mapping(struct i_mmap_audit *audit,
			  struct address_space *mapping)
{
	struct vm_area_struct *vma, *prev = NULL;

	i_mmap_lock_read(mapping);
	if (mapping->i_mmap_shards) {
		audit->sharded++;
		if (!RB_EMPTY_ROOT(&mapping->i_mmap_root.rb_root))
			audit->misplaced++;
	}
	mapping_rmap_tree_foreach(vma, mapping, 0, ULONG_MAX) {
		audit->in_trees++;
		if (mapping->i_mmap_shards)
			audit->sharded_vmas++;
		if (vma->vm_file->f_mapping != mapping)
			audit->foreign++;
		else if (!vma_in_its_tree(mapping, vma))
			audit->misplaced++;
		if (prev && i_mmap_vma_tree(mapping, prev) ==
			    i_mmap_vma_tree(mapping, vma) &&
		    vma_start_pgoff(prev) > vma_start_pgoff(vma))
			audit->unsorted++;
		prev = vma;
	}
	i_mmap_unlock_read(mapping);
}

static void audit_super(struct super_block *sb, void *audit)
{
	struct inode *inode, *held = NULL;

	spin_lock(&sb->s_inode_list_lock);
	list_for_each_entry(inode, &sb->s_inodes, i_sb_list) {
		if (!mapping_mapped(&inode->i_data) || !igrab(inode))
			continue;
		spin_unlock(&sb->s_inode_list_lock);
		audit_mapping(audit, &inode->i_data);
		/* The reference keeps our place in the list. */
		iput(held);
		held = inode;
		cond_resched();
		spin_lock(&sb->s_inode_list_lock);
	}
	spin_unlock(&sb->s_inode_list_lock);
	iput(held);
}

static int i_mmap_audit_show(struct seq_file *m, void *unused)
{
	struct i_mmap_audit audit = {};
	int err;

	err = audit_processes(&audit);
	if (err)
		return err;
	iterate_supers(audit_super, &audit);

	seq_printf(m, "vmas_in_processes %lu\n", audit.in_processes);
	seq_printf(m, "vmas_in_trees %lu\n", audit.in_trees);
	seq_printf(m, "sharded_files %lu\n", audit.sharded);
	seq_printf(m, "sharded_vmas %lu\n", audit.sharded_vmas);
	seq_printf(m, "misplaced %lu\n", audit.misplaced);
	seq_printf(m, "foreign %lu\n", audit.foreign);
	seq_printf(m, "unsorted %lu\n", audit.unsorted);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(i_mmap_audit);

static int __init i_mmap_audit_init(void)
{
	debugfs_create_file("i_mmap_audit", 0400, NULL, NULL,
			    &i_mmap_audit_fops);
	return 0;
}
late_initcall(i_mmap_audit_init);
