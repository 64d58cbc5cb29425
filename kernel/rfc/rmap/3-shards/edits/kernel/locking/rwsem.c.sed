# spatch cannot read the attribute between a function's head and its body.
/^void _down_write_nest_lock\(/i\
/* @sem is one of several of its class, taken in a fixed order under @nest. */\
void down_read_nest_lock(struct rw_semaphore *sem, struct rw_semaphore *nest)\
	__no_context_analysis\
{\
	might_sleep();\
	rwsem_acquire_read_nest(\&sem->dep_map, 0, 0, \&nest->dep_map, _RET_IP_);\
	LOCK_CONTENDED(sem, __down_read_trylock, __down_read);\
}\
\
int down_read_trylock_nest_lock(struct rw_semaphore *sem,\
				struct rw_semaphore *nest)\
	__no_context_analysis\
{\
	int ret = __down_read_trylock(sem);\
\
	if (ret == 1)\
		rwsem_acquire_read_nest(\&sem->dep_map, 0, 1, \&nest->dep_map,\
					_RET_IP_);\
	return ret;\
}\

