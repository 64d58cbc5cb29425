/* SPDX-License-Identifier: GPL-2.0-only */
/* What the pure headers of the series use of <linux/minmax.h>. */
#define min(a, b)		((a) < (b) ? (a) : (b))
#define max(a, b)		((a) > (b) ? (a) : (b))
