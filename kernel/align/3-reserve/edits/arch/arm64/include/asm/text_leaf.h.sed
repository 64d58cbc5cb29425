s/^#include <linux\/kconfig\.h>$/&\
#include <linux\/sizes.h>/
/^#include <asm-generic\/text_leaf\.h>$/i\
#define TEXT_PAGE_MAX	SZ_64K\

