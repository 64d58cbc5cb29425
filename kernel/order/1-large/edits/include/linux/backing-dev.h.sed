s/^ \* BDI_CAP_STRICTLIMIT:		Keep number of dirty pages below bdi threshold$/&\
 * BDI_CAP_SLOW:		Data takes longer than to find it; do not read more than\
 *				what is likely to be used/
s/^#define BDI_CAP_STRICTLIMIT		\(1 << 1\)$/&\
#define BDI_CAP_SLOW			(1 << 2)/
