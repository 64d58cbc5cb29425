/^Need of application restart$/i\
Program text\
============\
\
A page fault on an executable mapping of a file reads a folio of the PMD's size, or of\
2M where that is less, if the mapping is not writable, and not shared by a file that is\
open for writing; if the enabled setting above is not "never", and\
neither the process (``PR_SET_THP_DISABLE``) nor the mapping (``MADV_NOHUGEPAGE``,\
``MADV_RANDOM``) opted out; if the page cache of the file has folios of that size;\
if the mapping holds the whole folio; if nothing of it is cached; and if it takes at\
most 1/64 of the memory that is free or holds inactive pages of files. A PMD maps it\
where address and file offset are congruent. Where only its begin is cached, by at\
most an eighth, the rest is read by smaller folios. No such folio is read from eMMC\
and SD cards.\

