// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the stress and the storms execute: a dynamically linked program.
 *
 *	victim			end at once
 *	victim open LIBRARY	open and close a library
 *	victim wait		say that it runs, by one byte on stdout, and wait to be killed
 *	victim TIMES [ARG…]	TIMES times fork, execute "victim ARG…" in the child, and wait for it
 */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_library(const char *name)
{
	void *library = dlopen(name, RTLD_NOW);

	return library ? dlclose(library) : 2;
}

static int wait_to_be_killed(void)
{
	if (write(STDOUT_FILENO, "", 1) != 1)
		return 2;
	for (;;)
		pause();
}

/* As shells do. */
static int start_many(long times, char **argv)
{
	int status;

	argv[1] = argv[0];
	while (times-- > 0) {
		const pid_t child = fork();

		if (child == 0) {
			execv(argv[0], argv + 1);
			_exit(2);
		}
		if (child < 0 || waitpid(child, &status, 0) < 0 ||
		    !WIFEXITED(status) || WEXITSTATUS(status))
			return 2;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 0;
	if (argc == 3 && !strcmp(argv[1], "open"))
		return open_library(argv[2]);
	if (!strcmp(argv[1], "wait"))
		return wait_to_be_killed();
	return start_many(atol(argv[1]), argv);
}
