/* Starts a program and stops it before its first instruction: stopped PROGRAM. For static programs. */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status;
	pid_t child;

	if (argc != 2)
		return 2;
	child = fork();
	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execv(argv[1], argv + 1);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status))
		return 1;
	ptrace(PTRACE_DETACH, child, 0, (void *)SIGSTOP);
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? 0 : 1;
}
