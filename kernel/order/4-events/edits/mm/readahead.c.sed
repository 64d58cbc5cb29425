# The trace event names the limits.
/^#define CREATE_TRACE_POINTS$/i\
#include "exec_order.h"\

