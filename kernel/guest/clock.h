/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef GUEST_CLOCK_H
#define GUEST_CLOCK_H

#include <time.h>

/* Microseconds, of the clock that the timers of the disk use. */
static inline long now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000L + at.tv_nsec / 1000;
}

#endif
