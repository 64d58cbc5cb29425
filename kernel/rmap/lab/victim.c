// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the stress executes: a dynamically linked program that ends at once.
 *
 *	victim			end
 *	victim LIBRARY		open and close a library first
 *	victim - COMMAND…	fork, and execute COMMAND in the child first
 */

#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status = 0;

	if (argc == 2) {
		void *library = dlopen(argv[1], RTLD_NOW);

		return library ? dlclose(library) : 2;
	}
	if (argc > 2 && !strcmp(argv[1], "-")) {
		const pid_t child = fork();

		if (child == 0) {
			execv(argv[2], argv + 2);
			_exit(2);
		}
		if (child < 0 || waitpid(child, &status, 0) < 0)
			return 2;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
