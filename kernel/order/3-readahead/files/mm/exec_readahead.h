/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _MM_EXEC_READAHEAD_H
#define _MM_EXEC_READAHEAD_H

#include <linux/types.h>

struct file_ra_state;
struct vm_area_struct;

void exec_readahead(struct vm_area_struct *vma, pgoff_t index,
		    struct file_ra_state *ra);

#endif /* _MM_EXEC_READAHEAD_H */
