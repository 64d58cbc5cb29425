// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the stress and the storms execute: a dynamically linked program.
 *
 *	victim			end at once
 *	victim open LIBRARY	open and close a library
 *	victim wait		say that it runs, by one byte on stdout, and wait to be killed
 *	victim again TIMES	execute itself TIMES times
 *	victim TIMES [ARG…]	TIMES times fork, execute "victim ARG…" in the child, and wait for it
 *
 * With LARGE, it calls a function in every 64K of the text of guest/text.S first.
 */

#include <dlfcn.h>
#include <stdio.h>
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

static int execute_again(long times, char **argv)
{
	char left[24];

	if (times <= 0)
		return 0;
	snprintf(left, sizeof(left), "%ld", times - 1);
	execl(argv[0], argv[0], "again", left, NULL);
	return 2;
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

#ifdef LARGE
extern const char text_start[], text_end[];

static void execute_all(void)
{
	const char *at;

	for (at = text_start; at < text_end; at += 65536)
		((void (*)(void))at)();
}
#else
static void execute_all(void)
{
}
#endif

int main(int argc, char **argv)
{
	execute_all();
	if (argc < 2)
		return 0;
	if (argc == 3 && !strcmp(argv[1], "open"))
		return open_library(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "again"))
		return execute_again(atol(argv[2]), argv);
	if (!strcmp(argv[1], "wait"))
		return wait_to_be_killed();
	return start_many(atol(argv[1]), argv);
}
