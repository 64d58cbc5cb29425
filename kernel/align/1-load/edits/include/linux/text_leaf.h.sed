s/^#include <linux\/huge_mm\.h>$/#include <linux\/dcache.h>\
#include <linux\/fs.h>\
&/
/^#endif \/\* _LINUX_TEXT_LEAF_H \*\/$/i\
/**\
 * text_file_mapping - the page cache from which a file is executed or mapped\
 * @file: an open file\
 *\
 * A file of overlayfs is mapped by way of the layer that has its data. That is\
 * known since it was opened, so this does not sleep.\
 */\
static inline struct address_space *text_file_mapping(const struct file *file)\
{\
	const struct dentry *dentry = file->f_path.dentry;\
\
	if (dentry->d_flags \& DCACHE_OP_REAL)\
		return d_real_inode(dentry)->i_mapping;\
	return file->f_mapping;\
}\

