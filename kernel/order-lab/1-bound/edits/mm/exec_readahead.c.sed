s/^#include <linux\/memcontrol\.h>$/&\
#include <linux\/moduleparam.h>/
/^#include "internal\.h"$/a\
\
unsigned int exec_leaf_reads = 8, exec_leaf_wait_us = 16000;\
core_param(exec_leaf_reads, exec_leaf_reads, uint, 0644);\
core_param(exec_leaf_wait_us, exec_leaf_wait_us, uint, 0644);
# Without a bound none is late, and what other bounds found is forgotten.
s/^	f->pause = READ_ONCE\(bdi->exec_leaf_pause\);$/	f->pause = exec_leaf_reads == UINT_MAX ? 0 : READ_ONCE(bdi->exec_leaf_pause);/
