s/ tests\/merge\.c / tests\/i_mmap.c&/
