/^read in other ways, which neither counters nor tracepoint show\.$/a\
\
Where a mapping is long enough for it, the kernel chooses addresses at which such a\
folio can be mapped: for programs, for mappings of files with ``PROT_EXEC`` or\
``MAP_DENYWRITE``, by which glibc maps libraries, and on arm64 for reservations of\
memory without permissions, in which it maps them where their alignment is larger\
than a page. The enabled setting and ``PR_SET_THP_DISABLE`` hold here, too, except\
where a filesystem asks for alignment to the PMD by itself. Each such address has\
fewer random bits, as many as the order of the folio: 9 for 2M of 4K pages. Nine\
are left at least, except where a filesystem asks for more by itself.\
``vm.mmap_rnd_bits`` can be raised to make up for some.\
The address of a program that gets more rights than its caller, and addresses that a\
process gets while it is not dumpable, stay as they are in general.
