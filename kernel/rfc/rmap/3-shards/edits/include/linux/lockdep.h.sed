# Beside the other names of lock_acquire_shared() for rwsems.
/^#define rwsem_acquire_read\(/a\
#define rwsem_acquire_read_nest(l, s, t, n, i)	lock_acquire_shared(l, s, t, n, i)
