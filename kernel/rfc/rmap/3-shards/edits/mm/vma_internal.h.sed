/^#include "internal\.h"$/a\
#include "i_mmap.h"
