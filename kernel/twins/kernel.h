/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel macros that the pure headers of the series use, for unsigned long. */
#define round_down(x, y)	((x) & ~((y) - 1))
#define round_up(x, y)		((((x) - 1) | ((y) - 1)) + 1)
#define min(a, b)		((a) < (b) ? (a) : (b))
#define max(a, b)		((a) > (b) ? (a) : (b))
