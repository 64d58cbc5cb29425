/* A program with enough text and read-only data to lay out: code that is never run. */
#include <stdio.h>

#ifndef TEXT
#define TEXT "6000000"
#endif
__asm__(".pushsection .text\n.skip " TEXT "\n.popsection");

static const char words[300000] = "read-only data";
static int counter = 3;
static int cleared[50000];
#ifndef THREAD
#define THREAD __thread
#endif
static THREAD int own = 1;

int answer(int given)
{
	return own * given + counter + cleared[given];
}

/* A function that a profiler finds. */
__attribute__((noinline)) static void spin(void)
{
	for (volatile long turn = 0; turn < 200000000; turn++)
		;
}

int main(int argc, char **argv)
{
	/* Whoever waits for this line finds the program loaded. */
	if (argc > 2) {
		puts(argv[2]);
		fflush(stdout);
	}
	if (argc > 1)
		spin();
	printf("%s %d\n", words, answer(argc));
	return 0;
}
