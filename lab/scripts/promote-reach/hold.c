/* Holds a dynamic program when its libraries are mapped, before its own code runs: for LD_PRELOAD. */
#include <unistd.h>

__attribute__((constructor)) static void hold(void)
{
	for (;;)
		pause();
}
