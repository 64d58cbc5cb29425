/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs of the lab share. */
#ifndef LAB_H
#define LAB_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline void die(const char *what)
{
	perror(what);
	exit(2);
}

/* Nanoseconds since boot. */
static inline long long now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000LL + at.tv_nsec;
}

#endif
