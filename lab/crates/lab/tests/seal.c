/* Seals a file by fs-verity: exit 99 where the kernel or the filesystem has none. */
#include <fcntl.h>
#include <linux/fsverity.h>
#include <stdio.h>
#include <sys/ioctl.h>

int main(int argc, char **argv)
{
	struct fsverity_enable_arg arg = {
		.version = 1,
		.hash_algorithm = FS_VERITY_HASH_ALG_SHA256,
		.block_size = 4096,
	};
	int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;

	if (file < 0 || ioctl(file, FS_IOC_ENABLE_VERITY, &arg)) {
		perror(argv[1]);
		return 99;
	}
	return 0;
}
