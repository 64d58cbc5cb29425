/* 100 MiB of text that 64 threads call all the time. Prints only what goes wrong: a wrong sum, or a
 * sleep that a signal interrupted. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
asm(".text\n.balign 64\n.globl functions\nfunctions:\n.set k, 0\n.rept 1638400\n.balign 64\n"
#ifdef __x86_64__
    "lea k(%rdi), %rax\nret\n"
#else
    "mov w1, #(k & 65535)\nadd x0, x0, x1\nret\n"
#endif
    ".set k, (k + 1) & 65535\n.endr\n");
extern char functions[];
static void *work(void *argument) {
    long index = (long)argument;
    for (;;) {
        unsigned long sum = 0, want = 0;
        for (long k = index; k < 1638400; k += 64) {
            sum = ((unsigned long (*)(unsigned long))(functions + 64 * k))(sum);
            want += k & 65535;
        }
        if (sum != want) {
            puts("wrong");
            exit(1);
        }
        struct timespec nap = {0, 10000000};
        if (nanosleep(&nap, 0)) {
            puts("interrupted");
            exit(1);
        }
    }
}
int main(void) {
    pthread_t thread;
    for (long i = 0; i < 63; i++)
        pthread_create(&thread, 0, work, (void *)i);
    work((void *)63);
}
