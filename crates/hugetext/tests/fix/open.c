/* Calls a function of the shared object that its argument names. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *object = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*answer)(int) = object ? (int (*)(int))dlsym(object, "answer") : NULL;

	if (!answer) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	printf("%d\n", answer(argc));
	return 0;
}
