/* The sample without a C library, for an architecture whose C library Debian lacks. */
__asm__(".pushsection .text\n.skip 6000000\n.popsection");

static const char words[300000] = "read-only data\n";

static long call(long number, long first, const void *second, long third)
{
	register long a7 __asm__("a7") = number;
	register long a0 __asm__("a0") = first;
	register const void *a1 __asm__("a1") = second;
	register long a2 __asm__("a2") = third;

	__asm__ volatile("syscall 0" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
	return a0;
}

int answer(int given)
{
	return given + words[given];
}

void _start(void)
{
	call(64, 1, words, 15); /* write */
	call(93, answer(0) == 'r' ? 0 : 1, 0, 0); /* exit */
}
