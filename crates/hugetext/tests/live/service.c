/*
 * A service with 6 MiB of text: calls a function in each page of it, round after round, and writes a
 * line to standard output after every fourth round. It rests while standard input has a byte.
 */
#include <poll.h>
#include <unistd.h>

#define PAGES 1536

asm(".text\n"
    ".balign 4096\n"
    "text:\n"
    ".rept 1536\n"
    "ret\n"
    ".balign 4096, 0xcc\n"
    ".endr\n");
extern char text[];

static void call_all(void)
{
	for (int page = 0; page < PAGES; page++)
		((void (*)(void))(text + page * 4096L))();
}

int main(void)
{
	struct pollfd stop = { .fd = 0, .events = POLLIN };

	for (;;) {
		if (poll(&stop, 1, 0) > 0)
			pause();
		for (int round = 0; round < 4; round++)
			call_all();
		if (write(1, "round\n", 6) != 6)
			return 1;
	}
}
