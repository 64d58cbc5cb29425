s/^#include <linux\/fs\.h>$/#include <linux\/dcache.h>\
&/
/^#endif \/\* _LINUX_TEXT_LEAF_H \*\/$/i\
/**\
 * text_file_mapping - what tells the orders of the page cache of a file\
 * @file: an open file\
 *\
 * A file of overlayfs is mapped by way of a layer. To ask for the layer of its\
 * data may take a lock of overlayfs and read from disk; that of its metadata is\
 * known, and this does not sleep. The two differ only where metadata was copied\
 * up alone. Then this is a file of another filesystem at most.\
 */\
static inline struct address_space *text_file_mapping(const struct file *file)\
{\
	struct dentry *dentry = file->f_path.dentry;\
\
	if (dentry->d_flags \& DCACHE_OP_REAL)\
		return d_inode(d_real(dentry, D_REAL_METADATA))->i_mapping;\
	return file->f_mapping;\
}\
\
/* Bits of an address that stay random, as arm64 and riscv64 have them by default. */\
#define TEXT_RANDOM_BITS	9\
\
/*\
 * @order of a leaf to which an address may be aligned: 0 where it would have too\
 * few random bits then. mips64 has 12 by default.\
 */\
static inline unsigned int text_random_order(unsigned int order)\
{\
#ifdef CONFIG_HAVE_ARCH_MMAP_RND_BITS\
	if (mmap_rnd_bits < order + TEXT_RANDOM_BITS)\
		return 0;\
#endif\
	return order;\
}\

