s,^#include "tests/mmap\.c"$,&\
#include "tests/replace.c",
s/^	run_mmap_tests\(&num_tests, &num_fail\);$/&\
	run_replace_tests(\&num_tests, \&num_fail);/
