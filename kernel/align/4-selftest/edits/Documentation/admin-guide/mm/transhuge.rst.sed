/^Need of application restart$/i\
Addresses of text\
=================\
\
Unless the enabled setting above is "never", the load address of a position\
independent program is aligned to the PMD size, if that is at most 32M and a\
segment of text holds a whole PMD, or to 2M if it holds that. So are the addresses\
that the kernel chooses for mappings of files on most filesystems. Each such address\
has fewer random bits: 9 for 2M of 4K pages. ``vm.mmap_rnd_bits`` can be raised to\
make up for some. A program that gets more rights than its caller is not aligned, nor\
one that inherited ``PR_SET_THP_DISABLE``.\

