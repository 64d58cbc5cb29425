s/^#define EXEC_LEAF_MEMORY_SHIFT.*$/extern unsigned int exec_leaf_memory_shift;\
#define EXEC_LEAF_MEMORY_SHIFT		exec_leaf_memory_shift/
