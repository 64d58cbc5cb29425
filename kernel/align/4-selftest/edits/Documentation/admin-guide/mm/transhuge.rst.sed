/^The tracepoint ``readahead:exec_readahead`` shows each decision\.$/a\
\
Where text is long enough, the kernel chooses addresses at which such a folio can be\
mapped: for programs, for mappings of files with ``PROT_EXEC`` or\
``MAP_DENYWRITE``, by which glibc maps libraries, and for reservations of memory\
without permissions, in which it maps them where their alignment is larger than a\
page. The enabled setting and ``PR_SET_THP_DISABLE`` hold here, too, except where a\
filesystem asks for alignment to the PMD by itself. Each such address has fewer\
random bits, as many as the order of the folio: 9 for 2M of 4K pages.\
``vm.mmap_rnd_bits`` gives them back. Addresses of a program that gets more rights\
than its caller, and of a process that is not dumpable, stay as they are.
