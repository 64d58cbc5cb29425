// SPDX-License-Identifier: GPL-2.0-only
/*
 * A part of init: the disk by way of an NFS server of this guest. Daemons of user
 * space usually tell the server what it exports, when it asks. Here init tells it
 * beforehand.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init.h"

#define EXPORT	"/export"
#define HELD	"/held"
#define RPC	"/proc/net/rpc/"
#define NFSD	"/proc/fs/nfsd/"
#define NEVER	"2147483647"	/* when an entry expires */

static void loopback_up(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int any = socket(AF_INET, SOCK_DGRAM, 0);

	if (any < 0 || ioctl(any, SIOCSIFFLAGS, &lo))
		die("lo");
	close(any);
}

/* A server that starts lets nobody open a file for a while, but those who had it open before. */
static void wait_for_grace(const char *path)
{
	char full[128];
	int file;

	snprintf(full, sizeof(full), HELD "%s", path);
	file = open(full, O_RDONLY);
	if (file < 0)
		die("open by NFS");
	close(file);
}

void serve_nfs(const char *path)
{
	loopback_up();
	mkdir(EXPORT, 0755);
	if (mount("/dev/" DISK, EXPORT, "ext4", MS_RDONLY, "") ||
	    mount("nfsd", NFSD, "nfsd", 0, ""))
		die("mount of the export");
	/* Version 3 asks a daemon of user space for a port. */
	put(NFSD "versions", "-3 +4.2\n");
	put(NFSD "nfsv4gracetime", "10\n");
	put(NFSD "portlist", "tcp 2049\n");
	put(NFSD "threads", "4\n");
	/* The address, the folder, and the root of NFSv4, which has the number 0. */
	put(RPC "auth.unix.ip/channel", "nfsd 127.0.0.1 " NEVER " here\n");
	/* Read-only, from any port, without a check of subtrees, by its number. */
	put(RPC "nfsd.export/channel", "here " EXPORT " " NEVER " 9219 65534 65534 0\n");
	put(RPC "nfsd.fh/channel", "here 1 \\x00000000 " NEVER " " EXPORT "\n");
	/* As long as this mount is held, others of it are of the same client. */
	mkdir(HELD, 0755);
	mount_nfs(HELD);
	wait_for_grace(path);
}

void forget_export(const char *path)
{
	char full[128];
	int file;

	snprintf(full, sizeof(full), EXPORT "%s", path);
	file = open(full, O_RDONLY);
	if (file < 0)
		return;
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	close(file);
}

void mount_nfs(const char *path)
{
	if (mount("127.0.0.1:/", path, "nfs4", MS_RDONLY,
		  "vers=4.2,proto=tcp,addr=127.0.0.1,clientaddr=127.0.0.1"))
		die("mount by NFS");
}
