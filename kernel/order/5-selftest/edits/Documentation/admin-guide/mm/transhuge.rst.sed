/^Need of application restart$/i\
Program text\
============\
\
A page fault on an executable mapping of a file may read a folio of the PMD's size,\
if that is at most 2M, or of the architecture's block of contiguous PTEs, which one\
TLB entry maps. It does so if the enabled setting above is not "never", and neither\
the process (``PR_SET_THP_DISABLE``) nor the mapping (``MADV_NOHUGEPAGE``) opted\
out; if the filesystem has folios of that size; if address and file offset are\
congruent and the mapping holds the whole folio; if memory is not short on the node\
and in the memory cgroup; and if the device is fast enough: it reads the folio in\
the time of eight reads of its readahead (of half of the reads that the folio\
replaces, if these are more), or in 2 ms more than one of them takes, but not in\
16 ms more. The kernel measures both, and tries slow devices again from\
time to time. The first folio of a file that begins with text is read so when data\
of the file is mapped behind. After ``MADV_RANDOM`` or ``POSIX_FADV_RANDOM`` no more\
is read than the readahead of the device, unless ``MADV_HUGEPAGE`` asks for it. In\
``/proc/vmstat``,\
\
exec_leaf_read\
	is incremented for each such folio that is read.\
\
exec_leaf_shape, exec_leaf_device, exec_leaf_memory, exec_leaf_cached, exec_leaf_alloc\
	are incremented every time the largest of them is not read because of\
	address and size of the mapping, of the speed of the device, of memory\
	that is short, of pages that are in the page cache already, or because\
	no folio could be allocated, charged or put into the page cache.\
\
The tracepoint ``readahead:exec_readahead`` shows what each fault on text read, and\
each first folio that was tried. Text with ``MADV_HUGEPAGE`` or ``MADV_SEQUENTIAL`` is\
read in other ways, which neither counters nor tracepoint show.\

