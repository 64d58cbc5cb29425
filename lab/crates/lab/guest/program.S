/*
 * A program of the lab's guests: says that it is up by one byte on its standard output, then waits
 * for a signal. It links no library, so that it runs under any dynamic loader or none.
 * TEXT: bytes of text that follow its code.
 */
	.text
	.globl	_start
	.type	_start, %function
_start:
#if defined(__x86_64__)
	lea	byte(%rip), %rsi
	mov	$1, %eax		/* write */
	mov	$1, %edi
	mov	$1, %edx
	syscall
0:	mov	$34, %eax		/* pause */
	syscall
	jmp	0b
#elif defined(__aarch64__)
	adr	x1, byte
	mov	x8, #64			/* write */
	mov	x0, #1
	mov	x2, #1
	svc	#0
0:	mov	x8, #73			/* ppoll(NULL, 0, NULL, NULL) */
	mov	x0, #0
	mov	x1, #0
	mov	x2, #0
	mov	x3, #0
	svc	#0
	b	0b
#elif defined(__riscv)
	lla	a1, byte
	li	a7, 64			/* write */
	li	a0, 1
	li	a2, 1
	ecall
0:	li	a7, 73			/* ppoll(NULL, 0, NULL, NULL) */
	li	a0, 0
	li	a1, 0
	li	a2, 0
	li	a3, 0
	ecall
	j	0b
#endif
byte:
	.byte	10
	.skip	TEXT, 0xcc
	.section .note.GNU-stack, "", %progbits
