/* A program with 8 MiB of text that says how it was started and how its text is mapped. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The exit status, if an argument asks for it. */
#ifndef STATUS
#define STATUS 42
#endif

__asm__(".text\n.balign 4096\n.globl bulk\nbulk:\n.skip 8 << 20, 0xc3\n.globl bulk_end\nbulk_end:\n");
extern const char bulk[], bulk_end[];

/* Bytes of text that PMD leaves map, once every page has been touched. */
static unsigned long huge_text(void)
{
	unsigned long start, end, bytes, sum = 0;
	char line[4096];
	int inside = 0;
	for (const volatile char *at = bulk; at < bulk_end; at += 4096)
		(void)*at;
	FILE *smaps = fopen("/proc/self/smaps", "r");
	while (smaps && fgets(line, sizeof line, smaps)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = start < (unsigned long)bulk_end && end > (unsigned long)bulk;
		if (inside && (sscanf(line, "FilePmdMapped: %lu", &bytes) == 1 ||
			       sscanf(line, "ShmemPmdMapped: %lu", &bytes) == 1))
			sum += bytes << 10;
	}
	return sum;
}

static int is_traced(void)
{
	char line[4096];
	int tracer = -1;
	FILE *status = fopen("/proc/self/status", "r");
	while (status && fgets(line, sizeof line, status))
		if (sscanf(line, "TracerPid: %d", &tracer) == 1)
			break;
	return tracer;
}

int main(int argc, char **argv)
{
	char path[4096] = "";
	struct sigaction pipe;
	sigset_t mask;

	if (argc > 1 && !strcmp(argv[1], "die"))
		raise(SIGUSR1);
	if (argc > 1 && !strcmp(argv[1], "exit"))
		return STATUS;
	if (argc > 1 && !strcmp(argv[1], "hold")) {
		/* Every page of text is mapped until the input ends. */
		huge_text();
		puts("held");
		fflush(stdout);
		return getchar() != EOF;
	}
	printf("argc=%d argv0=%s argv1=%s\n", argc, argv[0], argc > 1 ? argv[1] : "");
	if (readlink("/proc/self/exe", path, sizeof path - 1) > 0)
		printf("exe=%s\n", path);
	printf("cwd=%s\n", getcwd(path, sizeof path));
	for (char **variable = environ; *variable; variable++)
		printf("env %s\n", *variable);
	sigaction(SIGPIPE, NULL, &pipe);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	printf("sigpipe=%d blocked=%d\n", pipe.sa_handler == SIG_IGN, sigismember(&mask, SIGUSR2));
	printf("children=%d traced=%d\n", waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD, is_traced());
	while (fgets(path, sizeof path, stdin))
		printf("stdin=%s", path);
	fprintf(stderr, "huge=%lu\n", huge_text());
	return 0;
}
