/* A library that can be executed too: it has an interpreter, an entry and a DT_SONAME. */
#include <stdio.h>
#include <stdlib.h>

__asm__(".pushsection .text\n.skip 6000000\n.popsection");

__attribute__((section(".interp"), used)) static const char interpreter[] = INTERPRETER;

int answer(int given)
{
	return given + 2;
}

/* The kernel and the loader jump here, with a stack of another alignment than a call leaves. */
#ifdef __x86_64__
__attribute__((force_align_arg_pointer))
#endif
void entry(void)
{
	printf("executed: %d\n", answer(40));
	exit(0);
}
