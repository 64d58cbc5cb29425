/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of init share. */
#ifndef GUEST_INIT_H
#define GUEST_INIT_H

#include <stdbool.h>

#define ROOT "/disk"
#define DISK "paced"	/* of kernel/paced */
#define THP "/sys/kernel/mm/transparent_hugepage/"
#define FAULT_AROUND "/sys/kernel/debug/fault_around_bytes"

/* Prints why the guest cannot go on, and ends it. */
void die(const char *what);
/* Writes to a file of the kernel, or ends the guest. */
void put(const char *path, const char *value);
/* Number @field of the line of @path that begins with @key; 0 if there is none. */
unsigned long number(const char *path, const char *key, int field);
/* The value of guest.NAME=VALUE on the kernel's command line, "" for guest.NAME alone; NULL if it is not there. */
const char *setting(const char *name);
/* Arranges what the settings want beside the programs that start: other work, a limited group. */
void arrange(void);
/* Puts the calling process into the limited group, if the settings have one. */
void enter_group(void);

#endif
