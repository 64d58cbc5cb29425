s/^ \* MAP_EXECUTABLE and MAP_DENYWRITE are completely ignored throughout the$/ * MAP_EXECUTABLE is completely ignored throughout the kernel. So is\
 * MAP_DENYWRITE, but for the choice of an address: loaders set it./
/^ \* kernel\.$/d
