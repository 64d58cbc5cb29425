/^config BLK_DEV_RAM$/i\
config BLK_DEV_PACED\
	bool "Disk of known speed in the memory of ivshmem"\
	depends on PCI \&\& HIGH_RES_TIMERS\
	help\
	  A read-only disk for measurements in virtual machines. Its contents\
	  are the shared memory of a PCI device of QEMU. Its requests take as\
	  long as those of a device of the speed that the command line says.\
\
	  If unsure, say N.\

