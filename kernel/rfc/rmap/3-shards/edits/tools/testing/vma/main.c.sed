s/^#include "tests\/merge\.c"$/#include "tests\/i_mmap.c"\
&/
s/^	run_merge_tests\(&num_tests, &num_fail\);$/	run_i_mmap_tests(\&num_tests, \&num_fail);\
&/
