/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of init share. */
#ifndef GUEST_INIT_H
#define GUEST_INIT_H

#include <sys/types.h>

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
/* Bytes that were read from the disk since boot. */
unsigned long bytes_read(void);
/* Mounts the disk anew, with nothing in the page cache. */
void mount_cold(void);
/*
 * Runs a command until it is about to end, by itself or by a signal. It waits
 * there with all its mappings. Returns 0 if it did not get that far.
 */
pid_t run_to_end(char *command, int *status);
/* Starts each command of /programs under a THP mode. */
void start_each(const char *thp);
/* Prints the pages of files that each program touches, in order. */
void trace_each(void);
/* How long faults on text wait, under bounds and where memory is small or in pieces. */
void touch_all(void);
/* Starts a server of NFS in this guest, which exports the disk, and opens a file of it. */
void serve_nfs(const char *path);
/* Mounts what it exports at a folder. */
void mount_nfs(const char *path);
/* Drops what the server has cached of a file of the disk. Does nothing without a server. */
void forget_export(const char *path);

#endif
