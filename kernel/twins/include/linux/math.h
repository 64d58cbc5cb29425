/* SPDX-License-Identifier: GPL-2.0-only */
/* What the pure headers of the series use of <linux/math.h>, for unsigned long. */
#define round_down(x, y)	((x) & ~((y) - 1))
#define round_up(x, y)		((((x) - 1) | ((y) - 1)) + 1)
