// SPDX-License-Identifier: GPL-2.0-only
/* Calls functions all over a large text: one in every 16 pages of 4K, not in order. */
extern const char text_start[], text_end[];

int main(void)
{
	const unsigned long functions = (text_end - text_start) / 4096;
	unsigned long at = 0;

	/* An odd step visits every multiple of 16 once before it comes back. */
	for (unsigned long i = 0; i < functions / 16; i++) {
		((void (*)(void))(text_start + at * 4096))();
		at = (at + 16 * 37) % functions;
	}
	return 0;
}
