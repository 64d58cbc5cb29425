// SPDX-License-Identifier: GPL-2.0-only
/*
 * mm/exec_order.h in user space. Reads faults from stdin: sixteen 64-bit numbers
 * each, in the order of struct exec_fault. Writes start, size, order and limit of
 * the read for each fault. include/ has what the header needs of the kernel.
 */
#include <stdio.h>

#include "../order/1-leaf/files/mm/exec_order.h"

int main(void)
{
	uint64_t in[16];

	while (fread(in, sizeof(in), 1, stdin) == 1) {
		const struct exec_fault f = {
			in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7],
			in[8], in[9], in[10], in[11], in[12], in[13], in[14], in[15],
		};
		const struct exec_read read = exec_read(&f);
		const uint64_t out[] = { read.start, read.size, read.order,
					 read.limit };

		if (fwrite(out, sizeof(out), 1, stdout) != 1)
			return 1;
	}
	return fflush(stdout) || ferror(stdin);
}
