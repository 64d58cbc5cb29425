/* Runs a command under a filter of system calls: refuse errno|kill NUMBER... -- COMMAND... */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sock_filter filter[64] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	unsigned short used = 1;
	unsigned refusal = SECCOMP_RET_ERRNO | EPERM;
	int at = 2;

	if (argc < 2)
		return 120;
	if (!strcmp(argv[1], "kill"))
		refusal = SECCOMP_RET_KILL_PROCESS;
	for (; at < argc && strcmp(argv[at], "--") && used < 60; at++) {
		filter[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							     (unsigned)atoi(argv[at]), 0, 1);
		filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, refusal);
	}
	filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { used, filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("refuse");
		return 120;
	}
	if (at + 1 >= argc)
		return 120;
	execvp(argv[at + 1], argv + at + 1);
	perror(argv[at + 1]);
	return 120;
}
