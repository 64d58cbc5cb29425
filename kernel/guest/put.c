// SPDX-License-Identifier: GPL-2.0-only
/* Settings of the guest's kernel. Guests of other tests link this, too. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "init.h"

void put(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die(path);
	close(fd);
}
