s/^#define EXEC_LEAF_WAIT_NS.*$/extern unsigned int exec_leaf_wait_us;\
#define EXEC_LEAF_WAIT_NS		(exec_leaf_wait_us * 1000UL)/
