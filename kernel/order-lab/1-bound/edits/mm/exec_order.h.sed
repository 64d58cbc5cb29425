s/^#define EXEC_LEAF_WAIT_NS.*$/extern unsigned int exec_leaf_reads, exec_leaf_wait_us;\
#define EXEC_LEAF_WAIT_NS		(exec_leaf_wait_us * 1000UL)/
s/= max\(pages \/ f->ra_pages \/ 2, EXEC_LEAF_READS\);$/= exec_leaf_reads;/
