/* Text that threads call all the time: big_text [THREADS [MAPPINGS]]. Without arguments 64 threads, and no mappings
 * besides its own. FUNCTIONS is the number of functions of 64 bytes; without it 100 MiB of them. A thread
 * sleeps NAP_NS between two sums, times the number of threads; with 0, never. Prints only what goes wrong: a wrong sum, or
 * a sleep that a signal interrupted. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifndef FUNCTIONS
#define FUNCTIONS 1638400
#endif
#ifndef NAP_NS
#define NAP_NS 160000
#endif
#define TEXT(what) #what
#define NUMBER(what) TEXT(what)
asm(".text\n.balign 64\n.globl functions\nfunctions:\n.set k, 0\n.rept " NUMBER(FUNCTIONS) "\n.balign 64\n"
#ifdef __x86_64__
    "lea k(%rdi), %rax\nret\n"
#else
    "mov w1, #(k & 65535)\nadd x0, x0, x1\nret\n"
#endif
    ".set k, (k + 1) & 65535\n.endr\n");
extern char functions[];
static long threads = 64;
static void *work(void *argument) {
    /* However many threads there are, together they use the same share of the processors. */
    long nap_ns = threads * NAP_NS;
    struct timespec nap = {nap_ns / 1000000000, nap_ns % 1000000000};
    for (;;) {
        unsigned long sum = 0, want = 0;
        for (long k = (long)argument % FUNCTIONS; k < FUNCTIONS; k += threads) {
            sum = ((unsigned long (*)(unsigned long))(functions + 64 * k))(sum);
            want += k & 65535;
        }
        if (sum != want) {
            puts("wrong");
            exit(1);
        }
        if (nap_ns && nanosleep(&nap, 0)) {
            puts("interrupted");
            exit(1);
        }
    }
}
/* Every second page has other rights, so that each is a mapping of its own. */
static void map(long mappings) {
    long page = sysconf(_SC_PAGESIZE);
    char *at = mmap(0, mappings * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(2);
    for (long n = 0; n < mappings; n += 2)
        if (mprotect(at + n * page, page, PROT_NONE))
            exit(2);
}
int main(int count, char **arguments) {
    pthread_t thread;
    if (count > 1)
        threads = atol(arguments[1]);
    if (count > 2)
        map(atol(arguments[2]));
    for (long i = 1; i < threads; i++)
        if (pthread_create(&thread, 0, work, (void *)i))
            exit(2);
    work(0);
}
