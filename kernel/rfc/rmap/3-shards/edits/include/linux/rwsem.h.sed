# spatch cannot read declarations with attributes.
/^extern void _down_write_nest_lock\(/i\
void down_read_nest_lock(struct rw_semaphore *sem, struct rw_semaphore *nest)\
	__acquires_shared(sem);\
int down_read_trylock_nest_lock(struct rw_semaphore *sem,\
				struct rw_semaphore *nest)\
	__cond_acquires_shared(true, sem);
/^# define down_write_nest_lock\(sem, nest_lock\)[[:space:]]*down_write/i\
static inline void down_read_nest_lock(struct rw_semaphore *sem,\
				       struct rw_semaphore *nest)\
	__acquires_shared(sem)\
{\
	down_read(sem);\
}\
\
static inline int down_read_trylock_nest_lock(struct rw_semaphore *sem,\
					      struct rw_semaphore *nest)\
	__cond_acquires_shared(true, sem)\
{\
	return down_read_trylock(sem);\
}\

