s/^ \* @EXEC_LIMIT_CACHED: .*$/&\
 * @EXEC_LIMIT_ALLOC: no folio of the order could be had/
s/^	EXEC_LIMIT_CACHED,$/&\
	EXEC_LIMIT_ALLOC,/
