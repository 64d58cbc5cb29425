s/^#include <linux\/memcontrol\.h>$/&\
#include <linux\/moduleparam.h>/
/^#include "internal\.h"$/a\
\
unsigned int exec_leaf_wait_us = 8000;\
core_param(exec_leaf_wait_us, exec_leaf_wait_us, uint, 0644);
