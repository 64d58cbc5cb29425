/*
 * Executes text and reads read-only data that share their first and last windows, and checks both: GNU ld puts
 * the ELF header, text and data one behind the other. It speaks as the example busy does: `ready`, `ok ROUNDS` for
 * each line of input, `done ROUNDS` at its end, `wrong: WHAT` after an error.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define FUNCTIONS 24576
#define STRIDE 128
#define NUMBERS 786432

/* Function k returns the sum of its argument and k. Number k of the data is k. */
__asm__(".pushsection .text.merged, \"ax\"\n"
	".balign 128\n"
	"functions:\n"
	".set k, 0\n"
	".rept 24576\n"
	".balign 128\n"
#ifdef __x86_64__
	"lea k(%rdi), %rax\n"
#else
	"mov x1, #(k & 0xffff)\n"
	"add x0, x0, x1\n"
#endif
	"ret\n"
	".set k, k + 1\n"
	".endr\n"
	".balign 128\n"
	".popsection\n"
	".pushsection .rodata.merged, \"a\"\n"
	".balign 64\n"
	"numbers:\n"
	".set k, 0\n"
	".rept 786432\n"
	".long k\n"
	".set k, k + 1\n"
	".endr\n"
	".popsection\n");

extern const char functions[];
extern const uint32_t numbers[];
static atomic_ulong rounds[THREADS];
static atomic_int ended;

static void *work(void *own)
{
	uint64_t random = (uintptr_t)own;

	while (!ended) {
		for (int i = 0; i < 1000; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			uint64_t k = (random >> 33) % FUNCTIONS, n = (random >> 20) % NUMBERS;
			uint64_t (*function)(uint64_t) = (void *)(functions + k * STRIDE);

			if (function(n) != n + k || numbers[n] != n) {
				printf("wrong: function %lu, number %lu\n", (unsigned long)k, (unsigned long)n);
				fflush(stdout);
				exit(1);
			}
		}
		rounds[(atomic_ulong *)own - rounds]++;
	}
	return NULL;
}

static unsigned long all_rounds(void)
{
	unsigned long sum = 0;

	for (int i = 0; i < THREADS; i++)
		sum += rounds[i];
	return sum;
}

int main(void)
{
	pthread_t threads[THREADS];
	char line[64];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, &rounds[i]))
			return 2;
	setlinebuf(stdout);
	puts("ready merged");
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long before[THREADS];

		for (int i = 0; i < THREADS; i++)
			before[i] = rounds[i];
		for (int i = 0; i < THREADS; i++)
			while (rounds[i] < before[i] + 2)
				sched_yield();
		printf("ok %lu\n", all_rounds());
	}
	ended = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("done %lu\n", all_rounds());
	return 0;
}
