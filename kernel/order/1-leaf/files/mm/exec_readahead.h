/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _MM_EXEC_READAHEAD_H
#define _MM_EXEC_READAHEAD_H

#include <linux/fs.h>
#include <linux/mm_types.h>
#include <linux/pagemap.h>

#include "exec_order.h"

void exec_fault_init(struct exec_fault *f, const struct vm_area_struct *vma,
		     pgoff_t index, const struct file_ra_state *ra);
void exec_readahead(struct exec_fault *f, struct file *file, bool may_wait);

#endif /* _MM_EXEC_READAHEAD_H */
