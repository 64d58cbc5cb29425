/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __MM_RMAP_WALKS_H
#define __MM_RMAP_WALKS_H

#include <linux/sched/clock.h>
#include <linux/types.h>

void rmap_walks_add(u64 wanted, u64 taken, bool try_lock);
void rmap_walks_refused(void);

#endif /* __MM_RMAP_WALKS_H */
