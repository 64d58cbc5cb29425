/* A shared object of the lab's guests. TEXT: its bytes of text. */
	.text
	.globl	lab_text
	.type	lab_text, %function
lab_text:
	.skip	TEXT, 0xcc
	.section .note.GNU-stack, "", %progbits
